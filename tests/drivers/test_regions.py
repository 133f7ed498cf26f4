"""Regions: whatever the partition, the adapter is that of one coordinator; a liar loses its own."""

import json
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedse.adapters.base import initial_adapter
from fedse.aggregate.exact import Planes
from fedse.aggregate.merge import Vote
from fedse.aggregate.region_report import (
    RegionReport,
    ReportedVote,
    SumRequest,
    report_to_bytes,
    with_line,
    without_line,
)
from fedse.committed import RoundResult
from fedse.config.methods import with_settings
from fedse.config.schema import Config
from fedse.drivers import region as region_module
from fedse.drivers import region_votes as votes_module
from fedse.drivers.local import InProcess
from fedse.drivers.loop import federate
from fedse.drivers.round import OpenRound
from fedse.drivers.run import run_local
from fedse.drivers.stages import introduce
from fedse.errors import ConfigError
from fedse.faults import Fault
from fedse.ledger.verifying import ledgers_in, verify_ledger
from fedse.protocol import Question, SiteReply
from fedse.site.rules import RuleRefusal
from fedse.store import region_answers as answers_module
from fedse.store.files import write_durably
from fedse.store.run import Run
from fedse.testing import open_toy_site
from fedse.types import Adapter, ClientStats
from tests.needs import needs
from tests.toys.federation import NAMES, SPEC, first_request
from tests.toys.regions import Cut, Partition, Tree, above_config, clock

needs("cryptography")

PARTITIONS: dict[str, Partition] = {
    "two regions": {"north": NAMES[:2], "south": NAMES[2:]},
    "three regions": {"north": NAMES[:1], "west": NAMES[1:3], "south": NAMES[3:]},
    "one region": {"all": NAMES},
    "a region and sites": {"north": NAMES[:3], "": NAMES[3:]},
}


def one_coordinator(path: Path, config: Config, *, names: Sequence[str]) -> list[RoundResult]:
    """What all sites come to without any region."""
    sites = [{"name": name, "env": "fedse.testing:CoinWorld"} for name in names]
    rules = {**config.aggregate.model_dump(), "regions": {}}
    flat = Config.model_validate({**config.model_dump(), "aggregate": rules, "clients": sites})
    with (
        closing(Run(path, flat, SPEC, clock=clock)) as run,
        closing(InProcess(run, clock, open_toy_site)) as ask,
    ):
        introduce(flat, path, {site: path / "clients" / site for site in names})
        federate(run, ask, clock=clock)
        return list(run.results())


@pytest.mark.parametrize("partition", PARTITIONS.values(), ids=PARTITIONS)
@pytest.mark.parametrize(
    "rule",
    [{"clip": "none"}, {"clip": "median"}, {"clip": "median", "type": "weighted", "step": 2.0}],
    ids=["none", "median", "weighted"],
)
def test_any_partition_gives_the_digest_of_one_coordinator(
    tmp_path: Path, partition: Partition, rule: dict[str, object]
):
    config = above_config(partition, **rule)
    whole = one_coordinator(tmp_path / "flat", config, names=NAMES)
    results = Tree(tmp_path, config, partition).run()
    assert [one.after for one in results] == [one.after for one in whole]
    counted = {site for one in results[-1].regions for site in one.sites}
    assert counted | {*partition.get("", ())} == {*NAMES}
    evaluated = sum(one.eval_played for one in results[-1].stats.values())
    assert evaluated == sum(one.eval_played for one in whole[-1].stats.values())


@pytest.mark.parametrize("clip", ["none", "median"])
def test_where_one_factor_rests_only_the_other_travels(tmp_path: Path, clip: str):
    partition = PARTITIONS["two regions"]
    config = with_settings(above_config(partition, clip=clip), {"train.factors": "b"})
    whole = one_coordinator(tmp_path / "flat", config, names=NAMES)
    results = Tree(tmp_path, config, partition).run()
    assert [one.after for one in results] == [one.after for one in whole]
    resting = Tree(tmp_path / "both", above_config(partition, clip=clip), partition).run()
    assert results[0].bytes_up < resting[0].bytes_up


SIX = (*NAMES, "zeta")


@pytest.mark.parametrize("factors", ["both", "b"])
def test_secure_sums_of_regions_give_the_digest_of_one_secure_sum(tmp_path: Path, factors: str):
    needs("Crypto")
    partition = {"north": SIX[:3], "south": SIX[3:]}
    config = above_config(partition, secure=True, clip="none", step=2.0)
    config = with_settings(config, {"train.factors": factors})
    whole = one_coordinator(tmp_path / "flat", config, names=SIX)
    results = Tree(tmp_path, config, partition).run()
    assert [one.after for one in results] == [one.after for one in whole]
    assert whole[0].before != whole[0].after
    assert all(len(one.sites) == 3 for result in results for one in result.regions)


