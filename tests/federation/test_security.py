"""Security events: one line each, at the right place, with nothing in them that is private."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.needs import needs

needs("flwr", "cryptography")

from fedse.cli.app import start
from fedse.federation.security import EVENTS, FILE, LONGEST, SecurityEvent, note, noted
from scripts.import_picture import sources_here
from tests.federation.scene import Scene


def at() -> float:
    return 1_763_457_650.2149


def told(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / FILE).read_text().splitlines()]


def names(folder: Path) -> list[str]:
    return [one["event"] for one in told(folder)]


def test_a_line_has_these_fields_and_its_owner_alone_reads_it(scene: Scene):
    place = scene.federation.path
    note(place, "site.revoked", site="alpha", clock=at)
    assert told(place) == [
        {
            "time": "2025-11-18T09:20:50.214Z",
            "event": "site.revoked",
            "severity": "warning",
            "place": "coordinator",
            "federation": "clinics",
            "site": "alpha",
        }
    ]
    assert (place / FILE).stat().st_mode & 0o777 == 0o600


def test_a_run_notes_in_its_federation_a_home_in_itself_and_another_folder_nowhere(scene: Scene):
    home = scene.join()
    note(scene.federation.run, "restored", clock=at)
    note(home.path, "restored", clock=at)
    note(scene.folder, "restored", clock=at)
    assert names(scene.federation.path) == ["restored"]
    (line,) = told(home.path)
    assert (line["place"], line["federation"], line["site"]) == ("site", "clinics", "alpha")
    assert not (scene.folder / FILE).exists()


@given(reason=st.text(max_size=2 * LONGEST))
def test_whatever_a_reason_holds_is_one_line_of_bounded_length(
    tmp_path_factory: pytest.TempPathFactory, reason: str
):
    folder = tmp_path_factory.mktemp("federation")
    (folder / "federation.toml").write_text('name = "clinics"')
    note(folder, "ledger.failed", clock=at, reason=reason)
    data = (folder / FILE).read_bytes()
    assert data.isascii()
    assert data.count(b"\n") == 1
    assert SecurityEvent.model_validate_json(data).reason == (reason[:LONGEST] or None)


def test_the_commands_note_what_they_did_and_what_they_refused(scene: Scene):
    place, home = scene.federation.path, scene.join()
    folder, request = ["--dir", str(place)], str(home.path / "enrolment.json")
    assert start(["federation", "enrol", request, *folder]) == 0
    assert start(["federation", "enrol", request, *folder]) != 0
    assert start(["site", "rotate", "--home", str(home.path)]) == 0
    assert start(["federation", "enrol", str(home.path / "rotation.json"), *folder]) == 0
    assert start(["federation", "revoke", "alpha", *folder]) == 0
    assert start(["federation", "invite", "alpha", *folder]) == 0
    assert start(["federation", "renew", *folder]) == 0
    assert names(place) == [
        "site.enrolled",
        "enrolment.refused",
        "key.changed",
        "site.revoked",
        "site.invited",
        "certificate.renewed",
    ]
    assert "was already used" in told(place)[1]["reason"]
    assert names(home.path) == ["key.requested"]


def excluded(kind: str, round: int) -> dict[str, Any]:
    return {"round": round, "client": "alpha", "kind": kind, "reason": f"{kind}: why"}


def test_every_strike_is_noted_and_quarantine_once_until_the_site_is_back(scene: Scene):
    observe = noted(scene.federation.path, clock=at)
    kinds = ["rejected", "suspected", "quarantined", "quarantined", "failed", "quarantined"]
    for round, kind in enumerate(kinds, start=1):
        observe("answer.excluded", excluded(kind, round))
        observe("answer.received", {"round": round, "client": "beta", "fault": ""})
    struck, out = "site.struck", "site.quarantined"
    found = [(one["event"], one["round"]) for one in told(scene.federation.path)]
    assert found == [(struck, 1), (struck, 2), (out, 3), (out, 6)]


def test_a_ledger_that_was_changed_is_an_alert(scene: Scene):
    place = scene.federation.path
    observe = noted(place, clock=at)
    observe("loop.failed", {"error": "round 1 has 0 valid answers"})
    observe("loop.failed", {"error": "ledger L, line 2 was changed"})
    ledger = scene.federation.run / "ledger.jsonl"
    ledger.write_text('{"no": "line"}\n')
    assert start(["ledger", "verify", str(scene.federation.run)]) != 0
    found = [(one["event"], one["severity"]) for one in told(place)]
    assert found == [("ledger.failed", "alert")] * 2


def test_every_event_of_the_table_is_noted_somewhere():
    code = [text for module, text in sources_here().items() if module != "federation.security"]
    own = sources_here()["federation.security"].partition("def noted")[2]
    assert [name for name in EVENTS if not any(f'"{name}"' in text for text in (*code, own))] == []
