"""How far the experiments of a table are, by what they have on disk, and how long they take."""

import shlex
import shutil
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, TextIO

from fedse.cli.display import plain_wanted
from fedse.cli.phrases import counted
from fedse.errors import Interrupted
from fedse.events import read_events
from fedse_reproduce.jobs import Found, Tell, do_jobs, key_of
from fedse_reproduce.tables import Job

LOOK_SECONDS, SELDOM_SECONDS = 2.0, 30.0
"""Between two looks: where one line is drawn again, and where every look may add a line."""
BAR = 8
CLEAR = "\r\x1b[K"


class TableProgress(NamedTuple):
    """Experiments and rounds; an experiment that several arms share counts once."""

    finished: int
    experiments: int
    committed: int
    rounds: int
    done: int
    """Rounds of single sites, which is what the time goes into."""
    work: int

    @property
    def left(self) -> float:
        """The share of the work that is to be done."""
        return 1 - self.done / self.work


def progress_of(jobs: Sequence[Job], root: Path) -> TableProgress:
    """How many experiments have a result, and how many rounds are committed."""
    configs = {key_of(job): job.config for job in jobs}
    finished = {key for key in configs if (root / "found" / f"{key}.json").is_file()}
    rounds = {key: config.run.last for key, config in configs.items()}
    committed = {
        key: planned if key in finished else _committed(root / "runs" / key)
        for key, planned in rounds.items()
    }
    sites = {key: len(config.clients) for key, config in configs.items()}
    return TableProgress(
        len(finished),
        len(rounds),
        sum(committed.values()),
        sum(rounds.values()),
        sum(committed[key] * sites[key] for key in rounds),
        sum(rounds[key] * sites[key] for key in rounds),
    )


def _committed(run: Path) -> int:
    events = read_events(run / "events.jsonl", ['"round.committed"'])
    return max((int(event["round"]) for event in events), default=0)


def seconds_left(
    began: TableProgress, now: TableProgress, seconds: float, expected: float | None
) -> float | None:
    """By the pace since it began, `seconds` ago; before the first round, what was `expected`."""
    if now.done > began.done:
        return seconds * (now.work - now.done) / (now.done - began.done)
    return max(0.0, expected - seconds) if expected is not None else None


def duration(seconds: float) -> str:
    """`40 s`, `12 min`, `2 h 05 min`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60:02d} min"


def progress_line(now: TableProgress, left: float | None, *, bar: bool) -> str:
    """How far it is, in at most 79 columns."""
    rounds = f"{now.committed} of {counted(now.rounds, 'round')}"
    told = f"{rounds}, {now.finished} of {counted(now.experiments, 'experiment')}"
    told += f", about {duration(left)} left" if left is not None else ""
    if not bar:
        return told
    full = round(BAR * (1 - now.left))
    return f"[{'#' * full}{'-' * (BAR - full)}] {told}"


class Plan(NamedTuple):
    """What a command is about to do, as it tells it."""

    title: str
    size: str
    """As in `5 arms, 1 seed`."""
    files: str
    """Where the result will be."""
    jobs: int
    cpu_seconds: float | None
    """What all of it took before; None = nobody knows."""

    def seconds(self, before: TableProgress) -> float | None:
        """What is left of it takes about so long here."""
        if self.cpu_seconds is None:
            return None
        return self.cpu_seconds * before.left / min(self.jobs, before.experiments)


def do_all(plan: Plan, todo: Sequence[Job], root: Path) -> dict[str, Found]:
    """Every job's result by key; what is done, how far it is and how long it takes is on stderr."""
    before = progress_of(todo, root)
    print(banner(plan, before, root), file=sys.stderr, flush=True)
    try:
        with _shown(todo, root, plan.seconds(before)) as tell:
            return do_jobs(todo, root, workers=plan.jobs, tell=tell)
    except KeyboardInterrupt:
        raise Interrupted(
            "stopped; finished experiments and committed rounds are kept",
            hint=f"it continues with: {shlex.join(['fedse', *sys.argv[1:]])}",
        ) from None


def banner(plan: Plan, before: TableProgress, root: Path) -> str:
    """What is about to be done, what was done before, how long it takes, and where it is kept."""
    experiments, rounds = counted(before.experiments, "experiment"), counted(before.rounds, "round")
    seconds, at_once = plan.seconds(before), f"{plan.jobs} at a time"
    lines = [("work", f"{plan.size}: {experiments}, {rounds} in all")]
    if before.committed:
        done = f"{counted(before.finished, 'experiment')}, {counted(before.committed, 'round')}"
        lines += [("before", f"{done} are done")]
    if before.done < before.work:
        known = "known after the first round" if seconds is None else f"about {duration(seconds)}"
        lines += [("time", f"{known}, {at_once}")]
    lines += [("runs", str(root / "runs")), ("result", plan.files)]
    lines += [("stop", "Ctrl-C; the same command continues from there")]
    return "\n".join([plan.title, *(f"  {name:<6}  {fact}" for name, fact in lines), ""])


@contextmanager
def _shown(todo: Sequence[Job], root: Path, expected: float | None) -> Iterator[Tell]:
    """How far it is stands on stderr, and every finished experiment has a line of its own.

    On a terminal one line is drawn again and again; elsewhere a line is added where a round was
    committed.
    """
    out, ended = _Out(sys.stderr), threading.Event()
    began, start = progress_of(todo, root), time.monotonic()

    def show() -> None:
        before = began
        while not ended.wait(LOOK_SECONDS if out.live else SELDOM_SECONDS):
            now, gone = progress_of(todo, root), time.monotonic() - start
            left = seconds_left(began, now, gone, expected)
            if out.live or now.committed != before.committed:
                out.draw(progress_line(now, left, bar=out.live))
            before = now

    def tell(done: int, total: int, job: Job, found: Found) -> None:
        alone = [client.name for client in job.config.clients if len(job.config.clients) == 1]
        named = ", ".join([job.arm, *alone, f"seed {job.seed}"])
        out.add(f"{done} of {total}  {named}  {found.cpu_seconds:.0f} CPU-s")

    thread = threading.Thread(target=show, daemon=True)
    thread.start()
    try:
        yield tell
    finally:
        ended.set()
        thread.join()
        out.clear()


class _Out:
    """A stream with at most one line that can be drawn again."""

    def __init__(self, stream: TextIO) -> None:
        self.live = not plain_wanted(stream)
        self._stream, self._line, self._turn = stream, "", threading.Lock()

    def draw(self, line: str) -> None:
        if not self.live:
            self.add(line)
            return
        with self._turn:
            self._line = line[: shutil.get_terminal_size().columns - 1]
            self._write(CLEAR + self._line)

    def add(self, line: str) -> None:
        with self._turn:
            self._write(f"{CLEAR if self._line else ''}{line}\n{self._line}")

    def clear(self) -> None:
        with self._turn:
            self._write(CLEAR if self._line else "")

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()
