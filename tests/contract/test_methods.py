"""Every registered method keeps the contract, in every preset."""

import json
import re
from dataclasses import asdict, replace
from importlib.metadata import version
from pathlib import Path
from statistics import fmean as mean

import pytest

from gmc_bench.conformance.check_method import check_method
from gmc_bench.core.config import to_dict
from gmc_bench.experiments.trial_settings import SPREAD, draw
from gmc_bench.experiments.trials import TuningTrial
from gmc_bench.experiments.tuning import TuningSpec, rules_digest
from gmc_bench.methods import METHODS
from gmc_bench.methods.policy import ActorCritic
from gmc_bench.methods.spec import LITE_PARAMETERS, LITE_SPREAD
from gmc_bench.methods.tuning import (
    PPO_RANGES,
    Range,
    in_range,
    ranges_of,
    read_trials,
    tuning_key,
)
from gmc_bench.suites import SUITES
from gmc_bench.suites.method_rules import with_method_training
from gmc_bench.tokens import TokenSpec
from tests.support.slow import slow_but

REPOSITORY = Path(__file__).parents[2]


def failed(name, preset, **options):
    results = check_method(METHODS.get(name), preset, **options)
    return [(result.name, result.detail) for result in results if result.passed is False]


NAMES = METHODS.names()


def parts(name, preset):
    """Return the settings of a preset that are not sizes."""
    settings = to_dict(METHODS.get(name).make_config(preset))
    return {key: value for key, value in settings.items() if type(value) not in (int, list)}


def presets_of_other_parts():
    """Yield presets that are not `lite` or another one in another size."""
    for name in NAMES:
        seen = [parts(name, "lite")]
        for preset in sorted(METHODS.get(name).presets, key=lambda item: "lite" not in item):
            if parts(name, preset) not in seen:
                seen.append(parts(name, preset))
                yield name, preset


IN_TREE = [
    name
    for name in NAMES
    if str(METHODS.get(name).builder).partition(".")[0] in ("gmc_baselines", "recmorph")
]


ONE_OF_A_KIND = {"recmorph", "metamorph-star", "nervenet", "smr", "swat", "mlp"}
"""Methods checked by default: a recurrence, two of attention, messages, a memory and an MLP."""


@pytest.mark.parametrize("name", slow_but(NAMES, *ONE_OF_A_KIND))
def test_lite_passes_every_check(name):
    # Compiling takes longer than all other checks together.
    assert failed(name, "lite", backend="aot_eager" if name == "recmorph" else "none") == []


@pytest.mark.parametrize(
    ("name", "preset"), slow_but(presets_of_other_parts(), ("recmorph", "lite-plain"))
)
def test_other_presets_pass_every_check_but_compiling(name, preset):
    assert failed(name, preset, backend="none") == []


@pytest.mark.parametrize("name", NAMES)
def test_every_preset_has_the_parameters_it_states(name):
    spec = METHODS.get(name)
    for preset, expected in spec.parameters.items():
        policy = ActorCritic(spec, spec.make_config(preset), TokenSpec(12))
        assert policy.num_parameters() == expected, preset


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", NAMES)
def test_every_preset_passes_every_check_compiled_in_full(name):
    for preset in METHODS.get(name).presets:
        backend = "inductor" if preset == "lite" else "aot_eager"
        assert failed(name, preset, backend=backend) == []


@pytest.mark.parametrize("name", NAMES)
def test_method_describes_itself(name):
    spec = METHODS.get(name)
    assert spec.id == name
    assert spec.title
    assert spec.paper
    assert spec.deviations
    assert {"paper", "lite"} <= set(spec.presets)
    assert set(spec.parameters) == set(spec.presets)
    assert set(spec.preset_capabilities) <= set(spec.presets)


@pytest.mark.parametrize("name", NAMES)
def test_lite_has_the_size_of_the_others(name):
    ratio = METHODS.get(name).parameters["lite"] / LITE_PARAMETERS
    assert abs(ratio - 1) <= LITE_SPREAD


