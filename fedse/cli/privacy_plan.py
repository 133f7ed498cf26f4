"""`fedse privacy plan`: what a budget buys, before anything is trained."""

import json as json_format
import os
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Annotated, NamedTuple

from cyclopts import Parameter

from fedse.adapters.base import spec_of
from fedse.aggregate.factors import travelling_spec
from fedse.cli.display import Json
from fedse.cli.site_options import opened
from fedse.config.combinable import LEAST_MEMBERS
from fedse.config.file import load_config
from fedse.config.methods import with_settings
from fedse.config.schema import Config
from fedse.errors import ConfigError
from fedse.privacy.advice import advice
from fedse.privacy.measured import (
    ADDED,
    ENOUGH,
    PLENTY,
    RECORDED,
    STEPPED,
    WHERE,
    gain_at,
    signal_at,
)
from fedse.privacy.plan import planned_noise, planned_steps
from fedse.privacy.ratio import (
    honest_left,
    in_one_step,
    of_mean,
    ratio,
    shared_noise,
    sites_for,
)
from fedse.store.buffer import Buffer
from fedse.store.buffer_key import seal_for

SMALL_CLIP = 0.1
"""Below every gradient that was measured: what a shared step is planned with."""


class Forecast(NamedTuple):
    """What is expected of one way to add noise."""

    ratio: float
    """R: the length of the update over that of the noise."""
    gain: tuple[float, float]
    """The share of the gain that was left at this R, by steps with noise and by added noise."""
    sites: tuple[int | None, int | None]
    """From how many such sites on R is at least ENOUGH, and PLENTY."""


class Forecasts(NamedTuple):
    """What these sites and this budget buy, by the way in which noise is added."""

    units: int
    sites: int
    epsilon: float
    steps: int
    noise: float
    """Of each of them, where each site adds its own."""
    signal: float
    """Length of the mean shortened gradient / clip."""
    alone: Forecast
    """Noise at each site; one site's update."""
    mean: Forecast
    """Noise at each site; the mean of all updates."""
    shared: Forecast | None
    """One noise in a secure sum, B only, a small clip; None = too few sites for a sum."""


def plan(
    experiment: Annotated[Path, Parameter(help="An experiment file, or a site's folder.")],
    /,
    *,
    units: Annotated[
        int | None, Parameter(help="Episodes or people per site; a site's folder is counted.")
    ] = None,
    sites: Annotated[int | None, Parameter(help="Default: as in the experiment.")] = None,
    epsilon: Annotated[float | None, Parameter(help="Default: privacy.epsilon.")] = None,
    signal: Annotated[
        float | None,
        Parameter(help="Length of the mean shortened gradient / clip; default: as measured once."),
    ] = None,
    json: Json = False,
) -> None:
    """Show what a privacy budget buys with these sites and episodes, before anything is trained.

    R is the length of what is learned over that of the noise. What R leaves of the gain was
    measured with one model in one world, so read it as an order of size.

    Example: fedse privacy plan my.toml --units 200 --epsilon 8
    """
    config, counted = _read(experiment, units)
    config = with_settings(config, {"privacy.epsilon": epsilon}) if epsilon else config
    if not config.privacy.on:
        raise ConfigError(
            f"{experiment} sets no privacy.epsilon, so no noise is planned",
            hint=f"fedse privacy plan {experiment} --epsilon 8",
        )
    if config.run.open and config.privacy.rounds is None:
        raise ConfigError(
            f"{experiment} has no end, and sets no privacy.rounds for which the budget must last",
            hint="set rounds in [privacy]",
        )
    found = forecast(config, counted, sites or len(config.clients), signal)
    if json:
        print(json_format.dumps(_facts(found)))
    else:
        print("\n".join(_lines(config, found, given=signal is not None)))


