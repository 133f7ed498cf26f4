"""For select rules: what a client has on record, its environment, and the built-in rules."""

from fedse.envs.base import Env, EnvFactory, HindsightEnv
from fedse.errors import EnvError, boundary
from fedse.method.select import OwnRecord, Select, SelectByRecord, everything, successes
from fedse.store.games import Tally
from fedse.types import Task, Trajectory, Turn

__all__ = [
    "Env",
    "EnvError",
    "EnvFactory",
    "HindsightEnv",
    "OwnRecord",
    "Select",
    "SelectByRecord",
    "Tally",
    "Task",
    "Trajectory",
    "Turn",
    "boundary",
    "everything",
    "successes",
]
