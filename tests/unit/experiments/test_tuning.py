"""Tuning: the same chance for all methods, on bodies that no table scores, resumable."""

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

import gmc_bench
from gmc_bench.bodies.sets import load_morphologies
from gmc_bench.bodies.store import store_set
from gmc_bench.conformance.morphologies import biped
from gmc_bench.core.config import load_yaml
from gmc_bench.core.errors import (
    ConfigError,
    GmcBenchError,
    PluginError,
    RunFolderError,
    TrainingDivergedError,
)
from gmc_bench.experiments import events, search_sets, tuning
from gmc_bench.experiments import record as recording
from gmc_bench.experiments.resolve import resolve
from gmc_bench.experiments.spec import ExperimentSpec
from gmc_bench.experiments.trial_settings import SPREAD, draw
from gmc_bench.experiments.trials import DIVERGED, TuningResult, TuningTrial, read_return
from gmc_bench.experiments.tuning import Tuning, TuningSpec
from gmc_bench.experiments.tuning_texts import describe_tuning
from gmc_bench.leaderboard.rules import installed_rules
from gmc_bench.methods import METHODS, MethodSpec
from gmc_bench.methods.tuning import PPO_RANGES, in_range
from gmc_bench.records.environment import collect_versions
from gmc_bench.records.store import read_record, sealed, write_atomic
from gmc_bench.sim import model
from gmc_bench.sim.batch import available_threads
from gmc_bench.suites import SUITES
from gmc_bench.suites.method_rules import protocol_digest, with_method_training

SPEC = TuningSpec(
    method="recmorph",
    protocol="smoke",
    bodies="tiny",
    env_steps=384,
    trials=2,
    seeds=(5,),
    threads=1,
    settings={
        "num_envs": 4,
        "rollout_length": 32,
        "ppo.batch_size": 64,
        "model.width": 8,
        "model.hidden": 8,
        "sampling_alpha": 0.0,
    },
)
KEY = "unimal-v1/unimal-ft-v1/lite"
KEPT = {"ppo.lr": 0.0013, "ppo.target_kl": 0.11}


@pytest.fixture
def simulated(monkeypatch):
    """Return a set that fills with the digests of all bodies that are made ready to simulate."""
    seen, compiled = set(), model.compile_model

    def compile_model(morphology, scene):
        seen.add(morphology.digest)
        return compiled(morphology, scene)

    monkeypatch.setattr(model, "compile_model", compile_model)
    return seen


def scored_by_tables():
    return {digest for name in search_sets.scored_sets() for digest in search_sets._digests(name)}