def test_a_secure_sum_that_is_too_long_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    needs("Crypto")
    partition = {"north": SIX[:3], "south": SIX[3:]}
    config = above_config(partition, secure=True, clip="none", strikes=0)
    honest = region_module.sum_of

    def far(r: OpenRound, votes: Sequence[ReportedVote], bound: float | None) -> bytes:
        total = np.frombuffer(honest(r, votes, bound), "<u4").copy()
        total[0] += (2**30) * (votes[0].client == SIX[0])
        return total.tobytes()

    monkeypatch.setattr(region_module, "sum_of", far)
    for result in Tree(tmp_path, config, partition).run():
        (named,) = result.excluded
        assert (named.client, named.kind, result.voters) == ("north", "rejected", ("south",))
        assert "keep to the bound" in named.reason


@pytest.mark.parametrize("episodes", [0, 4], ids=["told", "measured"])
def test_every_ledger_verifies_and_names_every_vote(tmp_path: Path, episodes: int):
    partition = PARTITIONS["two regions"]
    results = Tree(tmp_path, above_config(partition, episodes=episodes), partition).run()
    paths = [p for one in ("root", "north/run", "south/run") for p in ledgers_in(tmp_path / one)]
    paths += [p for region in ("north", "south") for p in ledgers_in(tmp_path / region / "above")]
    verdicts = {path: verify_ledger(path) for path in paths}
    assert [(path, one.finding) for path, one in verdicts.items() if one.finding] == []
    for region in ("north", "south"):
        with Run(tmp_path / region / "run", above_config(partition), SPEC, clock=clock) as below:
            own = list(below.results())
        assert [one.after for one in own] == [one.after for one in results]
        signed = verdicts[tmp_path / region / "above" / "ledger.jsonl"].entries
        assert len(signed) == 1 + len(results), "the question that came again has no second line"
        for result, line in zip(results, signed[1:], strict=True):
            (votes,) = [one for one in result.regions if one.region == region]
            assert (votes.line, votes.sum, votes.sites) == (
                line.hash,
                line.facts["sum"],
                tuple(partition[region]),
            )


@pytest.mark.parametrize("missed", [[1], [2], [1, 2], [2, 3], [4]], ids=str)
def test_a_region_that_was_away_goes_on_where_the_others_are(tmp_path: Path, missed: list[int]):
    """Its own record has every round; those it did not hear of have no voters."""
    partition = PARTITIONS["two regions"]
    config = with_settings(above_config(partition), {"run.rounds": 4})
    results = Tree(tmp_path, config, partition).run(away=[("north", round) for round in missed])
    present = [("north" in one.voters) for one in results]
    assert present == [round not in missed for round in range(1, 5)]
    with closing(Run(tmp_path / "north" / "run", config, SPEC, clock=clock)) as below:
        own = list(below.results())
    assert [bool(one.voters) for one in own] == present
    assert own[-1].after == results[-1].after
    assert verify_ledger(tmp_path / "north" / "run" / "ledger.jsonl").finding is None


Lie = Callable[[Question, SiteReply], SiteReply]


def tampered(change: Callable[[np.ndarray], None]) -> Lie:
    def lie(question: Question, reply: SiteReply) -> SiteReply:
        if question.kind != "sum" or not reply.adapter:
            return reply
        line, total = without_line(reply.adapter)
        numbers = np.frombuffer(total, "<f8").copy()
        change(numbers)
        return reply._replace(adapter=with_line(line, numbers.tobytes()))

    return lie


def reported(change: Callable[[RegionReport], RegionReport]) -> Lie:
    def lie(question: Question, reply: SiteReply) -> SiteReply:
        if question.kind != "train" or not reply.adapter:
            return reply
        told = RegionReport.model_validate_json(reply.adapter)
        return reply._replace(adapter=report_to_bytes(change(told)))

    return lie


def more_votes(told: RegionReport) -> RegionReport:
    last = told.votes[-1]
    more = [last.model_copy(update={"client": f"z{i}"}) for i in range(9)]
    return told.model_copy(update={"votes": (*told.votes, *more)})


def twice(told: RegionReport) -> RegionReport:
    return told.model_copy(update={"votes": (*told.votes[:1], *told.votes[:1])})


def one_fewer(told: RegionReport) -> RegionReport:
    return told.model_copy(update={"votes": told.votes[:1]})


def other_key(told: RegionReport) -> RegionReport:
    return told.model_copy(update={"key": "ab" * 32})


def is_late(question: Question, reply: SiteReply) -> SiteReply:
    return SiteReply(ClientStats()) if question.kind == "sum" else reply


