"""The adapters of a service: a folder for each, and a signed ledger of all their moves.

FOLDER/adapters/DIGEST/    an adapter as PEFT saves it
FOLDER/adapters/current    a link to the present one; none = the base model
FOLDER/ledger.jsonl        every move; which adapter serves follows from it alone

An adapter is on disk before the line that offers it. Whatever a crash left half done is finished
or removed when the registry is next opened.
"""

import hashlib
import os
import shutil
from contextlib import AbstractContextManager
from pathlib import Path

from fedse.adapters.peft_folder import WEIGHTS, export_whole
from fedse.errors import StoreError, boundary
from fedse.ledger.chain import GENESIS, Entry
from fedse.ledger.writing import Ledger
from fedse.store.files import from_backup, sync_folder
from fedse.store.lock import one_command
from fedse.types import Adapter, Clock
from fedse_serve.canary import Decision
from fedse_serve.moves import STATUS, Kind, Move, State, after, replay

ADAPTERS, CURRENT, LOCK = "adapters", "current", ".registry.lock"
PARTS = ("adapter_config.json", WEIGHTS, "README.md")
"""The files of an adapter that are taken over; the last may be missing."""
PATIENCE_SECONDS = 30.0
"""A move takes as long as writing an adapter."""
_AT_ONCE: tuple[Kind, ...] = ("pinned", "unpinned")
_KINDS: dict[str, Kind] = {
    "promote": "promoted",
    "roll back": "rolled back",
    "withdraw": "withdrawn",
}


class Registry:
    """The adapters of one service; several processes may have it open."""

    def __init__(self, folder: Path, *, name: str, clock: Clock) -> None:
        self._folder, self._clock = folder, clock
        with boundary(StoreError, f"{folder} cannot be written"):
            (folder / ADAPTERS).mkdir(parents=True, exist_ok=True)
        with self._alone():
            self._ledger = Ledger(folder, role="service", name=name, clock=clock)
            self._repair()

    @property
    def state(self) -> State:
        """As of now, whichever process made the last move."""
        return replay(self.history)

    @property
    def history(self) -> list[tuple[float, Move]]:
        """All moves with their times, the oldest first."""
        return [(line.time, _move(line)) for line in self._ledger.read() if line.kind != GENESIS]

    def folder_of(self, digest: str) -> Path:
        """Where an adapter is, for an engine to load."""
        folder = self._folder / ADAPTERS / digest
        if not (folder / WEIGHTS).is_file():
            raise StoreError(f"adapter {digest[:12]} is not in {folder.parent}", hint=STATUS)
        return folder

    def offer(self, adapter: Adapter, *, reason: str) -> str:
        """The adapter is here and offered; offered again, nothing changes. Its digest."""
        with self._alone():
            folder = self._folder / ADAPTERS / adapter.digest
            if _fault(folder):
                shutil.rmtree(folder, ignore_errors=True)
                export_whole(adapter, folder)
            return self._offer(folder, reason)

    def offer_folder(self, source: Path, *, reason: str) -> str:
        """As `offer`, for a folder that PEFT or `fedse export` wrote."""
        with self._alone(), boundary(StoreError, f"adapter folder {source}"):
            digest = digest_in(source)
            folder = self._folder / ADAPTERS / digest
            if _fault(folder):
                shutil.rmtree(folder, ignore_errors=True)
                beside = folder.with_name(f".{digest}")
                _copy(source, beside)
                beside.rename(folder)
            return self._offer(folder, reason)

    def serve_first(self, digest: str) -> None:
        """The adapter, the first that was offered here, serves everybody; others may be tried."""
        for kind in _AT_ONCE:
            self.move(Move(kind=kind, adapter=digest, reason="the first"))

    def move(self, move: Move) -> State:
        """The state is that after the move; one that changes it has a line. Impossible ones are
        refused."""
        with self._alone():
            return self._write(move)

    def follow(self, adapter: str, decision: Decision) -> State:
        """What the decision asks for has happened; of a trial that has ended meanwhile, nothing."""
        with self._alone():
            state = self.state
            one = state.candidate
            if one is None or one.adapter != adapter or state.pinned or not one.passed:
                return state
            if decision.verdict != "go on":
                kind = _KINDS[decision.verdict]
                return self._write(Move(kind=kind, adapter=adapter, **_why(decision)))
            if decision.share <= one.share:
                return state
            given = Move(kind="share", adapter=adapter, share=decision.share, **_why(decision))
            return self._write(given)

    def _offer(self, folder: Path, reason: str) -> str:
        _sync(folder)
        digest, state = folder.name, self.state
        if digest not in (state.current, *state.offered):
            self._write(Move(kind="offered", adapter=digest, reason=reason))
        return digest

    def _write(self, move: Move) -> State:
        """Needs the lock."""
        before = self.state
        if after(before, move, time=self._clock()) == before:
            return before  # two looks at one trial came to the same
        if move.kind == "pinned" and move.adapter is not None:
            self.folder_of(move.adapter)
        self._ledger.append(move.kind, move.model_dump(mode="json", exclude={"kind"}))
        state = self.state
        self._link(state.current)
        return state

    def _repair(self) -> None:
        """The link is right, no half adapter is left, and what is in use is as it was offered."""
        place, state = self._folder / ADAPTERS, self.state
        for beside in place.glob(".*"):
            shutil.rmtree(beside) if not beside.is_symlink() else beside.unlink()
        for digest in state.in_use:
            if fault := _fault(place / digest):
                raise StoreError(
                    f"adapter {digest[:12]} in {place} {fault}", hint=from_backup(place / digest)
                )
        self._link(state.current)

    def _link(self, current: str | None) -> None:
        link = self._folder / ADAPTERS / CURRENT
        with boundary(StoreError, f"link {link}"):
            if current is None:
                link.unlink(missing_ok=True)
            elif not link.is_symlink() or os.readlink(link) != current:
                beside = link.with_name(f".{CURRENT}")
                beside.unlink(missing_ok=True)
                beside.symlink_to(current)
                beside.replace(link)

    def _alone(self) -> AbstractContextManager[None]:
        lock = self._folder / LOCK
        return one_command(lock, seconds=PATIENCE_SECONDS, doing="moving adapters")


