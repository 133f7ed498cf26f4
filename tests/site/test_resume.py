"""A rollout that is broken off plays the rest and nothing twice, and never uses what is stale."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedse.agent.policy import ScriptedPolicy
from fedse.config.schema import Config
from fedse.envs.base import Step
from fedse.errors import RunError
from fedse.events import silent
from fedse.method.rollout import Game, choose_games, rollout
from fedse.method.site import Site
from fedse.protocol import Question
from fedse.site.answer import serve
from fedse.site.resume import KeepInBuffer
from fedse.store.buffer import Buffer
from fedse.testing import CoinWorld, open_toy_site, toy_adapter, toy_spec
from fedse.types import Fitted, Task, Trajectory

SPEC = toy_spec()
CONFIG = Config.model_validate(
    {
        "run": {"name": "toy", "rounds": 5},
        "rollout": {"episodes": 10, "batch": 4},
        "buffer": {"keep_played": False},
        "eval": {"episodes": 6},
        "clients": [{"name": "a", "env": "fedse.testing:CoinWorld", "options": {"tasks": 8}}],
    }
)
TASKS = CoinWorld().tasks("train")


class Power(Exception):
    """Nothing of ours, as when the machine is switched off."""


class Bench:
    """Worlds that count the games they begin, and go dark before the n-th."""

    def __init__(self) -> None:
        self.begun: list[Game] = []
        self.lasts = 10**9

    def make(self) -> CoinWorld:
        bench = self

        class Counted(CoinWorld):
            def reset(self, task: Task, *, seed: int) -> Step:
                bench.begun.append(Game(task, seed))
                return super().reset(task, seed=seed)

        return Counted()

    def policy(self, name: str = "p") -> ScriptedPolicy:
        def choose(dialogue: object, seed: int) -> str:
            if len(self.begun) > self.lasts:
                raise Power
            return ("heads", "tails", "edge")[seed % 3]

        return ScriptedPolicy(choose, name=name)


class Attempt(NamedTuple):
    """All that decides how a rollout goes; by default always the same."""

    config: Config = CONFIG
    spec_rank: int = 2
    policy: str = "p"
    round: int = 1
    games: Sequence[Game] = tuple(choose_games(TASKS, 10, seed=1))
    max_turns: int | None = None
    seed: int = 7

    def play(self, bench: Bench, buffer: Buffer) -> list[Trajectory]:
        keep = KeepInBuffer(buffer, self.config, "a", toy_spec(rank=self.spec_rank))
        return rollout(
            self.games,
            bench.make,
            bench.policy(self.policy),
            round=self.round,
            batch=self.config.rollout.batch,
            max_turns=self.max_turns,
            seed=self.seed,
            keep=keep,
        )


@pytest.fixture
def buffer(tmp_path: Path) -> Buffer:
    return Buffer(tmp_path / "buffer.db")


@settings(max_examples=30, deadline=None)
@given(count=st.integers(1, 20), batch=st.integers(1, 7), breaks=st.lists(st.integers(0, 20)))
def test_only_the_open_chunk_is_played_again(count: int, batch: int, breaks: list[int]):
    """However often it is broken off, the games and their order end as if it never was."""
    rolled = CONFIG.rollout.model_copy(update={"batch": batch})
    games = tuple(choose_games(TASKS, count, seed=1))
    attempt = Attempt(CONFIG.model_copy(update={"rollout": rolled}), games=games)
    whole = rollout(games, CoinWorld, Bench().policy(), round=1, batch=batch, seed=attempt.seed)
    done = 0
    with TemporaryDirectory() as folder:
        for lasts in [*breaks, 10**9]:
            bench, buffer = Bench(), Buffer(Path(folder) / "buffer.db")
            bench.lasts, played = lasts, []
            try:
                played = attempt.play(bench, buffer)
            except Power:
                assert lasts < 10**9
            finally:
                buffer.close()
            assert bench.begun == list(games[done : done + len(bench.begun)])
            whole_chunks = len(bench.begun) // batch * batch
            done = count if played else done + min(whole_chunks, lasts // batch * batch)
            assert played in ([], whole)
    assert played == whole


def changed(**sections: dict[str, object]) -> Config:
    raw = CONFIG.model_dump()
    for name, values in sections.items():
        raw[name] = raw[name] | values
    return Config.model_validate(raw)


def with_world(**values: object) -> Config:
    client = CONFIG.clients[0].model_copy(update=values)
    return CONFIG.model_copy(update={"clients": (client,)})


OTHER = {
    "experiment": Attempt(changed(run={"name": "other"})),
    "run seed": Attempt(changed(run={"seed": 3})),
    "temperature": Attempt(changed(rollout={"temperature": 0.5})),
    "temperature of evaluation": Attempt(changed(eval={"temperature": 0.5})),
    "context": Attempt(changed(rollout={"context": 99})),
    "new tokens": Attempt(changed(rollout={"new_tokens": 9})),
    "chunk size": Attempt(changed(rollout={"batch": 5})),
    "threads": Attempt(changed(trainer={"threads": 7})),
    "world": Attempt(with_world(env="fedse.testing:Other")),
    "options of the world": Attempt(with_world(options={"tasks": 8, "secret": "x"})),
    "adapter layout or base model": Attempt(spec_rank=3),
    "adapter": Attempt(policy="q"),
    "round": Attempt(round=2),
    "games": Attempt(games=tuple(choose_games(TASKS, 10, seed=2))),
    "seeds of the games": Attempt(
        games=tuple(g._replace(seed=g.seed + 1) for g in Attempt().games)
    ),
    "held-out games": Attempt(games=tuple(choose_games(CoinWorld().tasks("test"), 10, seed=1))),
    "turn cap": Attempt(max_turns=2),
    "randomness of the agent": Attempt(seed=8),
}


@pytest.mark.parametrize("other", OTHER.values(), ids=OTHER.keys())
def test_what_differs_in_anything_is_played_anew(buffer: Buffer, other: Attempt):
    for attempt, begun in ((Attempt(), 10), (Attempt(), 0), (other, 10)):
        bench = Bench()
        attempt.play(bench, buffer)
        assert len(bench.begun) == begun


def test_another_version_of_the_program_plays_anew(buffer: Buffer, monkeypatch):
    Attempt().play(Bench(), buffer)
    monkeypatch.setattr("fedse.site.resume.__version__", "99")
    bench = Bench()
    Attempt().play(bench, buffer)
    assert len(bench.begun) == 10


def test_what_broke_is_tried_again(buffer: Buffer):
    """A world that was down is asked again; the chunks it did not spoil are kept."""
    bench = Bench()

    def down() -> CoinWorld:
        world = bench.make()
        if len(bench.begun) == 4:  # so in the second chunk
            world.step = lambda action: 1 / 0  # type: ignore[method-assign]
        return world

    games, keep = Attempt().games, KeepInBuffer(buffer, CONFIG, "a", SPEC)
    first = rollout(games, down, bench.policy(), round=1, batch=4, seed=7, keep=keep)
    assert [episode.outcome == "broken" for episode in first] == [4 <= i < 8 for i in range(10)]
    again = Bench()
    Attempt().play(again, buffer)
    assert again.begun == list(games[4:8])


def request_for(round: int = 1) -> Question:
    return Question(
        experiment="toy",
        round=round,
        agreed=CONFIG.agreed_digest(),
        spec=SPEC.identity,
        adapter=toy_adapter(SPEC, 1).digest,
        kind="train",
        evaluate=True,
    )


def open_site(home: Path, bench: Bench, fit: Callable[[Fitted], Fitted]) -> Site:
    site = open_toy_site(CONFIG, "a", home, clock=time.time)
    return replace(site, make_env=bench.make, fit=lambda *given: fit(site.fit(*given)))


def test_a_round_that_failed_in_training_plays_nothing_again(tmp_path: Path):
    """Held-out games and exploration alike; the answer is that of a round without a failure."""
    data = toy_adapter(SPEC, 1).to_bytes()

    def fails(fitted: Fitted) -> Fitted:
        raise RunError("out of memory")

    first, second, whole = Bench(), Bench(), Bench()
    home = tmp_path / "home"
    with pytest.raises(RunError, match="out of memory"):
        serve(request_for(), data, open_site(home, first, fails), CONFIG, emit=silent)
    site = open_site(home, second, lambda fitted: fitted)
    done = serve(request_for(), data, site, CONFIG, emit=silent)
    alone = open_site(tmp_path / "alone", whole, lambda fitted: fitted)
    expected = serve(request_for(), data, alone, CONFIG, emit=silent)
    assert (len(first.begun), len(second.begun)) == (16, 0)
    assert first.begun == whole.begun
    assert done.adapter == expected.adapter
    times = {"rollout_seconds", "train_seconds", "eval_seconds"}
    assert done.stats.model_dump(exclude=times) == expected.stats.model_dump(exclude=times)
    left = site.buffer._db.execute("SELECT count(*) FROM part").fetchone()
    assert left == (0,)
