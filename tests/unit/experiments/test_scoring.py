"""Seeds, threads and summaries of a scoring."""

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from gmc_bench.bodies.kinship import geometry, limb_tree
from gmc_bench.core.errors import ConfigError
from gmc_bench.evaluation.dropout import draw_silent_limbs
from gmc_bench.evaluation.evaluate import EpisodeResult, Observer
from gmc_bench.evaluation.friction_options import FrictionOptions
from gmc_bench.evaluation.loops import LoopMonitor
from gmc_bench.experiments import friction, scoring
from gmc_bench.experiments import session as sessions
from gmc_bench.experiments.events import Progress
from gmc_bench.experiments.method import source_digest
from gmc_bench.experiments.resolve import resolve
from gmc_bench.experiments.scoring import evaluation_seed, recorded_lengths
from gmc_bench.experiments.spec import ExperimentSpec
from gmc_bench.policies.policy import Policy
from gmc_bench.records.summary import summarize
from gmc_bench.suites import SUITES, EvaluationConfig
from gmc_bench.suites.method_rules import token_spec
from gmc_bench.suites.unimal import SUITE
from gmc_bench.tasks.unimal_ft import TASK
from gmc_bench.training.run_config import RunConfig
from tests.support.records import make_record, make_returns


def test_a_session_resolves_every_name(config, tiny_set):
    session = sessions.open_session(config)
    assert session.method.id == "recmorph"
    assert session.task.id == "unimal-ft-v1"
    assert session.bodies.digest == tiny_set.digest
    assert session.spec == token_spec(SUITE, tiny_set, TASK)


def test_other_bodies_under_the_same_name_are_refused(config):
    changed = RunConfig(**{**vars(config), "morphologies_digest": "f" * 64})
    with pytest.raises(ConfigError, match="'tiny' has changed since the run was started"):
        sessions.open_session(changed)


def test_a_task_that_changed_is_refused(config):
    asked = ExperimentSpec(method="recmorph", suite="unimal", task="ft", bodies="tiny")
    assert resolve(asked).config.task_digest == TASK.digest
    sessions.open_session(replace(config, task_digest=TASK.digest))
    sessions.open_session(replace(config, task_digest=None))  # a run of an earlier version
    with pytest.raises(ConfigError, match="'unimal-ft-v1' has changed since the run was started"):
        sessions.open_session(replace(config, task_digest="f" * 64))


def test_a_method_file_that_changed_is_refused(config, tmp_path):
    path = tmp_path / "mine.py"
    path.write_text("from recmorph import SPEC\n")
    name = f"{path}:SPEC"
    config = replace(config, method=name, method_source_digest=source_digest(name))
    assert sessions.open_session(config).method.id == "recmorph"
    path.write_text("from recmorph import SPEC  # changed\n")
    with pytest.raises(ConfigError, match=r"mine\.py:SPEC has changed since the run was started"):
        sessions.open_session(config)
    path.unlink()
    with pytest.raises(
        ConfigError, match=r"the method file .*mine\.py: No such file .*; put it back"
    ):
        sessions.open_session(config)


def test_policies_are_of_the_seed_and_the_settings_of_their_run(config):
    def policy(**changes):
        return sessions.untrained_policy(sessions.open_session(replace(config, **changes)))

    def weights(found):
        return torch.nn.utils.parameters_to_vector(found.model.parameters())

    first = weights(policy(seed=1))
    assert torch.equal(weights(policy(seed=1)), first)
    assert not torch.equal(weights(policy(seed=2)), first)
    protocol = replace(config.protocol, action_std=0.25, normalization="per_slot")
    changes = {"protocol": protocol, "precision": "bfloat16"}
    session, origin = sessions.open_session(replace(config, **changes)), Path("policy.safetensors")
    made = policy(**changes)
    for found in (made, sessions.policy_of_bytes(session, made.to_bytes(), origin)):
        assert (found.normalizer.mode, found.model.precision) == ("per_slot", "bfloat16")
        assert float(found.model.action_std) == 0.25


def test_the_policy_of_a_method_file_names_the_file(config, tmp_path):
    """By which a saved policy finds its networks again."""
    (tmp_path / "mine.py").write_text("from recmorph import SPEC\n")
    name = f"{tmp_path / 'mine.py'}:SPEC"
    config = replace(config, method=name, method_source_digest=source_digest(name))
    session = sessions.open_session(config)
    policy = sessions.untrained_policy(session)
    loaded = sessions.policy_of_bytes(session, policy.to_bytes(), tmp_path / "policy.safetensors")
    for found in (policy, loaded):
        found.save(tmp_path / "saved.safetensors")
        assert Policy.load(tmp_path / "saved.safetensors").method == name


