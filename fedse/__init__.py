"""Fed-SE: organisations improve one LLM agent together without showing what their agents saw.

Every public name is here; each is imported from its module when it is first used, so that
`import fedse` costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedse.agent.policy import Dialogue, Policy, Reply, ScriptedPolicy
    from fedse.base_model import adapter_spec, initial_adapter
    from fedse.buffer import Buffer
    from fedse.config import Config
    from fedse.config_file import load_config
    from fedse.coordinator import federate
    from fedse.envs.base import Env, ExpertEnv, Step, env_names, make_env
    from fedse.envs.check import check_env
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
    from fedse.export import export_adapter
    from fedse.local import run_local
    from fedse.parties import Site
    from fedse.rounds import client_round, server_round
    from fedse.run import Run
    from fedse.run_folder import create_run, open_run
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

__version__ = "0.1.0"

_HOME = {
    "fedse.agent.policy": "Dialogue Policy Reply ScriptedPolicy",
    "fedse.base_model": "adapter_spec initial_adapter",
    "fedse.buffer": "Buffer",
    "fedse.config": "Config",
    "fedse.config_file": "load_config",
    "fedse.coordinator": "federate",
    "fedse.envs.base": "Env ExpertEnv Step env_names make_env",
    "fedse.envs.check": "check_env",
    "fedse.errors": (
        "AdapterRejected ConfigError EnvError FedSEError MachineError RunError StoreError"
        " TrainError WireError"
    ),
    "fedse.export": "export_adapter",
    "fedse.local": "run_local",
    "fedse.parties": "Site",
    "fedse.rounds": "client_round server_round",
    "fedse.run": "Run",
    "fedse.run_folder": "create_run open_run",
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
