"""A trainer together with the folder that it is run in."""

import numpy as np

from gmc_bench.experiments.events import IterationFinished
from gmc_bench.experiments.execution import continue_latest, train
from gmc_bench.experiments.run_folder import RunFolder
from gmc_bench.training.checkpoint import Checkpoint, _split, write_checkpoint


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
