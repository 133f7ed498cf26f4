"""Rounds of which the server learns the sum: the same adapters as in the clear, whoever leaves."""

import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from tests.needs import needs

needs("cryptography", "Crypto")

from fedse.committed import RoundResult
from fedse.config.judging import EvalSection
from fedse.config.methods import with_settings
from fedse.config.schema import AggregateSection, ClientSection, Config, RolloutSection, RunSection
from fedse.drivers.local import InProcess
from fedse.drivers.loop import federate
from fedse.drivers.run import run_local
from fedse.drivers.stages import introduce
from fedse.errors import ConfigError, RunError
from fedse.protocol import Ask, Delivery, Question
from fedse.secure_sum.fixed_point import FixedPoint, decode, encode
from fedse.secure_sum.messages import Revealed, SealedBundle, from_bytes, to_bytes
from fedse.store.buffer import Buffer
from fedse.store.run import Run
from fedse.testing import open_toy_site, toy_spec
from fedse.types import Adapter

NAMES = tuple("abcde")
SPEC = toy_spec()
STAGES = ("shares", "masked", "survivors", "unmask")


def config(**settings: object) -> Config:
    made = Config(
        run=RunSection(name="toy", rounds=2),
        rollout=RolloutSection(episodes=6),
        eval=EvalSection(episodes=2),
        aggregate=AggregateSection(clip="none", secure=True),
        clients=tuple(ClientSection(name=n, env="fedse.testing:CoinWorld") for n in NAMES),
    )
    return with_settings(made, settings)


ONE_ROUND = config(**{"run.rounds": 1})


def homes(path: Path) -> dict[str, Path]:
    return {name: path / "clients" / name for name in NAMES}


def new_run(path: Path, settings: Config) -> Run:
    return Run(path, settings, SPEC, clock=lambda: 0.0)


class Lines:
    """The local driver, with lines that can be cut."""

    def __init__(self, run: Run, passes: Callable[[str, str, int], bool]) -> None:
        self._driver, self._passes = InProcess(run, lambda: 0.0, open_toy_site), passes
        self.replies: list[tuple[str, str, int, bytes]] = []

    def __call__(
        self, question: Question, body: bytes, *, of: Collection[str]
    ) -> Iterable[Delivery]:
        stage, index = (question.kind if question.kind in STAGES else "keys"), question.round
        here = [n for n in of if stage == "keys" or self._passes(n, stage, index)]
        for told in self._driver(question, body, of=here):
            if stage == "keys":
                if self._passes(told.client, stage, index):
                    yield told
                continue
            assert not told.exclusion, told.fault
            self.replies.append((told.client, stage, index, told.adapter or b""))
            yield told

    def close(self) -> None:
        self._driver.close()


def federated(
    path: Path, settings: Config, passes: Callable[[str, str, int], bool] = lambda *_: True
) -> Run:
    run = new_run(path, settings)
    introduce(run.config, run.path, homes(run.path))
    with closing(Lines(run, passes)) as ask:
        federate(run, ask, clock=lambda: 0.0)
    return run


def vote_of(home: Path, round: int) -> bytes:
    """The adapter in a site's newest answer up to this round that has one."""
    query = "SELECT adapter FROM outbox WHERE adapter NOT NULL AND round <= ? ORDER BY round DESC"
    with closing(sqlite3.connect(home / "buffer.db")) as db:
        (adapter,) = db.execute(query, (round,)).fetchone()
    return bytes(adapter)


def clear_mean(run: Run, index: int, names: Collection[str], *, keep: Path) -> str:
    """The digest of the fixed-point mean of the votes in the clients' own outboxes."""
    form, start = FixedPoint(8.0, len(NAMES)), run.adapter(index - 1).vector
    total = np.zeros(SPEC.size, dtype=np.uint32)
    for name in names:
        data = vote_of(keep / "clients" / name, index)
        vote = np.frombuffer(data, dtype="<f4", offset=len(SPEC.header))
        total += encode(start, vote, form)
    return Adapter(SPEC, decode(total, start, form, count=len(names))).digest


