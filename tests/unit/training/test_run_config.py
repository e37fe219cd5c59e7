"""The settings file of a run."""

import dataclasses

import pytest
import yaml

from gmc_bench.core.config import config_digest, to_dict
from gmc_bench.core.errors import ConfigError
from gmc_bench.policies.options import PolicyOptions
from gmc_bench.suites.unimal import SUITE
from gmc_bench.tokens.config import TokenConfig
from gmc_bench.training.run_config import RunConfig, read_run_config


@pytest.fixture
def config():
    return RunConfig(
        method="recmorph",
        method_config={"width": 8, "decoder_hidden": [4, 4]},
        suite="unimal-v1",
        task="unimal-ft-v1",
        morphologies="tiny",
        morphologies_digest="0" * 64,
        protocol=SUITE.protocol("smoke"),
        seed=2**32 - 1,
        unofficial_reasons=("seed 4294967295 is not one of the protocol's seeds (1)",),
        threads=3,
        checkpoint_interval_s=0.5,
    )


@pytest.mark.parametrize("ppo", [{}, {"target_kl": None, "lr": 1e-5, "value_clip": False}])
def test_what_is_written_is_read(tmp_path, config, ppo):
    protocol = config.protocol
    protocol = dataclasses.replace(protocol, ppo=dataclasses.replace(protocol.ppo, **ppo))
    written = dataclasses.replace(config, protocol=protocol)
    path = tmp_path / "config.yaml"
    path.write_text(written.to_yaml())
    assert to_dict(read_run_config(path)) == to_dict(written)


def test_the_identity_is_what_decides_the_numbers(config):
    machine = dataclasses.replace(
        config,
        seed=0,
        threads=1,
        processes=2,
        checkpoint_interval_s=0.0,
        device="cuda",
        track="wandb:project",
        git_commit="a" * 40,
        unofficial_reasons=(),
    )
    assert config_digest(config.identity()) == config_digest(machine.identity())


@pytest.mark.parametrize(
    "change",
    [
        {"method": "metamorph"},
        {"method_config": {"width": 16}},
        {"suite": "unimal-v2"},
        {"task": "unimal-vt-v1"},
        {"morphologies": "small"},
        {"morphologies_digest": "1" * 64},
        {"protocol": SUITE.protocol("lite")},
        {"tokens": TokenConfig(order="bfs")},
        {"method_source_digest": "2" * 64},
        {"precision": "bfloat16"},
        {"untrained": True},
    ],
    ids=lambda change: next(iter(change)),
)
def test_every_setting_that_decides_the_numbers_is_part_of_the_identity(config, change):
    other = dataclasses.replace(config, **change)
    assert config_digest(config.identity()) != config_digest(other.identity())


def test_the_policy_has_what_the_run_says(config):
    rules = dataclasses.replace(config.protocol, normalization="per_slot", action_std=0.3)
    changed = dataclasses.replace(
        config,
        protocol=rules,
        tokens=TokenConfig(order="bfs"),
        precision="bfloat16",
        device="cuda:1",
    )
    expected = {
        "order": "bfs",
        "normalization": "per_slot",
        "action_std": 0.3,
        "precision": "bfloat16",
        "device": "cuda:1",
    }
    assert vars(changed.policy_options) == expected
    usual = vars(PolicyOptions())
    assert usual.keys() == expected.keys()
    assert not [name for name, value in usual.items() if value == expected[name]]


@pytest.mark.parametrize(("normalization", "rows"), [("per_feature", ()), ("per_slot", (4,))])
def test_observations_are_normalised_as_the_protocol_says(make_trainer, normalization, rows):
    trainer = make_trainer(normalization=normalization)
    *_, features = trainer.buffer.dynamic.shape
    assert trainer.policy.normalizer.dynamic.mean.shape == (*rows, features)


def test_the_usual_tree_is_not_part_of_the_identity(config):
    """Runs from before there was a choice keep their digests."""
    bfs = dataclasses.replace(config, tokens=TokenConfig(order="bfs"))
    assert bfs.identity()["tokens"] == {"order": "bfs", "attributes": "all"}
    grown = dataclasses.replace(config, tokens=TokenConfig(tree="breadth-first"))
    assert grown.identity()["tokens"]["tree"] == "breadth-first"
    assert "tokens" not in config.identity()


def test_the_source_of_a_method_file_is_part_of_the_identity_if_there_is_one(tmp_path, config):
    first, other = (
        dataclasses.replace(config, method_source_digest=digit * 64) for digit in ("1", "2")
    )
    assert "method_source_digest" not in config.identity()
    assert first.identity()["method_source_digest"] == "1" * 64
    assert config_digest(first.identity()) != config_digest(other.identity())
    path = tmp_path / "config.yaml"
    path.write_text(first.to_yaml())
    assert read_run_config(path).method_source_digest == "1" * 64


def test_a_file_that_lacks_a_setting_is_refused(tmp_path, config):
    content = to_dict(config)
    del content["seed"]
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(content))
    with pytest.raises(ConfigError, match="lacks 'seed'; it is not the configuration of a run"):
        read_run_config(path)


def test_a_file_with_an_unknown_setting_is_refused(tmp_path, config):
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump({**to_dict(config), "sede": 3}))
    with pytest.raises(ConfigError, match="unknown setting 'sede'; did you mean 'seed'"):
        read_run_config(path)


@pytest.mark.parametrize("name", ["protocol", "method_config"])
def test_a_group_that_is_no_group_is_refused(tmp_path, config, name):
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump({**to_dict(config), name: 3}))
    with pytest.raises(ConfigError, match="holds no settings under"):
        read_run_config(path)


@pytest.mark.parametrize("value", ["2020-01-01", "!!set {a}", "!!binary aGk="])
def test_a_setting_that_has_no_digest_is_refused(tmp_path, config, value):
    path = tmp_path / "config.yaml"
    path.write_text(config.to_yaml().replace("  width: 8\n", f"  width: {value}\n"))
    with pytest.raises(ConfigError, match=r"'method_config' what no setting is .*; give numbers"):
        read_run_config(path)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"seed": -1}, "'seed' must be between 0 and 4294967295, got -1"),
        ({"seed": 2**32}, "'seed' must be between 0 and 4294967295, got 4294967296"),
        ({"threads": 0}, "'threads' and .* must be at least 1 and .*, got 0, 1 and 0.5"),
        ({"processes": 0}, "'processes' must be at least 1 and .*, got 3, 0 and 0.5"),
        ({"checkpoint_interval_s": -0.1}, "'checkpoint_interval_s' not negative, got 3, 1 and -0"),
    ],
)
def test_values_out_of_range_are_refused(config, change, why):
    with pytest.raises(ConfigError, match=why):
        dataclasses.replace(config, **change)
