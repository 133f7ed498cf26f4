"""A run's numbers for experiment trackers: TensorBoard, trackio, MLflow, Weights & Biases.

A metric is a number under the names of clients and environments the experiment file gives; no other
text of an event is passed on. Step = round. None of the trackers is required, all of them write to
this machine unless the user's environment says otherwise, and one that fails never stops a run.
"""

import re
import sys
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

from fedse.config.schema import Config
from fedse.errors import require_all, require_packages
from fedse.events import Fact, Observer
from fedse.stats.rates import Rate, by_env, micro

Tracker = Literal["tensorboard", "trackio", "mlflow", "wandb"]
NEEDS: Mapping[Tracker, tuple[str, ...]] = {
    "tensorboard": ("tensorboard",),
    "trackio": ("trackio",),
    "mlflow": ("mlflow", "sqlalchemy", "alembic"),
    "wandb": ("wandb",),
}
# Nothing is sent or printed unless the user's environment says otherwise.
SILENT = {
    "WANDB_MODE": "offline",
    "WANDB_SILENT": "true",
    "WANDB_ERROR_REPORTING": "false",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "1",
}
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
"""Metric of a client and the fact of its answer it comes from."""

Numbers = Mapping[str, float]


class Sink(NamedTuple):
    """An open tracker."""

    log: Callable[[Numbers, int, float], None]
    """Takes numbers by name, the round, and when they came to be (Unix seconds)."""
    close: Callable[[], None]


def require_trackers(names: Sequence[Tracker]) -> None:
    """All packages that the trackers need are installed."""
    require_all(
        *(partial(require_packages, f"--track {name}", *NEEDS[name], extra=name) for name in names)
    )


def tracked(
    names: Sequence[Tracker],
    folder: Path,
    config: Config,
    *,
    environ: MutableMapping[str, str],
    warn: Callable[[str], None],
) -> list[Observer]:
    """One observer per tracker of the run in `folder`."""
    for name, value in SILENT.items():
        environ.setdefault(name, value)
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
    name: Tracker,
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
            # Results go to stdout, and trackers print greetings there.
            with redirect_stdout(sys.stderr):
                sink = sink or SINKS[name](folder, config.run.name, environ)
                for step, numbers in metrics.take(event, facts):
                    sink.log(numbers, step, _number(facts, "time") or 0.0)
                if event in LAST_EVENTS:
                    over = True
                    sink.close()
        except Exception as error:
            over = True
            warn(f"{name} stopped tracking this run: {type(error).__name__}: {error}")

    return observe


def _tensorboard(folder: Path, project: str, environ: Mapping[str, str]) -> Sink:
    from tensorboard.summary import Writer

    writer = Writer(str(folder / "trackers" / "tensorboard"))

    def log(numbers: Numbers, step: int, at: float) -> None:
        for name, value in numbers.items():
            writer.add_scalar(name, value, step, wall_time=at)
        writer.flush()

    return Sink(log, writer.close)


def _trackio(folder: Path, project: str, environ: Mapping[str, str]) -> Sink:
    import trackio

    trackio.init(
        project=project,
        name=folder.name,
        resume="allow",
        embed=False,
        auto_log_gpu=False,
        auto_log_cpu=False,
    )
    return Sink(lambda numbers, step, at: trackio.log(dict(numbers), step=step), trackio.finish)


def _mlflow(folder: Path, project: str, environ: Mapping[str, str]) -> Sink:
    from mlflow.entities import Metric
    from mlflow.tracking import MlflowClient

    own = folder.resolve() / "trackers"
    own.mkdir(parents=True, exist_ok=True)
    uri = environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{own}/mlflow.db"
    client = MlflowClient(tracking_uri=uri)
    earlier = client.get_experiment_by_name(project)
    experiment = earlier.experiment_id if earlier else client.create_experiment(project)
    run = client.create_run(experiment, run_name=folder.name).info.run_id

    def log(numbers: Numbers, step: int, at: float) -> None:
        batch = [Metric(name, value, int(at * 1000), step) for name, value in numbers.items()]
        client.log_batch(run, metrics=batch)

    return Sink(log, lambda: client.set_terminated(run))


def _wandb(folder: Path, project: str, environ: Mapping[str, str]) -> Sink:
    import wandb

    own = folder / "trackers"
    own.mkdir(parents=True, exist_ok=True)
    run: Any = wandb.init(project=project, name=folder.name, dir=str(own))
    # Evaluations of a round arrive during the next one, and W&B's own step only grows.
    run.define_metric("*", step_metric="round")
    return Sink(lambda numbers, step, at: run.log({**numbers, "round": step}), run.finish)


SINKS: Mapping[Tracker, Callable[[Path, str, Mapping[str, str]], Sink]] = {
    "tensorboard": _tensorboard,
    "trackio": _trackio,
    "mlflow": _mlflow,
    "wandb": _wandb,
}


def _step(facts: Mapping[str, Fact]) -> int:
    return int(_number(facts, "round") or 0)


def _number(facts: Mapping[str, Fact], name: str) -> float | None:
    value = facts.get(name)
    return float(value) if isinstance(value, int | float) else None


def _safe_name(env: str) -> str:
    """The environment's name with only such characters as every tracker takes."""
    return re.sub(r"[^\w.-]", "_", env)
