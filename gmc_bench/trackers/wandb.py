"""Weights & Biases: a service, or files for it with `WANDB_MODE=offline`."""

import os
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from gmc_bench.trackers.tracker import PROJECT, Connection, TrackedRun, Tracker

CONNECT_S = 30.0
"""Seconds that the service may take to begin a run."""
FINISH_S = 45.0
"""Seconds that it may take at the end."""
WRITE_S = 1.0
"""Seconds that numbers may wait until they are in a file, where a killed run leaves them."""


class WandbRun(Connection):
    """A run of Weights & Biases; `env_steps` are its steps.

    Only what the run tells is sent: no code, no requirements, nothing about the machine.

    Args:
        run: what is tracked.

    Raises:
        RuntimeError: nobody is logged in.
    """

    def __init__(self, run: TrackedRun) -> None:
        for name, value in (("WANDB_SILENT", "true"), ("WANDB_ERROR_REPORTING", "false")):
            os.environ.setdefault(name, value)
        wandb = import_module("wandb")
        if _is_online(wandb) and not wandb.login(prompt=False):  # else it would ask, and wait
            raise RuntimeError(
                "nobody is logged in to W&B; run 'wandb login', or set WANDB_MODE=offline"
            )
        project = run.project or os.environ.get("WANDB_PROJECT") or PROJECT
        entity, _, name = project.rpartition("/")
        self._run = wandb.init(
            entity=entity or None,
            project=name,
            name=run.name,
            id=run.id,
            resume="allow",
            config=dict(run.settings),
            dir=str(run.folder),
            reinit="create_new",  # what else the process tracks is left alone
            save_code=False,
            settings=wandb.Settings(
                console="off",
                disable_git=True,
                disable_job_creation=True,
                init_timeout=CONNECT_S,
                finish_timeout=FINISH_S,
                host="",
                silent=True,
                x_disable_machine_info=True,
                x_disable_meta=True,
                x_disable_stats=True,
                x_save_requirements=False,
                x_transaction_log_flush_interval=WRITE_S,
            ),
        )
        self.place = self._run.url or self._run.dir.removesuffix("files").rstrip("/")

    def write(self, scalars: Mapping[str, float], env_steps: int) -> None:
        """Send numbers of training."""
        self._run.log(dict(scalars), step=env_steps, commit=True)

    def finish(self, scores: Mapping[str, float], facts: Mapping[str, str], env_steps: int) -> None:
        """Write scores and facts into the summary of the run."""
        self._run.summary.update({**scores, **facts})

    def close(self, *, finished: bool) -> None:
        """Wait until what is left is sent."""
        self._run.finish(exit_code=0 if finished else 1)


def _is_online(wandb: Any) -> bool:
    return wandb.setup().settings.mode in ("online", "shared", "run")


TRACKER = Tracker(
    id="wandb",
    title="Weights & Biases",
    connect=WandbRun,
    package="wandb",
    install="pip install 'gmc-bench[wandb]'",
)