def test_rollouts_must_be_whole_sequences(config):
    smr = replace(config, method="smr", protocol=replace(config.protocol, rollout_length=40))
    session = sessions.open_session(smr)
    with pytest.raises(ConfigError, match="'smr' is trained on sequences of 16 steps, so the"):
        sessions.check_networks(session)
    sessions.check_networks(sessions.open_session(replace(smr, protocol=config.protocol)))


@pytest.mark.parametrize(
    ("changes", "bytes_each"),
    [({}, 28), ({"device": "cuda"}, 4), ({"untrained": True}, 4)],
)
def test_networks_that_memory_cannot_hold_are_refused(config, monkeypatch, changes, bytes_each):
    session = sessions.open_session(replace(config, **changes))
    count = sessions.make_networks(session).num_parameters()
    for free in (count * bytes_each, None):
        monkeypatch.setattr(sessions, "available_memory", lambda free=free: free)
        sessions.check_networks(session)
    monkeypatch.setattr(sessions, "available_memory", lambda: count * bytes_each - 1)
    with pytest.raises(ConfigError, match=r"of 'recmorph' need more memory .*--model\.width$"):
        sessions.check_networks(session)
    if bytes_each > 4:
        sessions.check_networks(session, trains_here=False)


def test_the_parts_of_an_evaluation_share_no_random_numbers():
    seeds = {
        evaluation_seed(seed, split, mode)
        for seed in (0, 1, 11)
        for split in ("train", "test")
        for mode in ("deterministic", "stochastic")
    }
    assert len(seeds) == 12
    assert all(0 <= seed < 2**32 for seed in seeds)


def test_the_seed_of_a_part_is_the_one_that_records_were_made_with():
    """Else none of them could be verified."""
    for seed, split, mode in ((1, "test", "stochastic"), (3, "train", "friction")):
        key = hashlib.sha256(f"{seed}/{split}/{mode}".encode()).hexdigest()
        assert evaluation_seed(seed, split, mode) == int(key[:8], 16)


def test_frictions_are_measured_as_the_suite_and_the_options_say_with_the_runs_seed(monkeypatch):
    calls, told = [], []

    def measure(policy, task, bodies, measurement, *, seed, num_threads, on_progress):
        calls.append((seed, num_threads, torch.get_num_threads(), len(bodies), measurement))
        on_progress(5)
        return []

    monkeypatch.setattr(friction, "measure_friction", measure)
    torch.set_num_threads(2)
    spec = ExperimentSpec(
        method="recmorph", suite="quadruped-friction", protocol="smoke", threads=1
    )
    opened = [sessions.open_session(resolve(spec.replace(seed=seed)).config) for seed in (1, 2)]
    others = FrictionOptions(heading="free", rule="static")
    for session, options in zip(opened, (FrictionOptions(), others), strict=True):
        friction.measure_run(session, None, options, told.append)
    usual = SUITES.get(opened[0].config.suite).measurements["smoke"]
    changed = replace(usual, heading="free", rule="static")
    assert calls == [
        (evaluation_seed(seed, "train", "friction"), 1, 1, 4, measurement)
        for seed, measurement in ((1, usual), (2, changed))
    ]
    total = usual.control_steps(opened[0].task, 4)
    assert told[-1] == Progress("frictions", 5, total, "step")


def test_a_run_that_scores_nothing_measures_no_friction(monkeypatch):
    monkeypatch.setattr(friction, "measure_run", lambda *_: [])
    spec = ExperimentSpec(
        method="recmorph", suite="quadruped-friction", protocol="smoke", threads=1
    )
    for modes, expected, number in ((["deterministic"], (), True), ([], None, False)):
        config = resolve(spec.replace(settings={"evaluation.modes": modes})).config
        session = sessions.open_session(config)
        assert friction.suite_friction(session, None, print) == expected
        assert bool(friction.num_friction_results(session)) == number
        assert friction.friction_measurement(config, FrictionOptions())  # after the run


