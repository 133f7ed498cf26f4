"""What two ways of playing the same episodes have in common: their requests and their pace."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from fedse.types import Trajectory

T = TypeVar("T")


class RolloutPace(NamedTuple):
    """How fast something was."""

    generated: int
    """Tokens."""
    read: int
    """Tokens of the prompts, those a server remembers included."""
    seconds: float
    cpu_seconds: float
    """Of this process only."""

    @property
    def tokens_per_second(self) -> float:
        return self.generated / self.seconds


class RolloutBench(NamedTuple):
    """Episodes that were played through fedse, and the same requests without it."""

    played: Sequence[Trajectory]
    fedse: RolloutPace
    others: Mapping[str, RolloutPace]
    """`bare` = the server with nothing but an HTTP client; `generate` = transformers."""

    @property
    def ratios(self) -> dict[str, float]:
        """Tokens per second of fedse as a share of each other's; of CPU time without a server."""
        if "bare" in self.others:
            ours = self.fedse.tokens_per_second
            return {name: ours / pace.tokens_per_second for name, pace in self.others.items()}
        used = self.fedse.cpu_seconds
        return {name: pace.cpu_seconds / used for name, pace in self.others.items()}


class TurnRequest(NamedTuple):
    """A prompt and how many tokens followed it."""

    prompt: list[int]
    new_tokens: int


class Took(NamedTuple):
    """Wall time, and CPU time of this process."""

    seconds: float
    cpu_seconds: float


def requests_of(episode: Trajectory) -> list[TurnRequest]:
    """One request per turn; its prompt is the whole episode so far."""
    so_far: list[int] = []
    requests = []
    for turn in episode.turns:
        so_far += turn.context_ids
        requests.append(TurnRequest(list(so_far), len(turn.action_ids)))
        so_far += turn.action_ids
    return requests


def pace_of(played: Sequence[Trajectory], took: Took) -> RolloutPace:
    """The pace of whoever needed this long for these episodes."""
    requests = [request for episode in played for request in requests_of(episode)]
    generated = sum(request.new_tokens for request in requests)
    return RolloutPace(generated, sum(len(request.prompt) for request in requests), *took)


def measured(work: Callable[[], T]) -> tuple[T, Took]:
    """What `work` returned and how long it took."""
    wall, cpu = time.perf_counter(), time.process_time()
    done = work()
    return done, Took(time.perf_counter() - wall, time.process_time() - cpu)