def test_trials_meet_no_test_body_and_go_on_where_they_were(
    simulated, tiny_set, capfd, monkeypatch
):
    told = []
    result = Tuning(SPEC, out="t", on_event=told.append).run()
    assert capfd.readouterr() == ("", "")
    assert simulated == {body.digest for body in tiny_set.split("train")}
    assert not {digest[:16] for digest in simulated} & scored_by_tables()
    first, second = result.trials
    assert first.settings == {"ppo.lr": 3e-4, "ppo.target_kl": 0.05}  # the protocol's
    for trial in result.trials:
        config = yaml.safe_load(
            Path(f"t/trial-{trial.number + 1:03d}/seed-5/config.yaml").read_text()
        )
        assert config["protocol"]["ppo"]["lr"] == trial.settings["ppo.lr"]
        assert config["protocol"]["ppo"]["target_kl"] == trial.settings["ppo.target_kl"]
        assert config["protocol"]["evaluation"]["splits"] == ["train"]
        assert config["protocol"]["return_window"] == 0.1  # the last tenth, as the docs say
    written = json.loads(Path("t/tuning.json").read_text())["searches"][result.key]
    assert written["kept"] == result.best.settings
    values = [trial["value"] for trial in written["trials"]]
    assert written["best"] == values.index(max(values))
    assert written["bodies"]["digest"] == tiny_set.digest

    # Whoever looks at a finished search again, with other software, has not made it.
    finished = Path("t/tuning.json").read_bytes()
    elsewhere = {**collect_versions(), "torch": "0.0"}
    with monkeypatch.context() as patched:
        for module in (tuning, recording):
            patched.setattr(module, "collect_versions", lambda: elsewhere)
        assert Tuning.open("t").resume().content == written
        assert Path("t/tuning.json").read_bytes() == finished
        Path("t/tuning.json").unlink()
        Path("t/trial-002/seed-5/record.json").unlink()  # which is then made with that
        stated = Tuning.open("t").resume().content["versions"]["torch"]
    assert stated == f"0.0, {written['versions']['torch']}"

    Path("t/tuning.json").unlink()
    Path("t/trial-002/seed-5/record.json").unlink()  # as if killed before it was written
    told.clear()
    again = Tuning.open("t", on_event=told.append).resume()
    begun = [event.env_steps for event in told if isinstance(event, events.TrainingStarted)]
    assert begun == [384]  # the first trial is not repeated, the second goes on from its checkpoint
    assert [trial.returns for trial in again.trials] == [first.returns, second.returns]
    assert again.to_spec() in describe_tuning(again, Tuning.open("t"))
    with pytest.raises(GmcBenchError, match="holds trials of another tuning"):
        Tuning(SPEC, trials=3, out="t").resume()

    # A newcomer's method, in a file of its own, keeps them: its records say so.
    file = Path("tuning.json")
    trials = Path("t/tuning.json").read_text()
    file.write_text(trials.replace('"method": "recmorph"', '"method": "mine"'))
    Path("mine.py").write_text(
        "from dataclasses import replace\nfrom recmorph import SPEC as BASE\n"
        f"SPEC = replace(BASE, id='mine', {again.to_spec()} tuning={file.name!r})"
    )
    settings = {**SPEC.settings, "env_steps": 128}
    run = gmc_bench.Experiment(
        method="mine.py:SPEC", suite="unimal", task="ft", protocol="smoke", bodies="tiny",
        settings=settings, threads=1, out="run",
    )  # fmt: skip
    record = run.run()
    assert run.config.protocol.ppo.lr == again.best.settings["ppo.lr"]
    assert not [why for why in record.unofficial_reasons if "lr" in why or "kl" in why]
    assert read_record(Path("run/record.json")).tuning == record.tuning
    assert record.tuning.settings == again.best.settings
    assert record.tuning.morphologies_digest == tiny_set.digest
    assert [trial.settings for trial in record.tuning.trials] == [first.settings, second.settings]


def test_the_table_of_trials_has_a_row_for_each_and_a_star_at_the_best(tiny_set):
    bodies = {"id": "tiny", "digest": tiny_set.digest, "train": 2}
    content = {"method": "recmorph", "seeds": [5, 6], "bodies": bodies, "env_steps": 384_000}
    trials = (
        TuningTrial(0, {"ppo.lr": 3e-4}, {5: 12.0, 6: 10.0}, 61.4),
        TuningTrial(
            1, {"ppo.lr": 0.00123456, "ppo.target_kl": 0.11}, {5: 1020.0, 6: 1000.0}, 1234.0
        ),
        TuningTrial(2, {"ppo.lr": 3e-4, "ppo.target_kl": 0.05}, {5: None, 6: 9000.0}, 0.4),
    )
    Path("t").mkdir()
    Path("t/tuning.yaml").touch()
    text = describe_tuning(TuningResult(KEY, trials, content), Tuning(SPEC, out="t"))
    lines = [line.split() for line in text.splitlines()]
    head = ["trial", "ppo.lr", "ppo.target_kl", "seed", "5", "seed", "6", "mean", "core", "s"]
    start = lines.index(head)
    assert lines[start + 2 : start + 6] == [
        ["1", "0.0003", "none", "12.0", "10.0", "11.0", "61"],
        ["2", "*", "0.00123", "0.11", "1,020.0", "1,000.0", "1,010.0", "1,234"],
        ["3", "0.0003", "0.05", "-", "9,000.0", "-", "0"],
        [],
    ]
    assert f"recmorph on {KEY}, 2 bodies of tiny ({tiny_set.digest[:12]}), 384,000 env" in text


