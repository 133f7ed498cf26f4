"""Moments that are kept at a site: once per answered round, and the same after any interruption."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from fedse.config.methods import with_settings
from fedse.config.schema import Config
from fedse.course import Course
from fedse.errors import RunError
from fedse.events import silent
from fedse.method.site import Site
from fedse.protocol import Question, SiteReply
from fedse.site.answer import serve
from fedse.store.outbox import Outbox
from fedse.testing import open_toy_site, toy_adapter, toy_spec
from fedse.types import Fitted

SPEC = toy_spec()
CONFIG = Config.model_validate(
    {
        "run": {"name": "toy", "rounds": 5},
        "rollout": {"episodes": 10},
        "train": {"optimizer": "kept"},
        "buffer": {"keep_played": False},
        "eval": {"episodes": 0},
        "clients": [{"name": "a", "env": "fedse.testing:CoinWorld"}],
    }
)


def request_for(round: int, adapter: int = 0, **changes: object) -> Question:
    fields: dict[str, object] = {
        "experiment": "toy",
        "round": round,
        "agreed": CONFIG.agreed_digest(),
        "spec": SPEC.identity,
        "adapter": toy_adapter(SPEC, adapter or round).digest,
        "kind": "train",
        "evaluate": False,
    }
    return Question.model_validate({**fields, **changes})


def ask(site: Site, round: int, adapter: int = 0, **changes: object) -> SiteReply:
    data = toy_adapter(SPEC, adapter or round).to_bytes()
    return serve(request_for(round, adapter, **changes), data, site, CONFIG, emit=silent)


class Watched:
    """A toy site and the moments that each of its fits began with."""

    def __init__(self, home: Path, after: Callable[[Fitted], Fitted] = lambda fitted: fitted):
        opened = open_toy_site(CONFIG, "a", home, clock=time.time)
        self.begun: list[bytes | None] = []

        def fit(*given: object) -> Fitted:
            course = given[-1]
            assert isinstance(course, Course)
            self.begun.append(course.moments)
            return after(opened.fit(*given))

        self.site = replace(opened, fit=fit)

    @property
    def newest(self) -> bytes | None:
        return self.site.buffer.outbox.moments("toy", before=10**9)


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    made = Watched(tmp_path / "site")
    yield made
    made.site.buffer.close()


def test_a_round_begins_with_the_moments_that_the_last_one_ended_with(watched: Watched):
    ended = [None]
    for round in (1, 2, 3):
        ask(watched.site, round)
        ended.append(watched.newest)
    assert watched.begun == ended[:3]
    assert len(set(ended)) == 4


def test_a_round_answered_twice_does_not_advance_the_moments(watched: Watched):
    ask(watched.site, 1)
    first = ask(watched.site, 2)
    before = watched.newest
    assert ask(watched.site, 2) == first
    assert watched.newest == before
    assert len(watched.begun) == 2


def test_moments_change_what_is_learned_and_never_leave(watched: Watched, tmp_path: Path):
    alone = Watched(tmp_path / "late")  # joins in round 2, so it starts fresh
    ask(watched.site, 1)
    (both, late) = (ask(one.site, 2) for one in (watched, alone))
    assert alone.begun == [None]
    assert both.adapter != late.adapter
    newest = watched.newest
    assert newest is not None
    assert newest not in (both.adapter or b"")
    assert newest not in repr(both).encode()


def test_a_site_that_missed_rounds_goes_on_with_its_own(watched: Watched):
    ask(watched.site, 1)
    kept = watched.newest
    ask(watched.site, 4)
    assert watched.begun == [None, kept]


def test_a_round_without_training_leaves_them(watched: Watched):
    ask(watched.site, 1)
    kept = watched.newest
    ask(watched.site, 2, kind="evaluate")
    assert watched.newest == kept


def test_a_round_that_is_done_anew_does_not_begin_with_its_own_moments(watched: Watched):
    """Another adapter for the same round: the server went back. Only the newest are kept."""
    ask(watched.site, 1)
    ask(watched.site, 2)
    ask(watched.site, 2, adapter=9)
    anew = watched.newest
    ask(watched.site, 3)
    assert watched.begun[2:] == [None, anew]


def test_an_experiment_of_another_name_starts_fresh(watched: Watched):
    ask(watched.site, 1)
    other = with_settings(CONFIG, {"run.name": "other"})
    request = request_for(1, experiment="other", agreed=other.agreed_digest())
    serve(request, toy_adapter(SPEC, 1).to_bytes(), watched.site, other, emit=silent)
    assert watched.begun == [None, None]


def fails(fitted: Fitted) -> Fitted:
    raise RunError("out of memory")


def test_training_that_is_lost_changes_nothing(tmp_path: Path):
    """It is done again from the same moments and gives the same adapter and the same moments."""
    whole, broken = Watched(tmp_path / "whole"), Watched(tmp_path / "broken")
    expected = [ask(whole.site, round).adapter for round in (1, 2, 3)]
    ask(broken.site, 1)
    lost = Watched(tmp_path / "broken", after=fails)
    with pytest.raises(RunError, match="out of memory"):
        ask(lost.site, 2)
    again = Watched(tmp_path / "broken")
    assert [ask(again.site, round).adapter for round in (2, 3)] == expected[1:]
    assert lost.begun == again.begun[:1] == whole.begun[1:2]
    assert again.newest == whole.newest


def _die_in(home: Path, round: int, *, stored: bool) -> None:
    site, finish = Watched(home).site, Outbox.finish

    def dies(*given: object, **options: object) -> None:
        if stored:
            finish(*given, **options)
        os.kill(os.getpid(), signal.SIGKILL)

    Outbox.finish = dies  # type: ignore[method-assign]
    ask(site, round)


def killed_at(home: Path, round: int, *, stored: bool) -> int:
    """The round was done in a process that the kernel killed right before or after its answer."""
    child = os.fork()
    if not child:
        try:
            _die_in(home, round, stored=stored)
        finally:  # a failure must not go on with pytest's other tests in this process
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.parametrize("stored", [False, True])
def test_kill_nine_between_training_and_answer_changes_no_bit(tmp_path: Path, stored: bool):
    whole = Watched(tmp_path / "whole")
    expected = [ask(whole.site, round).adapter for round in (1, 2, 3)]
    home = tmp_path / "killed"
    for round in (1, 2, 3):
        assert killed_at(home, round, stored=stored) == -signal.SIGKILL
        resumed = Watched(home)
        assert ask(resumed.site, round).adapter == expected[round - 1]
        assert resumed.begun == ([] if stored else whole.begun[round - 1 : round])
        newest = resumed.newest
        resumed.site.buffer.close()
    assert newest == whole.newest
