"""The amendments of a federation in the folder of its run, and which sites have accepted each.

An amendment is one signed file that is never changed. Who has accepted is one small file, replaced
as a whole; a site that is missing in it is asked again, so nothing is lost with it.
"""

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

from fedse.config.agreement import Agreement
from fedse.errors import StoreError, boundary
from fedse.store.files import from_backup, write_durably

FOLDER, CONSENTS = "agreements", "consents.json"
BASE = ".base"
"""Suffix of the file that tells where the base model of an amendment is, on this machine."""
FIELD = "agreement"
"""Of the signed file, with what was signed."""


def agreement_file(folder: Path, number: int) -> Path:
    """Of a run or of a site's home."""
    return folder / FOLDER / f"{number}.json"


def agreements_in(folder: Path) -> list[Agreement]:
    """All amendments in a folder, by number; their signatures were checked when they came."""
    files = [file for file in (folder / FOLDER).glob("*.json") if file.stem.isdecimal()]
    return [read_agreement(file) for file in sorted(files, key=lambda file: int(file.stem))]


def read_agreement(file: Path) -> Agreement:
    with boundary(StoreError, f"agreement {file}", hint=from_backup(file)):
        return Agreement.model_validate(json.loads(file.read_bytes())[FIELD])


def holding(agreements: Collection[Agreement], round: int) -> Agreement | None:
    """The one that holds in a round; None = what the invitations say."""
    begun = [one for one in agreements if one.since <= round]
    return max(begun, key=lambda one: one.number, default=None)


def keep_base(folder: Path, number: int, base: str) -> None:
    """From this amendment on, the base model is there on this machine."""
    write_durably(agreement_file(folder, number).with_suffix(BASE), base.encode())


def base_in(folder: Path, number: int) -> str:
    """Where the base model of an amendment is; empty = where that of the first agreement is."""
    files = [file for file in (folder / FOLDER).glob(f"*{BASE}") if int(file.stem) <= number]
    newest = max(files, key=lambda file: int(file.stem), default=None)
    return newest.read_text() if newest else ""


def accepted_by(run: Path, number: int) -> frozenset[str]:
    """The sites that said so; a file that cannot be read says nothing."""
    return frozenset(_consents(run).get(str(number), ()))


def amendments_of(run: Path, round: int) -> list[dict[str, Any]]:
    """What holds in a round and what will later, each with who has accepted it and who has not."""
    known = agreements_in(run)
    now = holding(known, round)
    shown = [one for one in known if one is now or one.since > round]
    yes = {one.number: accepted_by(run, one.number) for one in shown}
    return [
        {
            **one.model_dump(include={"number", "since", "reason"}),
            "accepted": sorted(yes[one.number]),
            "lacking": sorted({*one.members} - yes[one.number]),
        }
        for one in shown
    ]


def note_acceptance(run: Path, number: int, sites: Collection[str]) -> None:
    """These sites have accepted the amendment, besides those that had before."""
    told = _consents(run)
    told[str(number)] = sorted({*told.get(str(number), ()), *sites})
    write_durably(run / FOLDER / CONSENTS, json.dumps(told, indent=1).encode())


def _consents(run: Path) -> dict[str, list[str]]:
    try:
        told: dict[str, list[str]] = json.loads((run / FOLDER / CONSENTS).read_bytes())
    except (OSError, ValueError):
        return {}
    return told
