"""Episodes as text for a terminal: what the agent saw, thought and did, at any width.

Text from an environment is data: it cannot move the cursor, set a colour or reverse a line.
A mark as well as a style shows who speaks, so nothing is lost without colours.
"""

import re
import sys
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from io import TextIOWrapper
from shutil import get_terminal_size
from typing import NamedTuple

from rich.console import Console
from rich.text import Text

from fedse.exports.episodes import StoredEpisode
from fedse.types import Trajectory

SAW, THOUGHT, DID = "|", "~", ">"
STYLES = {SAW: "dim", THOUGHT: "italic cyan", DID: "bold"}
OUTCOMES = {"success": "green", "failure": "red", "truncated": "yellow", "broken": "magenta"}
MARKS = {"success": "✔ ", "failure": "✖ "}
ENDED = {
    "success": "succeeded",
    "failure": "failed",
    "truncated": "ended at the limit of turns or of the context",
    "broken": "the environment broke",
}
# Joiners of scripts and emoji; invisible, but they move nothing.
HARMLESS = "\n\t\u200c\u200d"
LETTERS_OF_DIGEST = 12
# Text is never wrapped to fewer columns than this.
NARROWEST = 40
# More rounds than this do not fit one screen; only the newest are printed.
MOST_ROWS = 40

_ACTION = re.compile(r"action\s*:|</think>", re.IGNORECASE)
_THOUGHT = re.compile(r"^\s*(thought\s*:|<think>)", re.IGNORECASE)


class Saying(NamedTuple):
    """What an agent said in one turn, as thought and action."""

    thought: str
    action: str


def visible(text: str) -> str:
    """`text` with every character that could control a terminal written as an escape."""
    return "".join(
        char if char in HARMLESS or unicodedata.category(char)[0] != "C" else _escape(char)
        for char in text.replace("\r\n", "\n").replace("\u2028", "\n").replace("\u2029", "\n")
    )


def split_turn(text: str) -> Saying:
    """The thought before the last `Action:`, if there is one, and the action."""
    marks = list(_ACTION.finditer(text))
    if not marks:
        return Saying("", text.strip())
    thought = _THOUGHT.sub("", text[: marks[-1].start()])
    return Saying(thought.strip(), text[marks[-1].end() :].strip())


def console_for(*, plain: bool) -> Console:
    """A console that writes to stdout at the terminal's width, without escape codes if `plain`."""
    if isinstance(sys.stdout, TextIOWrapper):
        # A terminal that cannot show a letter shows its code instead of failing.
        sys.stdout.reconfigure(errors="backslashreplace")
    return Console(
        file=sys.stdout,
        width=max(get_terminal_size().columns, NARROWEST),
        color_system=None if plain else "auto",
        force_terminal=False if plain else None,
        markup=False,
        emoji=False,
        highlight=False,
    )


def show_episode(console: Console, episode: StoredEpisode, trajectory: Trajectory | None) -> None:
    """One episode in full: a header of two lines, then its turns."""
    game = episode.game
    head = Text.assemble(
        (f"{f'round {game.round}' if game.round else 'demonstration'}  ", "bold"),
        (f"{episode.source.client}  ", "bold"),
        f"{visible(game.task)}  ",
        (game.outcome, f"bold {OUTCOMES[game.outcome]}"),
    )
    show_wrapped(console, "", head)
    show_wrapped(console, "  ", Text(", ".join(_details(episode, trajectory)), style="dim"))
    if trajectory is None:
        return
    for number, turn in enumerate(trajectory.turns, 1):
        saying = split_turn(turn.action)
        if turn.role:
            thread = f" {turn.thread + 1}" if turn.thread else ""
            show_wrapped(console, "    ", Text(f"{visible(turn.role)}{thread}", style="bold"))
        show_text(console, f"{number:>3}", SAW, turn.observation)
        if saying.thought:
            show_text(console, "", THOUGHT, saying.thought)
        show_text(console, "", DID, saying.action)
    ended, outcome = ENDED[game.outcome], OUTCOMES[game.outcome]
    show_wrapped(console, "    ", Text(_mark(console, game.outcome) + ended, style=outcome))
    if trajectory.error:
        show_wrapped(console, "  ", Text(f"broke: {visible(trajectory.error)}", style="magenta"))


