"""What a site's console says while the site takes part: the way to the server, and each stage.

Everything comes from files of the site's own; nothing is asked of the server or sent to it.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

from fedse.federation.home import Home
from fedse.federation.line import FILE as LINE
from fedse.federation.line import ServerLine, line_text, read_line
from fedse.observers.follow import NewLines
from fedse.processes.restart import Tell

# A single request that failed is not worth a line.
UNREACHABLE_SECONDS = 3.0
LOG = "worker.log"

_STAGES: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "eval.started": lambda f: f"playing {f['episodes']} held-out games",
    "rollout.started": lambda f: f"playing {f['episodes']} games",
    "train.started": lambda f: f"training on {f['lessons']} kept games",
    "personal.started": lambda f: "training an adapter of its own",
    "upload.started": lambda f: f"sending {f['bytes'] / 1e6:.2f} MB",
    "agreement.proposed": lambda f: f"agreement {f['number']} waits for you: fedse site agreement",
    "site.paused": lambda f: "paused, no vote",
    "site.vetoed": lambda f: "vetoed the adapter, no vote",
    "site.spent": lambda f: "the privacy budget is spent, no vote",
    "site.withheld": lambda f: "the audit held the answer back, no vote",
    "site.alarm": lambda f: f"ALARM {f['text']}; next: {f['next']}",
}
# Shown, but not worth a line each.
_PROGRESS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "eval.progress": lambda f: f"played {f['played']} of {f['episodes']} games to evaluate",
    "rollout.progress": lambda f: f"played {f['played']} games",
}


class SiteConsole:
    """Tells what changed since the last look; `show` gets what is true now, in one line."""

    def __init__(self, home: Home, *, tell: Tell, show: Tell = lambda now: None) -> None:
        self._home, self._tell, self._show = home, tell, show
        self._told: tuple[str, str] | None = None
        self._sent: float | None = None
        self._log = NewLines(home.path / LOG)
        self._round: Any = None
        self._now = {"line": "connecting", "stage": ""}

    def look(self, now: float) -> None:
        """Whatever is new at `now`, on a clock that nobody can set, has been reported."""
        for event in filter(None, map(_event, self._log.read())):
            self._round, stage, passing = event
            text = f"round {self._round}: {stage}"
            if passing:
                self._now["stage"] = text
            else:
                self._say("stage", text)
        line = read_line(self._home.path / LINE)
        if line is not None:
            self._look_at(line, now)
        self._show(", ".join(filter(None, self._now.values())))

    def _look_at(self, line: ServerLine, now: float) -> None:
        lasts = line.state != "unreachable" or now - line.since >= UNREACHABLE_SECONDS
        if lasts and (line.state, line.reason) != self._told:
            self._told = (line.state, line.reason)
            self._say("line", line_text(line, self._home.card.server))
        if line.sent is not None and line.sent != self._sent:
            self._sent = line.sent
            if self._round is not None:
                self._say("stage", f"round {self._round}: sent; waits for the next question")

    def _say(self, what: str, text: str) -> None:
        self._now[what] = text
        self._tell(text)


def _event(line: bytes) -> tuple[int, str, bool] | None:
    """Round, stage and whether it is only passing; None for other lines, as of a traceback."""
    start = line.find(b"{")
    try:
        facts = json.loads(line[start:]) if start >= 0 else {}
        name = facts["event"]
        text = (_PROGRESS if name in _PROGRESS else _STAGES)[name](facts)
        return int(facts["round"]), text, name in _PROGRESS
    except (ValueError, LookupError, TypeError):
        return None
