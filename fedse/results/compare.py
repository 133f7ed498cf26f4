"""What each arm of an experiment achieved, compared with the first one.

Two arms are compared game by game where both played the same ones and those are on this machine;
otherwise by their counts, and the reason is stated.
"""

from collections.abc import Mapping, Sequence
from math import isfinite, nan, sqrt
from pathlib import Path
from typing import NamedTuple

from fedse.errors import StoreError
from fedse.results.arms import Arm, arms_of, method_digest
from fedse.results.held_out import (
    HeldOutGame,
    counts,
    evaluated_round,
    evaluations,
    games,
    require_same_games,
)
from fedse.stats.paired import (
    Difference,
    Differences,
    blocks_by_group,
    discordant_share,
    holm,
    paired_differences,
    two_proportions,
)
from fedse.stats.rates import Mean, Rate, by_env, macro, micro, newcombe
from fedse.stats.verdict import POWER, ComparisonVerdict, p_text, smallest_detectable, verdict_of

WORDS = {ComparisonVerdict.HIGHER: "better", ComparisonVerdict.LOWER: "worse"}

Played = Mapping[str, Sequence[HeldOutGame]]
Pair = tuple[Played, Played]


class ArmResult(NamedTuple):
    """What one arm achieved."""

    arm: Arm
    rounds: tuple[int, ...]
    """The round after which each run was measured."""
    envs: dict[str, Rate]
    all: Rate
    mean: Mean


class Contrast(NamedTuple):
    """One arm minus the reference."""

    arm: Arm
    unpaired: str
    """Why only counts could be compared; empty = compared game by game."""
    games: int
    seeds: int
    found: Differences
    discordant: float | None
    """The share of games in which only one of the two succeeded; None = unpaired."""
    p: float
    p_holm: float
    detectable: float
    """The smallest difference that this many games reveal 4 times out of 5; inf = none."""

    @property
    def verdict(self) -> str:
        """`better`, `worse` or `no difference found`."""
        return WORDS.get(verdict_of(self.found.micro, self.p_holm), ComparisonVerdict.NONE.value)


class Comparison(NamedTuple):
    """All arms, the reference first."""

    results: list[ArmResult]
    contrasts: list[Contrast]
    notes: list[str]


def scope(comparison: Comparison) -> str:
    """What the intervals are about."""
    if all(contrast.seeds == 1 for contrast in comparison.contrasts):
        return "One seed: this compares adapters. To compare methods, add runs: --set run.seed=1"
    if any(contrast.unpaired for contrast in comparison.contrasts):
        return "By counts, intervals are over games only; differences between seeds are left out."
    return "Intervals of success are over games, those of differences over games and seeds."


def compare(paths: Sequence[Path], *, round: int | None = None) -> Comparison:
    """Every arm of these runs, and each of the others against the first."""
    arms, notes = _comparable(arms_of(paths))
    if len({method_digest(arm.config) for arm in arms}) == 1:
        notes += ["all have the same settings, so each run is compared separately"]
    measured = {run: counts(run, round) for arm in arms for run in arm.runs.values()}
    clients, lost = _common(arms, measured)
    notes += [f"left out, not measured in all runs: {', '.join(lost)}"] if lost else []
    results = [_result(arm, measured, clients, round) for arm in arms]
    notes += _unequal_rounds(results)
    contrasts = [_contrast(result, results[0], clients, round) for result in results[1:]]
    adjusted = holm({contrast.arm.label: contrast.p for contrast in contrasts})
    contrasts = [
        contrast._replace(
            p_holm=adjusted[contrast.arm.label],
            detectable=_detectable(contrast, results[0], len(contrasts)),
        )
        for contrast in contrasts
    ]
    return Comparison(results, contrasts, notes)


def _unequal_rounds(results: Sequence[ArmResult]) -> list[str]:
    """A note if arms were measured after different numbers of rounds."""
    after = {result.arm.label: sorted({*result.rounds}) for result in results}
    if len({*map(tuple, after.values())}) == 1:
        return []
    told = ", ".join(f"{label} {'/'.join(map(str, rounds))}" for label, rounds in after.items())
    note = f"measured after different numbers of rounds, so more than the method differs: {told}"
    unfinished = [
        str(run)
        for result in results
        for run, last in zip(result.arm.runs.values(), result.rounds, strict=True)
        if last < result.arm.config.run.last
    ]
    runs = [run for result in results for run in result.arm.runs.values()]
    common = max(set.intersection(*({*evaluations(run)} for run in runs)), default=0)
    todo = [f"all after round {common}: --round {common}"] if common else []
    todo += [f"continue the one that is behind: fedse resume {run}" for run in unfinished[:1]]
    return ["; ".join([note, *todo])]


def _comparable(arms: list[Arm]) -> tuple[list[Arm], list[str]]:
    """Only the seeds every arm has, if there are any, and a note on what was left out."""
    common = set.intersection(*(set(arm.runs) for arm in arms))
    extra = sorted({seed for arm in arms for seed in arm.runs} - common)
    if not common or not extra:
        return arms, []
    kept = [arm._replace(runs={s: p for s, p in arm.runs.items() if s in common}) for arm in arms]
    return kept, [f"left out, not run by every arm: seed {', '.join(map(str, extra))}"]