@pytest.mark.parametrize("name", sorted(set(IN_TREE) - {"mlp", "mlp-10m", "recmorph-bimamba2"}))
def test_lite_has_half_of_the_published_depth_rounded_up(name):
    """`mlp` has no layers among limbs; BiMamba2 keeps RecMorph's depth (docs/protocols.md)."""
    spec = METHODS.get(name)
    for preset in (preset for preset in spec.presets if preset.startswith("lite")):
        config, paper = (spec.make_config(p) for p in (preset, preset.replace("lite", "paper")))
        found = [getattr(c, "num_blocks", None) or c.num_layers for c in (config, paper)]
        assert found[0] == -(-found[1] // 2), preset


@pytest.mark.parametrize("name", IN_TREE)
def test_readme_lists_the_deviations(name):
    module = str(METHODS.get(name).builder).partition(":")[0]
    readme = REPOSITORY.joinpath(*module.split(".")[:-1], "README.md")
    text = readme.read_text(encoding="utf-8")
    section = re.search(
        r"^##+ [^\n]*deviations?\b[^\n]*\n(.*?)(?=^## |\Z)", text, re.I | re.M | re.S
    )
    assert section is not None
    assert re.search(r"^\|[- |:]+\|$", section[1], re.M), "the section holds no table"


def test_in_tree_methods_are_registered():
    folders = {path.parent.name for path in REPOSITORY.glob("baselines/*/__init__.py")}
    modules = {
        str(METHODS.get(name).builder).split(".")[1] for name in IN_TREE if name != "recmorph"
    }
    assert "recmorph" in IN_TREE
    assert modules >= folders


# --- what methods keep of their trials


def flaws(method):
    """Yield what is wrong with what a method keeps, given the trials beside it."""
    searches = read_trials(method.id, method.tuning)
    if searches.keys() != method.tuned.keys():
        yield "keeps values without trials, or has trials and keeps nothing"
    for key in searches.keys() & method.tuned.keys():
        content, kept = searches[key], method.tuned[key]
        suite, task, protocol = key.split("/")
        rules = SUITES.get(suite).protocol(protocol, task)
        first = content["trials"][0]["settings"]
        untuned = with_method_training(rules, method, task).ppo
        best = max(content["trials"], key=lambda trial: (trial["value"], -trial["number"]))
        if any(trial["value"] != mean(trial["returns"].values()) for trial in content["trials"]):
            yield f"{key}: a trial's value is not the mean of its returns"
        if kept != best["settings"] or kept != content["kept"]:
            yield f"{key}: keeps {kept}, not the best trial's {best['settings']}"
        if (first["ppo.lr"], first["ppo.target_kl"]) != (untuned.lr, untuned.target_kl):
            yield f"{key}: the first trial has {first}, not the values without tuning"
        if best["number"] and in_range(kept) != kept:
            yield f"{key}: keeps {kept}, beyond the ranges"
        ranges = ranges_of(method.make_config(rules.preset))
        if content["ranges"] != {name: asdict(item) for name, item in ranges.items()}:
            yield f"{key}: has ranges of its own"
        if content["method"] != method.id or content["rules_digest"] != rules_digest(rules):
            yield f"{key}: its trials are of another method, or followed other rules"


def chance(content):
    """Return what trials of all methods have in common."""
    numbers = [trial["number"] for trial in content["trials"]]
    names = ("bodies", "env_steps", "seeds", "settings", "sampler", "rules_digest")
    return {"numbers": numbers, **{name: content[name] for name in names}}


@pytest.mark.parametrize("name", IN_TREE)
def test_a_method_keeps_the_best_of_its_trials(name):
    assert list(flaws(METHODS.get(name))) == []


def test_all_methods_had_the_same_chance():
    methods = [m for m in map(METHODS.get, IN_TREE) if not m.capabilities.per_body]  # can be tuned
    searches = {method.id: read_trials(method.id, method.tuning) for method in methods}
    first = searches["recmorph"]
    assert first
    for name, found in searches.items():
        assert found.keys() == first.keys(), name
        for key, content in found.items():
            assert chance(content) == chance(first[key]), (name, key)


def test_a_tuning_tries_today_what_the_kept_trials_tried():
    """So that a method that is tuned later has the same chance."""
    today = TuningSpec(method="recmorph")
    for name in IN_TREE:  # but the references, which have none
        method = METHODS.get(name)
        for content in read_trials(name, method.tuning).values():
            tried = [
                TuningTrial(item["number"], item["settings"], item["returns"], 0.0)
                for item in content["trials"]
            ]
            assert len(tried) == today.trials
            assert tuple(content["seeds"]) == today.seeds
            assert content["env_steps"] == today.env_steps
            assert content["bodies"]["id"] == today.bodies
            # What is drawn from what was found may be another thing with another optuna.
            same = content["versions"]["optuna"] == version("optuna")
            ranges = {key: Range(**item) for key, item in content["ranges"].items()}
            for trial in tried[1:] if same else tried[1 : SPREAD + 1]:
                drawn = draw(ranges, trial.number, tried[: trial.number], today.sampler_seed)
                assert drawn == pytest.approx(trial.settings, rel=1e-6), (name, trial.number)


def test_what_does_not_follow_from_the_trials_is_seen(tmp_path):
    suite = SUITES.get("unimal-v1")
    rules = suite.protocol("lite", "unimal-ft-v1")
    key = tuning_key(suite.id, "unimal-ft-v1", "lite")
    first = {"ppo.lr": rules.ppo.lr, "ppo.target_kl": rules.ppo.target_kl}
    better = {"ppo.lr": 2e-3, "ppo.target_kl": 0.1}
    content = {
        "method": "recmorph",
        "rules_digest": rules_digest(rules),
        "ranges": {name: asdict(item) for name, item in PPO_RANGES.items()},
        "kept": better,
        "trials": [
            {"number": 0, "settings": first, "returns": {"1": 1.0, "2": 3.0}, "value": 2.0},
            {"number": 1, "settings": better, "returns": {"1": 4.0, "2": 5.0}, "value": 4.5},
        ],
    }
    file = tmp_path / "tuning.json"
    file.write_text(json.dumps({"format": 1, "searches": {key: content}}))
    good = replace(METHODS.get("recmorph"), tuned={key: better}, tuning=str(file))
    assert list(flaws(good)) == []
    assert "not the best trial's" in "".join(flaws(replace(good, tuned={key: first})))
    assert "without trials" in "".join(flaws(replace(good, tuning="")))
    content["trials"][1]["value"], content["ranges"] = 9.0, {}
    file.write_text(json.dumps({"format": 1, "searches": {key: content}}))
    assert len(list(flaws(good))) == 2
