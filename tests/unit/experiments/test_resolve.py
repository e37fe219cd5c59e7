"""From a specification to the settings of a run."""

from dataclasses import dataclass, replace

import pytest

from gmc_bench.bodies.store import store_set
from gmc_bench.core.config import fields_of
from gmc_bench.core.errors import ConfigError, UnknownNameError
from gmc_bench.experiments import resolve as resolving
from gmc_bench.experiments.devices import gpu_name
from gmc_bench.experiments.evaluation import EvaluationOptions
from gmc_bench.experiments.grid import Grid
from gmc_bench.experiments.method import full_name
from gmc_bench.experiments.resolve import resolve, resolve_all
from gmc_bench.experiments.spec import NAMES, ExperimentSpec
from gmc_bench.experiments.tuning import TuningSpec
from gmc_bench.sim import batch
from gmc_bench.suites import SUITES
from gmc_bench.tasks import TASKS

SPEC = ExperimentSpec(
    method="recmorph", suite="unimal", task="ft", protocol="smoke", bodies="tiny", threads=1
)


def test_what_is_left_out_is_the_suites(tiny_set):
    found = resolve(SPEC)
    config = found.config
    assert (config.suite, config.task, config.seed) == ("unimal-v1", "unimal-ft-v1", 1)
    assert config.morphologies_digest == found.bodies.digest == tiny_set.digest
    assert config.protocol.preset == "lite"
    assert config.unofficial_reasons == ()
    assert found.why == "Using tiny, as asked for."


def test_each_suite_has_its_own_bodies_where_none_are_named(tiny_set, monkeypatch):
    store_set(replace(tiny_set, id="loops"))
    usual = {SUITES.get("unimal-v1").default_morphologies: "tiny", ("gmc-loops-v1",): "loops"}
    monkeypatch.setattr(resolving, "resolve_default", lambda preferred: (usual[preferred], ""))
    specs = [SPEC.replace(suite=suite, bodies=None) for suite in ("unimal", "closed-loop")]
    found = [item.config.morphologies for item in resolve_all(specs, elsewhere=False)]
    assert found == ["tiny", "loops"]


WITH_MAPPINGS = """
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from recmorph import SPEC


@dataclass(frozen=True, kw_only=True)
class Config(SPEC.config_class()):
    groups: Mapping[str, int] = field(default_factory=lambda: {"a": 0, "b-c": 2})
    none: dict[str, int] = field(default_factory=dict)


SPEC = replace(SPEC, id="with-mappings", config=Config)
"""


@pytest.fixture
def with_mappings(tmp_path, tiny_set):
    """Return the specification of a method with mappings among its settings."""
    (tmp_path / "mine.py").write_text(WITH_MAPPINGS)
    return SPEC.replace(method=f"{tmp_path}/mine.py:SPEC")


@pytest.mark.parametrize(
    "changes",
    [
        {"model.groups": {"a": 0}},
        {"model.groups": {}},
        {"model": {"groups": {}}},
        {"model.groups": {"a": 0, "b-c": 2}},
        {"model.groups.a": 1},
        {"model.none": {"a.b": 1}},
    ],
)
def test_a_mapping_of_a_method_is_no_setting(with_mappings, changes):
    """Its keys could not be told from names of settings."""
    with pytest.raises(
        ConfigError, match=r"'model.\w+' is a mapping, which settings cannot change"
    ):
        resolve(with_mappings.replace(settings=changes))


def test_what_changes_no_mapping_is_official(with_mappings):
    changes = {"model.none": {}, "tokens": {}, "ppo": {}}
    config = resolve(with_mappings.replace(settings=changes)).config
    assert config.method_config["groups"] == {"a": 0, "b-c": 2}
    assert config.unofficial_reasons == ()


@pytest.mark.parametrize("other", [{}, {"a": 0}, {"a": 0, "b": 2, "c": 1}, {"a": 0, "b": 1}])
def test_a_mapping_counts_as_a_whole(other):
    @dataclass(frozen=True)
    class Config:
        groups: dict[str, int]
        width: int = 1

    assert resolving.changed(Config({"a": 0, "b": 2}), Config(other)) == ["groups"]
    assert resolving.changed(Config(other), Config(dict(other))) == []


