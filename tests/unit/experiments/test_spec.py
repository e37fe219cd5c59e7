"""The specification of an experiment: what it holds, its digest, what it refuses."""

import copy
import dataclasses
import hashlib
import json
import operator
import pickle

import numpy as np
import pytest
import yaml

import gmc_bench as gmc
from gmc_bench.core.errors import ConfigError
from gmc_bench.experiments.spec import ExperimentSpec, read_settings

SPEC = ExperimentSpec(
    method="recmorph",
    suite="unimal",
    task="ft",
    protocol="smoke",
    seed=3,
    settings={"ppo": {"lr": 1e-4, "gae-lambda": 0.9}, "model.hidden": (16, 32)},
    threads=1,
)


def test_settings_are_kept_by_dotted_name():
    assert dict(SPEC.settings) == {
        "model.hidden": [16, 32],
        "ppo.gae_lambda": 0.9,
        "ppo.lr": 1e-4,
    }


@pytest.mark.parametrize(
    "again",
    [
        lambda spec: ExperimentSpec.from_dict(json.loads(json.dumps(spec.to_dict()))),
        lambda spec: ExperimentSpec.from_dict(yaml.safe_load(yaml.safe_dump(spec.to_dict()))),
        lambda spec: pickle.loads(pickle.dumps(spec)),
    ],
    ids=["JSON", "YAML", "pickle"],
)
def test_it_is_read_back_as_it_was_written(again):
    again = again(SPEC)
    assert again == SPEC
    assert hash(again) == hash(SPEC)
    assert again.digest == SPEC.digest


def test_fields_cannot_be_set():
    with pytest.raises(AttributeError):
        SPEC.seed = 4


@pytest.mark.parametrize(
    "change",
    [
        lambda settings: settings.update({"ppo.lr": 1.0}),
        lambda settings: settings.__setitem__("ppo.lr", 1.0),
        lambda settings: settings.pop("ppo.lr"),
        lambda settings: settings["model.hidden"].append(64),
        lambda settings: settings["model.hidden"].__setitem__(0, 64),
        lambda settings: operator.ior(settings, {"ppo.lr": 1.0}),
        lambda settings: operator.iadd(settings["model.hidden"], [64]),
    ],
)
@pytest.mark.parametrize("way", [copy.copy, copy.deepcopy, lambda spec: spec.with_seed(3)])
def test_settings_cannot_be_changed_in_place_and_copies_of_them_can(change, way):
    digest, spec = SPEC.digest, way(SPEC)
    with pytest.raises(ConfigError, match=r"frozen and cannot be changed in place; copy it by"):
        change(spec.settings)
    assert (spec, spec.digest) == (SPEC, digest)
    own = {**spec.settings, "model.hidden": list(spec.settings["model.hidden"])}
    change(own)
    assert spec.replace(settings=own).digest != digest == SPEC.digest


def test_another_seed_is_checked_as_the_first_one_was():
    assert SPEC.with_seed(np.int64(4)).digest == SPEC.replace(seed=4).digest
    with pytest.raises(ConfigError, match="'seed' must be an integer, got 'x'"):
        SPEC.with_seed("x")


@pytest.mark.parametrize("write", [json.dumps, yaml.safe_dump])
def test_settings_are_written_like_those_of_a_plain_dict(write):
    plain = {"model.hidden": [16, 32], "ppo.gae_lambda": 0.9, "ppo.lr": 1e-4}
    assert write(dataclasses.asdict(SPEC)["settings"]) == write(SPEC.settings) == write(plain)


