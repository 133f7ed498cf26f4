"""The live view: one row per client, redrawn at most four times a second.

At any width the state of every client stays readable; columns of numbers go first.
"""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from rich.console import Console, Group, JustifyMethod, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from fedse.cli.board import ANSWERED, LAST, Board, Row, Seen, board_of
from fedse.config.rounds import OPEN, last_round, out_of
from fedse.config.schema import Config
from fedse.events import Fact, Observer

# Symbol and colour of each state; the word always stands beside them.
STATES = {
    "waiting": ("○", "dim"),
    "away": ("○", "dim"),
    "left": ("○", "dim"),
    "idle": ("○", "green"),
    "silent": ("○", "red"),
    "working": ("●", "cyan"),
    "sent": ("●", "cyan"),
    "loads": ("●", "cyan"),
    "evaluates": ("●", "cyan"),
    "validates": ("●", "cyan"),
    "explores": ("●", "cyan"),
    "trains": ("●", "cyan"),
    "sends": ("●", "cyan"),
    "voted": ("✔", "green"),
    "done": ("✔", "green"),
    "no vote": ("-", "yellow"),
    "excluded": ("✖", "red"),
    "quarantined": ("✖", "red"),
}
# Lines around the table; the clients share what is left of the window.
FRAME_LINES = 8


class LiveColumn(NamedTuple):
    field: str
    title: str
    width: int


# In a narrow window the last ones are left out first.
COLUMNS = (
    LiveColumn("success", "success", 7),
    LiveColumn("held_out", "held-out", 10),
    LiveColumn("games", "games", 7),
    LiveColumn("buffer", "buffer", 6),
    LiveColumn("env", "environment", 11),
    LiveColumn("loss", "loss", 6),
    LiveColumn("sent", "sent", 8),
)
# A symbol, a space and the longest state.
STATE_WIDTH = 2 + max(map(len, STATES))
# The longest name that is shown in full.
LONGEST_NAME = 24
SHOWN_ORDER = ("env", "games", "success", "buffer", "loss", "sent", "held_out")


def draw(board: Board, *, width: int, height: int, symbols: bool) -> RenderableType:
    """The board as it fits into a window of this size."""
    bar, where = Table.grid(), out_of(board.round, board.rounds)
    bar.add_row(
        ProgressBar(
            # Without an end the bar fills anew in every round.
            total=1 if board.rounds == OPEN else board.rounds,
            completed=_rounds_done(board),
            width=min(width, 60),
            # Rich's default colour for an unfinished bar looks like an error.
            complete_style="cyan",
            finished_style="green",
        )
    )
    return Group(
        Text(f"round {where}  {board.headline}  {_times(board)}", "bold"),
        bar,
        # An alarm is a sentence and a command: about two lines.
        _table(board, width, max(3, height - FRAME_LINES - 2 * len(board.alarms)), symbols),
        *(Text(f"excluded  {fault}", style="red") for fault in board.faults[:3]),
        *(Text(f"alarm  {alarm}", style="bold yellow") for alarm in board.alarms),
    )


def _rounds_done(board: Board) -> float:
    """Rounds, with the answers of the open one as a fraction; that alone where there is no end."""
    if board.doing == LAST:
        return last_round(board.rounds)
    answered = sum(row.state in ANSWERED for row in board.rows.values()) / len(board.rows)
    return answered if board.rounds == OPEN else max(0.0, board.round - 1 + answered)


def _times(board: Board) -> str:
    gone = _clock(time.monotonic() - board.began)
    if not board.seconds or board.doing == LAST or board.rounds == OPEN:
        return gone
    each = sum(board.seconds) / len(board.seconds)
    return f"{gone}, about {_clock((board.rounds - _rounds_done(board)) * each)} left"


def _table(board: Board, width: int, height: int, symbols: bool) -> Table:
    name = min(max(len("site"), *(len(client) for client in board.rows)), LONGEST_NAME)
    taken, fields = name + STATE_WIDTH + 2, set[str]()
    for column in COLUMNS:
        taken += column.width + 2
        if taken <= width:
            fields.add(column.field)
    columns = [column for wanted in SHOWN_ORDER for column in COLUMNS if column.field == wanted]
    columns = [column for column in columns if column.field in fields]
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("site", width=name, no_wrap=True, overflow="ellipsis")
    table.add_column("state", width=STATE_WIDTH, no_wrap=True)
    for column in columns:
        side: JustifyMethod = "left" if column.field == "env" else "right"
        table.add_column(column.title, width=column.width, no_wrap=True, justify=side)
    rows = _most_telling(list(board.rows.values()), height)
    seen = board.seen() if board.seen else None
    for row in rows:
        word = board.state_of(row, seen)
        symbol, style = STATES[word]
        state = Text(f"{symbol} {word}" if symbols else word, style=style)
        table.add_row(row.client, state, *(str(getattr(row, c.field)) for c in columns))
    if hidden := len(board.rows) - len(rows):
        table.add_row(f"+ {hidden} more", "")
    return table


def _most_telling(rows: list[Row], height: int) -> list[Row]:
    """All rows, or those that fit: excluded and working clients before waiting ones."""
    if len(rows) <= height:
        return rows
    order = dict.fromkeys(ANSWERED, 3) | {"excluded": 0, "quarantined": 0, "waiting": 2}
    chosen = sorted(rows, key=lambda row: order.get(row.state, 1))[: height - 1]
    return [row for row in rows if row in chosen]


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02d}"


@contextmanager
def live_view(
    config: Config,
    *,
    log: Path | None = None,
    seen: Seen | None = None,
) -> Iterator[Observer]:
    """An observer that draws events on stderr as they come; the last state stays on the screen."""
    console, board = Console(stderr=True), board_of(config, log=log, seen=seen)
    symbols = (sys.stderr.encoding or "").lower().startswith("utf")

    def render() -> RenderableType:
        size = console.size
        return draw(board, width=size.width, height=size.height, symbols=symbols)

    def observer(event: str, entry: dict[str, Fact]) -> None:
        board.take(event, entry)

    with Live(console=console, get_renderable=render, refresh_per_second=4):
        yield observer
