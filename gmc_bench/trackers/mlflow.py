"""MLflow: the server or the database that `MLFLOW_TRACKING_URI` names."""

import os
import time
from collections.abc import Mapping
from importlib import import_module

from gmc_bench.trackers.tracker import PROJECT, Connection, TrackedRun, Tracker

ID_TAG = "gmc_bench.id"
"""Tag that a run is found again by; MLflow chooses the ids of its runs itself."""
MAX_PARAMS = 100
"""That MLflow takes in one call."""


class MlflowRun(Connection):
    """A run of MLflow; `env_steps` are its steps, and a project is an experiment.

    Args:
        run: what is tracked.
    """

    def __init__(self, run: TrackedRun) -> None:
        # Set before the import, which reads them. Nobody asked for reports to MLflow's makers.
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
        os.environ.setdefault("MLFLOW_LOGGING_LEVEL", "WARNING")
        self._entities = import_module("mlflow.entities")
        tracking = import_module("mlflow.tracking")
        self._client = tracking.MlflowClient()
        self.place = f"{tracking.get_tracking_uri().rpartition('@')[2]} (MLflow)"  # no password
        experiment = self._experiment(
            run.project or os.environ.get("MLFLOW_EXPERIMENT_NAME") or PROJECT
        )
        found = self._client.search_runs([experiment], f"tags.`{ID_TAG}` = '{run.id}'")
        if found:
            self._id = found[0].info.run_id
            self._client.update_run(self._id, status="RUNNING")
            known = found[0].data.params  # MLflow takes no other value for them
        else:
            tags = {ID_TAG: run.id}
            self._id = self._client.create_run(experiment, run_name=run.name, tags=tags).info.run_id
            known = {}
        params = [
            self._entities.Param(name, str(value))
            for name, value in run.settings.items()
            if name not in known
        ]
        for start in range(0, len(params), MAX_PARAMS):
            self._client.log_batch(self._id, params=params[start : start + MAX_PARAMS])

    def _experiment(self, name: str) -> str:
        """Return the id of an experiment, made if it is not there."""
        found = self._client.get_experiment_by_name(name)
        return str(found.experiment_id if found else self._client.create_experiment(name))

    def write(self, scalars: Mapping[str, float], env_steps: int) -> None:
        """Send numbers of training."""
        self._send(scalars, {}, env_steps)

    def finish(self, scores: Mapping[str, float], facts: Mapping[str, str], env_steps: int) -> None:
        """Send scores as metrics of the last step and facts as tags."""
        self._send(scores, facts, env_steps)

    def _send(self, scalars: Mapping[str, float], tags: Mapping[str, str], env_steps: int) -> None:
        now = int(1000 * time.time())
        self._client.log_batch(
            self._id,
            metrics=[self._entities.Metric(k, v, now, env_steps) for k, v in scalars.items()],
            tags=[self._entities.RunTag(name, value) for name, value in tags.items()],
        )

    def close(self, *, finished: bool) -> None:
        """Say how the run ended."""
        self._client.set_terminated(self._id, "FINISHED" if finished else "KILLED")


TRACKER = Tracker(
    id="mlflow",
    title="MLflow",
    connect=MlflowRun,
    package="mlflow",
    install="pip install 'gmc-bench[mlflow]'",
)
