"""A run is submitted until it is at its end, by what its folder says and not by what Flower says.

The app is a child process that works on the real run folder and is killed, or ends, where the
test wants it to; Flower's part, running it, is done by the test.
"""

import errno
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.needs import needs

needs("flwr")

from fedse.errors import RunError
from fedse.events import read_events
from fedse.flower.ops import resubmit
from fedse.flower.ops.resubmit import progress_of, run_to_end
from fedse.flower.ops.superlink import final_digest
from fedse.store.next_round import ask_to_stop
from fedse.store.run_folder import open_run
from tests.federation.scene import Scene
from tests.system.field import REPOSITORY

APP = """
import os, signal, sys, time
from pathlib import Path
from contextlib import closing
from fedse.drivers.loop import federate
from fedse.flower.server_app import failure_told
from fedse.store.run_folder import held, open_run
from tests.federation.rounds_without_sites import _answers
folder, last, event = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
def observe(name, facts):
    if name == event and facts.get("round") == last:
        os.kill(os.getpid(), signal.SIGKILL)
answers = (lambda *given, of: iter(())) if event == "alone" else None
with (
    held(folder),
    closing(open_run(folder, clock=time.time, observers=[observe])) as run,
    failure_told(run),
):
    federate(run, answers or _answers(run, ""), clock=time.time)
"""


class ByHand:
    """Runs the app for each line of a script: (round, event) to be killed at, or a refusal.

    With the event `alone` no site answers.
    """

    def __init__(self, run: Path, script: list[tuple[int, str] | str]) -> None:
        self._run, self._script = run, script
        self.stopped: list[str] = []
        self.submitted = 0
        self._apps: list[subprocess.Popen[bytes]] = []

    def submit(self) -> str:
        self.submitted += 1
        next_one = self._script.pop(0) if self._script else (0, "")
        if next_one == "refuses":
            raise RunError("the SuperLink is away")
        if next_one != "never begins":
            round, event = next_one
            line = [sys.executable, "-c", APP, str(self._run), str(round), event]
            self._apps.append(subprocess.Popen(line, cwd=REPOSITORY))
        return str(self.submitted)

    def stop(self, number: str) -> None:
        self.stopped.append(number)

    def look(self) -> None:
        for app in self._apps:
            app.poll()

    def lacks_room(self) -> bool:
        return False

    def cause(self) -> str:
        return ": as the test wants it"

    def end(self) -> None:
        for app in self._apps:
            app.wait(30)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resubmit, "LOOK_SECONDS", 0.02)
    monkeypatch.setattr(resubmit, "PAUSES", (0.02,))


@pytest.fixture
def run(scene: Scene) -> Path:
    return scene.federation.run


def seen_through(run: Path, script: list[tuple[int, str] | str]) -> tuple[ByHand, list[str]]:
    flower, told = ByHand(run, script), []
    try:
        digest = run_to_end(run, flower, tell=told.append)
    finally:
        flower.end()
    assert digest == progress_of(run).digest
    return flower, told


def resumed(run: Path) -> Iterator[int]:
    return (e["round"] for e in read_events(run / "events.jsonl", ['"run.resumed"']))


def test_an_undisturbed_run_is_submitted_once(run: Path):
    flower, told = seen_through(run, [])
    assert (flower.submitted, flower.stopped, told) == (1, [], [])
    assert progress_of(run).committed == 3


def test_an_app_that_is_killed_is_submitted_again_and_goes_on(run: Path):
    script = [(1, "commit.started"), (1, "round.committed"), (3, "aggregate.started")]
    flower, told = seen_through(run, list(script))
    assert (flower.submitted, flower.stopped) == (4, ["1", "2", "3"])
    assert list(resumed(run)) == [0, 1, 2]
    assert len(told) == 3


def test_a_stop_that_was_asked_for_while_the_server_starts_counts(run: Path):
    ask_to_stop(run)
    flower, told = seen_through(run, [])
    assert (flower.submitted, told, progress_of(run).committed) == (1, [], 0)