def test_an_experiment_has_the_adapters_of_the_clear_fixed_point_mean(tmp_path: Path):
    run = federated(tmp_path, config())
    for result in run.results():
        assert result.voters == NAMES
        assert result.after == clear_mean(run, result.index, NAMES, keep=tmp_path)
        assert result.drift is None
    assert run.adapter(2).digest != run.adapter(1).digest != run.adapter(0).digest


def test_it_is_the_clear_mean_but_for_rounding(tmp_path: Path):
    """The two runs learn from the same games, as the first adapter is the same."""
    secure = federated(tmp_path / "secure", ONE_ROUND)
    clear = new_run(tmp_path / "clear", config(**{"run.rounds": 1, "aggregate.secure": False}))
    run_local(clear, clock=lambda: 0.0, open_site=open_toy_site)
    apart = np.abs(secure.adapter(1).vector - clear.adapter(1).vector)
    assert apart.max() <= FixedPoint(8.0, 5).unit / 2 + 2.0**-22


@pytest.mark.slow
def test_workers_in_processes_change_nothing(tmp_path: Path):
    ends = []
    for workers in (1, 2):
        run = new_run(tmp_path / str(workers), config(**{"run.workers": workers}))
        ends.append(run_local(run, clock=lambda: 0.0, open_site=open_toy_site).digest)
    assert ends[0] == ends[1]


@pytest.mark.parametrize("stage", ["keys", *STAGES])
def test_who_leaves_is_left_out_and_the_others_sum_is_exact(tmp_path: Path, stage: str):
    """One of five in the first round; before the last two stages its update is in the sum."""
    run = federated(tmp_path, config(), lambda n, s, r: not (n == "c" and s == stage and r == 1))
    first, second = run.results()
    summed = NAMES if stage in ("survivors", "unmask") else tuple("abde")
    assert first.voters == summed
    assert first.after == clear_mean_of_first(run, summed, tmp_path)
    assert second.voters == NAMES
    reasons = {one.client: one.reason for one in first.excluded}
    assert set(reasons) == ({"c"} if stage in ("shares", "masked") else set())
    assert first.absent == (("c",) if stage == "keys" else ())


