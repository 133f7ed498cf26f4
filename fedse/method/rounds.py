"""The algorithm: what a client does in a round and what the server does, with no framework.

Paper, one round: 1 reset to the global adapter, 2 explore, 3 filter, 4 accumulate, 5 fine-tune,
6 unweighted mean. Everything a step needs is an argument.
"""

from collections.abc import Sequence

from fedse.aggregate.by_block import by_block
from fedse.aggregate.merge import Vote, checked_vote
from fedse.aggregate.variants import State, aggregator_of
from fedse.committed import Exclusion
from fedse.config.schema import Config
from fedse.errors import AdapterRejected
from fedse.events import Emit
from fedse.method.counts import count_episodes, count_groups
from fedse.method.lessons import failures_for, lessons_for, loss_in
from fedse.method.progress import told_now_and_then
from fedse.method.role_counts import count_roles
from fedse.method.rollout import choose_games, require_sound
from fedse.method.select import select_lessons
from fedse.method.site import Answer, Merged, Site, course_in
from fedse.seeds import seed_of
from fedse.types import Adapter, ClientUpdate, Trajectory


def client_round(
    current: Adapter, site: Site, config: Config, *, round: int, emit: Emit
) -> ClientUpdate:
    """Play with the global adapter, keep what worked, learn from all that ever worked."""
    started = site.timer()
    seed = seed_of(config.run.seed, site.client, round)
    played = explore(current, site, config, round=round, seed=seed, emit=emit)
    chosen = select_lessons(played, site, config, round=round)
    site.buffer.add(chosen, experiment=config.run.name)
    lessons = lessons_for(site.buffer, played, config, round=round)
    explored = site.timer()

    emit("train.started", client=site.client, round=round, lessons=len(lessons))
    train, course = config.train_in(round), course_in(config, site.client, round)
    failures = failures_for(site.buffer, config, round=round, lessons=len(lessons))
    given = [*lessons, *failures] if failures else lessons
    # Where noise hides what was learned, it must also hide whether there was anything to learn.
    learns = len(lessons) > 0 or config.privacy.on
    fitted = site.fit(current, given, train, seed, course) if learns else None
    learned = {
        "added": site.buffer.added(config.run.name, round),
        "buffered": len(lessons),
        "loss": fitted.loss if fitted else None,
        "steps": fitted.steps if fitted else 0,
        "rollout_seconds": explored - started,
        "train_seconds": site.timer() - explored,
    }
    counted = count_episodes(played, new_tokens=config.rollout.new_tokens)
    compared = count_groups(played) if loss_in(config, round).fresh else {}
    acted = count_roles(played, fitted, config.roles)
    stats = counted.model_copy(update={**learned, **compared, **acted})
    return ClientUpdate(stats, fitted.adapter if fitted else None)


def explore(
    current: Adapter, site: Site, config: Config, *, round: int, seed: int, emit: Emit
) -> list[Trajectory]:
    """The episodes of this round, played by the global adapter on the client's training tasks."""
    settings = config.rollout
    episodes = config.episodes_in(round)
    emit("rollout.started", client=site.client, round=round, episodes=episodes)

    def tell(played: int, won: int, turn: int) -> None:
        client = site.client
        emit("rollout.progress", client=client, round=round, played=played, won=won, turn=turn)

    group = loss_in(config, round).group
    # Where noise hides a unit, nothing else may differ without it.
    apart = config.privacy.on
    games = choose_games(site.tasks("train"), episodes, seed=seed, group=group, apart=apart)
    played = site.play(
        games,
        site.make_env,
        site.make_policy(current, settings.temperature),
        round=round,
        batch=settings.batch,
        max_turns=settings.max_turns,
        seed=seed,
        progress=told_now_and_then(tell, site.timer),
    )
    require_sound(played, hint=site.check)
    return played


def server_round(
    current: Adapter, answers: Sequence[Answer], config: Config, *, moments: State = ()
) -> Merged:
    """The next global adapter; no bit of it depends on the order or on who was excluded."""
    votes: list[Vote] = []
    excluded: list[Exclusion] = []
    settings = config.aggregate
    for client, stats, read, late, blocks in answers:
        if read is None:
            continue
        weight = late.weight if late else 1.0
        try:
            vote = checked_vote(client, read, stats.buffered, current, settings, weight)
            votes.append(vote._replace(blocks=blocks))
        except AdapterRejected as rejection:
            excluded.append(Exclusion(client=client, kind="rejected", reason=str(rejection)))
    aggregator = by_block(aggregator_of(settings))
    return Merged(
        *aggregator.apply(current, votes, moments or aggregator.init(current.spec)),
        voters=tuple(sorted(vote.client for vote in votes)),
        abstained=tuple(sorted(answer.client for answer in answers if answer.read is None)),
        excluded=tuple(sorted(excluded, key=lambda exclusion: exclusion.client)),
        blocks={vote.client: vote.blocks for vote in votes if vote.blocks},
    )