@pytest.mark.slow
def test_a_trial_that_diverges_is_no_end_and_not_repeated(tiny_set, monkeypatch):
    resume, begun = tuning.Experiment.resume, []

    def diverge_later(experiment):
        begun.append(experiment.config.protocol.ppo.lr)
        if begun[-1] != 3e-4:
            raise TrainingDivergedError("training diverged; start a new run with a lower rate")
        return resume(experiment)

    monkeypatch.setattr(tuning.Experiment, "resume", diverge_later)
    told = []
    first, second = Tuning(SPEC, out="t", on_event=told.append).run().trials
    assert first.value is not None
    assert (second.returns, second.value) == ({5: None}, None)
    assert events.Remark("seed 5: training diverged; start a new run with a lower rate") in told
    assert len(begun) == 2
    assert Tuning.open("t").resume().trials == (first, second)
    assert begun[2:] == [3e-4]  # which is finished, and only read
    Path("t/trial-002/seed-5", DIVERGED).write_text("{}")
    with pytest.raises(RunFolderError, match=r"diverged.json is damaged .*; delete the folder"):
        Tuning.open("t").resume()


def test_a_trial_has_the_returns_and_the_time_of_all_its_seeds(tiny_set, monkeypatch):
    def run(tune, folder, number, settings, seed):
        return tuning._Run(100.0 * number + seed, seed / 2, {})

    monkeypatch.setattr(Tuning, "_run", run)
    result = Tuning(SPEC, seeds=(5, 8), out="t").run()
    assert [trial.returns for trial in result.trials] == [{5: 5.0, 8: 8.0}, {5: 105.0, 8: 108.0}]
    assert [trial.value for trial in result.trials] == [6.5, 106.5]
    assert [trial.core_seconds for trial in result.trials] == [6.5, 6.5]


@pytest.fixture
def later_trials_diverge(monkeypatch):
    resume = tuning.Experiment.resume

    def diverge_later(experiment):
        if experiment.config.protocol.ppo.lr != 3e-4:
            raise TrainingDivergedError("training diverged; start a new run with a lower rate")
        return resume(experiment)

    monkeypatch.setattr(tuning.Experiment, "resume", diverge_later)


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """Return the file of a method in the working folder."""
    monkeypatch.chdir(tmp_path)
    file = Path("mine.py")
    file.write_text(
        "from dataclasses import replace\nfrom recmorph import SPEC as BASE\n"
        "SPEC = replace(BASE, id='mine', tuned={}, tuning='')\n"
    )
    return file


@pytest.mark.slow
def test_all_trials_are_of_one_text_of_the_method(
    tiny_set, later_trials_diverge, mine, monkeypatch
):
    text = mine.read_text()
    result = Tuning(SPEC, method="mine.py:SPEC", out="t").run()
    digest = hashlib.sha256(mine.read_bytes()).hexdigest()
    assert result.content["method_source_digest"] == digest
    assert "method_source_digest" not in Tuning(SPEC)._method  # as of all trials before
    mine.write_text(f"{text}# changed\n")
    reason = "mine.py:SPEC has changed since the tuning was started"
    with pytest.raises(ConfigError, match=rf"{reason} \(hash .*, expected {digest[:12]}\)"):
        Tuning.open("t").resume()
    mine.write_text(text)
    assert Tuning.open("t").resume().trials == result.trials
    folder = Path("t").resolve()
    monkeypatch.chdir("/")  # where the file is found by its full name
    assert Tuning.open(folder).resume().trials == result.trials
    monkeypatch.chdir(folder.parent)

    # It also changes while trials run, here before the first of them.
    tune = Tuning(SPEC, method="mine.py:SPEC", out="u")
    assert tune.choice.method.id == "mine"
    tune.subscribe(lambda event: mine.write_text(f"{text}# changed\n"))
    with pytest.raises(ConfigError, match=reason):
        tune.run()


@pytest.mark.slow
def test_a_tuning_goes_on_with_the_version_that_it_was_started_with(
    tiny_set, later_trials_diverge, monkeypatch
):
    result = Tuning(SPEC, out="t").run()
    newer = replace(METHODS.load("recmorph"), version=2, tuned={}, tuning="")
    with monkeypatch.context() as later:
        later.setattr(METHODS, "load", lambda name, digest=None: newer)
        with pytest.raises(ConfigError, match="has version 2, but the tuning was started with ver"):
            Tuning.open("t").resume()
    # A folder of before says neither, nor what diverged.
    marker, diverged = Path("t/tuning.yaml"), Path("t/trial-002/seed-5", DIVERGED)
    content = {**load_yaml(marker)}
    del content["method_version"]
    marker.write_text(yaml.safe_dump(content))
    write_atomic(diverged, sealed({"reason": "", "core_seconds": 3.0}))
    assert Tuning.open("t").resume().trials[1].core_seconds == 3.0
    assert result.trials[1].value is None


