"""Trials of a tuning and which is the best."""

import pytest

from gmc_bench.core.errors import ConfigError
from gmc_bench.experiments.trials import TuningTrial, best_of


def test_the_best_trial_has_all_its_returns():
    trials = [
        TuningTrial(0, {"ppo.lr": 1e-3}, {1: 5.0, 2: 7.0}, 1.0),
        TuningTrial(1, {"ppo.lr": 2e-3}, {1: 90.0, 2: None}, 1.0),
        TuningTrial(2, {"ppo.lr": 3e-3}, {1: 6.0, 2: 6.0}, 1.0),
    ]
    assert best_of(trials).number == 0
    with pytest.raises(ConfigError, match="raise 'env_steps'"):
        best_of(trials[1:2])
