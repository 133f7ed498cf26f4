"""Results of jobs -> a table: every arm's success with its interval, every question's answer.

The file this makes holds every game of every seed, so each figure of the docs is computed from it
and anybody can compute others.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any, NamedTuple

from fedse.stats.gap import GapClosed, gap_closed
from fedse.stats.paired import (
    Blocks,
    Differences,
    blocks_by_group,
    discordant_share,
    holm,
    paired_differences,
)
from fedse.stats.rates import Rate, micro
from fedse.stats.verdict import ComparisonVerdict, smallest_detectable, verdict_of
from fedse.types import Record
from fedse_reproduce.jobs import Found, key_of
from fedse_reproduce.pinned import TABLES
from fedse_reproduce.tables import Gap, Job, Versus

SCHEMA_VERSION = 1
BOOTSTRAP_SEED = 0


class GateCounts(Record):
    """What the gate did in one experiment."""

    rounds: int
    refused: int
    """Rounds in which the adapter of the round before stayed."""
    suspected: dict[str, int]
    """Client -> rounds in which its vote was left out."""


class SeedResult(Record):
    """One arm under one seed; lone clients put together."""

    clients: dict[str, tuple[str, str]]
    """Held-out games before and after, in order: 1 = won."""
    curve: dict[int, dict[str, tuple[int, int]]]
    adapters: dict[str, str]
    """Experiment -> digest of its final adapter."""
    bytes_moved: int
    payload: int
    merge_error: tuple[float, float] | None
    """In the first and in the last round; None where nothing was averaged."""
    cosine: tuple[float, float] | None
    """Mean cosine of an update to the merged one, in the first and in the last round."""
    gate: GateCounts | None = None
    """None = there was no gate."""
    cpu_seconds: float


class TableResult(Record):
    """All that is needed to draw a table."""

    schema_version: int = SCHEMA_VERSION
    table: str
    quick: bool
    worlds: dict[str, dict[str, str]]
    """Arm -> client -> environment."""
    arms: dict[str, dict[int, SeedResult]]
    """Arm -> seed."""
    questions: list[tuple[str, str]]
    config: dict[str, Any]
    """Settings of the first arm; what other arms change is in the names of the methods."""
    versions: dict[str, str]


class Line(NamedTuple):
    """An arm over all its seeds."""

    arm: str
    before: Rate
    after: Rate
    envs: dict[str, Rate]
    macro: float
    megabytes: float
    """Moved per client and round, both ways."""
    cpu_seconds: float
    """Of one seed, on average."""


class AnswerTo(NamedTuple):
    """The answer to a question; differences are `better` minus `worse`."""

    question: Versus
    found: Differences
    p_holm: float
    detectable: float
    """A smaller difference than this would probably have been missed; inf = any."""

    @property
    def verdict(self) -> ComparisonVerdict:
        return verdict_of(self.found.micro, self.p_holm)


def gather(jobs: Sequence[Job], results: Mapping[str, Found]) -> dict[str, dict[int, SeedResult]]:
    """Every arm's seeds, the lone clients of an arm together."""
    parts: dict[tuple[str, int], list[tuple[Job, Found]]] = {}
    for job in jobs:
        parts.setdefault((job.arm, job.seed), []).append((job, results[key_of(job)]))
    arms: dict[str, dict[int, SeedResult]] = {}
    for (arm, seed), done in parts.items():
        arms.setdefault(arm, {})[seed] = _combine(done)
    return arms


def worlds_of(jobs: Sequence[Job]) -> dict[str, dict[str, str]]:
    """Arm -> client -> environment."""
    worlds: dict[str, dict[str, str]] = {}
    for job in jobs:
        worlds.setdefault(job.arm, {}).update({one.name: one.env for one in job.config.clients})
    return worlds


def _combine(parts: Sequence[tuple[Job, Found]]) -> SeedResult:
    results = [part for _, part in parts]
    rounds = sorted({round for part in results for round in part.curve})
    merged = [d for d in results[0].drift if d and len(d.cosine) > 1]
    averaged = merged and not parts[0][0].config.buffer.pooled
    cosines = [sum(d.cosine.values()) / len(d.cosine) for d in merged]
    return SeedResult(
        clients={c: bits for job, part in parts for c, bits in _games(part, job).items()},
        curve={
            round: {c: count for part in results for c, count in part.curve.get(round, {}).items()}
            for round in rounds
        },
        adapters={job.config.run.name: part.adapter for job, part in parts},
        bytes_moved=sum(part.bytes_moved for part in results) if averaged else 0,
        payload=results[0].payload,
        merge_error=(merged[0].merge_error, merged[-1].merge_error) if averaged else None,
        cosine=(cosines[0], cosines[-1]) if averaged else None,
        gate=_gate(results[0]),
        cpu_seconds=round(sum(part.cpu_seconds for part in results), 1),
    )


