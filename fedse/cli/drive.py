"""What `run`, `demo` and `resume` share: is the machine ready, drive the run, tell the result."""

import json
import os
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from fedse.cli.display import Mode
from fedse.cli.follow import followed
from fedse.cli.result import result_of, result_text
from fedse.config.schema import Config
from fedse.envs.base import env_names, make_env
from fedse.errors import ConfigError, FedSEError, MachineError
from fedse.events import Fact, Observer
from fedse.store.run import Run
from fedse.store.run_folder import held, runs_root
from fedse.suggest import closest

Engine = Literal["local", "simulation", "deployment"]

# Plain pip would bring a CUDA build of several gigabytes on Linux.
CPU_TORCH = "uv pip install --torch-backend cpu 'fed-se[hf]'"


class Interrupted(FedSEError):
    """The user stopped the run; nothing is lost but the round that was under way."""

    exit_code = 130


def root_of(out: Path | None) -> Path:
    return out if out is not None else runs_root(os.environ)


def require_members(config: Config) -> None:
    """Every client's environment can be made here with its options."""
    for number, client in enumerate(config.clients):
        try:
            make_env(client.env, client.options).close()
        except FedSEError as error:
            near = closest(client.env, env_names()) if client.env not in env_names() else ""
            asked = f", did you mean {near!r}?" if near else ""
            where = f"clients.{number} ({client.name})"
            raise type(error)(f"{where}: {error}{asked}", hint=error.hint) from error


def require_machine(engine: Engine) -> None:
    """All packages the run needs are installed, or the error says which line installs them."""
    lacking = [name for name in ("torch", "transformers", "peft") if find_spec(name) is None]
    if lacking:
        raise MachineError(
            f"playing and training need {', '.join(lacking)}, not installed here",
            hint=CPU_TORCH,
        )
    needed = {"local": (), "simulation": ("flwr", "ray"), "deployment": ("flwr",)}[engine]
    lacking = [name for name in needed if find_spec(name) is None]
    if lacking:
        extra = "simulation" if engine == "simulation" else "flower"
        raise MachineError(
            f"engine {engine} needs {', '.join(lacking)}, not installed here",
            hint=f"pip install 'fed-se[{extra}]', or use --engine local",
        )


def require_local(config: Config, engine: Engine) -> None:
    """Settings that need everybody's data in one place are for the local driver only."""
    if config.buffer.pooled and engine != "local":
        raise ConfigError(
            f"buffer.pooled = true trains on all clients' data, engine {engine} keeps it apart",
            hint="use --engine local",
        )


def fan_out(observers: Sequence[Observer]) -> Observer:
    """Tells all observers, also those added to the list later."""

    def tell(event: str, entry: dict[str, Fact]) -> None:
        for observer in observers:
            observer(event, entry)

    return tell


def drive(run: Run, engine: Engine, observer: Observer) -> None:
    """All rounds are committed; an end before that is in the event log."""
    try:
        if engine == "local":
            from fedse.drivers.run import run_local

            with held(run.path):
                run_local(run)
        else:
            _on_flower(run, engine, observer)
    except KeyboardInterrupt:
        done, rounds = run.committed or 0, run.config.run.rounds
        run.emit("run.interrupted", round=done)
        raise Interrupted(
            f"stopped after round {done} of {rounds}; what was committed is kept",
            hint=f"fedse resume {run.path}",
        ) from None
    except FedSEError as error:
        run.emit("run.failed", error=str(error), exit_code=error.exit_code)
        error.hint = error.hint or f"fedse resume {run.path}"
        raise


def _on_flower(run: Run, engine: Engine, observer: Observer) -> None:
    from fedse.flower.ops.deployment import run_deployment
    from fedse.flower.ops.simulation import run_simulation

    # The server's app is another process and holds the run itself.
    with followed(run.path / "events.jsonl", observer):
        start = run_simulation if engine == "simulation" else run_deployment
        start(run.path, run.path / "flower")


def tell_result(run: Run, mode: Mode) -> None:
    """The result is on stdout: a table for people, one JSON object for programs."""
    result = result_of(run)
    if mode != "json":
        print(file=sys.stderr)
    print(json.dumps(result) if mode == "json" else result_text(result))
    sys.stdout.flush()