def _mark(console: Console, outcome: str) -> str:
    return MARKS.get(outcome, "") if console.encoding.startswith("utf") else ""


def show_text(console: Console, label: str, mark: str, text: str) -> None:
    """The text of one side: each of its lines after the mark, long lines wrapped."""
    for number, line in enumerate(visible(text).split("\n")):
        margin = f"{'' if number else label:>3} {mark} "
        show_wrapped(console, margin, Text(line, style=STYLES[mark]))


def show_wrapped(console: Console, margin: str, text: Text) -> None:
    """`text` in as many lines as it takes, indented below `margin`, no blanks at their ends."""
    text.expand_tabs(8)
    lines = text.wrap(console, console.width - len(margin), overflow="fold")
    for number, line in enumerate(lines):
        line.rstrip()
        before = " " * len(margin) if number else margin if line else margin.rstrip()
        console.print(Text.assemble((before, "dim"), line), soft_wrap=True)


def summary_rows(episodes: Iterable[StoredEpisode]) -> list[dict[str, int | str]]:
    """Per round and client: how the games ended, how many are learned from, and the held-out."""
    counts: dict[tuple[int, str], Counter[str]] = {}
    for episode in episodes:
        game = episode.game
        row = counts.setdefault((game.round, episode.source.client), Counter())
        if not game.split.startswith("train"):
            row.update(["held_out", *(["held_out_won"] if game.outcome == "success" else [])])
        else:
            row.update(["played", game.outcome, *(["kept"] if episode.kept else [])])
    names = ("played", *OUTCOMES, "kept", "held_out", "held_out_won")
    return [
        {"round": round, "client": client, **{name: row[name] for name in names}}
        for (round, client), row in counts.items()
    ]


TITLES = ("games", "succeeded", "failed", "cut off", "broken", " kept", "held-out")


def show_summary(console: Console, rows: Sequence[dict[str, int | str]]) -> None:
    """The table of `summary_rows`; of a long run its newest rounds."""
    newest = rows[-MOST_ROWS:]
    width = max(len("site"), *(len(str(row["client"])) for row in newest))
    console.print(Text(_line("round", "site", TITLES, width), style="dim"), soft_wrap=True)
    before: object = None
    for row in newest:
        number = str(row["round"] or "demo") if row["round"] != before else ""
        before = row["round"]
        held_out = f"{row['held_out_won']}/{row['held_out']}" if row["held_out"] else ""
        ended = [str(row[name] or "") for name in ("played", *OUTCOMES, "kept")]
        line = _line(number, str(row["client"]), (*ended, held_out), width)
        console.print(Text(line), soft_wrap=True)
    if len(rows) > len(newest):
        console.print(Text(f"and {len(rows) - len(newest)} earlier rows: --json", style="dim"))


def _line(round: str, client: str, cells: Sequence[str], width: int) -> str:
    aligned = (f"{cell:>{len(title)}}" for cell, title in zip(cells, TITLES, strict=True))
    return f"{round:>5}  {client:<{width}}  {'  '.join(aligned)}".rstrip()


def _details(episode: StoredEpisode, trajectory: Trajectory | None) -> Iterable[str]:
    game = episode.game
    if not game.split.startswith("train"):
        yield f"held-out game of the adapter of round {game.round - 1}"
    if trajectory:
        yield f"reward {trajectory.reward:g}"
        yield f"{len(trajectory.turns)} turns" if len(trajectory.turns) != 1 else "1 turn"
        by_adapter = re.fullmatch("[0-9a-f]{64}", trajectory.policy)
        digest = f"adapter {trajectory.policy[:LETTERS_OF_DIGEST]}"
        yield digest if by_adapter else f"played by {visible(trajectory.policy)}"
    yield f"seed {game.seed}"
    if episode.kept:
        yield "kept for learning"
    elif episode.dropped != "held-out":
        yield f"not kept: {episode.dropped}"
    if not trajectory:
        yield "its text was not kept"


def _escape(char: str) -> str:
    code = ord(char)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