def forecast(config: Config, units: int, sites: int, signal: float | None = None) -> Forecasts:
    """What follows from settings and sizes alone."""
    # Noise that each site adds is not that of a step, of which it adds a share.
    config = with_settings(config, {"step.units": 0})
    privacy, whole = config.privacy, spec_of(config)
    own, factor = (
        travelling_spec(whole, config).size,
        travelling_spec(whole, with_settings(config, {"train.factors": "b"})).size,
    )
    steps, noise = planned_steps(config), planned_noise(config)
    agree = signal_at(privacy.clip) if signal is None else signal
    whole_step = in_one_step(noise, rate=privacy.rate, steps=steps)
    single = ratio(units, signal=agree, noise=whole_step, numbers=own)
    mean = partial(of_mean, single)
    alike = signal_at(min(SMALL_CLIP, privacy.clip)) if signal is None else signal

    def shared(members: int) -> float:
        one = shared_noise(privacy.epsilon or 0.0, privacy.delta, sites=members)
        return ratio(units * members, signal=alike, noise=one, numbers=factor)

    summed = _forecast(shared, sites, LEAST_MEMBERS) if sites >= LEAST_MEMBERS else None
    ways = (_forecast(mean, 1), _forecast(mean, sites), summed)
    return Forecasts(units, sites, privacy.epsilon or 0.0, steps, noise, agree, *ways)


def _forecast(at: Callable[[int], float], sites: int, least: int = 1) -> Forecast:
    found = at(sites)
    gain = (gain_at(found, STEPPED), gain_at(found, ADDED))
    enough, plenty = (sites_for(wanted, at, least=least) for wanted in (ENOUGH, PLENTY))
    return Forecast(found, gain, (enough, plenty))


def _read(experiment: Path, units: int | None) -> tuple[Config, int]:
    """The settings, and how many units each site has."""
    if not experiment.is_dir():
        if units is None:
            raise ConfigError(
                "how many episodes a site will have is not in the experiment",
                hint=f"fedse privacy plan {experiment} --units 200",
            )
        return load_config(experiment), units
    home = opened(experiment)
    if units is None and home.config.privacy.unit == "subject":
        raise ConfigError(
            "how many people a buffer is about is not counted here",
            hint=f"fedse privacy plan {experiment} --units PEOPLE",
        )
    seal = seal_for(home.path, home.config.storage, os.environ)
    if units is None:
        with closing(Buffer(home.path / "buffer.db", seal=seal)) as buffer:
            units = len(buffer)
    return home.config, units


def _lines(config: Config, found: Forecasts, *, given: bool) -> Iterator[str]:
    privacy = config.privacy
    yield (
        f"budget   epsilon {found.epsilon:g}, delta {privacy.delta:g}, for {found.steps} "
        f"steps at rate {privacy.rate:g}: noise {found.noise:g}, clip {privacy.clip:g}"
    )
    source = "as given" if given else f"measured with {WHERE}"
    yield f"units    {found.units} {privacy.unit}s at each of {found.sites} sites"
    yield f"signal   {found.signal:.3f} ({source})"
    yield ""
    yield f"{'' if config.step.on else 'now, '}[privacy] at each site"
    yield f"  one site          {_told(found.alone)}"
    yield f"  mean of {found.sites:<9} {_told(found.mean)}"
    yield f"  enough            {_sites(found.mean)}"
    if found.shared:
        left = honest_left(found.sites)
        yield (
            f"one noise shared in a secure sum ([step]), {left} honest sites left, all of the "
            "budget spent, B only, a small clip"
        )
        yield f"  sum of {found.sites:<10} {_told(found.shared)}"
        yield f"  enough            {_sites(found.shared)}"
    else:
        yield f"one noise shared in a secure sum: needs {LEAST_MEMBERS} sites or more"
    yield ""
    yield f"Shares of the gain: {WHERE}."
    (recorded,) = RECORDED
    yield "The smaller is of steps with noise, the larger of noise that is added to the result."
    yield (
        f"Steps with noise at R {recorded:g}: docs/results/private-step.json; below that a "
        "simulation that no command repeats."
    )
    for what, instead in advice(config):
        yield f"note: {what}; {instead}"


def _told(one: Forecast) -> str:
    low, high = (f"{share:.0%}" for share in sorted(one.gain))
    return f"R {one.ratio:.2f}, {low if low == high else f'{low} to {high}'} of the gain"


def _sites(one: Forecast) -> str:
    named = [
        f"{sites or 'too many'} for R {r:g}"
        for sites, r in zip(one.sites, (ENOUGH, PLENTY), strict=True)
    ]
    return f"sites like these: {', '.join(named)}"


def _facts(found: Forecasts) -> dict[str, object]:
    ways = {name: getattr(found, name) for name in ("alone", "mean", "shared")}
    told = {name: way and way._asdict() for name, way in ways.items()}
    return {**found._asdict(), **told, "measured": WHERE}