def _move(line: Entry) -> Move:
    with boundary(StoreError, f"the ledger's line {line.line} is no move of an adapter"):
        return Move.model_validate({"kind": line.kind, **line.facts})


def digest_in(folder: Path) -> str:
    """The digest of the adapter in a folder that PEFT or `fedse export` wrote."""
    return hashlib.sha256((folder / WEIGHTS).read_bytes()).hexdigest()


def _copy(source: Path, target: Path) -> None:
    """The adapter's files are there; those of each block too, if it has several."""
    blocks = [one for one in source.iterdir() if (one / WEIGHTS).is_file()]
    target.mkdir(exist_ok=True)
    for part in PARTS:
        if (source / part).is_file() or not (blocks or part == PARTS[-1]):
            shutil.copyfile(source / part, target / part)
    for block in blocks:
        _copy(block, target / block.name)


def _fault(folder: Path) -> str:
    """What is wrong with the adapter in a folder that is named by its digest; empty = nothing."""
    try:
        found = digest_in(folder)
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    return "" if found == folder.name else f"was changed: its weights are {found[:12]}"


def _why(decision: Decision) -> dict[str, object]:
    return {"reason": decision.reason, "decision": decision}


def _sync(folder: Path) -> None:
    """The folder and what is in it are on disk."""
    with boundary(StoreError, f"{folder} cannot be written"):
        for file in folder.iterdir():
            if file.is_dir():
                _sync(file)
                continue
            with file.open("rb") as opened:
                os.fsync(opened.fileno())
        sync_folder(folder)
        sync_folder(folder.parent)
