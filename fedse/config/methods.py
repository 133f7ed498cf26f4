"""The method, its baselines and its ablations: each is the same loop under other settings.

A method that has clients work alone is one run per client; the mean of one adapter is itself.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from fedse.config.schema import ClientSection, Config
from fedse.config.training import rivals
from fedse.errors import ConfigError
from fedse.suggest import closest


class Method(NamedTuple):
    """What distinguishes one way of learning from the experiment file it is applied to."""

    about: str
    settings: Mapping[str, Any] = {}
    """Dotted keys and their values."""
    alone: bool = False
    """Every client is an experiment of its own."""


STATIC = {"rollout.episodes": 0}
# With one adapter there is no mean, so neither a step nor another way to merge has a meaning.
ALONE = {"aggregate.step": 1.0, "aggregate.type": "mean", "aggregate.options": {}}
POOLED = {"buffer.pooled": True, **ALONE}

METHODS: Mapping[str, Method] = {
    "fed-se": Method("explore, keep successes, learn, average: the paper's method"),
    "fedit": Method("learn from demonstrations only, average (paper: FedIT)", STATIC),
    "local-static": Method(
        "each client alone, demonstrations only (paper: Local)", {**STATIC, **ALONE}, True
    ),
    "local-evolve": Method("each client alone explores and learns; nothing is shared", ALONE, True),
    "central-static": Method(
        "one trainer, all demonstrations (paper: Centralized)", {**STATIC, **POOLED}
    ),
    "central-evolve": Method("one trainer, all clients' experience in one place", POOLED),
    "no-filter": Method(
        "also learn from failed episodes", {"select.type": "all", "select.options": {}}
    ),
    "no-history": Method("learn from this round's successes only", {"buffer.history": "round"}),
    "no-experience": Method(
        "learn from the demonstrations and this round's successes only",
        {"buffer.history": "demonstrations"},
    ),
    "weighted": Method(
        "average weighted by buffer size", {"aggregate.type": "weighted", "aggregate.options": {}}
    ),
    "no-clip": Method("plain mean, no update is shortened (paper)", {"aggregate.clip": "none"}),
}


def method_named(name: str) -> Method:
    """The method of that name."""
    if name not in METHODS:
        near = closest(name, list(METHODS))
        raise ConfigError(
            f"there is no method {name!r}, expected one of {', '.join(METHODS)}",
            hint=f"did you mean {near!r}?" if near else "",
        )
    return METHODS[name]


def apply_method(config: Config, name: str) -> list[Config]:
    """The experiments that together are this method on `config`, each with its own name.

    The name of an experiment is in no seed, so the same client plays the same games in all. Clients
    that join after the last round measure the adapters of all.
    """
    method = method_named(name)
    changed = with_settings(config, method.settings)
    if not method.alone:
        return [_named(changed, name, changed.clients)]
    last = newcomers(changed)
    learning = [client for client in changed.clients if client not in last]
    lone = [client.model_copy(update={"joins": 1}) for client in learning]
    return [_named(changed, f"{name}-{client.name}", (client, *last)) for client in lone]


def newcomers(config: Config) -> tuple[ClientSection, ...]:
    """The clients that learn in no round: the last adapter is measured on their first day."""
    return tuple(client for client in config.clients if client.joins > config.run.last)


def one_experiment(config: Config, method: str | None, only: str | None) -> Config:
    """`config` under `method`, with the client `only` alone; unset leaves it as it is.

    Clients that join after the last round measure the last adapter here too.
    """
    if only is not None:
        names = [client.name for client in config.clients]
        if only not in names:
            raise ConfigError(f"there is no client {only!r}, expected one of {', '.join(names)}")
        others = [client for client in newcomers(config) if client.name != only]
        first = config.client(only)
        if first in newcomers(config):
            first = first.model_copy(update={"joins": 1})
        config = config.model_copy(update={"clients": (first, *others)})
    if method is None:
        return config
    experiments = apply_method(config, method)
    if len(experiments) > 1:
        raise ConfigError(
            f"method {method} has every client work alone: that is {len(experiments)} experiments",
            hint=f"run one of them: --only {config.clients[0].name}",
        )
    return experiments[0]


def with_settings(config: Config, settings: Mapping[str, Any]) -> Config:
    """`config` with the dotted keys set, checked again; what they replace is unset."""
    raw = config.model_dump()
    for key, value in settings.items():
        section, _, name = key.partition(".")
        raw[section][name] = value
        for rival in rivals((section, name)) if value is not None else ():
            raw[section][rival] = settings.get(f"{section}.{rival}")
    return Config.model_validate(raw)


def _named(config: Config, suffix: str, clients: tuple[ClientSection, ...]) -> Config:
    name = f"{config.run.name}-{suffix}"[:64]
    run = config.run.model_copy(update={"name": name})
    return config.model_copy(update={"run": run, "clients": clients})