@pytest.mark.slow
def test_a_run_that_diverged_with_other_settings_is_no_trial(tiny_set, later_trials_diverge):
    Tuning(SPEC, out="t").run()
    Tuning(SPEC, sampler_seed=7, out="u").run()
    file = Path("trial-002/seed-5", DIVERGED)
    write_atomic("t" / file, ("u" / file).read_bytes())
    with pytest.raises(RunFolderError, match=r"is of a run with other settings .*; delete the fol"):
        Tuning.open("t").resume()


@pytest.mark.slow
def test_a_tuning_goes_on_where_there_are_fewer_cores(tiny_set, monkeypatch):
    """With those that there are; a new one is told how many there are."""
    many = Tuning(SPEC, threads=64, trials=1, out="t")
    with pytest.raises(ConfigError, match=r"--threads must be from 1 to .* here, got 64"):
        many.run()
    assert not Path("t").exists()
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr("gmc_bench.sim.batch.available_threads", lambda: 64)
        elsewhere.setattr(Tuning, "_finish", lambda *_: None)  # killed at its start
        many.run()
    result = Tuning.open("t").resume()
    assert result.content["hardware"]["threads"] == available_threads()
    assert yaml.safe_load(Path("t/tuning.yaml").read_text())["threads"] == 64


def test_a_tuning_on_a_gpu_is_opened_where_there_is_none(tiny_set, monkeypatch):
    """Its runs that are yet to begin take the CPU; a new one is told that there is none."""
    gone = Tuning(SPEC, device="cuda:99", out="t")
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(tuning, "check_device", lambda name: name)
        elsewhere.setattr(Tuning, "_finish", lambda *_: None)  # killed at its start
        gone.run()
    monkeypatch.setattr(Tuning, "_finish", lambda tune, _: tune._spec_of(tune.first, 5).device)
    assert Tuning.open("t").resume() == "cpu"
    assert yaml.safe_load(Path("t/tuning.yaml").read_text())["device"] == "cuda:99"


def test_nobody_is_told_of_a_trials_run_as_of_a_run(tmp_path):
    """Whoever stops a search is told to continue it, and not the run that was under way."""
    told, path = [], tmp_path / "trial-001"
    tune = Tuning(SPEC, on_event=told.append)
    passed = [
        events.TrainingStarted(0, 384), events.IterationFinished(128, 1.0), events.Remark("odd")
    ]  # fmt: skip
    for event in (
        events.RunStarted(path, None, 384, False),
        *passed[:2],
        events.CheckpointWritten(path, 128),
        events.TrainingFinished(path, 1.0),
        events.RecordWritten(path, None),
        passed[2],
    ):
        tune._tell(event)
    assert told == passed


@pytest.mark.parametrize(("env_steps", "remarks"), [(4 * 992, 1), (4 * 1000, 0)])
def test_runs_shorter_than_an_episode_are_told_before_the_trials(tiny_set, env_steps, remarks):
    told = []
    tune = Tuning(SPEC, env_steps=env_steps, on_event=told.append)
    tune._warn_of_short_runs()
    assert len(told) == remarks
    if told:
        assert told[0].text.startswith("each of 4 environments makes 992 steps, but an episode on")
        assert told[0].text.endswith("raise the env steps to 4,000 or more")


def test_what_tables_score_is_no_search_set():
    mini = load_morphologies("gmc-unimal-mini")
    store_set(replace(mini, id="renamed", splits={"train": mini.split("test"), "test": (biped(),)}))
    for name, why in {
        "gmc-unimal-mini": "a set that tables score",
        "gmc-unimal-mini:2": "a set that tables score",
        "tiny+damping-v1": "a set that tables score",
        "renamed": "is a body of gmc-unimal-mini-v2",
    }.items():
        with pytest.raises(GmcBenchError, match=why):
            Tuning(SPEC, bodies=name, out="t").run()
        assert not Path("t").exists()


