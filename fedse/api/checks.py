"""Can this experiment run here? What is missing or too small is an error before anything starts."""

from collections.abc import Callable
from functools import partial

from fedse.adapters.base import base_path
from fedse.api.engines import Engine
from fedse.config.requirements import require_installed
from fedse.config.schema import ClientSection, Config
from fedse.envs.base import make_env
from fedse.errors import (
    TORCH,
    ConfigError,
    FedSEError,
    MachineError,
    require_all,
    require_packages,
)
from fedse.models.number_format import slowed_by
from fedse.site.acting import engine_of
from fedse.site.rehearsal import foreseen, require_prompt_fits


def require_runnable(config: Config, engine: Engine, *more: Callable[[], object]) -> None:
    """The machine, the environments and the settings allow this experiment with this engine.

    Missing packages, also those that the checks in `more` find, are named in one error.
    """
    require_local(config, engine)
    require_all(
        partial(require_members, config),
        partial(require_machine, engine),
        partial(require_installed, config),
        engine_of(config).require,
        *more,
    )


def require_members(config: Config) -> None:
    """Every client's environment can be made here with its options."""
    require_all(*(partial(_require_env, place) for place in enumerate(config.clients)))


def _require_env(place: tuple[int, ClientSection]) -> None:
    number, client = place
    try:
        make_env(client.env, client.options).close()
    except FedSEError as error:
        if isinstance(error, MachineError) and error.missing:
            raise
        where = f"clients.{number} ({client.name})"
        raise type(error)(f"{where}: {error}", hint=error.hint) from error


def require_machine(engine: Engine) -> None:
    """All packages that a run with this engine needs are installed."""
    needs = {
        "local": (),
        "simulation": ("flwr", "ray", "simulation"),
        "deployment": ("flwr", "flower"),
    }[engine]
    model = ("torch", "transformers", "peft")
    require_all(
        partial(require_packages, "a model that plays and trains", *model, extra=TORCH),
        *(partial(require_packages, f"engine {engine}", *needs[:-1], extra=e) for e in needs[-1:]),
    )


def require_local(config: Config, engine: Engine) -> None:
    """Settings that need all clients' data in one place are used with the local driver only."""
    if config.buffer.pooled and engine != "local":
        raise ConfigError(
            f"buffer.pooled = true trains on all clients' data, engine {engine} keeps it apart",
            hint="use the engine local",
        )


def rehearse(config: Config) -> list[str]:
    """Every client can begin a game and answer in it; what will go wrong later is returned."""
    from fedse.agent.tokens import load_encoder

    encoder, warnings = load_encoder(base_path(config.model.base)), list[str]()
    for client in config.clients:
        make = partial(make_env, client.env, client.options)
        require_prompt_fits(make, encoder, config, client)
        alarms = foreseen(make, encoder, config, client)
        warnings += [f"{alarm.text}; next: {alarm.next}" for alarm in alarms]
    return [*warnings, *(f"{slow}; {fix}" for slow, fix in slowed_by(config.trainer))]