def test_settings_reach_protocol_method_and_tokens():
    changes = {"ppo.lr": 1e-5, "num_envs": 8, "model.width": 32, "tokens.order": "siblings"}
    config = resolve(SPEC.replace(settings=changes, seed=7, precision="bfloat16")).config
    assert (config.protocol.ppo.lr, config.protocol.num_envs) == (1e-5, 8)
    assert config.method_config["width"] == 32
    assert config.tokens.order == "siblings"
    assert config.unofficial_reasons == (
        "the protocol's num_envs was changed",
        "the protocol's ppo.lr was changed",
        "the method's width was changed",
        "the tokens' order was changed",
        "the networks ran in bfloat16",
        "seed 7 is not one of the protocol's seeds (1)",
    )


def test_other_machines_choose_the_gpu_of_a_run(tiny_set):
    for name in ("cuda", "cuda:0"):
        assert resolve(SPEC.replace(device=name), elsewhere=True).config.device == name
    with pytest.raises(ConfigError, match=r"each run, but --device names 'cuda:1'; use .* cuda$"):
        resolve(SPEC.replace(device="cuda:1"), elsewhere=True)


def test_the_first_seed_is_the_usual_one_and_as_many_again_may_follow():
    lite = SPEC.replace(protocol="lite")
    found = resolve(lite).config
    asked = found.protocol.seeds
    assert len(asked) > 1
    assert found.seed == asked[0]
    last = max(asked) + len(asked)
    assert resolve(lite.replace(seed=last)).config.unofficial_reasons == ()
    (reason,) = resolve(lite.replace(seed=last + 1)).config.unofficial_reasons
    assert reason.startswith(f"seed {last + 1} is not one of the protocol's seeds (")