@pytest.mark.parametrize(
    ("method", "why"),
    [("mlp", "reference with rules of its own"), ("zero-action", "trains nothing, so it has")],
)
def test_references_are_not_tuned(method, why):
    with pytest.raises(ConfigError, match=why):
        Tuning(SPEC, method=method, out="t").run()
    assert not Path("t").exists()


def test_listed_bodies_are_those_of_the_sets():
    listed = search_sets._listed()
    assert {"unimals_100", "gmc-unimal-v1", "gmc-large-v1", "gmc-loops-v1"} <= listed.keys()
    bodies = load_morphologies("gmc-unimal-mini")
    found = {body.digest[:16] for split in bodies.splits.values() for body in split}
    assert found == set(listed["gmc-unimal-mini-v2"])
    assert search_sets.SEARCH_SET not in search_sets.scored_sets()
    assert "gmc-heldout-v1" in search_sets.scored_sets()


def test_every_method_has_the_same_chance():
    draws = {}
    for method in ("recmorph", "metamorph"):
        tune = Tuning(SPEC, method=method)
        tried = [TuningTrial(0, tune.first, {1: 1.0}, 0.0)]
        for number in range(1, 8):
            settings = draw(tune.ranges, number, tried, tune.spec.sampler_seed)
            assert all(settings[name] in item for name, item in tune.ranges.items())
            assert settings == draw(tune.ranges, number, tried, 0)  # nothing else decides it
            assert settings != draw(tune.ranges, number, tried, 7)
            digits = {name: float(f"{value:.3g}") for name, value in settings.items()}
            assert settings == digits
            tried.append(TuningTrial(number, settings, {1: float(number)}, 0.0))
        draws[method] = [trial.settings for trial in tried]
    assert draws["metamorph"][0]["ppo.target_kl"] == 0.2  # its paper's
    assert draws["metamorph"][0]["model.embedding_dropout"] == 0.1
    spread = [
        [{name: item[name] for name in PPO_RANGES} for item in tried[1 : SPREAD + 1]]
        for tried in draws.values()
    ]
    assert spread[0] == spread[1]
    assert len({item["ppo.lr"] for item in spread[0]}) == SPREAD


def test_rates_in_a_group_of_settings_are_tuned(tmp_path):
    file = tmp_path / "grouped.py"
    file.write_text(
        "from dataclasses import dataclass, field, replace\nfrom recmorph import SPEC as BASE\n"
        "@dataclass(frozen=True)\nclass Walk:\n    dropout: float = 0.1\n"
        "@dataclass(frozen=True)\nclass Config:\n    walk: Walk = field(default_factory=Walk)\n"
        "SPEC = replace(BASE, id='grouped', config=Config, presets={}, tuned={}, tuning='')\n"
    )
    tune = Tuning(SPEC, method=f"{file}:SPEC", settings={})
    assert tune.first == {"ppo.lr": 3e-4, "ppo.target_kl": 0.05, "model.walk.dropout": 0.1}


def test_what_is_tried_replaces_a_setting_of_all_trials(tiny_set):
    tune = Tuning(SPEC, settings={**SPEC.settings, "ppo.lr": 0.5})
    assert tune._spec_of({"ppo.lr": 0.25}, 5).settings["ppo.lr"] == 0.25


