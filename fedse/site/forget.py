"""A site forgets a person or case: its episodes, what it made of them for itself, and on record.

Adapters that were sent cannot be called back; which ones they are is told. The site's personal
adapters and its optimiser's moments are its own, cost nothing but a round to make again, and are
removed. The newest two answers in the outbox stay until later rounds replace them, because a round
that was answered is answered with the same bytes.
"""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from fedse.config.schema import Config
from fedse.errors import StoreError, boundary
from fedse.ledger.record import note_erasures
from fedse.site.descent import Descent, descent_of
from fedse.store.buffer import Buffer
from fedse.store.erasure import Erasure, SubjectRows
from fedse.store.kept_copy import kept_copies, remove_copies
from fedse.store.outbox import LEAST_KEPT
from fedse.train.loss import loss_of
from fedse.types import Clock

SEARCHED_BYTES = 1 << 26
"""Longer files are not searched for a name: they are models."""


class Forgotten(NamedTuple):
    """What was found and removed of one person or case, or would be."""

    found: SubjectRows
    erasures: tuple[Erasure, ...]
    """All of this name, earlier ones too; none = it was never on record here."""
    descent: Descent
    answers: tuple[int, ...]
    """Rounds whose answers, made with it, are still in the outbox."""
    exports: tuple[str, ...]
    elsewhere: tuple[Path, ...]
    """Other files of the site that have the name in them, or may hold earlier episodes."""


def forget_subject(
    subject: str, buffer: Buffer, home: Path, client: str, config: Config, *, clock: Clock
) -> Forgotten:
    """Nothing about `subject` is in the buffer's tables or files, and the ledger says so.

    Giving the command again, also after a crash, ends what is not done and changes nothing else.
    """
    erasures = buffer.erasures
    remove_copies(home / "buffer.db")  # one may hold what is not in the buffer any more
    told = look_for(subject, buffer, home, config)
    pieces = erasures.pieces(told.found)
    if told.found.rows or told.found.removed:
        made = erasures.forget(subject, told.found, made=clock(), exports=told.exports)
        told = told._replace(erasures=(*told.erasures, made))
    if told.erasures:
        buffer.outbox.keep_newest(LEAST_KEPT)
        for one in told.descent.own:
            if not one.is_global:
                with boundary(StoreError, f"{one.folder} cannot be removed"):
                    shutil.rmtree(one.folder)
        erasures.sweep_away(pieces)
        note_erasures(home, client, erasures.all(), clock=clock)
    return told._replace(answers=_answers(buffer, told))


def look_for(subject: str, buffer: Buffer, home: Path, config: Config) -> Forgotten:
    """What is stored about `subject` and descends from it; nothing is changed."""
    loss = loss_of(config.train)
    failures = loss.failures > 0 or loss.fresh
    found, earlier = buffer.erasures.find(subject, failures=failures), buffer.erasures.of(subject)
    # What the site made since an earlier erasure was not made with it.
    made = max((one.made for one in earlier), default=0.0)
    before = float("inf") if found.rows or found.removed else made
    seen = dict(found.seen)
    for one in earlier:
        seen |= {name: min(round, seen.get(name, round)) for name, round in one.seen.items()}
    exports = {one.path for one in buffer.exports.about(found.tasks)}
    told = Forgotten(
        found,
        tuple(earlier),
        descent_of(home, seen, before=before),
        (),
        tuple(sorted(exports.union(*(one.exports for one in earlier)))),
        tuple(_elsewhere(subject, home)),
    )
    return told._replace(answers=_answers(buffer, told))


def _answers(buffer: Buffer, told: Forgotten) -> tuple[int, ...]:
    made_with = {(one.experiment, one.round) for one in told.descent.sent}
    kept = [vote for name in buffer.outbox.experiments() for vote in buffer.outbox.kept_votes(name)]
    return tuple(sorted(vote.round for vote in kept if (vote.experiment, vote.round) in made_with))


def _elsewhere(subject: str, home: Path) -> Iterator[Path]:
    # As a text, and as JSON has it, with and without letters beyond ASCII.
    written = (subject, *(json.dumps(subject, ensure_ascii=only)[1:-1] for only in (True, False)))
    names = {one.encode("utf-8", "surrogatepass") for one in written}
    copies = kept_copies(home / "buffer.db")
    for file in sorted(home.rglob("*")):
        if not file.is_file() or file.is_symlink():
            continue
        if ".damaged-" in file.name or file in copies:
            yield file
        # Databases answer for themselves; closing their files here would drop the locks on them.
        elif not file.suffix.startswith(".db") and file.stat().st_size <= SEARCHED_BYTES:
            with boundary(StoreError, f"{file} cannot be searched"):
                held = file.read_bytes()
            if any(name in held for name in names):
                yield file
