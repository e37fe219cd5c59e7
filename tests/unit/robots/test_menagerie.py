from dataclasses import replace
from importlib.util import find_spec

import pytest

from gmc_bench.core.errors import ConfigError
from gmc_bench.robots import GO1, ROBOTS
from gmc_bench.robots.menagerie import ENTRIES
from tests.support.menagerie import compare_with_menagerie


def test_every_robot_has_an_entry():
    makers = {"go1": "unitree", "go2": "unitree", "anymal-b": "anybotics", "anymal-c": "anybotics"}
    assert set(ENTRIES) == set(ROBOTS) == set(makers)
    for name, (folder, entry) in ENTRIES.items():
        assert entry == name.replace("-", "_")
        assert folder == f"{makers[name]}_{entry}"


def test_an_unknown_robot_is_refused():
    with pytest.raises(ConfigError, match="has no model in MuJoCo Menagerie"):
        compare_with_menagerie(replace(GO1, name="go9"))


@pytest.mark.skipif(find_spec("mujoco_menagerie") is not None, reason="the package is installed")
def test_a_missing_package_is_reported():
    with pytest.raises(ConfigError, match=r"pip install 'gmc-bench\[menagerie\]'"):
        compare_with_menagerie(GO1)


@pytest.mark.skipif(find_spec("mujoco_menagerie") is None, reason="needs mujoco-menagerie")
def test_go1_agrees_with_menagerie():
    try:
        differences = compare_with_menagerie(GO1)
    except ConfigError as error:
        pytest.skip(str(error))
    assert {d.quantity for d in differences} <= {"range"}