def test_texts_are_read_as_the_setting_asks():
    """The command line has nothing but texts; they make the same run."""
    plain, texts = (
        resolve(SPEC.replace(settings=changes)).config
        for changes in (
            {"ppo.lr": 1e-5, "model.decoder_hidden": [16, 8]},
            {"ppo.lr": "1e-5", "model.decoder_hidden": "16,8"},
        )
    )
    assert plain == texts


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"task": None}, "the suite 'unimal-v1' has several tasks; name one of them: ft, incline"),
        ({"task": "walk"}, "suite 'unimal-v1' has no task 'walk'"),
        ({"protocol": "tiny"}, "suite 'unimal-v1' has no protocol 'tiny'"),
        ({"preset": "huge"}, "method 'recmorph' has no preset 'huge'; known: lite"),
        ({"settings": {"seeds": [1]}}, "the protocol's 'seeds' cannot be changed"),
        ({"settings": {"seed": 3}}, "'seed' is not one of the settings, got 3 for it; give seed="),
        ({"settings": {"task": "ft"}}, "'task' is not one of the settings, got 'ft' for it; give"),
        ({"settings": {"threads": 1}}, "'threads' is not one of the settings"),
        (
            {"settings": {"bodies": "tiny"}},
            "'bodies' is not one of the settings, got 'tiny' for it; give bodies=, or --morpho",
        ),
        ({"settings": {"ppo.rate": 1}}, "unknown setting 'ppo.rate'; did you mean 'ppo.repeat'?"),
        ({"settings": {"ppo.lrr": 1}}, "unknown setting 'ppo.lrr'; did you mean 'ppo.lr'?"),
        ({"settings": {"lr": 1}}, "unknown setting 'lr'; did you mean 'ppo.lr'?"),
        ({"settings": {"width": 3}}, "unknown setting 'width'; did you mean 'model.width'?"),
        ({"settings": {"mdoel.width": 3}}, "unknown setting 'mdoel.width'; did you mean 'model.wi"),
        ({"settings": {"token.order": "bfs"}}, "unknown setting 'token.order'; did you mean 'toke"),
        ({"settings": {"model.": 3}}, "unknown setting 'model.'; did you mean 'model."),
        ({"settings": {"xyz": 3}}, "unknown setting 'xyz'; known: action_std, action_std_end, env"),
        ({"settings": {"tokens.ordr": "bfs"}}, "unknown setting 'tokens.ordr'; did you mean 'toke"),
        ({"settings": {"tokens.order": "bsf"}}, "'tokens.order' must be one of dfs, bfs, random"),
        (
            {"settings": {"model.widht": 1}},
            "method 'recmorph': unknown setting 'model.widht'; did you mean 'model.width'?",
        ),
        ({"settings": {"model": 1}}, "'model' must hold the method's settings, got 1; name one,"),
        ({"seed": -1}, "'seed' must be between 0 and 4294967295, got -1"),
        ({"threads": 10_000}, "--threads must be from 1 to"),
        ({"threads": 0}, "--threads must be from 1 to"),
        ({"processes": 100_000}, "each process needs an environment, but the protocol has "),
        ({"device": "tpu"}, "the device 'tpu' is not supported; use --device cpu or cuda"),
        ({"bodies": "tiny+damping-v1"}, "tiny+damping-v1 holds variations"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_sentence(changes, sentence):
    with pytest.raises(ConfigError) as caught:
        resolve(SPEC.replace(**changes))
    assert str(caught.value).startswith(sentence)


@pytest.mark.parametrize("name", ["none", "null", "None"])
@pytest.mark.parametrize("field", NAMES)
def test_the_text_none_is_a_name_that_nobody_has(field, name):
    with pytest.raises((ConfigError, UnknownNameError), match=repr(name)):
        resolve(SPEC.replace(**{field: name}))
    for kind in (Grid, TuningSpec, EvaluationOptions):
        if field in fields_of(kind):
            fields = {"methods": "recmorph", "suites": "unimal", "method": "recmorph", field: name}
            made = kind(**{key: fields[key] for key in fields_of(kind) if key in fields})
            assert getattr(made, field) == name
    assert getattr(SPEC.replace(**{field: None}), field) is None


def test_a_task_without_rewards_has_nothing_to_learn(monkeypatch):
    task = TASKS.get("unimal-ft-v1")
    monkeypatch.setitem(TASKS._scan(), task.id, replace(task, rewards=()))
    with pytest.raises(ConfigError, match="'unimal-ft-v1' rewards nothing, so no method can"):
        resolve(SPEC)
    monkeypatch.setitem(TASKS._scan(), task.id, replace(task, rewards=(), failure_cost=1.0))
    assert resolve(SPEC).config.task == task.id


@pytest.mark.parametrize("field", ["method", "suite", "bodies"])
def test_unknown_names_are_refused(field):
    with pytest.raises(UnknownNameError, match=r"unknown .*'nothing'"):
        resolve(SPEC.replace(**{field: "nothing"}))


def test_a_suite_of_one_task_needs_none():
    spec = SPEC.replace(suite="quadruped-friction", task=None, bodies=None)
    assert resolve(spec).config.task.startswith("quadruped-velocity-v")


def test_the_processes_of_a_run_share_the_cores_of_its_machine(monkeypatch):
    monkeypatch.setattr(batch, "available_threads", lambda: 8)
    shares = {1: 8, 2: 4, 3: 2, 9: 1}
    specs = {count: SPEC.replace(threads=None, processes=count) for count in shares}
    assert {count: resolve(spec).config.threads for count, spec in specs.items()} == shares


def test_a_method_in_a_file_keeps_its_full_path(tmp_path):
    (tmp_path / "mine.py").write_text("from recmorph import SPEC\n")
    assert full_name("mine.py:SPEC") == f"{tmp_path}/mine.py:SPEC"
    assert full_name("recmorph") == "recmorph"


def test_only_a_gpu_has_the_name_of_a_gpu(monkeypatch):
    monkeypatch.setattr("torch.cuda.get_device_name", lambda device: f"the GPU {device}")
    assert gpu_name("cuda:1") == "the GPU cuda:1"
    assert gpu_name("cpu") is None
    assert gpu_name("cpu:0") is None
