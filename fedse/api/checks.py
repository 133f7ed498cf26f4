"""Can this experiment run here? What is missing or too small is an error before anything starts."""

from functools import partial

from fedse.adapters.base import base_path
from fedse.api.engines import Engine
from fedse.config.schema import Config
from fedse.envs.base import make_env
from fedse.errors import (
    INSTALL_TORCH,
    ConfigError,
    FedSEError,
    MachineError,
    is_installed,
    require_packages,
)
from fedse.models.number_format import FIX, SLOW, only_imitated
from fedse.site.rehearsal import foreseen, require_prompt_fits
from fedse.tree.settings import regions_of, require_composable


def require_runnable(config: Config, engine: Engine) -> None:
    """The machine, the environments and the settings allow this experiment with this engine."""
    require_local(config, engine)
    require_members(config)
    require_machine(engine)
    require_engine(config)


def require_members(config: Config) -> None:
    """Every client's environment can be made here with its options."""
    for number, client in enumerate(config.clients):
        try:
            make_env(client.env, client.options).close()
        except FedSEError as error:
            where = f"clients.{number} ({client.name})"
            raise type(error)(f"{where}: {error}", hint=error.hint) from error


def require_machine(engine: Engine) -> None:
    """All packages the run needs are installed, or the error says how to install them."""
    lacking = [name for name in ("torch", "transformers", "peft") if not is_installed(name)]
    if lacking:
        raise MachineError(
            f"playing and training need {', '.join(lacking)}, not installed here",
            hint=INSTALL_TORCH,
        )
    if engine == "simulation":
        require_packages("engine simulation", "flwr", "ray", extra="simulation")
    elif engine == "deployment":
        require_packages("engine deployment", "flwr", extra="flower")
    elif engine == "tree":
        require_packages("engine tree", "cryptography", extra="flower")


def require_engine(config: Config) -> None:
    """What generates replies runs already or can be started here."""
    if config.engine.type == "in-process":
        return
    require_packages("engine.type = 'vllm'", "httpx", "psutil", extra="engine")
    if config.engine.url is None:
        from fedse.engine.server import interpreter

        interpreter(config.engine)


def require_local(config: Config, engine: Engine) -> None:
    """Settings that need all clients' data in one place are used with the local driver only."""
    if config.buffer.pooled and engine != "local":
        raise ConfigError(
            f"buffer.pooled = true trains on all clients' data, engine {engine} keeps it apart",
            hint="use the engine local",
        )
    if engine == "tree":
        require_composable(config)
        regions_of(config)


def rehearse(config: Config) -> list[str]:
    """Every client can begin a game and answer in it; what will go wrong later is returned."""
    from fedse.agent.tokens import load_encoder

    encoder, warnings = load_encoder(base_path(config.model.base)), list[str]()
    for client in config.clients:
        make = partial(make_env, client.env, client.options)
        require_prompt_fits(make, encoder, config, client)
        alarms = foreseen(make, encoder, config, client)
        warnings += [f"{alarm.text}; next: {alarm.next}" for alarm in alarms]
    if only_imitated(config.trainer):
        warnings.append(f"{SLOW}; {FIX}")
    return warnings
