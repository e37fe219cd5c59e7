"""A trainer together with the folder that it is run in."""

import numpy as np

from gmc_bench.training.checkpoint import Checkpoint, _split, write_checkpoint
from gmc_bench.training.in_folder import continue_latest, train_in_folder
from gmc_bench.training.run_folder import RunFolder


class TrainerInFolder:
    """Goes on from the folder's latest checkpoint; everything else is the trainer's."""

    def __init__(self, trainer, config, path):
        self.folder = RunFolder(path, create=not path.exists())
        self.folder.config.touch()
        self.trainer, self.config = trainer, config
        continue_latest(trainer, self.folder, config.run_digest)

    def __getattr__(self, name):
        return getattr(self.trainer, name)

    def save(self):
        checkpoint = Checkpoint(self.config.run_digest, self.iteration, self.get_state())
        write_checkpoint(self.folder.checkpoints, checkpoint)

    def train(self, on_iteration=None):
        interval = self.config.checkpoint_interval_s
        train_in_folder(self.trainer, self.folder, self.config.run_digest, interval, on_iteration)


def same_statistics(trainer, other):
    """Check that two trainers would go on with the same statistics and random numbers."""
    found, expected = (_split(item.get_state()["statistics"])[0] for item in (trainer, other))
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)
