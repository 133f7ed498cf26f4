"""A run's events on the terminal: one plain line each, one JSON line each, or a live view."""

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fedse.cli.board import Seen, turn_text
from fedse.cli.display import Mode
from fedse.cli.phrases import counted, megabytes
from fedse.config.rounds import OPEN, Rounds, last_round, out_of
from fedse.config.schema import Config
from fedse.events import Fact, Observer

Facts = Mapping[str, Any]


@contextmanager
def shown(
    mode: Mode,
    config: Config,
    *,
    log: Path | None = None,
    seen: Seen | None = None,
) -> Iterator[Observer]:
    """An observer that shows every event in the given mode.

    `log` has the earlier events of a run that continues. `seen` returns what remote clients are
    doing; None = the clients are on this machine.
    """
    if mode == "json":
        yield lambda _, entry: print(json.dumps(entry), flush=True)
    elif mode == "plain":
        yield _plain(config.run.rounds)
    else:
        from fedse.cli.live import live_view  # rich costs a tenth of a second

        with live_view(config, log=log, seen=seen) as observer:
            yield observer


def _plain(rounds: Rounds) -> Observer:
    def observer(event: str, entry: dict[str, Fact]) -> None:
        at = time.strftime("%H:%M:%S", time.localtime(float(entry["time"] or 0)))
        print(f"{at} {plain_line(event, entry, rounds=rounds)}", file=sys.stderr, flush=True)

    return observer


def plain_line(event: str, facts: Facts, *, rounds: Rounds) -> str:
    """The event as one readable line; an event without a phrase shows its facts."""
    phrase = _LINES.get(event)
    if phrase is None:
        pairs = (f"{key}={value}" for key, value in facts.items() if key not in ("time", "event"))
        return " ".join([event, *pairs])
    where = ""
    if "round" in facts and not event.startswith(("run.", "eval.recorded")):
        of = "" if rounds == OPEN else f"/{rounds}"
        where = f"round {facts['round']}{of} " if facts["round"] <= last_round(rounds) else "final "
    return f"{where}{phrase(facts)}"


def _started(facts: Facts) -> str:
    if facts["committed"]:
        return f"run continues after round {out_of(facts['committed'], facts['rounds'])}"
    sites, rounds = counted(facts["clients"], "site"), facts["rounds"]
    return f"run started: {sites}, {'no end' if rounds == OPEN else counted(rounds, 'round')}"


def _answered(facts: Facts) -> str:
    if facts["fault"]:
        return f"{facts['client']} excluded: {facts['fault']}"
    details = [
        *([_success(facts["succeeded"], facts["played"])] if facts["played"] else []),
        f"buffer {facts['buffered']} ({facts['added']:+d})",
        *([] if facts["loss"] is None else [f"loss {facts['loss']:.3f}"]),
        megabytes(facts["bytes"]) if facts["bytes"] else "no vote",
    ]
    return f"{facts['client']} answered: {', '.join(details)}"


def _late(facts: Facts) -> str:
    what = "sent the same answer again" if facts["again"] else "answered a round that is closed"
    return f"{facts['client']} {what} ({megabytes(facts['bytes'])})"


def _committed(facts: Facts) -> str:
    counts = ", ".join(
        f"{facts[key]} {word}"
        for key, word in (
            ("voters", "voted"),
            ("abstained", "without a vote"),
            ("excluded", "excluded"),
            ("absent", "absent"),
        )
        if facts[key] or key == "voters"
    )
    return f"committed in {facts['seconds']:.1f} s: {counts}"


def _measured(facts: Facts) -> str:
    """Names the adapter by the round it came from; that of round 0 is the untrained one."""
    held_out = f"{facts['client']} held-out: {_success(facts['won'], facts['played'])}"
    return f"{held_out} (adapter of round {facts['round']})"


def _sends(facts: Facts) -> str:
    return f"{facts['client']} sends {megabytes(facts['bytes']) if facts['bytes'] else 'counts'}"


def _evaluates(facts: Facts) -> str:
    kind = "validation" if facts["purpose"] == "validation" else "held-out"
    played = f"{facts['played']} of {facts['episodes']} {kind} games{turn_text(facts)}"
    return f"{facts['client']} has played {played}"


def _explores(facts: Facts) -> str:
    if not facts["episodes"]:
        return f"{facts['client']} plays no games in a warm start: it learns from demonstrations"
    return f"{facts['client']} explores in {counted(facts['episodes'], 'game')}"


def _success(won: int, played: int) -> str:
    share = f" = {won / played:.2f}" if played else ""
    return f"succeeded in {won}/{played}{share}"


_LINES: Mapping[str, Callable[[Facts], str]] = {
    "run.started": _started,
    "round.started": lambda f: "started",
    "site.opening": lambda f: f"{f['client']} loads the model and its environment",
    "eval.started": lambda f: f"{f['client']} evaluates in {f['episodes']} held-out games",
    "eval.progress": _evaluates,
    "rollout.started": _explores,
    "rollout.progress": lambda f: f"{f['client']} {_success(f['won'], f['played'])}{turn_text(f)}",
    "train.started": lambda f: f"{f['client']} trains on {counted(f['lessons'], 'kept game')}",
    "upload.started": _sends,
    "answer.received": _answered,
    "answer.excluded": lambda f: f"{f['client']} excluded: {f['reason']}",
    "answer.abstained": lambda f: f"{f['client']} has no vote: {f['reason']}",
    "answer.late": _late,
    "answer.joined": lambda f: (
        f"{f['client']}: its vote of round {f['made']} counts {f['weight']:.2f}"
    ),
    "eval.recorded": _measured,
    "aggregate.started": lambda f: f"merges {counted(f['answers'], 'answer')}",
    "commit.started": lambda f: "saves the merged adapter",
    "round.committed": _committed,
    "alarm.raised": lambda f: f"ALARM {f['text']}; next: {f['next']}",
    "site.alarm": lambda f: f"ALARM {f['text']}; next: {f['next']}",
    "run.stopped": lambda f: f"run stopped after round {f['round']}, as asked",
    "round.waiting": lambda f: f"waits {f['reason']}",
    "run.finished": lambda f: f"run finished: adapter {f['adapter'][:12]}",
    "run.failed": lambda f: f"run failed: {f['error']}",
    "loop.failed": lambda f: f"the round loop ended: {f['error']}",
    "run.resumed": lambda f: f"the server's app ended{f['reason']}; started again",
    "engine.ended": lambda f: str(f["text"]),
    "run.interrupted": lambda f: f"run interrupted after round {f['round']}",
}
