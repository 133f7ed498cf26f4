"""What a run keeps on disk: what a resume needs always, and each adapter once."""

from collections.abc import Collection, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from fedse.adapters.peft_folder import WEIGHTS, export_whole
from fedse.config.aggregation import AggregateSection
from fedse.config.judging import EvalSection
from fedse.config.schema import ClientSection, Config
from fedse.config.schema import RunSection as RunSection
from fedse.config.storage import StorageSection
from fedse.drivers.loop import federate
from fedse.errors import RunError, StoreError
from fedse.ledger.chain import FILE
from fedse.ledger.verifying import verify_ledger
from fedse.protocol import Delivery, Question, SiteReply
from fedse.store.buffer import Buffer
from fedse.store.gc import Freed, collect_run
from fedse.store.run import Run
from fedse.testing import toy_adapter, toy_spec
from fedse.types import ClientStats
from tests.toys.aggregators import ONE, TWO

SPEC = toy_spec()
ROUNDS = 6


def config(*, keep: int = 0, merge: str = "mean") -> Config:
    return Config(
        run=RunSection(rounds=ROUNDS),
        eval=EvalSection(episodes=0),
        aggregate=AggregateSection(type=merge),
        storage=StorageSection(rounds=keep),
        clients=tuple(ClientSection(name=name, env="maze") for name in "ab"),
    )


def go_on(path: Path, settings: Config, *, until: int = ROUNDS) -> None:
    """All rounds, or those up to `until`, when the process dies in the middle of the next."""

    def ask(request: Question, body: bytes, *, of: Collection[str]) -> Iterator[Delivery]:
        for place, name in enumerate("ab"):
            if request.round > until:
                raise RunError("killed")
            own = toy_adapter(SPEC, 10 * request.round + place, scale=0.01)
            yield Delivery(name, ClientStats(played=1), own.to_bytes())

    with closing(Run(path, settings, SPEC, clock=lambda: 0.0)) as run:
        try:
            federate(run, ask, clock=lambda: 0.0)
        except RunError:
            assert until < ROUNDS


def opened(path: Path, settings: Config) -> Run:
    return Run(path, settings, SPEC, clock=lambda: 0.0)


def exports(path: Path) -> list[int]:
    return sorted(int(f.name.removeprefix("round-")) for f in (path / "adapters").iterdir())


def digests(path: Path, settings: Config) -> list[str]:
    with closing(opened(path, settings)) as run:
        return [run.digest(index) for index in range(ROUNDS + 1)]


def test_an_export_and_its_blob_are_one_file_with_two_names(tmp_path: Path):
    go_on(tmp_path, config())
    with closing(opened(tmp_path, config())) as run:
        for index in range(1, ROUNDS + 1):
            blob, export = run.blob(run.digest(index)), run.adapter_folder(index) / WEIGHTS
            assert export.samefile(blob)
            assert (blob.stat().st_nlink, blob.stat().st_mode & 0o777) == (2, 0o644)


def test_where_the_disk_has_no_links_there_are_two_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def refuse(*_: object) -> None:
        raise OSError("no links here")

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    adapter, blob = toy_adapter(SPEC, 1), tmp_path / "blob"
    blob.write_bytes(adapter.to_bytes())
    export_whole(adapter, tmp_path / "out", same=blob)
    assert (tmp_path / "out" / WEIGHTS).read_bytes() == blob.read_bytes()
    assert not (tmp_path / "out" / WEIGHTS).samefile(blob)


@pytest.mark.parametrize("merge", ["mean", ONE, TWO])
@pytest.mark.parametrize(("keep", "kept"), [(0, range(7)), (2, (0, 5, 6)), (4, (0, 3, 4, 5, 6))])
def test_the_newest_rounds_and_the_first_adapter_are_kept(tmp_path: Path, merge, keep, kept):
    settings = config(keep=keep, merge=merge)
    go_on(tmp_path, settings)
    with closing(opened(tmp_path, settings)) as run:
        assert run.kept_rounds() == list(kept)
        assert exports(tmp_path) == [index for index in kept if index]
        moments = {"mean": 0, ONE: 1, TWO: 2}[merge]
        assert len(run.moments(ROUNDS)) == moments
        if keep:
            assert len(list((tmp_path / "blobs").iterdir())) == len(kept) + moments
    assert verify_ledger(tmp_path / FILE).finding is None


@pytest.mark.parametrize("merge", ["mean", ONE, TWO])
@pytest.mark.parametrize("stop", range(ROUNDS))
def test_a_run_that_forgets_and_is_killed_ends_where_an_undisturbed_one_does(
    tmp_path: Path, merge: str, stop: int
):
    go_on(tmp_path / "whole", config(merge=merge))
    settings = config(keep=2, merge=merge)
    go_on(tmp_path / "cut", settings, until=stop)
    with closing(opened(tmp_path / "cut", settings)) as run:
        collect_run(run, rounds=2, answers=2, dry_run=False)
    go_on(tmp_path / "cut", settings)
    assert digests(tmp_path / "cut", settings) == digests(tmp_path / "whole", config(merge=merge))
    assert verify_ledger(tmp_path / "cut" / FILE).finding is None


