"""The live view: one row per client, redrawn at most four times a second.

At any width the state of every client stays readable; columns of numbers go first.
"""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console, Group, JustifyMethod, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from fedse.cli.phrases import megabytes
from fedse.config.schema import Config
from fedse.events import Fact, Observer, read_events

# Symbol and colour of each state; the word always stands beside them.
STATES = {
    "waiting": ("○", "dim"),
    "evaluates": ("●", "cyan"),
    "explores": ("●", "cyan"),
    "trains": ("●", "cyan"),
    "sends": ("●", "cyan"),
    "voted": ("✔", "green"),
    "done": ("✔", "green"),
    "no vote": ("-", "yellow"),
    "excluded": ("✖", "red"),
}
OPENING = {
    "eval.started": "evaluates",
    "rollout.started": "explores",
    "train.started": "trains",
    "upload.started": "sends",
}
ANSWERED = ("voted", "done", "no vote", "excluded")
LAST = "last evaluation"
LOADING, WAITING, AT_WORK = "loading the model", "waiting for sites", "clients at work"
# Lines around the table; the clients share what is left of the window.
FRAME_LINES = 8


@dataclass
class Row:
    """What is known about one client in the current round."""

    client: str
    env: str
    state: str = "waiting"
    games: str = ""
    solved: str = ""
    buffer: str = ""
    loss: str = ""
    sent: str = ""
    held_out: str = ""
    first: float | None = None
    """Held-out success before the first round; None = not known here."""


class LiveColumn(NamedTuple):
    field: str
    title: str
    width: int


# In the order they are given up when the window is narrow, the last one first.
COLUMNS = (
    LiveColumn("solved", "solved", 6),
    LiveColumn("held_out", "held-out", 10),
    LiveColumn("games", "games", 7),
    LiveColumn("buffer", "buffer", 6),
    LiveColumn("env", "world", 10),
    LiveColumn("loss", "loss", 6),
    LiveColumn("sent", "sent", 8),
)
# The longest name that is shown in full.
LONGEST_NAME = 24
SHOWN_ORDER = ("env", "games", "solved", "buffer", "loss", "sent", "held_out")


@dataclass
class Board:
    """Everything the view shows, kept up to date by `take`."""

    rounds: int
    rows: dict[str, Row]
    loads_model: bool = True
    """Whether the clients are on this machine; a coordinator waits for those elsewhere."""
    round: int = 0
    doing: str = ""
    seconds: list[float] = field(default_factory=list)
    """Of the rounds committed since this process started."""
    faults: list[str] = field(default_factory=list)
    began: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self.doing = LOADING if self.loads_model else WAITING

    def take(self, event: str, facts: dict[str, Any]) -> None:
        if event == "round.started":
            self.round, self.faults = facts["round"], []
            for row in self.rows.values():
                row.state, row.games, row.sent = "waiting", "", ""
        elif event == "round.committed":
            self.seconds.append(facts["seconds"])
            self.doing = AT_WORK if self.loads_model else WAITING
        elif event in ("aggregate.started", "commit.started"):
            self.doing = "merging" if event == "aggregate.started" else "saving"
        elif facts.get("client") in self.rows:
            self._take_of_client(self.rows[facts["client"]], event, facts)

    def _take_of_client(self, row: Row, event: str, facts: dict[str, Any]) -> None:
        if event in OPENING:
            row.state = OPENING[event]
            row.games = _games(event, facts) or row.games
            self.doing = AT_WORK if facts["round"] <= self.rounds else LAST
        elif event == "rollout.progress":
            row.games = f"{facts['played']}/{row.games.rpartition('/')[2]}"
            row.solved = _rate(facts["won"], facts["played"])
        elif event == "eval.recorded":
            self._take_measured(row, facts)
        elif event == "answer.received":
            self._take_answer(row, facts)

    def _take_measured(self, row: Row, facts: dict[str, Any]) -> None:
        """The change is counted from before the first round, as in the result."""
        rate = facts["won"] / facts["played"]
        if facts["round"] == 0:
            row.first = rate
        moved = facts["round"] > 0 and row.first is not None
        step = f" {rate - (row.first or 0.0):+.2f}" if moved else ""
        row.held_out = f"{rate:.2f}{step}"
        row.state = "done" if self.doing == LAST else row.state

    def _take_answer(self, row: Row, facts: dict[str, Any]) -> None:
        row.state = "voted" if facts["bytes"] else "no vote"
        row.games, row.solved = str(facts["played"]), _rate(facts["succeeded"], facts["played"])
        row.buffer, row.sent = str(facts["buffered"]), megabytes(facts["bytes"])
        row.loss = "" if facts["loss"] is None else f"{facts['loss']:.3f}"
        if facts["fault"]:
            row.state = "excluded"
            self.faults.append(f"{row.client}: {facts['fault']}")


