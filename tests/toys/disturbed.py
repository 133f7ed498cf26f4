"""Experiments of toy sites, with settings that go together; some sites are away, late or lie.

Who is away, late or lies follows from site, round and kind of question alone, so a run that was
stopped meets the same disturbances when it goes on. The last round has none.
"""

import hashlib
import json
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

from hypothesis import reject
from hypothesis import strategies as st
from pydantic import ValidationError

from fedse.blocks import in_blocks
from fedse.committed import RoundResult
from fedse.config.schema import Config
from fedse.drivers.local import InProcess
from fedse.drivers.loop import federate
from fedse.drivers.stages import introduce
from fedse.events import Fact
from fedse.method.site import Site
from fedse.privacy.accountant import Charge
from fedse.protocol import KINDS, Ask, Delivery, Kind, Question
from fedse.site.private_training import PrivateTraining
from fedse.store.buffer import Buffer
from fedse.store.late_replies import keep_late
from fedse.store.next_round import ask_to_stop
from fedse.store.run import Run
from fedse.testing import open_toy_site, toy_spec
from fedse.types import canonical_json

SPEC, ROUNDS = toy_spec(), 3
ROLES = ("plan", "act", "check")
ISOLATED: Mapping[str, Any] = {"names": ROLES, "policy": "isolated"}
TOGETHER: Mapping[str, Any] = {**ISOLATED, "together": [("plan", "check")]}
LOCAL: Mapping[str, Any] = {**ISOLATED, "local": ("check",)}
Place = tuple[str, int, Kind]
"""A site, a round and a kind of question."""


def garbage(data: bytes) -> bytes:
    """As long as what was asked for, and nothing."""
    return bytes(len(data))


def false_shares(data: bytes) -> bytes:
    """In the stages of a sum: shares that can be read and are wrong, or that nobody can read."""
    try:
        told = json.loads(data)
    except ValueError:
        return garbage(data)
    if "to" in told:
        return canonical_json({"to": dict.fromkeys(told["to"], "0" * 96)})
    return canonical_json({key: _false(value) for key, value in told.items()})


def _false(value: Any) -> Any:
    return dict.fromkeys(value, "1" * 32) if isinstance(value, dict) else value


LIES: Mapping[str, Callable[[bytes], bytes]] = {"garbage": garbage, "false shares": false_shares}


class Scene(NamedTuple):
    """An experiment and what disturbs it."""

    config: Config
    away: frozenset[Place] = frozenset()
    lies: Mapping[Place, str] = {}
    late: str = ""
    """A site that is busy with round 1 until round 2 is over: its vote comes late."""

    def disturbed(self, ask: Ask, run: Run) -> Ask:
        """Asks as `ask` does, where sites are away, late and lie as the scene says."""
        held = run.path / "held"

        def asked(question: Question, body: bytes, *, of: Collection[str]) -> Iterator[Delivery]:
            away = {n for n in of if (n, question.round, question.kind) in self.away}
            if self.late and question.trains and question.round == 2:
                away.add(self.late)
                if held.exists():
                    keep_late(run, 1, self.late, held.read_bytes())
            for one in ask(question, body, of=[name for name in of if name not in away]):
                lie = self.lies.get((one.client, question.round, question.kind))
                lies = lie is not None and one.adapter is not None
                told = one._replace(adapter=LIES[lie](one.adapter)) if lies else one
                if question.trains and (told.client, question.round) == (self.late, 1):
                    held.write_bytes(told.adapter or b"")
                else:
                    yield told

        return asked


