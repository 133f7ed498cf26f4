"""A rollout that was interrupted continues where it was: a part played in full is not played again.

A part of a round's games (see `Chunk`) is in the client's own buffer as soon as it is played and
leaves it with the round's answer. It is used again only for the same games of the same round with
the same adapter, randomness, settings, world and version of this program; anything else is played.
"""

from collections.abc import Callable

from fedse._version import __version__
from fedse.config.schema import Config
from fedse.method.rollout import Chunk, Keep
from fedse.store.buffer import Buffer, RolloutPart
from fedse.types import AdapterSpec, Trajectory, digest_of


def keeping_in(buffer: Buffer, config: Config, client: str, spec: AdapterSpec) -> Keep:
    """Each chunk is in `buffer` before the next one begins, and is taken from there if it can be.

    A chunk with a broken episode is not kept: what broke it may be fixed by the next attempt.
    """
    setting = digest_of(_setting(config, client, spec))

    def keep(chunk: Chunk, play: Callable[[], list[Trajectory]]) -> list[Trajectory]:
        part = _part(chunk, config.run.name, setting)
        stored = buffer.part(part)
        if stored is not None:
            return stored
        played = play()
        if all(episode.outcome != "broken" for episode in played):
            buffer.keep_part(part, played)
        return played

    return keep


def _setting(config: Config, client: str, spec: AdapterSpec) -> list[object]:
    """Everything besides the games themselves that decides how a client's games go."""
    world = config.client(client)
    agreed, base = config.agreed_digest(), spec.identity
    # The number of threads can change the last bit of a sum.
    return [__version__, agreed, base, config.engine.type, config.trainer.threads, repr(world)]


def _part(chunk: Chunk, experiment: str, setting: str) -> RolloutPart:
    games = [[game.task.model_dump(mode="json"), game.seed] for game in chunk.games]
    same = [chunk.start, games, chunk.policy, chunk.round, chunk.max_turns, chunk.seed]
    split = chunk.games[0].task.split
    return RolloutPart(experiment, chunk.round, split, chunk.start, digest_of([setting, same]))