def test_scoring_leaves_torch_as_it_is_also_for_who_is_told(config, monkeypatch):
    """Whoever is told draws the process's own numbers, on its own threads."""
    rules = EvaluationConfig(episodes=1, splits=("train",), modes=("deterministic",))
    config = replace(config, protocol=replace(config.protocol, evaluation=rules))
    inside, told = [], []

    def fake(evaluation, policy, observers):
        inside.append((torch.rand(2).tolist(), torch.get_num_threads()))
        observers[0].finished(1)
        return [[EpisodeResult(1.5, 10, "fell")] for _ in evaluation.bodies]

    def listen(_):
        told.append((torch.rand(2).tolist(), torch.get_num_threads()))

    monkeypatch.setattr(scoring.Scoring, "run", fake)
    session = sessions.open_session(config)
    torch.manual_seed(7)
    expected = torch.rand(3, 2).tolist()
    torch.set_num_threads(2)
    for seed in (7, 8):
        torch.manual_seed(seed)
        scoring.score(session, None, on_progress=listen)
        if seed == 7:
            told.append((torch.rand(2).tolist(), torch.get_num_threads()))
    assert told[:3] == [(row, 2) for row in expected]
    assert inside[0] == inside[1]
    assert inside[0][1] == 1


def test_scoring_takes_the_runs_threads_seeds_and_rules(config, monkeypatch):
    rules = EvaluationConfig(episodes=3)
    config = replace(config, protocol=replace(config.protocol, evaluation=rules))
    calls = []

    def fake(evaluation, policy, observers):
        names = [body.name for body in evaluation.bodies]
        calls.append((torch.get_num_threads(), names, vars(evaluation)))
        return [[EpisodeResult(1.5, 10, "fell")] * evaluation.episodes for _ in names]

    monkeypatch.setattr(scoring.Scoring, "run", fake)
    torch.set_num_threads(2)
    returns = scoring.score(sessions.open_session(config), None)
    assert [(call[0], call[1][0], call[2]["mode"]) for call in calls] == [
        (1, "chain-3", "deterministic"),
        (1, "chain-3", "stochastic"),
        (1, "biped", "deterministic"),
        (1, "biped", "stochastic"),
    ]
    assert [call[2]["seed"] for call in calls] == [
        evaluation_seed(1, split, mode)
        for split in ("train", "test")
        for mode in ("deterministic", "stochastic")
    ]
    assert all(call[2]["episodes"] == 3 for call in calls)
    assert all(len(item.episodes) == 3 for item in returns)
    seen = {(item.split, item.body): item.seen_in_train for item in returns}
    assert seen == {
        ("train", "chain-3"): True,
        ("train", "star-3"): True,
        ("test", "biped"): False,
        ("test", "chain-3"): True,
    }


def test_scoring_takes_what_it_is_asked_for_and_says_how_far_it_is(config, tiny_set, monkeypatch):
    parts, told = [], []
    protocol = replace(config.protocol, evaluation=EvaluationConfig(episodes=5))
    config = replace(config, protocol=protocol, seed=3, threads=2, processes=4)

    class Watcher(Observer):
        pass

    def fake(evaluation, policy, observers):
        parts.append((evaluation, observers))
        for _ in evaluation.bodies:
            observers[0].finished(evaluation.episodes)
        lengths = range(1, evaluation.episodes + 1)
        return [[EpisodeResult(1.5, length, "fell") for length in lengths]] * len(evaluation.bodies)

    watchers = []

    def watch(split, rules):
        watchers.append((split, rules, Watcher()))
        return watchers[-1][2]

    monkeypatch.setattr(scoring.Scoring, "run", fake)
    session = sessions.open_session(config)
    options = {"splits": ("test",), "episodes": 3, "sensor_dropout": True}
    returns = scoring.score(session, None, **options, on_progress=told.append, watch=watch)
    modes = ("deterministic", "stochastic")
    bodies = tiny_set.split("test")
    limbs = draw_silent_limbs(bodies, 3).tolist()
    assert limbs != draw_silent_limbs(bodies, 0).tolist()
    assert [(split, rules.mode) for split, rules, _ in watchers] == [
        ("test", mode) for mode in modes
    ]
    for (rules, observers), (_, announced, watcher) in zip(parts, watchers, strict=True):
        assert rules is announced
        assert observers[1:] == (watcher,)
        assert (rules.episodes, rules.num_threads) == (3, 2)
        assert rules.silent_limbs.tolist() == limbs
    assert told == [Progress("score", done, 12, "episode") for done in (0, 3, 6, 9, 12)]
    for item, body in zip(returns, [*bodies] * 2, strict=True):
        assert [episode.length for episode in item.episodes] == [1, 2, 3]
        assert (item.body_digest, item.limbs) == (body.digest, body.num_limbs)
        assert (item.tree, item.geometry) == (limb_tree(body), geometry(body))
        assert item.loops is None
    scoring.score(session, None, modes=("stochastic",))
    assert [rules.mode for rules, _ in parts[2:]] == ["stochastic"] * 2


