"""What a live view knows of a run: one row per client, kept up to date event by event."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedse.cli.phrases import megabytes, waiting_text
from fedse.config.rounds import Rounds, last_round
from fedse.config.schema import Config
from fedse.config.worlds import world_names
from fedse.events import read_events

OPENING = {
    "site.opening": "loads",
    "eval.started": "evaluates",
    "rollout.started": "explores",
    "train.started": "trains",
    "upload.started": "sends",
}
ANSWERED = ("voted", "done", "no vote", "excluded", "quarantined")
LAST = "last evaluation"
LOADING, WAITING, AT_WORK = "loading the model", "waiting for sites", "sites at work"
WARM_START = "warm start: training on demonstrations, no games"


Seen = Callable[[], Mapping[str, str]]
"""What each client is doing, in one word; a client that is not listed is away."""


@dataclass
class Row:
    """What is known about one client in the current round."""

    client: str
    env: str
    state: str = "waiting"
    games: str = ""
    success: str = ""
    buffer: str = ""
    loss: str = ""
    sent: str = ""
    held_out: str = ""
    first: float | None = None
    """Held-out success before the first round; None = not known here."""


@dataclass
class Board:
    """Everything the view shows; `take` keeps it up to date."""

    rounds: Rounds
    rows: dict[str, Row]
    seen: Seen | None = None
    """What each remote client is doing; None = the clients are on this machine."""
    round: int = 0
    doing: str = ""
    seconds: list[float] = field(default_factory=list)
    """Durations of the rounds committed since this process started."""
    faults: list[str] = field(default_factory=list)
    alarms: list[str] = field(default_factory=list)
    """Those of the last committed round."""
    began: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self.doing = WAITING if self.seen else LOADING

    @property
    def headline(self) -> str:
        """What the run does; a coordinator names the sites it waits for."""
        if self.seen is None or self.doing not in (WAITING, AT_WORK):
            return self.doing
        waiting = [row.client for row in self.rows.values() if row.state not in ANSWERED]
        return waiting_text(waiting, of=len(self.rows)) if waiting else self.doing

    def state_of(self, row: Row, seen: Mapping[str, str] | None) -> str:
        """The row's state, or what was last heard from a site that has not answered yet."""
        return row.state if seen is None or row.state in ANSWERED else seen.get(row.client, "away")

    def take(self, event: str, facts: dict[str, Any]) -> None:
        if event == "round.started":
            self.round, self.faults = facts["round"], []
            self.doing = WAITING if self.seen else self.doing
            for row in self.rows.values():
                row.state, row.games, row.sent = "waiting", "", ""
        elif event == "round.committed":
            self.seconds.append(facts["seconds"])
            self.doing, self.alarms = WAITING if self.seen else AT_WORK, []
        elif event == "round.waiting":
            self.doing = f"waits {facts['reason']}"
        elif event in ("alarm.raised", "site.alarm"):
            self.alarms.append(f"{facts['text']}; next: {facts['next']}")
        elif event in ("aggregate.started", "commit.started"):
            self.doing = "merging" if event == "aggregate.started" else "saving"
        elif facts.get("client") in self.rows:
            self._take_of_client(self.rows[facts["client"]], event, facts)

    def _take_of_client(self, row: Row, event: str, facts: dict[str, Any]) -> None:
        if event in OPENING:
            row.state = OPENING[event]
            row.games = _games(facts) or row.games
            self.doing = self._doing(event, facts)
        elif event == "eval.progress":
            row.state = "validates" if facts["purpose"] == "validation" else "evaluates"
            row.games = f"{facts['played']}/{facts['episodes']}{turn_text(facts)}"
        elif event == "rollout.progress":
            of = row.games.rpartition("/")[2].partition(",")[0]
            row.games = f"{facts['played']}/{of}{turn_text(facts)}"
            row.success = _rate(facts["won"], facts["played"])
        elif event == "eval.recorded":
            self._take_measured(row, facts)
        elif event == "answer.received":
            self._take_answer(row, facts)

    def _doing(self, event: str, facts: dict[str, Any]) -> str:
        if event == "site.opening":
            return self.doing
        warm = self.doing == WARM_START or facts.get("episodes") == 0
        if event in ("rollout.started", "train.started") and warm:
            return WARM_START
        return AT_WORK if facts["round"] <= last_round(self.rounds) else LAST

    def _take_measured(self, row: Row, facts: dict[str, Any]) -> None:
        """The change is measured from before the first round, as in the result."""
        rate = facts["won"] / facts["played"]
        if facts["round"] == 0:
            row.first = rate
        moved = facts["round"] > 0 and row.first is not None
        step = f" {rate - (row.first or 0.0):+.2f}" if moved else ""
        row.held_out = f"{rate:.2f}{step}"
        row.state = "done" if self.doing == LAST else row.state

    def _take_answer(self, row: Row, facts: dict[str, Any]) -> None:
        row.state = "voted" if facts["bytes"] else "no vote"
        row.games = str(facts["played"] or "")
        row.success = _rate(facts["succeeded"], facts["played"])
        row.buffer, row.sent = str(facts["buffered"]), megabytes(facts["bytes"])
        row.loss = "" if facts["loss"] is None else f"{facts['loss']:.3f}"
        if facts["fault"]:
            out = facts["fault"].startswith("quarantined:")
            row.state = "quarantined" if out else "excluded"
            self.faults.append(f"{row.client}: {facts['fault']}")


def board_of(config: Config, *, log: Path | None = None, seen: Seen | None = None) -> Board:
    """The board at the start; `log` has the run's earlier events."""
    first = _first_measured(log) if log else {}
    worlds = world_names(client.env for client in config.clients)
    rows = {
        client.name: Row(client.name, worlds[client.env], first=first.get(client.name))
        for client in config.clients
    }
    return Board(config.run.rounds, rows, seen)


def _first_measured(log: Path) -> dict[str, float]:
    """Each client's held-out success before the first round."""
    evaluations = read_events(log, ["eval.recorded"])
    return {e["client"]: e["won"] / e["played"] for e in evaluations if e["round"] == 0}


def _rate(won: int, played: int) -> str:
    return f"{won / played:.2f}" if played else ""


def turn_text(facts: Mapping[str, Any]) -> str:
    """How far the games are that have not ended, if they take long."""
    return f", turn {facts['turn']}" if facts.get("turn") else ""


def _games(facts: dict[str, Any]) -> str:
    """Games played and planned; empty where none are, as in a warm start."""
    planned = facts.get("episodes")
    return f"0/{planned}" if planned else ""