def test_an_adapter_that_is_gone_is_named_with_those_that_are_not(tmp_path: Path):
    settings = config(keep=2)
    go_on(tmp_path, settings)
    with closing(opened(tmp_path, settings)) as run:
        with pytest.raises(StoreError, match="after round 3, kept are those after rounds 0, 5, 6"):
            run.adapter(3)
        assert run.adapter(0).digest == run.digest(0)


def size(path: Path) -> int:
    files = {f.stat().st_ino: f.stat().st_size for f in path.rglob("*") if f.is_file()}
    return sum(files.values())


def test_gc_of_an_earlier_run_makes_one_file_of_two_and_drops_what_is_old(tmp_path: Path):
    go_on(tmp_path, config())
    with closing(opened(tmp_path, config())) as run:
        for index in range(1, ROUNDS + 1):  # as a run from before had them
            weights = run.adapter_folder(index) / WEIGHTS
            data = weights.read_bytes()
            weights.unlink()
            weights.write_bytes(data)
        before = size(tmp_path / "blobs") + size(tmp_path / "adapters")
        would = collect_run(run, rounds=0, answers=0, dry_run=True)
        assert size(tmp_path / "blobs") + size(tmp_path / "adapters") == before
        assert collect_run(run, rounds=0, answers=0, dry_run=False) == would
        assert sum(one.bytes for one in would) == ROUNDS * SPEC.nbytes
        assert run.kept_rounds() == list(range(ROUNDS + 1))
        freed = collect_run(run, rounds=3, answers=0, dry_run=False)
        assert run.kept_rounds() == [0, 4, 5, 6]
        assert sum(one.bytes for one in freed if one.path.suffix) == 0, "counted with its folder"
        assert collect_run(run, rounds=3, answers=0, dry_run=False) == []


def test_gc_says_of_copies_that_go_and_copies_that_stay_what_it_then_frees(tmp_path: Path):
    go_on(tmp_path, config())
    with closing(opened(tmp_path, config())) as run:
        for index in range(1, ROUNDS + 1):
            weights = run.adapter_folder(index) / WEIGHTS
            data = weights.read_bytes()
            weights.unlink()
            weights.write_bytes(data)
        before = size(tmp_path)
        would = collect_run(run, rounds=3, answers=0, dry_run=True)
        assert collect_run(run, rounds=3, answers=0, dry_run=False) == would
        assert sum(one.bytes for one in would) == before - size(tmp_path)


def test_gc_removes_what_a_kill_left_and_late_replies_to_old_rounds(tmp_path: Path):
    go_on(tmp_path, config())
    with closing(opened(tmp_path, config())) as run:
        orphan = run.blob(run.store(toy_adapter(SPEC, 99)))
        left = [
            tmp_path / "blobs" / ".x.safetensors.123",
            tmp_path / "inbox" / "7-a",
            tmp_path / "late" / "002-a.safetensors",
        ]
        for file in left:
            file.parent.mkdir(exist_ok=True)
            file.write_bytes(b"x")
        (tmp_path / "adapters" / ".round-007").mkdir()
        recent = tmp_path / "late" / "006-a.safetensors"
        recent.write_bytes(b"x")
        collect_run(run, rounds=3, answers=0, dry_run=False)
    assert not any(file.exists() for file in [orphan, *left])
    assert exports(tmp_path) == [4, 5, 6]
    assert recent.exists()


@pytest.mark.parametrize("place", ["clients", "flower/sites"])
def test_gc_reaches_the_outboxes_of_clients_inside_a_run(tmp_path: Path, place: str):
    """Where every engine keeps the homes of its clients."""
    go_on(tmp_path, config(), until=2)
    database = tmp_path / place / "a" / "buffer.db"
    with closing(Buffer(database)) as buffer:
        for round in range(1, 6):
            reply = SiteReply(ClientStats(), bytes([round]) * (1 << 20))
            buffer.outbox.finish("run", round, "r", reply)
    before = database.stat().st_size
    with closing(opened(tmp_path, config())) as run:
        (would,) = collect_run(run, rounds=0, answers=2, dry_run=True)
        assert would == Freed(database, "adapters of the answers to rounds 1, 2, 3", 3 << 20)
        assert database.stat().st_size == before
        (freed,) = collect_run(run, rounds=0, answers=2, dry_run=False)
        assert collect_run(run, rounds=0, answers=2, dry_run=False) == []
    assert freed.what == would.what
    assert freed.bytes == before - database.stat().st_size >= 3 << 20
    with closing(Buffer(database)) as buffer:
        assert [vote.round for vote in buffer.outbox.kept_votes("run")] == [5, 4]
