"""Play a round's games with a program that owns its loop; called like `rollout`.

The games are the same as with an environment and are handed out in the same order, but which
requests meet in one policy call depends on the program's own pace, so two runs of the same seed
agree in distribution, not bit for bit. For the same reason a rollout that was interrupted
starts over: episodes of one program may depend on each other, so no part of them can be kept.
"""

import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import suppress

from fedse.agent.policy import Beat, Policy, keeps_shapes, no_beat
from fedse.agent.prompt import Encoder
from fedse.envs.base import EnvFactory
from fedse.errors import EnvError
from fedse.method.progress import GamesProgress, untold
from fedse.method.rollout import Game
from fedse.seeds import seed_of
from fedse.types import Trajectory
from fedse_agents.batch_queue import BatchQueue
from fedse_agents.endpoint import OpenEndpoint, listening
from fedse_agents.program import Play, Program
from fedse_agents.record import Episodes, RecordedEpisode
from fedse_agents.refused import RequestRefused
from fedse_agents.rewards import reported

# Seconds between checks whether the program has ended, while no request comes.
LOOK = 0.02
# About how often progress is reported in a round.
PROGRESS_REPORTS = 8
# How much of a failed command's stderr the error quotes.
STDERR_BYTES = 400


def play_program(
    games: Sequence[Game],
    make_env: EnvFactory,
    policy: Policy,
    *,
    round: int,
    batch: int,
    max_turns: int | None = None,
    seed: int,
    progress: GamesProgress = untold,
    encoder: Encoder | None = None,
    beat: Beat = no_beat,
    roles: Sequence[str] = (),
) -> list[Trajectory]:
    """One trajectory per game, in the order of `games`, played by the client's program."""
    program = make_env()
    if not isinstance(program, Program):
        raise EnvError(f"expected the environment program, got {program.name!r}")
    episodes = Episodes(games, max_turns=max_turns or program.max_turns, roles=roles)
    desk, told, step = BatchQueue(batch=batch), 0, max(1, len(games) // PROGRESS_REPORTS)
    with listening(episodes, desk, encoder, shapes=keeps_shapes(policy)) as at:
        crew = _Crew(program, episodes, at)
        try:
            crew.start()
            while crew.working():
                beat()  # a hanging program is ended by its own timeout
                desk.answer_some(
                    policy,
                    seed=seed_of(seed, "program", desk.calls),
                    patience=LOOK,
                    expected=lambda: len(episodes.playing()),
                )
                if len(ended := episodes.ended()) - told >= step:
                    told = len(ended)
                    progress(told, sum(episode.outcome == "success" for episode in ended))
        finally:
            crew.end()
    played = episodes.trajectories(policy=policy.name, round=round)
    progress(len(played), sum(episode.success for episode in played))
    return played


class _Crew:
    """The threads that play: each takes one episode after another until there is none left."""

    def __init__(self, program: Program, episodes: Episodes, at: OpenEndpoint) -> None:
        self._program, self._episodes, self._at = program, episodes, at
        self._playing: dict[threading.Thread, RecordedEpisode | None] = {}
        self._commands: set[subprocess.Popen[bytes]] = set()
        self._ended = False

    def start(self) -> None:
        hands = 1 if self._program.per == "round" else self._program.parallel
        for _ in range(hands):
            self._start_one()

    def working(self) -> bool:
        """Whether any thread still plays; a call that took too long is abandoned."""
        if self._program.play is not None:
            oldest = time.monotonic() - self._program.timeout
            for thread, episode in list(self._playing.items()):
                if episode and episode.outcome is None and episode.opened < oldest:
                    # A thread cannot be stopped, so its place is taken by a new one.
                    episode.break_off(self._late())
                    del self._playing[thread]
                    self._start_one()
        return any(thread.is_alive() for thread in list(self._playing))

    def end(self) -> None:
        """No command runs and no new episode begins."""
        self._ended = True
        for command in list(self._commands):
            _kill(command)

    def _start_one(self) -> None:
        work = self._run_round if self._program.per == "round" else self._play_all
        thread = threading.Thread(target=work, daemon=True)
        self._playing[thread] = None
        thread.start()

    def _play_all(self) -> None:
        me = threading.current_thread()
        while not self._ended and me in self._playing:
            opened = self._episodes.open_next(time.monotonic())
            if opened is None:
                return
            key, episode = opened
            self._playing[me] = episode
            if self._program.play is not None:
                self._call(self._program.play, key, episode)
            else:
                self._run(self._episode_variables(key, episode), [episode])

    def _call(self, play: Play, key: str, episode: RecordedEpisode) -> None:
        try:
            end = play(self._at.base_url(key), episode.game.task.id)
            episode.close(reported(end, episode.roles))
        except RequestRefused as refusal:
            episode.break_off(str(refusal))
        except Exception as error:
            episode.break_off(f"play raised {type(error).__name__}: {error}")

    def _run_round(self) -> None:
        key = {"FEDSE_URL": self._at.url, "FEDSE_KEY": self._at.key}
        self._run(key, None)

    def _episode_variables(self, key: str, episode: RecordedEpisode) -> dict[str, str]:
        return {
            "OPENAI_BASE_URL": self._at.base_url(key),
            "OPENAI_API_KEY": "none",  # OpenAI's client refuses to start without one
            "FEDSE_TASK": episode.game.task.id,
            "FEDSE_SEED": str(episode.game.seed),
            "FEDSE_REWARD_URL": self._at.reward_url(key),
        }

    def _run(self, variables: dict[str, str], episodes: list[RecordedEpisode] | None) -> None:
        """The command has ended; episodes it left open are broken, with the reason."""
        error = self._run_command({**os.environ, **variables})
        for episode in self._episodes.playing() if episodes is None else episodes:
            episode.break_off(error or "the program ended without reporting a reward")

    def _run_command(self, environ: dict[str, str]) -> str:
        """Why the command failed; empty if it succeeded."""
        with tempfile.TemporaryFile() as stderr:
            try:
                command = subprocess.Popen(
                    self._program.command,
                    env=environ,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=stderr,
                    start_new_session=True,
                )
            except OSError as error:
                return f"the command {self._program.command[0]!r} cannot be started: {error}"
            self._commands.add(command)
            try:
                code = command.wait(self._program.timeout)
            except subprocess.TimeoutExpired:
                _kill(command)
                return self._late()
            finally:
                self._commands.discard(command)
            stderr.seek(max(0, stderr.seek(0, os.SEEK_END) - STDERR_BYTES))
            output = stderr.read().decode(errors="replace").strip()
        return f"the command ended with exit code {code}: {output}" if code else ""

    def _late(self) -> str:
        return f"the program did not end in {self._program.timeout} s"


def _kill(command: "subprocess.Popen[bytes]") -> None:
    """A command that was still running has ended, with everything it started."""
    if command.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(command.pid, signal.SIGKILL)
        command.wait()
