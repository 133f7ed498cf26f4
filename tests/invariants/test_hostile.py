"""One hostile client of five: no run dies, nothing of it is merged, it is named, then locked out.

docs/results/hostile.json holds the same payloads against stock Flower FedAvg.
"""

import hashlib
import json
import math
import sys
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from tests.needs import needs

needs("flwr")

from fedse.aggregate.validate import cap_lessons, load_checked, parse_adapter, shrink_to_bound
from fedse.committed import RoundResult
from fedse.config.aggregation import AggregateSection
from fedse.drivers.loop import federate
from fedse.errors import AdapterRejected, RunError
from fedse.events import silent
from fedse.flower.messages.wire import REPLY
from fedse.protocol import Delivery, Question
from fedse.site.answer import serve
from fedse.testing import open_toy_site, toy_adapter
from fedse.types import Adapter, ClientStats
from tests.hostile import (
    AGGREGATES,
    LEGAL,
    MAX_NORM,
    NAMES,
    OFFENDER,
    PAYLOADS,
    SPEC,
    START,
    Change,
    bytes_of,
    config,
    fates,
    honest,
    metric,
    open_run,
    play,
)

RESULTS = Path(__file__).parents[2] / "docs" / "results" / "hostile.json"
BYTES = {
    name: data
    for name, payload in PAYLOADS.items()
    if (data := bytes_of(payload, honest(START, OFFENDER, 1))) is not None
}
NAN, GARBAGE = PAYLOADS["one NaN"].ours, PAYLOADS["noise"].ours


