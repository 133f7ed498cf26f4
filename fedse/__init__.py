"""Fed-SE: organisations improve one LLM agent together without showing what their agents saw.

Every public name is here; each is imported from its module when it is first used, so that
`import fedse` costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fedse._version import __version__ as __version__

if TYPE_CHECKING:
    from fedse.adapters.base import adapter_spec, initial_adapter
    from fedse.adapters.peft_folder import export_adapter
    from fedse.agent.policy import Dialogue, Policy, Reply, ScriptedPolicy
    from fedse.config.file import load_config
    from fedse.config.schema import Config
    from fedse.drivers.loop import federate
    from fedse.drivers.run import run_local
    from fedse.envs.base import Env, ExpertEnv, Step, env_names, make_env
    from fedse.envs.conformance.check import check_env
    from fedse.errors import (
        AdapterRejected,
        ConfigError,
        EnvError,
        FedSEError,
        MachineError,
        RunError,
        StoreError,
        TrainError,
        WireError,
    )
    from fedse.method.rounds import client_round, server_round
    from fedse.method.site import Site
    from fedse.store.buffer import Buffer
    from fedse.store.run import Run
    from fedse.store.run_folder import create_run, open_run
    from fedse.types import (
        Adapter,
        AdapterSpec,
        ClientStats,
        ClientUpdate,
        RoundResult,
        Task,
        Trajectory,
        Turn,
    )


_HOME = {
    "fedse.agent.policy": "Dialogue Policy Reply ScriptedPolicy",
    "fedse.adapters.base": "adapter_spec initial_adapter",
    "fedse.store.buffer": "Buffer",
    "fedse.config.schema": "Config",
    "fedse.config.file": "load_config",
    "fedse.drivers.loop": "federate",
    "fedse.envs.base": "Env ExpertEnv Step env_names make_env",
    "fedse.envs.conformance.check": "check_env",
    "fedse.errors": (
        "AdapterRejected ConfigError EnvError FedSEError MachineError RunError StoreError"
        " TrainError WireError"
    ),
    "fedse.adapters.peft_folder": "export_adapter",
    "fedse.drivers.run": "run_local",
    "fedse.method.site": "Site",
    "fedse.method.rounds": "client_round server_round",
    "fedse.store.run": "Run",
    "fedse.store.run_folder": "create_run open_run",
    "fedse.types": (
        "Adapter AdapterSpec ClientStats ClientUpdate RoundResult Task Trajectory Turn"
    ),
}
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names.split()}

__all__ = [
    "Adapter",
    "AdapterRejected",
    "AdapterSpec",
    "Buffer",
    "ClientStats",
    "ClientUpdate",
    "Config",
    "ConfigError",
    "Dialogue",
    "Env",
    "EnvError",
    "ExpertEnv",
    "FedSEError",
    "MachineError",
    "Policy",
    "Reply",
    "RoundResult",
    "Run",
    "RunError",
    "ScriptedPolicy",
    "Site",
    "Step",
    "StoreError",
    "Task",
    "TrainError",
    "Trajectory",
    "Turn",
    "WireError",
    "adapter_spec",
    "check_env",
    "client_round",
    "create_run",
    "env_names",
    "export_adapter",
    "federate",
    "initial_adapter",
    "load_config",
    "make_env",
    "open_run",
    "run_local",
    "server_round",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'fedse' has no attribute {name!r}")
    return getattr(import_module(_MODULE_OF[name]), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
