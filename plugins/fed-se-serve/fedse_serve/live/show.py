"""`fedse demo live`, as a person sees it."""

import asyncio
import sys
import tempfile
from pathlib import Path
from shutil import get_terminal_size
from textwrap import fill

from fedse.adapters.base import base_path
from fedse.stats.rates import Rate
from fedse_serve.live.demo import CUSTOMERS, NIGHTS, LiveDemo, live_demo
from fedse_serve.live.shops import SHOPS
from fedse_serve.status import named

BASE = "qwen2.5-coder-0.5b"
INTRODUCTION = (
    f"The shops {', '.join(SHOPS)} put one agent in service ({BASE}, on this CPU). It begins with "
    f"what their staff said to a few customers. On each of {NIGHTS + 1} days {CUSTOMERS} simulated "
    "customers talk to each shop; a third of them say later how it went, and a tenth of those are "
    "wrong. In the nights between, the shops learn together from the sessions with a thumb up, and "
    "only adapters travel. A new adapter serves half of the customers until their thumbs show "
    f"whether it is better. On day {NIGHTS + 2} somebody offers a harmful one to the shop "
    f"{next(iter(SHOPS))}. Nothing leaves this machine."
)


def show_live(*, seed: int, out: Path | None) -> None:
    """The demonstration has run, and what came of it is printed."""
    base_path(BASE)  # it says how to get the model, if it is not here
    print(fill(INTRODUCTION, min(get_terminal_size().columns, 100)) + "\n", file=sys.stderr)
    folder = out or Path(tempfile.mkdtemp(prefix="fedse-live-"))
    folder.mkdir(parents=True, exist_ok=True)
    found = asyncio.run(
        live_demo(folder, base=BASE, seed=seed, tell=lambda text: print(text, file=sys.stderr))
    )
    print("\n".join(result_lines(found)))


def result_lines(found: LiveDemo) -> list[str]:
    """Success by day, what happened to adapters, and where the pages are."""
    lines = ["customers served as the rules of their shop ask (95 % interval)"]
    for day in sorted({done.day for done in found.days}):
        solved = [v.solved for done in found.days if done.day == day for v in done.visits]
        rate = Rate(sum(solved), len(solved))
        low, high = rate.interval
        lines.append(
            f"  day {day}  {rate.value:.2f}  ({low:.2f} to {high:.2f})  {rate.n} customers"
        )
    for shop, status in found.statuses.items():
        ends = [m.move for m in status.moves if m.move.kind in ("promoted", "rolled back")]
        told = ", ".join(f"{named(move.adapter)} {move.kind}" for move in ends)
        lines.append(f"{shop}: {told or 'no adapter was promoted or rolled back'}")
    return [*lines, *(f"page of {shop}: {page}" for shop, page in found.pages.items())]
