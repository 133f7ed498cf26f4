"""Weights & Biases: offline in the run's folder, unless WANDB_MODE says otherwise."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import wandb

from fedse_trackers import Sink


def begin(folder: Path, project: str, environ: Mapping[str, str]) -> Sink:
    """A new run of `project`, in trackers/wandb of `folder`."""
    own = folder / "trackers"
    own.mkdir(parents=True, exist_ok=True)
    run: Any = wandb.init(project=project, name=folder.name, dir=str(own))
    # Evaluations of a round arrive during the next one, and W&B's own step only grows.
    run.define_metric("*", step_metric="round")
    return Sink(lambda numbers, step, at: run.log({**numbers, "round": step}), run.finish)
