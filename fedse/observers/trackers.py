"""A run's numbers for experiment trackers, which installed packages add.

A metric is a number under the names of clients and environments the experiment file gives; no other
text of an event is passed on. Step = round. A tracker that fails never stops a run.
"""

import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path
from typing import Protocol

from fedse.config.schema import Config
from fedse.errors import ConfigError, require_all
from fedse.events import Fact, Observer
from fedse.plugins import (
    TRACKERS,
    load_plugin,
    packaged,
    plugin_names,
    require_plugin,
    unknown,
)
from fedse.stats.rates import Rate, by_env, micro

LAST_EVENTS = ("run.finished", "run.failed", "run.interrupted")
ANSWERED = {
    "explore/{}/played": "played",
    "explore/{}/won": "succeeded",
    "learn/{}/loss": "loss",
    "learn/{}/buffer": "buffered",
    "learn/{}/added": "added",
    "sent/{}/bytes": "bytes",
    "seconds/{}/explore": "rollout_seconds",
    "seconds/{}/learn": "train_seconds",
    "seconds/{}/evaluate": "eval_seconds",
}
"""Metric of a client, and the field of its answer that it comes from."""


class Sink(Protocol):
    """An open tracker."""

    def log(self, numbers: Mapping[str, float], round: int, at: float, /) -> None:
        """Takes numbers by name, the round, and their time (Unix seconds)."""
        ...

    def close(self) -> None: ...


Begin = Callable[[Path, str, Mapping[str, str]], Sink]
"""Opens a tracker for the run in a folder, under the name of its project."""


def require_trackers(names: Sequence[str]) -> None:
    """All trackers, and the packages they need, are installed."""
    require_all(*(partial(_begin, name) for name in names))


def _begin(name: str) -> Begin:
    known = tuple(sorted({*plugin_names(TRACKERS), *packaged(TRACKERS)}))
    if name not in known:
        raise ConfigError(f"--track {unknown(name, known)}")
    require_plugin(f"--track {name}", TRACKERS, name)
    begin: Begin = load_plugin(TRACKERS, name)
    return begin


def tracked(
    names: Sequence[str],
    folder: Path,
    config: Config,
    *,
    environ: Mapping[str, str],
    warn: Callable[[str], None],
) -> list[Observer]:
    """One observer per tracker of the run in `folder`."""
    return [_observer(name, folder, config, environ, warn) for name in names]


class Metrics:
    """Turns events into numbers; those of environments come when the round or the run ends."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._clients = {client.name: _safe_name(client.env) for client in config.clients}
        self._measured: dict[int, dict[str, Rate]] = {}
        self._bytes = 0.0

    def take(self, event: str, facts: Mapping[str, Fact]) -> Iterator[tuple[int, dict[str, float]]]:
        """What `event` adds: (round, numbers by name)."""
        client = facts.get("client")
        if event == "answer.received" and client in self._clients and not facts.get("fault"):
            self._bytes += _number(facts, "bytes") or 0
            values = {name.format(client): _number(facts, fact) for name, fact in ANSWERED.items()}
            yield _step(facts), {name: value for name, value in values.items() if value is not None}
        elif event == "eval.recorded" and client in self._clients:
            won, played = int(_number(facts, "won") or 0), int(_number(facts, "played") or 0)
            if played:
                rate = Rate(won, played)
                self._measured.setdefault(_step(facts), {})[str(client)] = rate
                yield _step(facts), {f"success/{self._clients[str(client)]}/{client}": rate.value}
        elif event == "round.committed":
            seconds, voters = _number(facts, "seconds"), _number(facts, "voters")
            values = {"round/seconds": seconds, "round/voters": voters}
            values["round/bytes_up"] = self._bytes
            yield _step(facts), {name: value for name, value in values.items() if value is not None}
            self._bytes = 0.0
        if event in ("round.committed", *LAST_EVENTS):
            yield from self._environments()

    def _environments(self) -> Iterator[tuple[int, dict[str, float]]]:
        for round, clients in self._measured.items():
            envs = by_env(clients, self._config)
            rates = {f"success/{_safe_name(env)}": rate.value for env, rate in envs.items()}
            yield round, {**rates, "success/all": micro(list(clients.values())).value}
        self._measured = {}


def _observer(
    name: str,
    folder: Path,
    config: Config,
    environ: Mapping[str, str],
    warn: Callable[[str], None],
) -> Observer:
    metrics = Metrics(config)
    sink: Sink | None = None
    over = False

    def observe(event: str, facts: dict[str, Fact]) -> None:
        nonlocal sink, over
        if over:
            return
        try:
            # Results go to stdout, where trackers would print their greetings.
            with redirect_stdout(sys.stderr):
                sink = sink or _begin(name)(folder, config.run.name, environ)
                for step, numbers in metrics.take(event, facts):
                    sink.log(numbers, step, _number(facts, "time") or 0.0)
                if event in LAST_EVENTS:
                    over = True
                    sink.close()
        except Exception as error:
            over = True
            warn(f"{name} stopped tracking this run: {type(error).__name__}: {error}")

    return observe


def _step(facts: Mapping[str, Fact]) -> int:
    return int(_number(facts, "round") or 0)


def _number(facts: Mapping[str, Fact], name: str) -> float | None:
    value = facts.get(name)
    return float(value) if isinstance(value, int | float) else None


def _safe_name(env: str) -> str:
    """The environment's name, reduced to characters that every tracker accepts."""
    return re.sub(r"[^\w.-]", "_", env)