LIES: dict[str, tuple[Lie, str]] = {
    "another sum": (tampered(lambda numbers: numbers.__iadd__(1e-3)), "signed another sum"),
    "more votes": (reported(more_votes), "aggregate.regions allows it 2"),
    "one twice": (reported(twice), "names a site twice"),
    "fewer votes": (reported(one_fewer), "signed another sum"),
    "another key": (reported(other_key), "not signed with its key"),
    "away": (is_late, "left before its sum arrived"),
    "text": (lambda q, r: r._replace(adapter=b"ward 7") if q.trains else r, "cannot be read"),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_liar_loses_its_own_votes_and_is_named(tmp_path: Path, lie: str):
    """The result is the one without that region, bit for bit."""
    tell, reason = LIES[lie]
    partition = PARTITIONS["two regions"]
    config = above_config(partition, strikes=0)

    def between(region: str, question: Question, reply: SiteReply) -> SiteReply | None:
        return tell(question, reply) if region == "north" else reply

    def absent(region: str, question: Question, reply: SiteReply) -> SiteReply | None:
        return None if region == "north" else reply

    results = Tree(tmp_path / "lie", config, partition).run(between)
    without = Tree(tmp_path / "without", config, partition).run(absent)
    assert [one.after for one in results] == [one.after for one in without]
    for result in results:
        (named,) = result.excluded
        assert named.client == "north"
        assert reason in named.reason
        assert result.voters == ("south",)


def test_a_region_that_signs_its_lie_has_the_influence_of_its_sites_at_most(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    partition = PARTITIONS["two regions"]
    config = above_config(partition, strikes=0)
    honest = votes_module.regional_sum

    def far(current: Adapter, votes: Sequence[Vote], **rules: Any) -> Planes:
        planes = honest(current, votes, **rules)
        return [planes[0] + 1.0, *planes[1:]] if len(votes) == 2 else planes

    monkeypatch.setattr(votes_module, "regional_sum", far)
    for result in Tree(tmp_path, config, partition).run():
        (named,) = result.excluded
        assert (named.client, named.kind) == ("north", "rejected")
        assert "no vote may be farther than" in named.reason


def test_a_region_that_is_cut_off_at_every_step_once_gives_the_same_adapter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Every event and every durable write of every round, before and after it."""
    partition = PARTITIONS["two regions"]
    config = above_config(partition, rejoin=0)
    calm = Tree(tmp_path / "calm", config, partition).run()
    met = set[tuple[str, str, str]]()

    def cut(*where: str) -> None:
        if where not in met:
            met.add(where)
            raise Cut

    def write_and_die(target: Path, data: bytes, **how: Any) -> None:
        is_open = target.name == answers_module.OPEN
        about = json.loads(data)["request"] if is_open else target.name
        cut("before", target.parent.name, about)
        write_durably(target, data, **how)
        cut("after", target.parent.name, about)

    def emit_and_die(self: Run, event: str, /, **facts: Any) -> None:
        emit(self, event, **facts)
        if self.path.parent.name == "north" and ("client" not in facts or "bytes" in facts):
            cut("north", event, f"{facts.get('round')} {facts.get('client')}")

    emit = Run.emit
    monkeypatch.setattr(answers_module, "write_durably", write_and_die)
    monkeypatch.setattr(Run, "emit", emit_and_die)
    cut_off = Tree(tmp_path / "cut", config, partition).run()
    assert [one.after for one in cut_off] == [one.after for one in calm]
    assert [one.voters for one in cut_off] == [one.voters for one in calm]
    assert {"region.told", "region.summed", "commit.started"} <= {name for _, name, _ in met}
    for region in partition:
        found = [*ledgers_in(tmp_path / "cut" / region / "above")]
        found += ledgers_in(tmp_path / "cut" / region / "run")
        assert [one for path in found if (one := verify_ledger(path).finding)] == []
        signed = verify_ledger(found[0]).entries
        assert len(signed) == 1 + len(calm), "one signed line for each sum, however often it is cut"


def test_there_is_one_sum_for_each_region_that_may_be_lost(tmp_path: Path):
    """Sums at many bounds would tell single votes."""
    tree = Tree(tmp_path, above_config(PARTITIONS["two regions"]), PARTITIONS["two regions"])
    current = initial_adapter(SPEC, seed=tree.config.run.seed)
    train = first_request(tree.config, current)
    asked = train.model_copy(update={"kind": "sum"})
    with tree.region("north") as region:
        assert region.answer(train, current.to_bytes()).adapter
        for bound in (1.0, 0.5, 1.0):
            body = SumRequest(request=train.digest, bound=bound).model_dump_json().encode()
            assert region.answer(asked, body).adapter
        with pytest.raises(RuleRefusal, match="more than 2 sums of round 1") as refused:
            region.answer(asked, body.replace(b"1.0", b"0.7"))
        assert refused.value.exit_code == Fault.OTHER_ROSTER


def test_a_run_on_one_machine_has_no_regions(tmp_path: Path):
    config = above_config(PARTITIONS["two regions"])
    with (
        closing(Run(tmp_path / "run", config, SPEC, clock=clock)) as run,
        pytest.raises(ConfigError, match="this run has only sites"),
    ):
        run_local(run, clock=clock, open_site=open_toy_site)
