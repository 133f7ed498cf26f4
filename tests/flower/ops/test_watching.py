"""When what a federation's server runs counts as hung, and when it does not."""

import os

import pytest

from tests.needs import needs

needs("flwr")

from fedse.flower.ops import watching
from fedse.flower.ops.watching import UNHEALTHY_SECONDS, link_watchdog, loop_watchdog
from fedse.processes.pulse import ROUND_LOOP
from fedse.processes.watchdog import Watchdog
from fedse.store.run_folder import held
from tests.federation.scene import Scene


def first_problem(watchdog: Watchdog, times: range) -> tuple[int, str]:
    """When it is told for the first time, and what; (-1, "") = never."""
    found = ((now, watchdog.problem(float(now))) for now in times)
    return next(((now, problem) for now, problem in found if problem), (-1, ""))


def test_a_round_loop_that_stands_is_noticed_and_one_that_is_gone_is_not(scene: Scene):
    run = scene.federation.run
    watchdog = loop_watchdog(scene.federation)
    watchdog.begin(os.getpid())
    (run / ROUND_LOOP).touch()
    assert first_problem(watchdog, range(0, 4000, 10)) == (-1, ""), "a killed one left its file"
    with held(run):
        # Half of a deadline of 3600 s.
        assert first_problem(watchdog, range(4000, 8000, 10)) == (
            5800,
            "runs a round loop that stands for 1800 s",
        )
        os.utime(run / ROUND_LOOP)
        assert watchdog.problem(5810.0) == ""


def test_a_superlink_must_answer_now_and_then(scene: Scene, monkeypatch: pytest.MonkeyPatch):
    answers = [True]
    monkeypatch.setattr(watching, "healthy", lambda *_: answers[0])
    watchdog = link_watchdog(scene.federation, "127.0.0.1:8000")
    watchdog.begin(os.getpid())
    assert first_problem(watchdog, range(0, 1000, 5)) == (-1, "")
    answers[0] = False
    assert first_problem(watchdog, range(1000, 1100, 5)) == (-1, "")
    answers[0] = True
    assert first_problem(watchdog, range(1100, 1115, 5)) == (-1, "")
    answers[0] = False
    now, problem = first_problem(watchdog, range(1115, 2000, 5))
    assert problem == f"has not answered for {UNHEALTHY_SECONDS:.0f} s"
    assert UNHEALTHY_SECONDS <= now - 1115 <= UNHEALTHY_SECONDS + 15