def test_the_digest_is_that_of_sorted_json():
    """Sweeps may keep results by digest, so that it must never change by accident."""
    text = (
        '{"bodies":null,"method":"recmorph","precision":"float32","preset":null,'
        '"protocol":"smoke","seed":3,"settings":{"model.hidden":[16,32],"ppo.gae_lambda":0.9,'
        '"ppo.lr":0.0001},"suite":"unimal","task":"ft"}'
    )
    assert SPEC.digest == hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.parametrize(
    "same",
    [
        {"threads": 2},
        {"processes": 2},
        {"device": "cuda"},
        {"checkpoint_interval": 0},
        {"settings": {"model": {"hidden": [16, 32]}, "ppo.gae_lambda": 0.9, "ppo": {"lr": 0.0001}}},
    ],
)
def test_the_digest_counts_neither_the_machine_nor_the_spelling(same):
    assert SPEC.replace(**same).digest == SPEC.digest


@pytest.mark.parametrize(
    "other",
    [
        {"method": "mlp"},
        {"suite": "closed-loop"},
        {"task": "vt"},
        {"protocol": None},
        {"preset": "paper"},
        {"seed": 4},
        {"bodies": "tiny"},
        {"settings": {}},
        {"precision": "bfloat16"},
    ],
)
def test_the_digest_counts_everything_else(other):
    assert SPEC.replace(**other).digest != SPEC.digest


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"seed": "x"}, "'seed' must be an integer or none, got 'x'"),
        ({"precision": "half"}, "'precision' must be one of float32, tf32, bfloat16, got 'half'"),
        (
            {"precision": "tf32"},
            "the precision 'tf32' is one of GPUs, but the device is 'cpu'",
        ),
        ({"threads": 1.5}, "'threads' must be an integer or none, got 1.5"),
        ({"settings": 3}, "'settings' must map names to values, got 3"),
        ({"settings": {"a": object}}, "a setting must be a number, a text, true, false, none or"),
        ({"settings": {"a-b": 1, "a_b": 2}}, "'a_b' is given more than once; keep one of them"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_sentence(fields, sentence):
    with pytest.raises(ConfigError) as caught:
        SPEC.replace(**fields)
    assert str(caught.value).startswith(sentence)


def test_unknown_and_missing_fields_are_named():
    with pytest.raises(ConfigError, match="an experiment has no 'sede'; did you mean 'seed'"):
        gmc.Experiment(method="recmorph", suite="unimal", sede=1)
    with pytest.raises(ConfigError, match="an experiment needs a suite, got"):
        gmc.Experiment(method="mlp")
    with pytest.raises(ConfigError, match="an experiment has no 'sede'; did you mean 'seed'"):
        SPEC.replace(sede=1)
    with pytest.raises(ConfigError, match="an experiment has no 'sede'; did you mean 'seed'"):
        gmc.Experiment(SPEC, sede=1)


@pytest.mark.parametrize("given", ["recmorph", {"method": "mlp", "suite": "unimal"}, SPEC.to_dict])
def test_what_is_no_specification_is_refused(given):
    with pytest.raises(ConfigError, match="an experiment needs an ExperimentSpec, got"):
        gmc.Experiment(given)
    with pytest.raises(ConfigError, match="an experiment is a mapping of its fields, got None"):
        gmc.ExperimentSpec.from_dict(None)


@pytest.mark.parametrize("wrong", ["abc", ["abc"], [SPEC, 5], {"a": "abc"}, SPEC, None, 5])
def test_what_is_no_list_of_specifications_is_refused(wrong):
    with pytest.raises(ConfigError, match=r"several ExperimentSpec\(...\) were expected, got "):
        gmc.Sweep(wrong)


@pytest.mark.parametrize("name", ["", ".", "../a", "a/b", ".states", "a\0", "\udcff", "x" * 201, 1])
def test_a_name_that_no_folder_can_have_is_refused(name):
    with pytest.raises(ConfigError, match="a run has the name of its folder: text without '/'"):
        gmc.Sweep({name: SPEC})


def test_settings_of_a_file(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("num_envs: 8\nmodel: {width: 32}\ntokens:\n  order: siblings\n")
    assert read_settings(path) == {"model.width": 32, "num_envs": 8, "tokens.order": "siblings"}
    path.write_text("model: 5\n")
    with pytest.raises(ConfigError, match=r"'model' in .* must hold the method's settings, got 5"):
        read_settings(path)