@st.composite
def scenes(draw: st.DrawFn, **fixed: Mapping[str, object]) -> Scene:
    """Any settings that go together; `fixed` sections are not drawn."""
    count = draw(st.sampled_from([3, 3, 3, 4, 5]))
    names = "abcde"[:count]
    joins = draw(st.sampled_from([None, None, None, *names]))
    steps = draw(st.sampled_from([False, False, True]))
    votes_may_be_late = not steps and draw(st.sampled_from([False, False, True]))
    one_mean = votes_may_be_late or steps
    liars = 0 if one_mean else draw(st.integers(0, (count - 1) // 2))
    gate = {"episodes": 4, "liars": liars}
    private = {"epsilon": 1000.0, "rate": 1.0, "counts": draw(st.booleans())}
    private |= {} if steps else {"noise": 2.0}
    step = {"units": 8, "noise": 2.0, "momentum": draw(st.sampled_from([0.0, 0.5]))}
    roles = draw(st.sampled_from([{}, {}, ISOLATED, TOGETHER, *([] if steps else [LOCAL])]))
    acting = st.lists(st.sampled_from(ROLES), unique=True) if roles else st.just([])
    sections: dict[str, Any] = {
        "run": {
            "name": "toy",
            "rounds": draw(st.sampled_from([ROUNDS, ROUNDS, "open"])),
            "seed": draw(st.integers(0, 3)),
        },
        "roles": roles,
        "schedule": {
            "every": draw(st.sampled_from([0.0, 100.0])),
            "news": draw(st.sampled_from([0, 0, 1])),
        },
        "rollout": {
            "episodes": draw(st.sampled_from([0, 4])),
            "every": draw(st.sampled_from([1, 1, 2])),
        },
        "buffer": {
            "keep_played": draw(st.booleans()),
            "demonstrations": draw(st.sampled_from([0, 2])),
            "history": draw(st.sampled_from(["all", "demonstrations", "round"])),
        },
        "train": {
            "optimizer": draw(st.sampled_from(["fresh", "kept"])),
            "factors": draw(st.sampled_from(["both", "b"])),
            "loss": draw(st.sampled_from(["sft", "tests.toys.comparing:Comparing"][: 2 - steps])),
            "steps": 4,
        },
        "eval": {"episodes": draw(st.sampled_from([0, 2])), "every": draw(st.integers(1, 2))},
        "splits": {"validation": 0.3},
        "gate": gate if draw(st.booleans()) else {},
        "aggregate": {
            "type": draw(st.sampled_from(["mean", "mean", "weighted"][: 3 - one_mean])),
            "clip": draw(st.sampled_from(["none", "median"][: 2 - steps])),
            "strikes": draw(st.sampled_from([0, 1, 3])),
            "secure": steps or (not votes_may_be_late and draw(st.booleans())),
            "pace": draw(st.sampled_from([0.0, 2.0])),
            "late": int(votes_may_be_late),
        },
        "personal": {"steps": draw(st.sampled_from([0, 2])), "every": 1},
        "privacy": private if steps or draw(st.booleans()) else {},
        "step": step if steps else {},
        "storage": {
            "answers": draw(st.sampled_from([0, 2])),
            "rounds": draw(st.sampled_from([0, 2])),
        },
        "clients": [
            {
                "name": name,
                "env": "fedse.testing:CoinWorld",
                "options": {"tasks": 16},
                "joins": 2 if name == joins else 1,
                "roles": draw(acting),
            }
            for name in names
        ],
        **fixed,
    }
    try:
        config = Config.model_validate(sections)
    except ValidationError:
        reject()
    place = st.tuples(
        st.sampled_from(names), st.integers(1, ROUNDS - 1), st.sampled_from(sorted(KINDS))
    )
    away = draw(st.frozensets(place, max_size=1))
    lies = draw(st.dictionaries(place, st.sampled_from([*LIES]), max_size=1))
    late = draw(st.sampled_from(names)) if config.aggregate.late else ""
    return Scene(config, away, lies, late)


class Stopped(BaseException):
    """Stands for kill -9: nothing in the process goes on."""


class Played(NamedTuple):
    """What a run came to."""

    adapter: str
    results: tuple[RoundResult, ...]
    events: tuple[str, ...]


def play(path: Path, scene: Scene, *, stop: int | None = None) -> Played:
    """The whole run, or until it is killed at the event with that number.

    One without an end is asked to stop after the last of ROUNDS, once more if it was killed there.
    """
    events, now, endless = list[str](), [0.0], scene.config.run.open

    def observe(event: str, facts: Mapping[str, Fact]) -> None:
        if len(events) == stop:
            raise Stopped
        events.append(event)
        if endless and (event, facts.get("round")) == ("round.committed", ROUNDS):
            ask_to_stop(path)
        assert (event, facts.get("round")) != ("round.started", ROUNDS + 1)

    def sleep(seconds: float) -> None:
        now[0] += seconds

    spec = in_blocks(SPEC, scene.config.roles.blocks)
    run = Run(path, scene.config, spec, clock=lambda: 0.0, observers=[observe])
    # The ledger names the digest of this file; to write it as TOML is a tenth of all a run takes.
    (path / "config.resolved.toml").write_text(scene.config.model_dump_json())
    if endless and run.committed == ROUNDS:
        ask_to_stop(path)
    with closing(run), known_noise():
        homes = {name: path / "clients" / name for name in scene.config.members}
        introduce(scene.config, path, homes)
        with closing(InProcess(run, lambda: 0.0, open_toy_site)) as ask:
            final = federate(run, scene.disturbed(ask, run), clock=lambda: now[0], sleep=sleep)
        return Played(final.digest, tuple(run.results()), tuple(events))


@contextmanager
def known_noise() -> Iterator[None]:
    """The noise of a fit follows from site and round, so that two runs can be compared."""
    made = PrivateTraining.__init__

    def init(self: PrivateTraining, site: Site, config: Config, round: int) -> None:
        secret = hashlib.sha256(f"{site.client} {round}".encode()).digest()
        made(self, site, config, round, draw=lambda: secret)

    with patch.object(PrivateTraining, "__init__", init):
        yield


def charges(path: Path, config: Config) -> dict[str, list[Charge]]:
    """What every site has charged to its privacy budget."""
    found = {}
    for name in config.members:
        site = open_toy_site(config, name, path / "clients" / name, clock=lambda: 0.0)
        with closing(site.buffer) as buffer:
            found[name] = buffer.outbox.privacy.charges()
    return found


def local_blocks(path: Path, config: Config) -> dict[str, dict[str, bytes]]:
    """What every site has of its own blocks of the adapter."""
    found = {}
    for name in config.members:
        with closing(Buffer(path / "clients" / name / "buffer.db")) as buffer:
            found[name] = buffer.outbox.local.newest(config.run.name)
    return found
