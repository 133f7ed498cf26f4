"""Experiment trackers that a run's numbers can be sent to, each in a module of its own.

A module imports its tracker, so a missing package is noticed before the run begins.
"""

import os
from collections.abc import Callable, Mapping
from typing import NamedTuple

SILENT = {
    "WANDB_MODE": "offline",
    "WANDB_SILENT": "true",
    "WANDB_ERROR_REPORTING": "false",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "1",
}
"""Nothing is sent or printed unless the user's environment says otherwise."""
for _name, _value in SILENT.items():  # now, as trackers read them when they are imported
    os.environ.setdefault(_name, _value)


class Sink(NamedTuple):
    """An open tracker."""

    log: Callable[[Mapping[str, float], int, float], None]
    """Takes numbers by name, the round, and when they came to be (Unix seconds)."""
    close: Callable[[], None]
