"""A rollout that was interrupted continues where it was: a part played in full is not played again.

A part of a round's games (see `Chunk`) is in the client's own buffer as soon as it is played and
leaves it with the round's answer. It is used again only for the same games of the same round with
the same adapter, randomness, settings, world and version of this program; anything else is played.
"""

from fedse._version import __version__
from fedse.config.schema import Config
from fedse.method.rollout import Chunk
from fedse.store.buffer import Buffer, RolloutPart
from fedse.types import AdapterSpec, Trajectory, digest_of


class KeepInBuffer:
    """Each chunk is in `buffer` as soon as it is played, and is taken from there if it can be.

    A chunk with a broken episode is not kept: what broke it may be fixed by the next attempt.
    """

    def __init__(self, buffer: Buffer, config: Config, client: str, spec: AdapterSpec) -> None:
        self._buffer, self._experiment = buffer, config.run.name
        self._setting = digest_of(_setting(config, client, spec))

    def stored(self, chunk: Chunk) -> list[Trajectory] | None:
        return self._buffer.part(_part(chunk, self._experiment, self._setting))

    def store(self, chunk: Chunk, played: list[Trajectory]) -> None:
        if all(episode.outcome != "broken" for episode in played):
            self._buffer.keep_part(_part(chunk, self._experiment, self._setting), played)


def _setting(config: Config, client: str, spec: AdapterSpec) -> list[object]:
    """Everything besides the games themselves that decides how a client's games go."""
    world = config.client(client)
    agreed, base = config.agreed_digest(), spec.identity
    # The number of threads can change the last bit of a sum.
    return [__version__, agreed, base, config.engine.type, config.trainer.threads, repr(world)]


def _part(chunk: Chunk, experiment: str, setting: str) -> RolloutPart:
    games = [[game.task.model_dump(mode="json"), game.seed] for game in chunk.games]
    same = [chunk.start, games, chunk.policy, chunk.round, chunk.max_turns, chunk.seed]
    first = chunk.games[0]
    record = first.record or first.task.split
    return RolloutPart(experiment, chunk.round, record, chunk.start, digest_of([setting, same]))
