"""The names of `import gmc_bench as gmc`."""

import json
import subprocess
import sys

import numpy as np
import pytest

import gmc_bench as gmc
from gmc_bench.bodies.sets import load_morphologies
from gmc_bench.core.errors import ConfigError, GmcBenchError
from gmc_bench.experiments.evaluation import EvaluationOptions
from gmc_bench.methods import METHODS
from gmc_bench.policies.options import PolicyOptions

SPEC = gmc.ExperimentSpec(method="recmorph", suite="unimal", task="ft", bodies="tiny", threads=1)


def test_every_public_name_is_there_and_documented():
    for name in gmc.__all__:
        assert getattr(gmc, name).__doc__, name
    assert set(gmc.__all__) <= set(dir(gmc))
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        gmc.nothing  # noqa: B018


def test_the_body_set_of_an_environment_has_one_name():
    with pytest.raises(ConfigError, match="'morphologies' is called 'bodies' here"):
        gmc.make_env("unimal-ft", morphologies="tiny")


@pytest.mark.parametrize("wrong", [3, "tiny", ()])
def test_a_run_is_opened_with_a_body_set(wrong, tmp_path):
    with pytest.raises(
        ConfigError,
        match=r"^opening a run needs a MorphologySet, got .*; leave it out, or load one",
    ):
        gmc.Experiment.open(tmp_path, bodies=wrong)


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
        (
            {"num_env": 2},
            "a MorphologyEnv has no option 'num_env'; known: bodies, num_envs, split, token_",
        ),
        (
            {"num_envs": 2, "num_thread": 1},
            "a MorphologyVectorEnv has no option 'num_thread'; known: bodies, fixed, num_",
        ),
    ],
)
def test_an_option_that_an_environment_lacks_is_refused(options, sentence):
    with pytest.raises(ConfigError) as caught:
        gmc.make_env("unimal-ft", "tiny", **options)
    assert str(caught.value).startswith(sentence)


@pytest.mark.parametrize(
    "ask",
    [
        lambda given: gmc.Experiment(method="mlp", suite="unimal", out=given),
        lambda given: gmc.Sweep([SPEC], out=given),
        lambda given: gmc.Sweep([SPEC], reuse=given),
        lambda given: gmc.Tuning(method="recmorph", out=given),
        gmc.Experiment.open,
        gmc.Sweep.open,
        gmc.Tuning.open,
        gmc.Policy.load,
        gmc.evaluate,
        gmc.load_policy,
        gmc.load_records,
    ],
)
def test_what_is_no_path_is_refused(ask):
    for given in (3, [], b"runs", ""):
        with pytest.raises(ConfigError, match="must be named by text or a path, got "):
            ask(given)


@pytest.mark.parametrize(
    "ask",
    [
        lambda: gmc.Experiment(SPEC, on_event=3),
        lambda: gmc.Experiment(SPEC).subscribe(3),
        lambda: gmc.Sweep([SPEC], on_event=3),
        lambda: gmc.Tuning(method="recmorph", on_event=3),
    ],
)
def test_what_cannot_be_told_of_events_is_refused_at_once(ask):
    with pytest.raises(ConfigError, match=r"what is told of events must be a function .* got 3"):
        ask()


@pytest.mark.parametrize("given", ["abc", 3, {}])
def test_what_is_no_tuning_is_refused(given):
    with pytest.raises(ConfigError, match="a tuning needs a TuningSpec, got "):
        gmc.Tuning(given)


@pytest.mark.parametrize("num_envs", [None, 2])
@pytest.mark.parametrize("given", ["a", 3, [], {}])
def test_what_is_no_token_layout_is_refused(given, num_envs):
    with pytest.raises(ConfigError, match="an environment needs a TokenSpec, got "):
        gmc.make_env("unimal-ft", "tiny", num_envs=num_envs, token_spec=given)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((3, "unimal-ft", "tiny"), "a sequence of bodies, got a str"),
        ((3, "unimal-ft", ["a"]), "a sequence of bodies, got \\['a'\\]"),
        ((3, "unimal-ft", []), "an environment needs at least one body, got none"),
        ((3, 3, "tiny"), "the name of a task must be a string, got 3"),
    ],
)
def test_what_makes_no_policy_is_refused(arguments, sentence):
    with pytest.raises(GmcBenchError, match=sentence):
        gmc.Policy.untrained(*arguments)


def test_methods_layouts_and_options_of_a_policy_are_checked():
    bodies = load_morphologies("tiny").split("train")
    with pytest.raises(GmcBenchError, match="the name of a method must be a string, got 3"):
        gmc.Policy.untrained(3, "unimal-ft", bodies)
    for name in ("spec", "options"):
        with pytest.raises(ConfigError, match=r"a policy needs a .*, got 'a'; leave it out"):
            gmc.Policy.untrained("mlp", "unimal-ft", bodies, **{name: "a"})
    for config in ("lite", 3, METHODS.load("recmorph").make_config()):
        with pytest.raises(ConfigError, match=r"settings of the method 'mlp' are a MLPConfig, or"):
            gmc.Policy.untrained("mlp", "unimal-ft", bodies, config=config)


@pytest.mark.parametrize(
    "wrong",
    [
        {"order": "x"},
        {"order": "siblings"},
        {"normalization": 3},
        {"precision": "f16"},
        {"action_std": -1.0},
    ],
)
def test_options_that_a_policy_would_ignore_are_refused(wrong):
    with pytest.raises(ConfigError, match=f"'{next(iter(wrong))}' must be "):
        PolicyOptions(**wrong)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"episodes": 0}, "'episodes' must be at least 1, got 0"),
        ({"episodes": 10**20}, "'episodes' must be at most 1,000,000, got 1000"),
        ({"episodes": "a"}, "'episodes' must be an integer or none, got 'a'"),
        ({"split": []}, "'split' must be "),
        ({"mode": "best"}, "'mode' must be "),
        ({"untrained": "maybe"}, "'untrained' must be true or false"),
    ],
)
def test_options_of_an_evaluation_are_checked(wrong, sentence):
    with pytest.raises(ConfigError, match=sentence):
        EvaluationOptions(**wrong)


@pytest.mark.parametrize("name", ["protocol", "preset"])
def test_an_empty_name_is_not_the_default(name):
    with pytest.raises(GmcBenchError, match=f"has no {name} ''; known: lite, "):
        _ = gmc.Experiment(SPEC, **{name: ""}).resolved


def test_numbers_of_numpy_are_numbers():
    spec = SPEC.replace(seed=np.int64(2), settings={"ppo.lr": np.float64(0.5), "a": np.int64(3)})
    assert spec.seed == 2
    assert json.loads(json.dumps(spec.to_dict()))["settings"] == {"a": 3, "ppo.lr": 0.5}
    assert [type(value) for value in spec.settings.values()] == [int, float]
