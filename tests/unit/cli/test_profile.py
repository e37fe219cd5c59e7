"""What `gmc-bench profile` measures follows from its options."""

import pytest

from gmc_bench import profiling
from gmc_bench.core.errors import ConfigError
from gmc_bench.suites import SUITES

TASKS = SUITES.load("unimal").tasks


@pytest.fixture
def asked(gmc, monkeypatch):
    """Return the settings that a command would measure; nothing is measured."""
    found = []

    def refuse(settings):
        found[:] = settings
        raise ConfigError("nothing is measured")

    for name in profiling.MEASURES:
        monkeypatch.setitem(profiling.MEASURES, name, lambda setting: refuse([setting]))
    monkeypatch.setattr(profiling, "profile_tasks", refuse)

    def settings(*argv):
        assert "nothing is measured" in gmc("profile", *argv, "--morphologies", "tiny")[2]
        return list(found)

    return settings


def test_train_bodies_are_simulated_on_all_tasks_unless_one_is_asked_for(asked, tiny_set):
    found = asked("sim")
    assert tuple(setting.task.id for setting in found) == TASKS
    for setting in found:
        assert setting.bodies == tiny_set.split("train")
        assert setting.protocol == SUITES.load("unimal").protocol("lite", setting.task.id)
        assert (setting.num_envs, setting.seconds) == (256, 10.0)
    (found,) = asked("sim", "--task", "vt", "--num-envs", 3)
    assert (found.task.id, found.num_envs) == ("unimal-vt-v1", 3)
    (found,) = asked("train")
    assert found.task.id == TASKS[0]


def test_other_options_reach_the_measurement(asked):
    options = ("--protocol", "smoke", "--threads", 1, "--seconds", 0.5, "--preset", "lite", "paper")
    (found,) = asked("methods", "--method", "swat", *options)
    assert ([method.id for method in found.methods], found.presets) == (["swat"], ["lite", "paper"])
    assert (found.protocol.name, found.threads, found.seconds) == ("smoke", 1, 0.5)
