"""From the command line to the settings of a run: who wins, and what is official."""

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from gmc_bench.conformance.morphologies import chain
from gmc_bench.experiments import resolve as plan
from gmc_bench.methods import MethodSpec
from gmc_bench.suites.method_rules import protocol_digest, token_spec, with_method_training
from gmc_bench.suites.unimal import SUITE
from gmc_bench.tasks.unimal_ft import TASK

FT = "unimal-ft-v1"
RUN = ("run", "--method", "recmorph", "--suite", "unimal", "--task", "ft", "--protocol", "smoke")

METHOD = """
from dataclasses import dataclass
from gmc_bench.methods import MethodSpec

@dataclass(frozen=True, kw_only=True)
class Config:
    width: int = 4

def build(config, spec, num_outputs):
    from torch import nn

    class Network(nn.Linear):
        def forward(self, tokens):
            return super().forward(tokens.features)

    return Network(spec.num_features, num_outputs)

SPEC = MethodSpec(
    id="mine", config=Config, builder=build, training={"ppo": {"target_kl": 0.2}},
    env_steps_per_body=5_000,
)
UNBUILT = MethodSpec(id="unbuilt", config=Config, builder="nowhere:build")
COPIED = MethodSpec(
    id="copied", config=Config, builder=build, tuning="recmorph:recmorph.tuning.json"
)
GREEDY = MethodSpec(
    id="greedy", config=Config, builder="nowhere:build", training={"ppo": {"lr": 0.5}},
)
"""


@pytest.fixture
def resolve(gmc):
    """Return the settings that `--dry-run` prints, and stderr."""

    def run(*argv, base=RUN):
        code, out, err = gmc(*base, "--morphologies", "tiny", "--dry-run", *argv)
        assert code == 0, err
        return yaml.safe_load(out), err

    return run


def test_without_changes_a_run_follows_the_protocol(resolve):
    config, err = resolve()
    assert config["method"] == "recmorph"
    assert (config["suite"], config["task"]) == ("unimal-v1", "unimal-ft-v1")
    assert config["method_config"]["width"] == 64  # preset `lite`, which `smoke` asks for
    assert config["protocol"]["num_envs"] == SUITE.protocol("smoke").num_envs
    assert config["seed"] == 1
    assert config["method_source_digest"] is None
    assert config["unofficial_reasons"] == []
    assert "8,192 env steps" in err
    assert "unofficial" not in err


def test_the_default_protocol_is_the_suites(resolve):
    config, _ = resolve(base=RUN[:7])
    assert config["protocol"]["name"] == "lite"


def test_options_beat_the_file_and_the_file_beats_the_protocol(resolve):
    Path("mine.yaml").write_text(
        "num_envs: 8\nppo: {lr: 1e-2, gae_lambda: 0.5}\nmodel: {width: 32, hidden: 16}\n"
    )
    config, err = resolve("--config", "mine.yaml", "--ppo.lr", "1e-5", "--model.width", "48")
    assert config["protocol"]["num_envs"] == 8
    assert config["protocol"]["ppo"]["lr"] == 1e-5
    assert config["protocol"]["ppo"]["gae_lambda"] == 0.5
    assert (config["method_config"]["width"], config["method_config"]["hidden"]) == (48, 16)
    assert config["unofficial_reasons"] == [
        "the protocol's num_envs was changed",
        "the protocol's ppo.gae_lambda was changed",
        "the protocol's ppo.lr was changed",
        "the method's hidden was changed",
        "the method's width was changed",
    ]
    assert err.count("unofficial: ") == 5


def test_a_change_to_the_same_value_is_none(resolve):
    config, _ = resolve("--env-steps", "8192", "--ppo.repeat", "2")
    assert config["unofficial_reasons"] == []


def test_another_seed_is_unofficial(resolve):
    config, _ = resolve("--seed", "2")
    assert config["seed"] == 2
    assert config["unofficial_reasons"] == ["seed 2 is not one of the protocol's seeds (1)"]