def test_residuals_of_loops_are_those_of_each_body(config, monkeypatch):
    monitors = []

    def make(bodies):
        monitors.append(LoopMonitor(len(bodies)))
        return monitors[-1]

    def fake(evaluation, policy, observers):
        (monitor,) = observers[1:]
        assert monitor is monitors[-1]
        monitor.largest[:, 0] = 0.25 * len(monitors), 0.5 * len(monitors)
        monitor.counts[:, 0] += 1
        return [[EpisodeResult(1.5, 10, "fell")] for _ in evaluation.bodies]

    monkeypatch.setattr(scoring, "make_loop_monitor", make)
    monkeypatch.setattr(scoring.Scoring, "run", fake)
    only = {"splits": ("train",), "modes": ("deterministic", "stochastic"), "episodes": 1}
    returns = scoring.score(sessions.open_session(config), None, **only)
    assert [item.loops.largest for item in returns] == [0.25, 0.5, 0.5, 1.0]
    assert {item.loops.samples for item in returns} == {1}  # of a mode alone


def test_a_policy_per_body_is_scored_on_its_own_bodies(config, monkeypatch):
    splits = []

    def fake(evaluation, policy, observers):
        splits.append([body.name for body in evaluation.bodies])
        return [[EpisodeResult(1.5, 10, "fell")] for _ in evaluation.bodies]

    monkeypatch.setattr(scoring.Scoring, "run", fake)
    session = sessions.open_session(replace(config, method="mlp", method_config={"hidden": [4]}))
    for asked in (None, ("train",)):
        scoring.score(session, None, splits=asked, modes=("deterministic",), episodes=1)
    assert splits == [["chain-3", "star-3"]] * 2
    with pytest.raises(ConfigError, match="cannot be scored on the split 'test'; use --split"):
        scoring.score(session, None, splits=("train", "test"))


def test_lengths_of_a_part_are_those_of_its_split_and_mode():
    parts = [("train", "deterministic"), ("train", "stochastic"), ("test", "stochastic")]
    returns = [
        item.model_copy(
            update={
                "episodes": tuple(
                    one.model_copy(update={"length": 10 * place + number})
                    for number, one in enumerate(item.episodes)
                )
            }
        )
        for place, (split, mode) in enumerate(parts, 1)
        for item in make_returns(split, {"a": [1.0, 2.0], "b": [3.0, 4.0]}, mode, seen={"a", "b"})
    ]
    record = make_record(method="recmorph").model_copy(update={"returns": tuple(returns)})
    found = [recorded_lengths(record, *part) for part in parts]
    assert found == [[10, 11] * 2, [20, 21] * 2, [30, 31] * 2]


def test_the_summary_is_worked_out_by_hand():
    returns = make_returns("train", {"a": [1.0, 3.0], "b": [10.0]}) + make_returns(
        "test", {"a": [4.0], "c": [-2.0]}, seen={"a"}
    )
    assert summarize(returns, 0.02) == [
        ["train, deterministic", "2", "6.0", "0.12", "2.0", "10.0", "1,000", "0 %"],
        ["test, deterministic", "2", "1.0", "0.02", "-2.0", "4.0", "1,000", "0 %"],
        [
            "test, deterministic, unseen bodies",
            "1",
            "-2.0",
            "-0.04",
            "-2.0",
            "-2.0",
            "1,000",
            "0 %",
        ],
    ]
    assert summarize(returns)[0][3] == "-"  # a return that is no distance


def test_a_body_that_is_listed_twice_counts_once_in_a_summary():
    """In every number: returns 0 and 2 of one body are 1, lengths 100 and 300 are 200."""
    first, again, other = make_returns("train", {"a": [0.0], "b": [2.0], "c": [9.0]})
    fell, late = (
        item.model_copy(
            update={"episodes": (item.episodes[0].model_copy(update=change),)}
        )
        for item, change in (
            (first, {"length": 100, "ended": "fell"}), (again, {"length": 300, "ended": "fell"}),
        )
    )  # fmt: skip
    late = late.model_copy(update={"body_digest": first.body_digest})
    assert summarize([fell, late, other]) == [
        ["train, deterministic", "2", "5.0", "-", "1.0", "9.0", "600", "50 %"]
    ]
