"""trackio: a project in its own folder on this machine."""

from collections.abc import Mapping
from pathlib import Path

import trackio

from fedse_trackers import Sink


def begin(folder: Path, project: str, environ: Mapping[str, str]) -> Sink:
    """Numbers go to the project, under the name of the run's folder."""
    trackio.init(
        project=project,
        name=folder.name,
        resume="allow",
        embed=False,
        auto_log_gpu=False,
        auto_log_cpu=False,
    )
    return Sink(lambda numbers, step, at: trackio.log(dict(numbers), step=step), trackio.finish)