def test_machine_settings_are_not_changes(resolve):
    config, _ = resolve("--threads", "1", "--checkpoint-interval", "0", "--device", "cpu")
    assert (config["threads"], config["checkpoint_interval_s"]) == (1, 0.0)
    assert config["unofficial_reasons"] == []


def test_a_run_may_train_nothing(resolve):
    config, err = resolve("--untrained")
    assert config["untrained"] is True
    assert ", 0 env steps" in err


def test_a_dry_run_makes_nothing(resolve, tmp_path):
    resolve("--out", "run")
    assert list(tmp_path.iterdir()) == []


def test_a_task_that_is_named_twice_is_run_once(resolve):
    config, err = resolve("--task", "ft", "unimal-ft-v1")
    assert config["task"] == "unimal-ft-v1"
    assert err.count("method recmorph") == 1


def test_a_method_in_a_file_is_found_again_from_anywhere(resolve, tmp_path):
    (tmp_path / "mine.py").write_text(METHOD)
    config, err = resolve("--method", "mine.py:SPEC")
    assert config["method"] == f"{tmp_path}/mine.py:SPEC"
    assert config["method_source_digest"] == hashlib.sha256(METHOD.encode()).hexdigest()
    assert config["method_config"] == {"width": 4}
    assert config["protocol"]["ppo"]["target_kl"] == 0.2  # what the method brings along
    assert config["protocol"]["env_steps"] == 10_000  # for two training bodies
    assert config["unofficial_reasons"] == []
    assert "method mine (preset default)" in err


def test_a_registered_method_may_also_be_given_as_a_module(resolve):
    config, _ = resolve("--method", "recmorph:SPEC")
    assert config["method"] == "recmorph:SPEC"
    assert config["method_source_digest"] is None


def test_a_method_may_not_bring_along_other_rules(gmc, tmp_path):
    (tmp_path / "mine.py").write_text(METHOD)
    code, _, err = gmc(*RUN[:2], "mine.py:GREEDY", *RUN[3:], "--dry-run")
    assert code == 2
    assert "sets 'ppo.lr' in 'training', but a method may bring along 'ppo.target_kl' only" in err


@pytest.mark.parametrize("tasks", [("ft",), ("ft", "incline")])
@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("mine.py:UNBUILT", "nowhere"),
        ("mine.py:COPIED", "of the method 'copied' are those of the method 'recmorph'; leave"),
    ],
)
def test_a_dry_run_checks_what_a_run_checks(gmc, tmp_path, name, sentence, tasks):
    (tmp_path / "mine.py").write_text(METHOD)
    argv = (*RUN[:2], name, "--suite", "unimal", "--protocol", "smoke", "--task", *tasks)
    sentences = set()
    for more in ((), ("--dry-run",)):
        code, out, err = gmc(*argv, "--morphologies", "tiny", "--out", "run", *more)
        assert (code, out) == (2, "")
        assert sentence in err
        sentences.add(err)
    assert len(sentences) == 1
    assert [path.name for path in tmp_path.iterdir() if path.suffix] == ["mine.py"]
    assert not (tmp_path / "run").exists()


def test_the_threshold_a_method_brings_along_keeps_the_protocol():
    smoke = SUITE.protocol("smoke")
    plain, own = (
        MethodSpec(id="x", config="x:y", builder="x:y", training=training)
        for training in ({}, {"ppo": {"target_kl": 0.2}})
    )
    expected = protocol_digest(smoke, plain, SUITE, FT)
    assert protocol_digest(with_method_training(smoke, own), own, SUITE, FT) == expected
    changed = replace(smoke, ppo=replace(smoke.ppo, target_kl=0.3))
    assert protocol_digest(changed, own, SUITE, FT) != expected
    assert protocol_digest(changed, plain, SUITE, FT) != expected


