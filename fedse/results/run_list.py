"""How each run ended, read from its event log alone: no database, no model, no change.

An event is logged after its commit, so a run killed in between shows one round less than it has;
resuming it corrects that.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from fedse.config.rounds import Rounds
from fedse.errors import StoreError
from fedse.events import read_events
from fedse.stats.rates import Rate, micro
from fedse.store.run_folder import is_held, read_card, run_folders
from fedse.types import Record

Status = Literal[
    "running", "finished", "stopped", "failed", "interrupted", "not started", "unreadable"
]

MARKERS = ('"run.', '"round.committed"', '"eval.recorded"')


class RunSummary(Record):
    """One line of `fedse runs`."""

    id: str
    path: str
    created: str = ""
    experiment: str = ""
    status: Status = "not started"
    round: int = 0
    """The last committed round that was announced."""
    rounds: Rounds = 0
    error: str = ""
    first: Rate | None = None
    """Held-out success over all clients, before the first round."""
    last: Rate | None = None
    """The same at the last evaluation; None while there is only one."""


def list_runs(root: Path) -> list[RunSummary]:
    """The runs in `root`, the oldest first."""
    return [summary_of(path) for path in run_folders(root)]


def summary_of(path: Path) -> RunSummary:
    """How far the run in `path` got, or why it cannot be read."""
    try:
        card, running = read_card(path), is_held(path)
    except StoreError as error:
        return RunSummary(id=path.name, path=str(path), status="unreadable", error=str(error))
    events = list(read_events(path / "events.jsonl", MARKERS))
    first, last = _first_and_last(events)
    fields = {
        **_progress(events),
        **({"status": "running"} if running else {}),
        "id": card.id,
        "path": str(path),
        "created": card.created,
        "experiment": card.experiment,
        "first": first,
        "last": last,
    }
    return RunSummary.model_validate(fields)


def _progress(events: Sequence[dict[str, Any]]) -> dict[str, Any]:
    progress: dict[str, Any] = {}
    for event in events:
        match event["event"]:
            case "run.started":
                progress = {"round": event["committed"], "rounds": event["rounds"]}
                progress |= {"status": "interrupted", "error": ""}
            case "run.finished":
                progress["status"] = "finished"
            case "run.stopped":
                progress["status"] = "stopped"
            case "run.failed":
                progress |= {"status": "failed", "error": event["error"]}
            case "round.committed":
                progress["round"] = event["round"]
    return progress


def _first_and_last(events: Sequence[dict[str, Any]]) -> tuple[Rate | None, Rate | None]:
    rounds: dict[int, dict[str, Rate]] = {}
    for event in events:
        if event["event"] == "eval.recorded":
            by_client = rounds.setdefault(event["round"], {})
            by_client[event["client"]] = Rate(event["won"], event["played"])
    rates = [micro(list(rounds[round].values())) for round in sorted(rounds)]
    return (rates[0] if rates else None), (rates[-1] if len(rates) > 1 else None)