def clear_mean_of_first(run: Run, names: Collection[str], path: Path) -> str:
    """By the votes of round 1, which the outboxes still have."""
    form, start = FixedPoint(8.0, len(NAMES)), run.adapter(0).vector
    total = np.zeros(SPEC.size, dtype=np.uint32)
    for name in names:
        with closing(sqlite3.connect(path / "clients" / name / "buffer.db")) as db:
            (data,) = db.execute("SELECT adapter FROM outbox WHERE round = 1").fetchone()
        total += encode(start, np.frombuffer(data, dtype="<f4", offset=len(SPEC.header)), form)
    return Adapter(SPEC, decode(total, start, form, count=len(names))).digest


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The digest of the adapter after one round from which nobody was missing."""
    return federated(tmp_path_factory.mktemp("whole"), ONE_ROUND).adapter(1).digest


@pytest.mark.parametrize("stage", STAGES)
def test_a_round_in_which_too_few_are_left_has_no_sum_and_counts(tmp_path: Path, stage: str):
    """Two of five are missing where four are needed; the next round has its sum."""
    run = federated(tmp_path, config(), lambda n, s, r: s != stage or n in "abc" or r > 1)
    first, second = run.results()
    assert (first.before, first.voters, first.abstained) == (first.after, (), NAMES)
    assert (second.voters, second.after != second.before) == (NAMES, True)


def lying(liar: str, kind: str, lie: Callable[[bytes], bytes]) -> Callable[[Ask], Ask]:
    """A member sends something else in one stage of the first round."""

    def disturb(ask: Ask) -> Ask:
        def asked(question: Question, body: bytes, *, of: Collection[str]) -> Iterator[Delivery]:
            for one in ask(question, body, of=of):
                lies = one.client == liar and question.round == 1 and question.kind == kind
                yield one._replace(adapter=lie(one.adapter or b"")) if lies else one

        return asked

    return disturb


def false_reveal(data: bytes) -> bytes:
    told = from_bytes(Revealed, data)
    return to_bytes(
        told.model_copy(update={"self_seeds": dict.fromkeys(told.self_seeds, "1" * 32)})
    )


def unreadable(data: bytes) -> bytes:
    told = from_bytes(SealedBundle, data)
    return to_bytes(SealedBundle(to=dict.fromkeys(told.to, "0" * 96)))


def summed(path: Path, disturb: Callable[[Ask], Ask]) -> tuple[RoundResult, RoundResult]:
    run = new_run(path, config())
    introduce(run.config, run.path, homes(run.path))
    with closing(InProcess(run, lambda: 0.0, open_toy_site)) as ask:
        federate(run, disturb(ask), clock=lambda: 0.0)
    first, second = run.results()
    return first, second


def test_false_shares_of_one_member_are_found_and_the_sum_is_made(tmp_path: Path, undisturbed: str):
    first, second = summed(tmp_path, lying("a", "unmask", false_reveal))
    assert first.after == undisturbed
    assert [(one.client, one.kind) for one in first.excluded] == [("a", "rejected")]
    assert (second.voters, second.excluded) == (NAMES, ())


def test_a_member_whose_shares_nobody_can_read_costs_one_round_and_is_named(tmp_path: Path):
    first, second = summed(tmp_path, lying("e", "shares", unreadable))
    assert (first.after, first.voters) == (first.before, ())
    assert [(one.client, one.kind) for one in first.excluded] == [("e", "rejected")]
    assert (second.voters, second.after != second.before) == (NAMES, True)


def test_a_round_with_too_few_votes_changes_nothing_and_counts(tmp_path: Path):
    run = federated(tmp_path, config(), lambda n, s, r: s != "keys" or n in "abc" or r > 1)
    first, second = run.results()
    assert (first.before, first.voters) == (first.after, ())
    assert (first.abstained, first.absent, first.excluded) == (("a", "b", "c"), ("d", "e"), ())
    assert second.voters == NAMES


class Killed(Exception):
    """Stands for kill -9: nothing in the process goes on."""


@pytest.mark.parametrize("after", [1, 4, 6, 10, 11, 15, 16, 20])
def test_a_server_that_dies_after_any_answer_ends_with_the_same_adapters(
    tmp_path: Path, after: int, undisturbed: str
):
    """Twenty are given in the stages of a round; members keep theirs, the server its lists."""
    seen = 0

    def dies(name: str, stage: str, round: int) -> bool:
        nonlocal seen
        seen += stage != "keys"
        if seen == after:
            raise Killed
        return True

    with pytest.raises(Killed):
        federated(tmp_path, ONE_ROUND, dies)
    assert federated(tmp_path, ONE_ROUND).adapter(1).digest == undisturbed


def test_a_server_that_dies_goes_on_with_its_lists_although_a_member_is_gone(tmp_path: Path):
    """Members took part in a roster of five and refuse another one in this round."""

    def dies(name: str, stage: str, round: int) -> bool:
        if stage == "masked":
            raise Killed
        return True

    with pytest.raises(Killed):
        federated(tmp_path, ONE_ROUND, dies)
    run = federated(tmp_path, ONE_ROUND, lambda name, stage, round: name != "e")
    (only,) = run.results()
    assert only.voters == tuple("abcd")
    assert only.after == clear_mean_of_first(run, tuple("abcd"), tmp_path)


def test_a_site_that_is_asked_again_gives_the_same_bytes(tmp_path: Path):
    """Also of the masked update, which is made anew; and nothing is left of it a round later."""
    run = new_run(tmp_path, ONE_ROUND)
    introduce(run.config, run.path, homes(run.path))
    with closing(Lines(run, lambda *_: True)) as ask:
        asked: list[tuple[Question, bytes]] = []

        def noted(question: Question, body: bytes, *, of: Collection[str]) -> list[Delivery]:
            if question.kind in STAGES:
                asked.append((question, body))
            return list(ask(question, body, of=of))

        federate(run, noted, clock=lambda: 0.0)
        first = {reply[:2]: reply[3] for reply in ask.replies}
        ask.replies.clear()
        for request, data in list(asked):
            noted(request, data, of=NAMES)
        assert {reply[:2]: reply[3] for reply in ask.replies} == first
    assert [request.kind for request, _ in asked[:4]] == list(STAGES)
    assert not list((tmp_path / "sums").iterdir())


def test_the_same_round_is_not_summed_without_one_member(tmp_path: Path):
    """The server forgets its lists and asks again while one is away: the others refuse."""
    run = new_run(tmp_path, ONE_ROUND)
    introduce(run.config, run.path, homes(run.path))
    stopped = {"on": True}

    def passes(name: str, stage: str, round: int) -> bool:
        if stage == "unmask" and stopped["on"]:
            raise Killed
        return not (name == "e" and not stopped["on"])

    with closing(Lines(run, passes)) as ask, pytest.raises(Killed):
        federate(run, ask, clock=lambda: 0.0)
    for kept in (tmp_path / "sums").iterdir():
        kept.unlink()
    stopped["on"] = False
    again = InProcess(run, lambda: 0.0, open_toy_site)
    refusals: list[str] = []

    def without_one(question: Question, body: bytes, *, of: Collection[str]) -> list[Delivery]:
        told = [one for one in again(question, body, of=of) if one.client != "e"]
        if question.kind in STAGES:
            refusals.extend(one.fault for one in told)
        return told

    with closing(again), pytest.raises(RunError, match="has 0 valid answers"):
        federate(run, without_one, clock=lambda: 0.0)
    assert len(refusals) == 4
    assert all(one.startswith("a second roster in one round") for one in refusals)


def test_the_secrets_of_earlier_rounds_are_gone(tmp_path: Path):
    federated(tmp_path, config())
    with closing(sqlite3.connect(tmp_path / "clients" / "a" / "buffer.db")) as db:
        kept = db.execute(
            "SELECT round, state IS NULL, encoded IS NULL FROM secure_sum ORDER BY round"
        ).fetchall()
    assert kept == [(1, 1, 1), (2, 0, 0)]


def test_nothing_that_the_server_gets_is_an_adapter(tmp_path: Path):
    """No message has the bytes of a vote, nor of its encoded update."""
    run = new_run(tmp_path, ONE_ROUND)
    introduce(run.config, run.path, homes(run.path))
    with closing(Lines(run, lambda *_: True)) as ask:
        federate(run, ask, clock=lambda: 0.0)
        told = b"".join(reply[3] for reply in ask.replies)
    for name in NAMES:
        vote = vote_of(tmp_path / "clients" / name, 1)
        with closing(Buffer(tmp_path / "clients" / name / "buffer.db")) as buffer:
            encoded = buffer.sums.encoded("toy", 1)
        assert encoded
        assert vote[-8:] not in told
        assert encoded[:8] not in told


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"aggregate.clip": "median"}, 'aggregate.clip = "none"'),
        ({"aggregate.type": "weighted"}, 'aggregate.type = "mean"'),
        ({"aggregate.goal": 4}, "aggregate.goal = 0"),
        ({"gate.episodes": 4, "splits.validation": 0.2}, "gate.liars = 0"),
        ({"buffer.pooled": True}, "buffer.pooled = false"),
    ],
)
def test_what_needs_single_updates_is_refused(settings: dict[str, object], reason: str):
    with pytest.raises((ValueError, ConfigError), match=f"aggregate.secure needs {reason}"):
        config(**settings)


def test_two_members_have_no_secure_sum():
    two = [client.model_dump() for client in config().clients[:2]]
    with pytest.raises(ValueError, match=r"aggregate\.secure needs 3 clients or more"):
        Config.model_validate({**config().model_dump(), "clients": two})


def test_a_gate_that_leaves_nobody_out_decides_about_the_sum(tmp_path: Path):
    gated = {"gate.episodes": 4, "gate.liars": 0, "splits.validation": 0.5, "run.rounds": 1}
    (result,) = federated(tmp_path, config(**gated)).results()
    assert result.gate
    assert result.gate.sites == 5