def test_an_app_that_stopped_as_asked_leaves_a_digest_and_one_that_was_killed_an_error(run: Path):
    log, flower = run.parent / "log", ByHand(run, [(2, "round.started"), (0, "")])
    flower.submit()
    flower.end()
    with pytest.raises(RunError, match="the run ended after round 1 of 3"):
        final_digest(run, log)
    ask_to_stop(run)
    flower.submit()
    flower.end()
    with closing(open_run(run)) as stopped:
        assert final_digest(run, log) == stopped.digest(1)


def test_an_app_that_had_too_few_sites_says_so_and_one_that_was_killed_has_no_old_cause(run: Path):
    flower = ByHand(run, [(0, "alone"), (1, "round.started")])
    flower.cause = lambda: ""  # type: ignore[method-assign]
    told: list[str] = []
    try:
        run_to_end(run, flower, tell=told.append)
    finally:
        flower.end()
    few = "round 1 has 0 valid answers, aggregate.min_clients is 1"
    assert told == [
        f"the server's app ended after round 0: {few}; submitted again",
        "the server's app ended after round 0; submitted again",
    ]
    reasons = [e["reason"] for e in read_events(run / "events.jsonl", ['"run.resumed"'])]
    assert reasons == [f": {few}", ""]


def test_a_superlink_that_is_away_is_tried_again(run: Path):
    flower, _ = seen_through(run, ["refuses", "refuses"])
    assert (flower.submitted, flower.stopped) == (3, [])


def test_an_app_that_never_begins_is_submitted_again(run: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(resubmit, "START_SECONDS", 0.1)
    flower = ByHand(run, ["never begins"])
    # Then it gets the time a real one needs.
    submit = flower.submit

    def submit_patiently() -> str:
        if flower.submitted:
            monkeypatch.setattr(resubmit, "START_SECONDS", 60.0)
        return submit()

    flower.submit = submit_patiently  # type: ignore[method-assign]
    assert run_to_end(run, flower, tell=lambda line: None)
    flower.end()
    assert flower.stopped == ["1"]


def test_one_that_commits_nothing_again_and_again_is_given_up_and_the_log_says_so(run: Path):
    flower = ByHand(run, ["refuses"] * 100)
    with pytest.raises(RunError, match="8 submissions in a row committed no round after round 0"):
        run_to_end(run, flower, tell=lambda line: None)
    assert flower.submitted == resubmit.HOPELESS
    (failed,) = read_events(run / "events.jsonl", ['"run.failed"'])
    assert "the SuperLink is away" in failed["error"]


def test_a_round_between_failures_is_progress(run: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(resubmit, "HOPELESS", 2)
    script = ["refuses", (1, "round.committed"), "refuses", (2, "round.committed"), "refuses"]
    flower, _ = seen_through(run, list(script))
    assert flower.submitted == 6


class FullFor(ByHand):
    """As long as the disk is full, no app gets anywhere; it has room again after some looks."""

    def __init__(self, run: Path, looks: int) -> None:
        super().__init__(run, [(1, "round.started")] * looks)
        self.left = looks

    def lacks_room(self) -> bool:
        if not self._script:
            return False
        # Room while an app is submitted, none when it has ended.
        return self.submitted > 0 and len(self._script) < self.left and self._emptied()

    def _emptied(self) -> bool:
        self.left = len(self._script)
        return True


def test_attempts_that_end_because_the_disk_is_full_are_not_counted(
    run: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(resubmit, "HOPELESS", 2)
    flower = FullFor(run, 5)
    try:
        run_to_end(run, flower, tell=lambda line: None)
    finally:
        flower.end()
    assert flower.submitted == 6
    assert progress_of(run).committed == 3


def test_what_a_full_disk_prevents_is_tried_until_there_is_room(run: Path):
    tries: list[int] = []

    def act() -> str:
        tries.append(1)
        if len(tries) < 4:
            raise OSError(errno.ENOSPC, "No space left on device")
        return "done"

    assert resubmit._insist(ByHand(run, []), act) == "done"
    with pytest.raises(OSError, match="denied"):
        resubmit._insist(ByHand(run, []), denied)


def denied() -> None:
    raise OSError(errno.EACCES, "Permission denied")