def test_rules_of_trials_are_all_but_name_budget_scores_and_seeds():
    lite = SUITES.get("unimal-v1").protocol("lite")
    scores = replace(lite.evaluation, episodes=lite.evaluation.episodes + 1)
    other = replace(
        lite, name="other", env_steps=2 * lite.env_steps, evaluation=scores, seeds=(9,),
        return_window=0.5,
    )  # fmt: skip
    assert tuning.rules_digest(other) == tuning.rules_digest(lite)
    assert tuning.rules_digest(replace(lite, num_envs=8)) != tuning.rules_digest(lite)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"settings": {"ppo.lr": 1e-3}}, "must not hold 'ppo.lr', which trials set themselves"),
        (
            {"settings": {"ppo": {"lr": 1e-3}}},
            "must not hold 'ppo.lr', which trials set themselves",
        ),
        ({"settings": [1]}, r"'settings' must map names to values, got \[1\]; write e.g."),
        ({"settings": {"model": 3}}, "'model' must hold the method's settings, got 3; name one,"),
        ({"settings": {"return_window": 0.5}}, "must not hold 'return_window'"),
        ({"env_steps": 100}, "less than one iteration"),
        ({"seeds": (5, 5)}, "different seeds"),
        ({"seeds": 5}, "'seeds' must be a list, got 5"),
        ({"sampler_seed": -1}, "'sampler_seed' must be from 0 to 4294967294 for 2 trials, got -1"),
        ({"sampler_seed": 2**32 - 1, "trials": 2}, "from 0 to 4294967294 for 2 trials, got"),
        ({"trials": "many"}, "'trials' must be an integer, got 'many'"),
        ({"trails": 8}, "a tuning has no 'trails'; did you mean 'trials'"),
        ({"device": "cuda:99"}, "the device 'cuda:99' cannot be used here"),
    ],
)
def test_what_makes_no_sense_leaves_no_folder(tiny_set, changes, why):
    with pytest.raises(ConfigError, match=why):
        Tuning(SPEC, out="t", **changes).run()
    assert not Path("t").exists()


def method(**settings):
    return MethodSpec(id="x", config="x:y", builder="x:y", tuned={KEY: settings})


def test_values_within_the_ranges_do_not_split_a_table():
    suite, task = SUITES.get("unimal-v1"), "unimal-ft-v1"
    lite = suite.protocol("lite", task)
    expected = protocol_digest(lite, method(), suite, task)
    tuned = with_method_training(lite, method(**KEPT), task, suite)
    assert (tuned.ppo.lr, tuned.ppo.target_kl) == (0.0013, 0.11)
    assert protocol_digest(tuned, method(**KEPT), suite, task) == expected
    assert protocol_digest(tuned, method(), suite, task) != expected  # not the method's own
    beyond = method(**{"ppo.lr": 0.01})
    far = with_method_training(lite, beyond, task, suite)
    assert protocol_digest(far, beyond, suite, task) != expected
    for other in ("unimal-incline-v1", "unimal-vt-v1"):  # tuned for one task
        plain = suite.protocol("lite", other)
        assert with_method_training(plain, method(**KEPT), other, suite) == plain
    never = replace(lite, ppo=replace(lite.ppo, target_kl=None))
    assert protocol_digest(never, method(**KEPT), suite, task) != expected


def test_the_ends_of_a_range_are_within_it():
    ends = {
        "ppo.lr": (3e-4, 3e-3),
        "ppo.target_kl": (0.02, 0.2),
        "model.embedding_dropout": (0.0, 0.2),
    }
    for name, (low, high) in ends.items():
        for within in (low, high):
            assert in_range({name: within}) == {name: within}
        for beyond in (low - 1e-9, high + 1e-9):
            assert in_range({name: beyond}) == {}
    none = {"ppo.lr": True, "model.dropout": False, "ppo.gamma": 0.1, "model.width": 0.1}
    assert in_range(none) == {}


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"ppo.gamma": 0.9}, "may tune ppo.lr, ppo.target_kl, model.*dropout only"),
        ({"model.width": 9}, "may tune"),
        ({"ppo.lr": 0.0}, "to a positive number"),
        ({"ppo.lr": "fast"}, "to a positive number"),
    ],
)
def test_a_method_keeps_nothing_else(settings, why):
    with pytest.raises(PluginError, match=why.replace("*", r"\*")):
        with_method_training(SUITES.get("unimal-v1").protocol("lite"), method(**settings))