@pytest.fixture(autouse=True)
def task_identity(monkeypatch: pytest.MonkeyPatch) -> None:
    """Flower makes messages only inside one of its tasks."""
    from flwr.supercore.task_identity import TaskIdentity

    for name in ("_run_id", "_node_id", "_task_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)


# Each value of each setting is in one of the quick ones: the default, and its opposite.
QUICK = {"mean, clip median, step 1", "weighted, clip none, step 3"}
EACH_AGGREGATE = [
    pytest.param(aggregate, id=name, marks=() if name in QUICK else pytest.mark.slow)
    for name, aggregate in AGGREGATES.items()
]


@pytest.mark.parametrize("aggregate", EACH_AGGREGATE)
def test_a_payload_is_excluded_named_and_leaves_no_bit(aggregate: AggregateSection, tmp_path: Path):
    fate = fates(aggregate, tmp_path)
    assert len(fate) >= 60
    assert {name: f for name, f in fate.items() if f.outcome != "excluded"} == {}
    assert all("patient" not in f.reason for f in fate.values())
    struck = {name: f.reason.startswith("rejected: ") for name, f in fate.items()}
    assert struck == {name: payload.strike for name, payload in PAYLOADS.items()}
    assert not hasattr(sys, "pickle_ran")


def test_the_published_table_is_of_these_payloads():
    rows = json.loads(RESULTS.read_text())["rows"]
    assert [row["payload"] for row in rows] == list(PAYLOADS)
    for row in rows:
        assert row["fedse"] == dict.fromkeys(AGGREGATES, "excluded")
        assert ("flower, last" in row) == (PAYLOADS[row["payload"]].stock is not None)


@pytest.mark.parametrize("kind", BYTES)
def test_a_client_refuses_it_too_and_does_no_work(kind: str, tmp_path: Path):
    settings = config(AggregateSection(), rounds=1).model_copy(update={"clients": (one_client(),)})
    site = open_toy_site(settings, OFFENDER, tmp_path, clock=lambda: 0.0)
    data = BYTES[kind]
    request = Question(
        experiment="toy", round=1, agreed=settings.agreed_digest(), spec=SPEC.identity,
        adapter=hashlib.sha256(data).hexdigest(), kind="train", evaluate=False,
    )  # fmt: skip
    with pytest.raises(AdapterRejected):
        serve(request, data, site, settings, emit=silent)
    assert len(site.buffer) == 0
    site.buffer.close()


def one_client():
    client = config(AggregateSection(), rounds=1).client(OFFENDER)
    return client.model_copy(update={"env": "fedse.testing:CoinWorld"})


def always(change: Change) -> Callable[[int], Change | None]:
    return lambda round: change


def in_rounds(*rounds: int) -> Callable[[int], Change | None]:
    return lambda round: NAN if round in rounds else None


def results(folder: Path, aggregate: AggregateSection, spoil, *, rounds: int = 6, **options):
    with closing(open_run(folder, aggregate, rounds=rounds)) as run:
        play(run, spoil, **options)
        return list(run.results())


def reasons(found: Iterable[RoundResult], client: str = OFFENDER) -> list[str]:
    """The kind of exclusion in each round, empty where the client was not excluded."""
    return [{e.client: e.kind for e in r.excluded}.get(client, "") for r in found]


# Bad advice within the rules.


@pytest.mark.parametrize("aggregate", AGGREGATES.values(), ids=AGGREGATES.keys())
@pytest.mark.parametrize("kind", LEGAL)
def test_bad_advice_within_the_rules_ends_no_run(
    kind: str, aggregate: AggregateSection, tmp_path: Path
):
    change = LEGAL[kind].ours
    found = results(tmp_path, aggregate, lambda round: change if round == 1 else None, rounds=3)
    assert reasons(found) == ["", "", ""]
    silent_one = kind == "lessons claimed and no adapter"
    assert found[0].abstained == ((OFFENDER,) if silent_one else ())
    assert [len(r.voters) for r in found] == [4 if silent_one else 5, 5, 5]
    assert all(r.drift and math.isfinite(r.drift.merge_error) for r in found)


def test_clipping_bounds_bad_advice_and_the_plain_mean_does_not(tmp_path: Path):
    """What remains is said, not hidden: within the bound the paper's mean can be dragged away."""
    moved = {}
    for clip in ("none", "median"):
        aggregate = AggregateSection(clip=clip)
        spoil = always(LEGAL["a thousand times the adapter"].ours)
        (first,) = results(tmp_path / clip, aggregate, spoil, rounds=1)
        (sound,) = results(tmp_path / f"{clip} sound", aggregate, lambda round: None, rounds=1)
        lengths = [n for c, n in first.drift.length.items() if c != OFFENDER]
        assert first.drift.length[OFFENDER] > 100 * max(lengths)
        with closing(open_run(tmp_path / clip, aggregate, rounds=1)) as run:
            got = run.load(first.after)
        with closing(open_run(tmp_path / f"{clip} sound", aggregate, rounds=1)) as run:
            want = run.load(sound.after)
        moved[clip] = float(np.linalg.norm(got.vector - want.vector)) / max(lengths)
    assert moved["median"] <= 2 / len(NAMES)
    assert moved["none"] > 10


def test_a_claim_of_lessons_weighs_no_more_than_the_experiment_can_have_brought(tmp_path: Path):
    aggregate = AggregateSection(type="weighted")
    settings = config(aggregate, rounds=2)
    most = cap_lessons(2**53, settings, round=2)
    assert most == 12
    claims = {"lie": 2**53, "most": most, "less": most - 1}
    after = {}
    for name, claim in claims.items():
        lie = metric(REPLY, buffered=claim)
        found = results(
            tmp_path / name, aggregate, lambda round, lie=lie: lie if round == 2 else None, rounds=2
        )
        after[name] = found[-1].after
        assert found[-1].stats[OFFENDER].buffered == claim, "what was said stays on record"
    assert after["lie"] == after["most"] != after["less"]


def test_a_merge_beyond_the_bound_is_cut_to_it_and_the_run_goes_on(tmp_path: Path):
    """All replies are sound, but a step of 30 leads out of the bound every next reader checks."""
    aggregate = AggregateSection(clip="none", step=30.0, max_norm=4.0)
    found = results(tmp_path, aggregate, lambda round: None, rounds=4)
    with closing(open_run(tmp_path, aggregate, rounds=4)) as run:
        last = run.load(found[-1].after)
    at = [float(np.linalg.norm(t)) for t in last.tensors().values()]
    assert max(at) == pytest.approx(2.0), "half of the bound is left for the next update"
    assert [r.voters for r in found] == [NAMES] * 4


def test_an_adapter_within_the_bounds_is_not_touched():
    adapter = toy_adapter(SPEC, 3)
    assert shrink_to_bound(adapter, max_norm=MAX_NORM) is adapter
    cut = shrink_to_bound(adapter, max_norm=0.5)
    assert parse_adapter(cut.to_bytes(), SPEC, AggregateSection(max_norm=0.5)).digest == cut.digest
    a, b = (slice(0, 8), slice(8, 14))
    for part in (a, b):
        before, after = adapter.vector[part], cut.vector[part]
        assert after / np.linalg.norm(after) == pytest.approx(before / np.linalg.norm(before))


def test_no_setting_of_the_bound_lets_a_merge_leave_float32():
    vector = np.full(SPEC.size, 1e31, np.float32)
    for max_norm in (1e200, math.inf):
        with pytest.raises(AdapterRejected, match="allowed is 1e"):
            parse_adapter(
                Adapter(SPEC, vector).to_bytes(), SPEC, AggregateSection(max_norm=max_norm)
            )


@pytest.mark.parametrize("other", [None, "text", bytearray(SPEC.nbytes), memoryview(b"x"), [1]])
def test_only_bytes_are_parsed(other: object):
    with pytest.raises(AdapterRejected, match="not bytes"):
        parse_adapter(other, SPEC, AggregateSection())


# Quarantine.


def test_three_strikes_and_the_run_is_as_if_the_client_were_not_there(tmp_path: Path):
    with_it = results(tmp_path / "with", AggregateSection(), always(NAN))
    without = results(tmp_path / "without", AggregateSection(), lambda round: None, silent_after=0)
    assert [r.after for r in with_it] == [r.after for r in without]
    assert reasons(with_it) == ["rejected"] * 3 + ["quarantined"] * 3
    assert all(OFFENDER not in (*r.absent, *r.voters) for r in with_it)
    assert [r.bytes_down // SPEC.nbytes for r in with_it] == [5] * 3 + [4] * 3


def test_a_rejected_reply_leaves_no_figures(tmp_path: Path):
    results(tmp_path, AggregateSection(), always(NAN), rounds=2)
    with closing(open_run(tmp_path, AggregateSection(), rounds=2)) as run:
        assert set(run.evals(0)) == {*NAMES} - {OFFENDER}
    said = (tmp_path / "events.jsonl").read_text().splitlines()
    told = [json.loads(line) for line in said if '"answer.excluded"' in line]
    assert [(e["round"], e["client"]) for e in told] == [(1, OFFENDER), (2, OFFENDER)]


def test_who_is_in_quarantine_is_not_asked_to_work(tmp_path: Path):
    asked: list[int] = []

    def spoil(round: int) -> Change:
        asked.append(round)
        return NAN

    results(tmp_path, AggregateSection(), spoil)
    assert asked == [1, 2, 3]


def test_a_client_in_quarantine_is_not_read_even_if_it_is_sound_again(tmp_path: Path):
    found = results(tmp_path, AggregateSection(), in_rounds(1, 2, 4), rounds=7)
    assert reasons(found) == ["rejected", "rejected", "", "rejected"] + ["quarantined"] * 3
    assert found[2].voters == NAMES
    assert all(OFFENDER not in (*r.voters, *r.stats) for r in found[4:])
    events = [json.loads(line) for line in (tmp_path / "events.jsonl").read_text().splitlines()]
    read = [
        e["round"]
        for e in events
        if e["event"] == "answer.received" and e["client"] == OFFENDER and e["bytes"]
    ]
    assert read == [1, 2, 3, 4]
    measured = {
        e["round"] for e in events if e["event"] == "eval.recorded" if e["client"] == OFFENDER
    }
    assert max(measured) < 4


@pytest.mark.parametrize("stopped", [1, 2, 3, 4])
def test_a_restart_forgets_no_strike(stopped: int, tmp_path: Path):
    whole = results(tmp_path / "whole", AggregateSection(), always(GARBAGE))
    folder = tmp_path / "parts"

    def interrupt(event: str, facts: dict) -> None:
        if event == "aggregate.started" and facts["round"] > stopped:
            raise KeyboardInterrupt

    with (
        closing(open_run(folder, AggregateSection(), rounds=6, observers=[interrupt])) as run,
        pytest.raises(KeyboardInterrupt),
    ):
        play(run, always(GARBAGE))
    assert results(folder, AggregateSection(), always(GARBAGE)) == whole


def test_the_number_of_strikes_is_a_setting(tmp_path: Path):
    never = results(tmp_path / "never", AggregateSection(strikes=0), always(NAN))
    at_once = results(tmp_path / "once", AggregateSection(strikes=1), always(NAN))
    assert reasons(never) == ["rejected"] * 6
    assert reasons(at_once) == ["rejected"] + ["quarantined"] * 5
    assert [r.after for r in never] == [r.after for r in at_once]


NO_STRIKE = [name for name, payload in PAYLOADS.items() if not payload.strike]


@pytest.mark.parametrize("kind", [*NO_STRIKE, "lessons claimed and no adapter"])
def test_failing_or_having_no_vote_is_no_strike(kind: str, tmp_path: Path):
    change = {**PAYLOADS, **LEGAL}[kind].ours
    found = results(tmp_path, AggregateSection(), lambda round: change if round < 5 else None)
    assert [OFFENDER in r.voters for r in found] == [False] * 4 + [True] * 2


def test_being_away_is_no_strike(tmp_path: Path):
    with closing(open_run(tmp_path, AggregateSection(), rounds=4)) as run:
        play(run, lambda round: None, silent_after=0)
    found = results(tmp_path, AggregateSection(), lambda round: None, rounds=6)
    assert [r.absent for r in found] == [(OFFENDER,)] * 4 + [()] * 2


class Listed:
    """Says to every request what the list says, as a driver would."""

    def __init__(self, said: Callable[[Question, Adapter], Iterable[Delivery]]) -> None:
        self._said = said

    def __call__(self, request: Question, body: bytes, *, of=()) -> Iterable[Delivery]:
        return self._said(request, load_checked(lambda: body, SPEC))


def sound(name: str, round: int, current: Adapter) -> Delivery:
    return Delivery(name, ClientStats(played=1), honest(current, name, round).to_bytes())


def test_nobody_is_locked_out_by_another_who_takes_its_name(tmp_path: Path):
    """Where sites are not registered anybody can say a name twice; the first answer counts."""

    def said(request: Question, current: Adapter) -> list[Delivery]:
        told = [sound(name, request.round, current) for name in NAMES]
        return [
            *told,
            Delivery(NAMES[0], ClientStats(), b"garbage"),
            Delivery("x", ClientStats(), b""),
        ]

    with closing(open_run(tmp_path, AggregateSection(), rounds=6)) as run:
        federate(run, Listed(said), clock=lambda: 0.0)
        told = [(r.voters, {e.client for e in r.excluded}) for r in run.results()]
        assert told == [(NAMES, {NAMES[0], "x"})] * 6


def test_too_few_sound_clients_still_end_the_run(tmp_path: Path):
    aggregate = AggregateSection(min_clients=5)
    with (
        closing(open_run(tmp_path, aggregate, rounds=2)) as run,
        pytest.raises(RunError, match=r"4 valid answers, aggregate\.min_clients is 5"),
    ):
        play(run, always(NAN))


def test_the_last_evaluation_neither_waits_for_nor_hears_who_is_in_quarantine(tmp_path: Path):
    asked: list[int] = []

    def said(request: Question, current: Adapter) -> list[Delivery]:
        asked.append(request.round)
        told = ClientStats(eval_played=4, eval_succeeded=1)
        bad = Delivery(OFFENDER, told, START.to_bytes()[:-1] if request.trains else None)
        return [bad, *(Delivery(n, told, None) for n in NAMES if n != OFFENDER)]

    for _ in range(2):
        with closing(open_run(tmp_path, AggregateSection(), rounds=4)) as run:
            federate(run, Listed(said), clock=lambda: 0.0)
            assert set(run.evals(4)) == set(NAMES) - {OFFENDER}
    assert asked == [1, 2, 3, 4, 5]
