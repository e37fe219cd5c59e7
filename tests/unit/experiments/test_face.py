"""The names of `import gmc_bench as gmc`."""

import subprocess
import sys

import pytest

import gmc_bench as gmc
from gmc_bench.core.errors import ConfigError


def test_every_public_name_is_there_and_documented():
    for name in gmc.__all__:
        assert getattr(gmc, name).__doc__, name
    assert set(gmc.__all__) <= set(dir(gmc))
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        gmc.nothing  # noqa: B018


@pytest.mark.parametrize(
    ("statement", "heavy"),
    [
        ("gmc.__version__", "{'torch', 'mujoco', 'numpy', 'yaml'}"),
        ("gmc.ExperimentSpec(method='mlp', suite='unimal').digest", "{'torch', 'mujoco'}"),
        ("gmc.list_methods(); gmc.list_suites(); gmc.load_records", "{'torch', 'pandas'}"),
        ("gmc.Experiment; gmc.Sweep", "{'torch', 'pandas', 'matplotlib'}"),
    ],
)
def test_importing_and_describing_loads_nothing_heavy(statement, heavy):
    statement = f"import gmc_bench as gmc; {statement}"
    script = f"import sys; {statement}; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_lists_name_what_is_registered():
    assert "recmorph" in gmc.list_methods()
    assert "unimal-v1" in gmc.list_suites()
    assert "unimal-ft-v1" in gmc.list_tasks()
    assert {"tiny", "gmc-unimal-mini-v1"} <= set(gmc.list_bodies())
    assert "unimals_100" not in gmc.list_bodies()  # it is not imported


def test_environments_by_name():
    env = gmc.make_env("unimal-ft", "tiny")
    observation, info = env.reset(seed=0, options={"morphology": "star-3"})
    assert info["morphology"] == "star-3"
    assert observation["tokens"].ndim == 2
    batch = gmc.make_env("unimal-ft", "tiny", num_envs=3, num_threads=1)
    assert batch.reset(seed=0)[0]["dynamic"].shape[0] == 3


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"num_threads": 1}, "a MorphologyEnv has no option 'num_threads'; known: token_spec"),
        ({"num_envs": 2, "num_thread": 1}, "a MorphologyVectorEnv has no option 'num_thread'; did"),
    ],
)
def test_an_option_that_an_environment_lacks_is_refused(options, sentence):
    with pytest.raises(ConfigError) as caught:
        gmc.make_env("unimal-ft", "tiny", **options)
    assert str(caught.value).startswith(sentence)