def test_a_run_has_what_its_method_was_tuned_to(monkeypatch, finished_record):
    kept = {**KEPT, "model.embedding_dropout": 0.03}
    metamorph = replace(METHODS.load("metamorph"), tuned={KEY: kept}, tuning="")
    monkeypatch.setattr(METHODS, "load", lambda name: metamorph)
    spec = ExperimentSpec(
        method="metamorph", suite="unimal", task="ft", protocol="lite", bodies="tiny", threads=1
    )
    found = resolve(spec)
    assert found.config.unofficial_reasons == ()
    assert found.config.protocol.ppo.lr == 0.0013
    assert found.config.method_config["embedding_dropout"] == 0.03
    assert "brings along what it was tuned to: ppo.lr 0.0013" in found.why
    record = finished_record(found, kept)
    assert installed_rules(record).config == found.config.identity()
    assert installed_rules(record).protocol == record.protocol_digest
    assert installed_rules(record).tuning.settings == kept
    ablation = resolve(spec.replace(preset="paper-no-dropout"))
    assert ablation.config.protocol.ppo.lr == 0.0013
    assert ablation.config.method_config["embedding_dropout"] == 0.0
    changed = resolve(spec.replace(settings={"ppo.lr": 1e-3}))
    assert "the protocol's ppo.lr was changed" in changed.config.unofficial_reasons
    first = Tuning(method="metamorph", bodies="tiny").first  # not the tuned
    assert (first["ppo.target_kl"], first["model.embedding_dropout"]) == (0.2, 0.1)


def test_the_first_trial_of_a_tuned_method_is_without_tuning_also_where_that_is_none(monkeypatch):
    suite, task = SUITES.get("unimal-v1"), "unimal-ft-v1"
    lite = suite.protocol("lite", task)
    never = replace(lite, ppo=replace(lite.ppo, target_kl=None))
    method = replace(METHODS.load("recmorph"), tuned={KEY: KEPT}, tuning="")
    monkeypatch.setattr(METHODS, "load", lambda name: method)
    monkeypatch.setattr(type(suite), "protocol", lambda *_: never)
    tune = Tuning(method="recmorph", task="ft", bodies="tiny")
    assert tune.first == {"ppo.lr": lite.ppo.lr}
    ppo = resolve(tune._spec_of(tune.first, 5)).config.protocol.ppo
    assert (ppo.lr, ppo.target_kl) == (lite.ppo.lr, None)


def test_a_tuned_method_follows_the_protocol_with_its_values_before_tuning_too(
    monkeypatch, finished_record
):
    kept = {**KEPT, "model.embedding_dropout": 0.03}
    metamorph = replace(METHODS.load("metamorph"), tuned={KEY: kept}, tuning="")
    monkeypatch.setattr(METHODS, "load", lambda name: metamorph)
    before = {"ppo.lr": 1e-3, "ppo.target_kl": 0.2, "model.embedding_dropout": 0.1}
    spec = ExperimentSpec(
        method="metamorph", suite="unimal", task="ft", protocol="lite", bodies="tiny", threads=1
    )
    found = resolve(spec.replace(settings=before))
    assert found.config.unofficial_reasons == ()
    assert "tuned" not in found.why
    record = finished_record(found)
    assert installed_rules(record).config == found.config.identity()
    assert installed_rules(record).tuning is None
    assert installed_rules(record, tuned=True).config == resolve(spec).config.identity()
    assert record.protocol_digest == finished_record(resolve(spec)).protocol_digest
    for name in before:  # some of the values before tuning and some after it are neither
        partly = {key: value for key, value in before.items() if key != name}
        assert resolve(spec.replace(settings=partly)).config.unofficial_reasons
    other = resolve(spec.replace(settings={**before, "ppo.gamma": 0.9})).config
    assert "the protocol's ppo.gamma was changed" in other.unofficial_reasons


@pytest.fixture
def finished_record():
    """Return what makes a record of a resolved run, as far as its rules are concerned."""
    from types import SimpleNamespace

    def make(found, tuning=None):
        config, choice = found.config, found.choice
        digest = protocol_digest(config.protocol, choice.method, choice.suite, config.task)
        return SimpleNamespace(
            method="metamorph", suite=config.suite, task=config.task, protocol="lite",
            protocol_digest=digest, seed=config.seed, untrained=None, tuning=tuning,
            morphologies=SimpleNamespace(
                id=config.morphologies, digest=config.morphologies_digest, num_train=2
            ),
        )  # fmt: skip

    return make


def test_a_damaged_return_of_a_trial_is_refused(tmp_path):
    path = tmp_path / "seed-1" / "training_return.json"
    write_atomic(path, sealed({"training_return": 12.5}))
    assert read_return(path) == 12.5
    for damaged in (path.read_bytes().replace(b"12.5", b"13.5"), b'{"training_return": null}'):
        path.write_bytes(damaged)
        with pytest.raises(GmcBenchError, match=r"delete the folder .*seed-1 to make this run"):
            read_return(path)