def _games(found: Found, job: Job) -> dict[str, tuple[str, str]]:
    """Client that counts -> games on the record before and after the rounds of the arm.

    Before the first round only those nobody has are counted, so that arms begin alike.
    """
    by_round = found.games[job.record]
    after = by_round[max(by_round) if job.round is None else job.round]
    before = by_round.get(0, {}) if job.record == "test" else {}
    return {
        client: (before.get(client, ""), games)
        for client, games in after.items()
        if not job.only or client in job.only
    }


def _gate(found: Found) -> GateCounts | None:
    gates = [gate for gate in found.gates if gate]
    if not gates:
        return None
    return GateCounts(
        rounds=len(gates),
        refused=sum(gate.refused for gate in gates),
        suspected=dict(Counter(client for clients in found.suspected for client in clients)),
    )


def lines(result: TableResult) -> list[Line]:
    """The arms in the order of the table."""
    return [_line(result, arm, seeds) for arm, seeds in result.arms.items()]


def _line(result: TableResult, arm: str, seeds: Mapping[int, SeedResult]) -> Line:
    env_of = result.worlds[arm]
    after = _rates(seeds, env_of, last=True)
    rounds = max(round for seed in seeds.values() for round in seed.curve)
    moved = sum(seed.bytes_moved for seed in seeds.values()) / len(seeds) / rounds / len(env_of)
    return Line(
        arm=arm,
        before=micro(list(_rates(seeds, env_of, last=False).values())),
        after=micro(list(after.values())),
        envs=after,
        macro=fmean(rate.value for rate in after.values()),
        megabytes=moved / 1e6,
        cpu_seconds=sum(seed.cpu_seconds for seed in seeds.values()) / len(seeds),
    )


def _rates(
    seeds: Mapping[int, SeedResult], env_of: Mapping[str, str], *, last: bool
) -> dict[str, Rate]:
    bits: dict[str, str] = {}
    for seed in seeds.values():
        for client, games in seed.clients.items():
            env = env_of[client]
            bits[env] = bits.get(env, "") + games[last]
    return {env: Rate(bits[env].count("1"), len(bits[env])) for env in sorted(bits)}


def answers(result: TableResult) -> list[AnswerTo]:
    """Every question with paired intervals over seeds and games, p corrected for their number."""
    questions = [Versus(*pair) for pair in result.questions]
    differences = {question: _difference(result, question) for question in questions}
    p = holm({" ".join(question): differences[question].micro.p for question in questions})
    return [
        AnswerTo(
            question,
            differences[question],
            p[" ".join(question)],
            _detectable(result, question, differences[question], len(questions)),
        )
        for question in questions
    ]


def gaps(result: TableResult) -> dict[Gap, GapClosed]:
    """The gaps of the table whose three arms were done, all games together."""
    asked = [gap for gap in TABLES[result.table].gaps if {*gap} <= {*result.arms}]
    return {
        gap: gap_closed(*(all_games(result, arm) for arm in gap), seed=BOOTSTRAP_SEED)
        for gap in asked
    }


def all_games(result: TableResult, arm: str) -> Blocks:
    """Per seed the games of all clients, one after another."""
    groups = _blocks(result, arm).values()
    return [[won for block in blocks for won in block] for blocks in zip(*groups, strict=True)]


def _difference(result: TableResult, question: Versus) -> Differences:
    better, worse = (_blocks(result, arm) for arm in question)
    return paired_differences(better, worse, seed=BOOTSTRAP_SEED)


def _blocks(result: TableResult, arm: str) -> dict[str, Blocks]:
    seeds = [
        {client: [bit == "1" for bit in after] for client, (_, after) in seed.clients.items()}
        for seed in result.arms[arm].values()
    ]
    return blocks_by_group(seeds, result.worlds[arm])


def _detectable(
    result: TableResult, question: Versus, differences: Differences, questions: int
) -> float:
    better, worse = (_blocks(result, arm) for arm in question)
    seeds = result.arms[question.worse]
    rate = micro([*_rates(seeds, result.worlds[question.worse], last=True).values()])
    return smallest_detectable(
        differences.micro,
        games=rate.n,
        rate=rate.value,
        discordant=discordant_share(better, worse),
        seeds=len(seeds),
        comparisons=questions,
    )


def agrees(got: Rate, expected: Rate) -> bool:
    """Whether the intervals of the two overlap."""
    first, second = got.interval, expected.interval
    return first.low <= second.high and second.low <= first.high