@pytest.mark.parametrize(
    ("method", "task", "target_kl", "decoder"),
    [
        ("recmorph", "ft", 0.05, []),
        ("recmorph", "incline", 0.05, []),
        ("metamorph-star", "incline", 0.03, []),
        ("recmorph", "exploration", 0.03, []),
        ("recmorph", "obstacles", 0.03, [64, 64]),
        ("recmorph", "vt", 0.03, [64]),
        ("metamorph", "vt", 0.2, [64]),
        ("mlp", "vt", 0.03, []),
    ],
)
def test_rules_of_single_tasks_are_official(resolve, method, task, target_kl, decoder):
    base = (*RUN[:2], method, *RUN[3:5], "--task", task, *RUN[7:])
    config, _ = resolve(base=base)
    assert config["protocol"]["ppo"]["target_kl"] == target_kl
    assert config["method_config"]["decoder_hidden"] == decoder
    assert config["unofficial_reasons"] == []


def test_a_decoder_of_ones_own_stays(resolve):
    base = (*RUN[:2], "nervenet", *RUN[3:5], "--task", "vt", *RUN[7:])
    config, _ = resolve("--preset", "lite-gru", base=base)
    assert config["method_config"]["decoder_hidden"] == [80, 80]


def test_a_change_on_one_task_is_compared_with_the_rules_of_that_task(resolve):
    base = (*RUN[:5], "--task", "vt", *RUN[7:])
    config, _ = resolve("--ppo.target-kl", "0.03", base=base)
    assert config["unofficial_reasons"] == []
    config, _ = resolve("--ppo.target-kl", "0.05", base=base)
    assert config["unofficial_reasons"] == ["the protocol's ppo.target_kl was changed"]
    config, _ = resolve("--model.decoder-hidden", "", base=base)
    assert config["unofficial_reasons"] == ["the method's decoder_hidden was changed"]


def test_the_threshold_of_a_method_on_one_task_keeps_the_protocol():
    task = "unimal-incline-v1"
    plain = MethodSpec(id="x", config="x:y", builder="x:y")
    own = replace(plain, task_target_kl={task: 0.03})
    smoke = SUITE.protocol("smoke", task)
    tuned = with_method_training(smoke, own, task)
    assert tuned.ppo.target_kl == 0.03
    assert with_method_training(smoke, own, FT) == smoke
    expected = protocol_digest(smoke, plain, SUITE, task)
    assert protocol_digest(tuned, own, SUITE, task) == expected
    assert protocol_digest(tuned, plain, SUITE, task) != expected


def test_another_preset_is_unofficial(resolve):
    config, err = resolve("--preset", "paper")
    assert config["method_config"]["width"] == 128
    assert config["protocol"]["preset"] == "paper"
    assert config["unofficial_reasons"] == [
        "the method's preset is 'paper', not the protocol's 'lite'"
    ]
    assert "method recmorph (preset paper)" in err
    assert resolve("--preset", "lite")[0]["unofficial_reasons"] == []


def test_an_unknown_preset_is_refused(gmc):
    code, _, err = gmc(*RUN, "--preset", "huge", "--dry-run")
    assert code == 2
    assert "method 'recmorph' has no preset 'huge'; known: lite" in err


def test_train_and_test_share_a_token_layout(tiny_set):
    spec = token_spec(SUITE, tiny_set, TASK)
    assert (spec.max_limbs, spec.joints_per_limb) == (12, 2)
    larger = replace(tiny_set, splits={"train": (chain(3),), "test": (chain(14),)})
    assert token_spec(SUITE, larger, TASK).max_limbs == 14


def test_changes_are_found_at_any_depth():
    smoke, lite = SUITE.protocol("smoke"), SUITE.protocol("lite")
    assert plan.changed(smoke, smoke) == []
    assert {"num_envs", "ppo.lr", "evaluation.episodes"} <= set(plan.changed(smoke, lite))
