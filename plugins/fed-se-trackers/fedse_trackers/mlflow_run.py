"""MLflow: a database in the run's folder, or the server that MLFLOW_TRACKING_URI names."""

from collections.abc import Mapping
from pathlib import Path

# Its database needs the first two, and imports them later.
import alembic  # noqa: F401
import sqlalchemy  # noqa: F401
from mlflow.entities import Metric
from mlflow.tracking import MlflowClient

from fedse_trackers import Sink


def begin(folder: Path, project: str, environ: Mapping[str, str]) -> Sink:
    """A new run of the experiment `project`."""
    own = folder.resolve() / "trackers"
    own.mkdir(parents=True, exist_ok=True)
    uri = environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{own}/mlflow.db"
    client = MlflowClient(tracking_uri=uri)
    earlier = client.get_experiment_by_name(project)
    experiment = earlier.experiment_id if earlier else client.create_experiment(project)
    run = client.create_run(experiment, run_name=folder.name).info.run_id

    def log(numbers: Mapping[str, float], step: int, at: float) -> None:
        batch = [Metric(name, value, int(at * 1000), step) for name, value in numbers.items()]
        client.log_batch(run, metrics=batch)

    return Sink(log, lambda: client.set_terminated(run))
