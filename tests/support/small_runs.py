"""Runs of a few iterations: their rules and settings, the folder they are in, and early ends."""

import numpy as np
import pytest

from gmc_bench.core.config import to_dict
from gmc_bench.experiments.events import IterationFinished
from gmc_bench.experiments.execution import continue_latest, train
from gmc_bench.experiments.run_folder import RunFolder
from gmc_bench.suites.protocol import PPOConfig, Protocol
from gmc_bench.training.checkpoint import Checkpoint, _split, write_checkpoint
from gmc_bench.training.run_config import RunConfig


def small_protocol(ppo=None, **changes):
    """Return the rules of runs of 4 environments x 16 steps, 2 iterations.

    Args:
        ppo: settings of PPO to change.
        changes: other settings of the protocol.
    """
    rules = {
        "name": "unit",
        "preset": "lite",
        "env_steps": 128,
        "num_envs": 4,
        "rollout_length": 16,
        "sampling_warmup_iterations": 1,
    }
    ppo = {"repeat": 2, "batch_size": 24, "lr": 1e-2} | (ppo or {})
    return Protocol(**rules | {"ppo": PPOConfig(**ppo)} | changes)


def small_config(method, settings, protocol, **changes):
    """Return the configuration of a run.

    Args:
        method: id.
        settings: of its networks, or those that differ from the usual ones, e.g.
            `spec.make_config("lite", {...})`.
        protocol: rules.
        changes: other fields.
    """
    fields = {
        "suite": "unit-v1",
        "task": "unit-v1",
        "morphologies": "unit",
        "morphologies_digest": "0" * 64,
        "seed": 0,
        "checkpoint_interval_s": 0.0,
    }
    settings = settings if isinstance(settings, dict) else to_dict(settings)
    return RunConfig(method=method, method_config=settings, protocol=protocol, **fields | changes)


class Stop(Exception):  # noqa: N818 - not an error, it stands for a killed process
    """Ends a training early."""


def stop_at(trainer, iteration):
    """Train up to the end of an iteration, and no further."""

    def check(_):
        if trainer.iteration == iteration:
            raise Stop

    with pytest.raises(Stop):
        trainer.train(check)


def outcome(trainer):
    """Return the bits that a training ends in, and its curve."""
    return trainer.policy.to_bytes(), trainer.curve


class TrainerInFolder:
    """Goes on from the folder's latest checkpoint; everything else is the trainer's."""

    def __init__(self, trainer, config, path):
        self.folder = RunFolder(path, create=not path.exists())
        self.folder.config.touch()
        self.trainer, self.config = trainer, config
        continue_latest(trainer, self.folder, config)

    def __getattr__(self, name):
        return getattr(self.trainer, name)

    def save(self):
        checkpoint = Checkpoint(self.config.run_digest, self.iteration, self.get_state())
        write_checkpoint(self.folder.checkpoints, checkpoint)

    def train(self, on_iteration=lambda done: None):
        def listen(event):
            if isinstance(event, IterationFinished):
                on_iteration(event)

        train(self.trainer, self.folder, self.config, listen)


def same_statistics(trainer, other):
    """Check that two trainers would go on with the same statistics and random numbers."""
    found, expected = (_split(item.get_state()["statistics"])[0] for item in (trainer, other))
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)