def board_of(config: Config, *, log: Path | None = None, loads_model: bool = True) -> Board:
    """The board before anything happened here; `log` has the events of the run so far."""
    first = _first_measured(log) if log else {}
    rows = {
        client.name: Row(client.name, _world(client.env), first=first.get(client.name))
        for client in config.clients
    }
    return Board(config.run.rounds, rows, loads_model)


def _first_measured(log: Path) -> dict[str, float]:
    """Each client's held-out success before the first round."""
    evaluations = read_events(log, ["eval.recorded"])
    return {e["client"]: e["won"] / e["played"] for e in evaluations if e["round"] == 0}


def _world(env: str) -> str:
    """The class of `module:Class`; two worlds seldom differ by their module alone."""
    return env.rpartition(":")[2]


def _rate(won: int, played: int) -> str:
    return f"{won / played:.2f}" if played else ""


def _games(event: str, facts: dict[str, Any]) -> str:
    """Games played and planned; how many were played is known only while exploring."""
    planned = facts.get("episodes")
    return "" if planned is None else f"0/{planned}" if event == "rollout.started" else str(planned)


def draw(board: Board, *, width: int, height: int, symbols: bool) -> RenderableType:
    """The board as it fits into a window of this size."""
    bar = Table.grid()
    bar.add_row(
        ProgressBar(
            total=board.rounds,
            completed=_rounds_done(board),
            width=min(width, 60),
            # Rich's own colour of an unfinished bar is that of an error.
            complete_style="cyan",
            finished_style="green",
        )
    )
    return Group(
        Text(f"round {board.round} of {board.rounds}  {board.doing}  {_times(board)}", "bold"),
        bar,
        _table(board, width, max(3, height - FRAME_LINES), symbols),
        *(Text(f"excluded  {fault}", style="red") for fault in board.faults[:3]),
    )


def _rounds_done(board: Board) -> float:
    """Rounds, with the answers of the open one as a fraction."""
    if board.doing == LAST:
        return board.rounds
    answered = sum(row.state in ANSWERED for row in board.rows.values())
    return max(0.0, board.round - 1 + answered / len(board.rows))


def _times(board: Board) -> str:
    gone = _clock(time.monotonic() - board.began)
    if not board.seconds or board.doing == LAST:
        return gone
    each = sum(board.seconds) / len(board.seconds)
    return f"{gone}, about {_clock((board.rounds - _rounds_done(board)) * each)} left"


def _table(board: Board, width: int, height: int, symbols: bool) -> Table:
    name = min(max(len("client"), *(len(client) for client in board.rows)), LONGEST_NAME)
    taken, fields = name + 13, set[str]()
    for column in COLUMNS:
        taken += column.width + 2
        if taken <= width:
            fields.add(column.field)
    columns = [column for wanted in SHOWN_ORDER for column in COLUMNS if column.field == wanted]
    columns = [column for column in columns if column.field in fields]
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("client", width=name, no_wrap=True, overflow="ellipsis")
    table.add_column("state", width=11, no_wrap=True)
    for column in columns:
        side: JustifyMethod = "left" if column.field == "env" else "right"
        table.add_column(column.title, width=column.width, no_wrap=True, justify=side)
    rows = _most_telling(list(board.rows.values()), height)
    for row in rows:
        symbol, style = STATES[row.state]
        state = Text(f"{symbol} {row.state}" if symbols else row.state, style=style)
        table.add_row(row.client, state, *(str(getattr(row, c.field)) for c in columns))
    if hidden := len(board.rows) - len(rows):
        table.add_row(f"+ {hidden} more", "")
    return table


def _most_telling(rows: list[Row], height: int) -> list[Row]:
    """All rows, or those that fit: excluded and working clients before waiting ones."""
    if len(rows) <= height:
        return rows
    order = {"excluded": 0, "waiting": 2} | dict.fromkeys(ANSWERED[:-1], 3)
    chosen = sorted(rows, key=lambda row: order.get(row.state, 1))[: height - 1]
    return [row for row in rows if row in chosen]


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02d}"


@contextmanager
def live_view(
    config: Config, *, log: Path | None = None, loads_model: bool = True
) -> Iterator[Observer]:
    """An observer whose events are seen on stderr at once; the last state stays on the screen."""
    console, board = Console(stderr=True), board_of(config, log=log, loads_model=loads_model)
    symbols = (sys.stderr.encoding or "").lower().startswith("utf")

    def render() -> RenderableType:
        size = console.size
        return draw(board, width=size.width, height=size.height, symbols=symbols)

    def observer(event: str, entry: dict[str, Fact]) -> None:
        board.take(event, entry)

    with Live(console=console, get_renderable=render, refresh_per_second=4):
        yield observer
