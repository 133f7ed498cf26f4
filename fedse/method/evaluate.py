"""How well adapters do in tasks that are not learned from; counts leave the client, games do not.

The same games are played in every round and by every adapter, so their results compare in pairs.
"""

from functools import partial
from typing import NamedTuple

from fedse.config.schema import Config
from fedse.events import Emit, silent
from fedse.method.personal import is_due, personal_adapter
from fedse.method.progress import told_now_and_then
from fedse.method.rollout import choose_games, require_sound
from fedse.method.site import Site
from fedse.seeds import seed_of
from fedse.types import Adapter, ClientStats, Purpose, Trajectory

PERSONAL = "personal"
"""Ends the name under which a personal adapter's games are on record."""


class Counted(NamedTuple):
    """Games of one adapter for one purpose."""

    played: int
    won: int


def client_eval(
    current: Adapter, site: Site, config: Config, *, round: int, emit: Emit
) -> ClientStats:
    """How often `current`, and the personal adapter made from it, solve what is only reported."""
    started = site.timer()
    emit("eval.started", client=site.client, round=round, episodes=config.eval.episodes)
    test = measure(current, site, config, "test", round=round, emit=emit)
    home = measure(current, site, config, "home", round=round, emit=emit)
    counts = {
        "eval_played": test.played,
        "eval_succeeded": test.won,
        "home_played": home.played,
        "home_succeeded": home.won,
        **personal_eval(current, site, config, round=round, emit=emit),
    }
    return ClientStats(**counts, eval_seconds=site.timer() - started)


def personal_eval(
    current: Adapter, site: Site, config: Config, *, round: int, emit: Emit
) -> dict[str, int]:
    """The client's personal adapter is made from `current`, kept at the client and measured."""
    if not is_due(config, round):
        return {}
    own = personal_adapter(current, site, config, round=round, emit=emit)
    if own is None:
        return {}
    site.keep("global", round - 1, current)
    site.keep(PERSONAL, round - 1, own)
    test = measure(own, site, config, "test", round=round, actor=PERSONAL, emit=emit)
    home = measure(own, site, config, "home", round=round, actor=PERSONAL, emit=emit)
    return {
        "personal_played": test.played,
        "personal_succeeded": test.won,
        "personal_home_played": home.played,
        "personal_home_succeeded": home.won,
    }


def client_validation(
    current: Adapter, site: Site, config: Config, *, round: int, emit: Emit = silent
) -> ClientStats:
    """How often `current` solves the client's tasks that decide about adapters."""
    counted = measure(current, site, config, "validation", round=round, emit=emit)
    return ClientStats(validation_played=counted.played, validation_succeeded=counted.won)


def measure(
    adapter: Adapter,
    site: Site,
    config: Config,
    purpose: Purpose,
    *,
    round: int,
    actor: str = "",
    emit: Emit = silent,
) -> Counted:
    """How many games of this purpose were played, and how many `adapter` won."""
    episodes = _episodes(config, purpose)
    played = play_held_out(
        adapter, site, config, purpose, episodes, round=round, actor=actor, emit=emit
    )
    return Counted(len(played), sum(episode.success for episode in played))


def play_held_out(
    adapter: Adapter,
    site: Site,
    config: Config,
    purpose: Purpose,
    episodes: int,
    *,
    round: int,
    actor: str = "",
    emit: Emit = silent,
) -> list[Trajectory]:
    """So many games of this purpose with `adapter`; none is learned from."""
    if not episodes:
        return []
    tell = partial(_emit_progress, emit, (site.client, round, purpose, episodes))
    tell(0, 0, 0)
    name = ("eval",) if purpose == "test" else ("eval", purpose)
    seed = seed_of(config.run.seed, site.client, *name)
    record = "-".join(word for word in (purpose, actor) if word)
    played = site.play(
        choose_games(site.tasks(purpose), episodes, seed=seed, record=record),
        site.make_env,
        site.make_policy(adapter, config.eval.temperature),
        round=round,
        batch=config.rollout.batch,
        max_turns=config.rollout.max_turns,
        seed=seed,
        progress=told_now_and_then(tell, site.timer),
    )
    require_sound(played, hint=site.check)
    return played


def _emit_progress(
    emit: Emit, who: tuple[str, int, Purpose, int], played: int, won: int, turn: int
) -> None:
    client, round, purpose, episodes = who
    emit(
        "eval.progress",
        client=client,
        round=round,
        purpose=purpose,
        episodes=episodes,
        played=played,
        won=won,
        turn=turn,
    )


def _episodes(config: Config, purpose: Purpose) -> int:
    match purpose:
        case "home":
            return config.eval.home
        case "validation":
            return config.gate.episodes
        case _:
            return config.eval.episodes