def _common(
    arms: Sequence[Arm], measured: Mapping[Path, Mapping[str, Rate]]
) -> tuple[list[str], list[str]]:
    """Clients measured in the same environment in every run, and the others."""
    of_runs = [
        {(c.name, c.env) for c in arm.config.clients if c.name in measured[run]}
        for arm in arms
        for run in arm.runs.values()
    ]
    common = sorted(name for name, _ in set.intersection(*of_runs))
    if not common:
        raise StoreError("these runs have no client in common that was measured in all of them")
    return common, sorted({name for clients in of_runs for name, _ in clients} - {*common})


def _result(
    arm: Arm, measured: Mapping[Path, Mapping[str, Rate]], clients: list[str], round: int | None
) -> ArmResult:
    client_rates = {
        client: micro([measured[run][client] for run in arm.runs.values()]) for client in clients
    }
    envs = by_env(client_rates, arm.config)
    rounds = tuple(evaluated_round(run, round) for run in arm.runs.values())
    return ArmResult(arm, rounds, envs, micro(list(envs.values())), macro(list(envs.values())))


def _contrast(
    result: ArmResult, reference: ArmResult, clients: list[str], round: int | None
) -> Contrast:
    seeds = len(result.arm.runs)
    try:
        pairs = _pairs(result.arm, reference.arm, clients, round)
    except StoreError as error:
        differences, why, split = _unpaired(result, reference), str(error), None
    else:
        env_of = {client.name: client.env for client in result.arm.config.clients}
        mine, theirs = (
            blocks_by_group([_won(pair[side]) for pair in pairs], env_of) for side in (0, 1)
        )
        differences, why = paired_differences(mine, theirs, seed=0), ""
        split = discordant_share(mine, theirs)
    n, p = result.all.n, differences.micro.p
    return Contrast(result.arm, why, n, seeds, differences, split, p, nan, nan)


def _pairs(arm: Arm, reference: Arm, clients: list[str], round: int | None) -> list[Pair]:
    """For every seed, the games both played; a StoreError if they are not available."""
    if arm.runs.keys() != reference.runs.keys():
        raise StoreError(f"{arm.label} and {reference.label} share no seed")
    pairs: list[Pair] = []
    for seed in sorted(arm.runs):
        runs = (arm.runs[seed], reference.runs[seed])
        mine, theirs = ({c: games(run, round)[c] for c in clients} for run in runs)
        require_same_games(mine, theirs, names=(runs[0].name, runs[1].name))
        pairs.append((mine, theirs))
    return pairs


def _won(played: Played) -> dict[str, list[bool]]:
    return {client: [game.success for game in own] for client, own in played.items()}


def _unpaired(result: ArmResult, reference: ArmResult) -> Differences:
    envs = {env: _of_counts(result.envs[env], reference.envs[env]) for env in result.envs}
    mine, theirs = result.mean, reference.mean
    # The limits of two means put together as Newcombe does for two rates.
    below = sqrt((mine.value - mine.interval.low) ** 2 + (theirs.interval.high - theirs.value) ** 2)
    above = sqrt((mine.interval.high - mine.value) ** 2 + (theirs.value - theirs.interval.low) ** 2)
    value = mine.value - theirs.value
    mean = Difference(value, value - below, value + above, nan)
    return Differences(envs, _of_counts(result.all, reference.all), mean)


def _of_counts(a: Rate, b: Rate) -> Difference:
    return Difference(a.value - b.value, *newcombe(*a, *b), two_proportions(*a, *b))


def _detectable(contrast: Contrast, reference: ArmResult, comparisons: int) -> float:
    return smallest_detectable(
        contrast.found.micro,
        games=min(contrast.games, reference.all.n),
        rate=reference.all.value,
        discordant=contrast.discordant,
        seeds=contrast.seeds,
        comparisons=comparisons,
    )


def sentence(contrast: Contrast, mine: str, first: str, count: int) -> str:
    """The result over all games, in words."""
    value, low, high, p = contrast.found.micro
    sure = f"p {p_text(p)}" + (
        f", {p_text(contrast.p_holm)} for {count} comparisons (Holm)" if count > 1 else ""
    )
    if contrast.verdict != "no difference found":
        near, far = sorted((abs(low), abs(high)))
        by = f"{abs(value):.2f} ({near:.2f} to {far:.2f})"
        return f"{mine} is {contrast.verdict} than {first} by {by}, {sure}."
    span, often = f"{value:+.2f} ({low:+.2f} to {high:+.2f})", f"{POWER * 5:.0f} times in 5"
    verdict = f"No difference found between {mine} and {first}: {span}, {sure}."
    if not isfinite(contrast.detectable):
        return f"{verdict} So few games or seeds would show no difference {often}."
    least = f"{contrast.detectable:.2f}"
    return f"{verdict} One of {least} or more would be found {often}, smaller ones may be missed."
