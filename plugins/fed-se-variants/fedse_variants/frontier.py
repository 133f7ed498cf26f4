"""Learn from tasks that are neither always nor never solved.

Source: dropping prompts that are all wrong or all right (Reinforce-Rej, arXiv 2504.11343).
"""

from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict, PositiveInt

from fedse.extend.selecting import OwnRecord, Trajectory, successes


class FrontierOptions(BaseModel):
    """`select.options` of the frontier."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    tries: PositiveInt = 2
    """Games of a task after which it can count as always solved."""
    per_task: PositiveInt | None = None
    """Different episodes of one task kept over all rounds; unset = all."""


class Frontier:
    """`select.type = "frontier"`."""

    Options = FrontierOptions

    def __call__(
        self, played: Sequence[Trajectory], /, *, record: OwnRecord
    ) -> tuple[Trajectory, ...]:
        """Successes in tasks that are not always solved, at most `per_task` of each.

        A task with fewer than `tries` games counts as not always solved: too little is known of it.
        """
        options = FrontierOptions.model_validate(record.options)
        kept = {task: set(digests) for task, digests in record.kept.items()}
        chosen: list[Trajectory] = []
        for episode in successes(played):
            tally, own = record.tallies[episode.task], kept.setdefault(episode.task, set())
            if tally.won == tally.tries >= options.tries:
                continue
            digest = episode.content_digest
            if digest in own or options.per_task is None or len(own) < options.per_task:
                own.add(digest)
                chosen.append(episode)
        return tuple(chosen)


FRONTIER = Frontier()
