"""A vote that comes late counts in a later round as a part of one, and the record says as what."""

import hashlib
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fedse.aggregate.merge import late_weight
from fedse.committed import LateVote, RoundResult
from fedse.config.methods import with_settings
from fedse.config.schema import Config
from fedse.drivers.loop import federate
from fedse.ledger.entries import answer_entries, round_entries
from fedse.ledger.verifying import ledgers_in, verify_ledger
from fedse.method.rounds import server_round
from fedse.method.site import Answer
from fedse.protocol import Delivery, Question
from fedse.store.late_replies import keep_late
from fedse.store.run import Run
from fedse.testing import toy_adapter
from fedse.types import Adapter, ClientStats
from tests.toys import disturbed
from tests.toys.federation import SPEC, toy_config

SITES = ("alpha", "beta", "delta")
ROUNDS = 4
Times = Mapping[tuple[str, int], int]
"""A site and a round -> how many rounds later its vote of that round arrives; 0 = in time."""


def experiment(**changes: object) -> Config:
    plain = {"aggregate.late": 2, "run.rounds": ROUNDS, "eval.episodes": 0, **changes}
    config = toy_config()
    few = config.model_copy(update={"clients": config.clients[:3]})
    return with_settings(few, plain)


def vote_of(site: str, round: int, current: Adapter) -> Adapter:
    """What a site answers: a step from the adapter it was given."""
    step = toy_adapter(SPEC, 10 * round + SITES.index(site), scale=0.1)
    return Adapter(SPEC, current.vector + step.vector)


def asking(run: Run, times: Times, given: dict[tuple[str, int], bytes]) -> object:
    """Sites whose votes arrive at these times; a site that is late is busy until then."""

    def ask(question: Question, body: bytes, *, of: Collection[str]) -> Iterator[Delivery]:
        index, current = question.round, run.adapter(question.round - 1)
        for (site, round), late in times.items():
            if late and round + late == index and (site, round) in given:
                keep_late(run, round, site, given[site, round])
        for site in of:
            busy = any(s == site and k < index <= k + late for (s, k), late in times.items())
            if busy:
                continue
            given[site, index] = vote_of(site, index, current).to_bytes()
            if not times.get((site, index)):
                yield Delivery(site, ClientStats(buffered=1), given[site, index])

    return ask


def play(path: Path, times: Times, config: Config) -> tuple[list[RoundResult], dict]:
    given: dict[tuple[str, int], bytes] = {}
    with closing(Run(path, config, SPEC, clock=lambda: 0.0)) as run:
        federate(run, asking(run, times, given), clock=lambda: 0.0)
        return [*run.results()], given


def test_a_late_vote_counts_as_a_part_of_one_from_where_the_round_is_now(tmp_path: Path):
    """Exactly: a change of 1 that comes one round late, beside a change of 0 that is in time."""
    config = experiment(**{"aggregate.clip": "none", "run.rounds": 2})
    start = Adapter(SPEC, np.zeros(SPEC.size, np.float32))
    one = Adapter(SPEC, np.ones(SPEC.size, np.float32))
    two = Adapter(SPEC, np.full(SPEC.size, 2, np.float32))

    with closing(Run(tmp_path, config, SPEC, clock=lambda: 0.0)) as run:
        run.begin(start)

        def ask(question: Question, body: bytes, *, of: Collection[str]) -> Iterator[Delivery]:
            if question.round == 2:
                keep_late(run, 1, "beta", one.to_bytes())
            yield Delivery("alpha", ClientStats(buffered=1), two.to_bytes())

        final = federate(run, ask, clock=lambda: 0.0)
        first, second = run.results()
    weight = 2**-0.5
    assert (first.voters, first.late) == (("alpha",), ())
    sent = hashlib.sha256(one.to_bytes()).hexdigest()
    assert second.late == (LateVote(client="beta", round=1, adapter=sent, weight=weight),)
    assert (second.voters, second.absent) == (("alpha", "beta"), ("delta",))
    assert final.vector == pytest.approx((2 * 1 + 3 * weight) / (1 + weight))


@pytest.mark.parametrize(("rounds", "weight"), [(0, 1.0), (1, 2**-0.5), (3, 0.5), (8, 1 / 3)])
def test_the_weight_falls_with_the_root_of_the_age(rounds: int, weight: float):
    assert late_weight(rounds) == pytest.approx(weight, rel=1e-15)


# The third site is never late: a run ends with a round in which nobody answers.
PLACES = st.tuples(st.sampled_from(SITES[:2]), st.integers(1, ROUNDS - 1))
TIMES = st.dictionaries(PLACES, st.integers(1, 3), max_size=4)


