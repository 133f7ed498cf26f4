"""A finished run of two clients, its folder filled by hand: every kind of episode once or more."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from fedse.committed import RoundResult
from fedse.config.file import parse_config
from fedse.config.schema import Config
from fedse.method.select import successes
from fedse.store.buffer import Buffer
from fedse.store.run import Run
from fedse.store.run_folder import create_run
from fedse.testing import toy_adapter
from fedse.types import ClientStats, Outcome, Split, Task, Trajectory, Turn

SETTINGS = """
[run]
name = "toy"
rounds = 1
[buffer]
keep_played = {keep}
"""
MEMBER = """
[[clients]]
name = "{name}"
env = "fedse.testing:CoinWorld"
"""
NAMES = ("alpha", "beta")
EVALS = {0: {"alpha": (1, 4), "beta": (0, 4)}, 1: {"alpha": (3, 4), "beta": (1, 4)}}
NASTY = "\x1b]0;owned\x07\x1b[2J\u202etxt\x9b31m\rover\u2028line"


def settings(*, keep: bool = True, names: Sequence[str] = NAMES) -> Config:
    members = "".join(MEMBER.format(name=name) for name in names)
    return parse_config(SETTINGS.format(keep=str(keep).lower()) + members, "toy")


def episode(
    number: int,
    outcome: Outcome = "success",
    *,
    round: int = 1,
    split: Split = "train",
    said: str = "Thought: which?\nAction: heads",
    seen: str = "a coin",
    policy: str = "ab" * 32,
) -> Trajectory:
    return Trajectory(
        task=Task(env="coin", id=f"{split}-{number}", split=split),
        seed=1000 * round + number,
        turns=(Turn(observation=seen, action="edge"), Turn(observation="2 left", action=said)),
        outcome=outcome,
        reward=float(outcome == "success"),
        policy=policy,
        round=round,
        error="coin.step: it rolled away" if outcome == "broken" else None,
    )


def fill(home: Path, *, keep: bool = True) -> None:
    """One client's round: two kept, one a repetition, one of each other end, two held out."""
    with_twin = [episode(1), episode(2), episode(1).model_copy(update={"seed": 7})]
    others: list[Trajectory] = [
        episode(4, "failure", seen=NASTY),
        episode(5, "truncated"),
        episode(6, "broken"),
    ]
    held_out = [episode(0, split="test"), episode(1, "failure", split="test")]
    buffer = Buffer(home / "buffer.db")
    buffer.add([episode(9, round=0, policy="expert")], experiment="toy")
    for played in (held_out, [*with_twin, *others]):
        buffer.record_played(played, experiment="toy", bodies=keep)
    buffer.add(successes([*with_twin, *others]), experiment="toy")
    buffer.close()


def make_run(
    root: Path,
    *,
    keep: bool = True,
    name: str = "made",
    clients: bool = True,
    names: Sequence[str] = NAMES,
) -> Run:
    """A run folder in `root`; without `clients`, that of a server."""
    config, now = settings(keep=keep, names=names), datetime(2026, 1, 2, tzinfo=UTC)
    run = create_run(root, config, given="", name=name, now=now, clock=lambda: 1.0)
    first = toy_adapter(run.spec, 0, scale=0.1)
    after = toy_adapter(run.spec, 1, scale=0.1)
    run.begin(first)
    run.commit(
        RoundResult(
            index=1,
            before=first.digest,
            after=run.store(after),
            voters=tuple(names),
            stats={},
            bytes_down=2,
            bytes_up=2,
            seconds=1.0,
        )
    )
    for round, found in EVALS.items():
        for client, (won, played) in zip(names, found.values(), strict=True):
            run.record_eval(round, client, ClientStats(eval_played=played, eval_succeeded=won))
    for client in names if clients else ():
        fill(run.path / "clients" / client, keep=keep)
    return run
