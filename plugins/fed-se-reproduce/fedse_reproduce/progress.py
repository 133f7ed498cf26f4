"""How far the experiments of a table are, by what they have on disk."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from fedse.events import read_events
from fedse_reproduce.jobs import key_of
from fedse_reproduce.tables import Job


class TableProgress(NamedTuple):
    """Experiments and rounds; an experiment that several arms share counts once."""

    finished: int
    experiments: int
    committed: int
    rounds: int


def progress_of(jobs: Sequence[Job], root: Path) -> TableProgress:
    """How many experiments have a result, and how many rounds are committed."""
    rounds = {key_of(job): job.config.run.rounds for job in jobs}
    finished = {key for key in rounds if (root / "found" / f"{key}.json").is_file()}
    committed = sum(
        planned if key in finished else _committed(root / "runs" / key)
        for key, planned in rounds.items()
    )
    return TableProgress(len(finished), len(rounds), committed, sum(rounds.values()))


def _committed(run: Path) -> int:
    events = read_events(run / "events.jsonl", ['"round.committed"'])
    return max((int(event["round"]) for event in events), default=0)