@settings(max_examples=25, deadline=None)
@example({("beta", 1): 1, ("beta", 3): 1}, "none")
@given(TIMES, st.sampled_from(["none", "median"]))
def test_a_second_machine_computes_every_adapter_from_the_record(times: Times, clip: str):
    """From what the sites sent and the server's ledger; no late vote counts twice."""
    config = experiment(**{"aggregate.clip": clip})
    with TemporaryDirectory() as name:
        path = Path(name)
        results, given = play(path, times, config)
        with closing(Run(path, config, SPEC, clock=lambda: 0.0)) as run:
            adapters = [run.adapter(index) for index in range(ROUNDS + 1)]
        (ledger,) = ledgers_in(path)
        verdict = verify_ledger(ledger)
    assert verdict.finding is None
    counted = list[tuple[str, int]]()
    for _, line in round_entries(verdict.entries):
        current, late = adapters[line.round - 1], {one.client: one for one in line.late}
        answers = []
        for client in line.voters:
            made = late[client].round if client in late else line.round
            assert client not in late or 1 <= line.round - made <= config.aggregate.late
            sent = Adapter(SPEC, np.frombuffer(given[client, made], "<f4")[-SPEC.size :])
            assert client not in late or late[client].adapter == sent.digest
            moved = Adapter(SPEC, current.vector + (sent.vector - adapters[made - 1].vector))
            whole = moved if client in late else sent
            answers.append(Answer(client, ClientStats(), whole.to_bytes, late.get(client)))
            counted.append((client, made))
        assert server_round(current, answers, config).adapter.digest == line.after
    assert len({*counted}) == len(counted)
    assert [one.late for one in results] == [e.late for _, e in round_entries(verdict.entries)]


def test_without_the_setting_nothing_of_it_is_on_record(tmp_path: Path):
    """Not even an empty field: an earlier release can read the run and the ledger."""
    times = {("beta", 1): 1}
    results, _ = play(tmp_path, times, experiment(**{"aggregate.late": 0}))
    assert results[1].voters == ("alpha", "delta")
    assert all("late" not in one.model_dump() for one in results)
    assert '"late"' not in (tmp_path / "ledger.jsonl").read_text()


def late_in(path: Path, times: Times, **changes: object) -> dict[int, list[tuple[str, int]]]:
    """Round -> the late votes that count in it."""
    results, _ = play(path, times, experiment(**changes))
    return {r.index: [(one.client, one.round) for one in r.late] for r in results if r.late}


def test_a_vote_that_is_too_late_never_counts(tmp_path: Path):
    assert late_in(tmp_path / "two", {("beta", 1): 2}) == {3: [("beta", 1)]}
    assert late_in(tmp_path / "three", {("beta", 1): 3}) == {}


def test_a_vote_in_time_takes_the_place_of_a_late_one(tmp_path: Path, adapter: Adapter):
    config = experiment(**{"run.rounds": 2})
    with closing(Run(tmp_path, config, SPEC, clock=lambda: 0.0)) as run:

        def ask(question: Question, body: bytes, *, of: Collection[str]) -> Iterator[Delivery]:
            if question.round == 2:
                keep_late(run, 1, "beta", adapter.to_bytes())
            current = run.adapter(question.round - 1)
            sites = SITES if question.round == 2 else ("alpha", "delta")
            for site in sites:
                sent = vote_of(site, question.round, current).to_bytes()
                yield Delivery(site, ClientStats(buffered=1), sent)

        federate(run, ask, clock=lambda: 0.0)
        assert [r.late for r in run.results()] == [(), ()]


def test_the_adapters_that_late_votes_are_compared_with_are_kept(tmp_path: Path):
    """However few the machine keeps otherwise."""
    kept = late_in(tmp_path, {("beta", 2): 2}, **{"storage.rounds": 2})
    assert kept == {4: [("beta", 2)]}


HOSTILE = {
    "not finite": lambda good: good[:-4] + np.float32(np.nan).tobytes(),
    "another header": lambda good: bytes(len(good)),
}


@pytest.mark.parametrize("spoil", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_late_vote_that_breaks_the_rules_is_one_strike(tmp_path: Path, adapter, spoil):
    with closing(Run(tmp_path, experiment(), SPEC, clock=lambda: 0.0)) as run:

        def ask(question: Question, body: bytes, *, of: Collection[str]) -> Iterator[Delivery]:
            if question.round == 2:
                keep_late(run, 1, "beta", spoil(adapter.to_bytes()))
            yield Delivery("alpha", ClientStats(buffered=1), body)

        federate(run, ask, clock=lambda: 0.0)
        strikes = [[(e.client, e.kind) for e in r.excluded] for r in run.results()]
    assert strikes == [[], [("beta", "rejected")], [], []]


def test_the_late_reply_to_another_question_is_no_vote_and_no_offence(tmp_path: Path):
    with closing(Run(tmp_path, experiment(), SPEC, clock=lambda: 0.0)) as run:

        def ask(question: Question, body: bytes, *, of: Collection[str]) -> Iterator[Delivery]:
            keep_late(run, max(0, question.round - 1), "beta", b"\x01")
            yield Delivery("alpha", ClientStats(buffered=1), body)

        federate(run, ask, clock=lambda: 0.0)
        assert all(not r.excluded and not r.late for r in run.results())


def test_both_ledgers_name_the_same_late_vote(tmp_path: Path):
    config = with_settings(experiment(), {"aggregate.late": 1, "run.rounds": 3})
    played = disturbed.play(tmp_path, disturbed.Scene(config, late="beta"))
    ((late,),) = [result.late for result in played.results if result.late]
    verdicts = {path.parent.name: verify_ledger(path) for path in ledgers_in(tmp_path)}
    assert all(verdict.finding is None for verdict in verdicts.values())
    told = {e.round: e.sent for _, e in answer_entries(verdicts["beta"].entries)}
    assert (late.client, late.round, late.adapter) == ("beta", 1, told[1])
