"""Runs that train nothing: initial weights of a method, and no action at all."""

import hashlib
import shutil
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from gmc_bench.core.config import config_digest
from gmc_bench.core.errors import RecordError
from gmc_bench.experiments.experiment import Experiment
from gmc_bench.experiments.session import open_session, policy_of_bytes, untrained_policy
from gmc_bench.leaderboard.board import read_board
from gmc_bench.leaderboard.rerun import acting_weights, find_weights, verify
from gmc_bench.leaderboard.rules import installed_rules
from gmc_bench.leaderboard.submission import POLICY, Submission, add, read_finished_run
from gmc_bench.methods import METHODS
from gmc_bench.policies.tensors import decode_tensors, encode_tensors
from gmc_bench.records.store import write_record
from gmc_bench.records.weights import KeptWeights
from gmc_bench.suites import SUITES
from gmc_bench.suites.method_rules import protocol_digest
from gmc_bench.training.trainer import make_trainer

RUN = {"suite": "unimal", "task": "ft", "protocol": "smoke", "bodies": "tiny", "threads": 1}


@pytest.mark.parametrize("method", ["recmorph", "mlp", "zero-action"])
def test_a_run_without_training_is_an_official_record_that_can_be_verified(method, tmp_path):
    experiment = Experiment(method=method, untrained=True, **RUN)
    record = experiment.run()
    assert (record.untrained, record.official, record.status) == (True, True, "complete")
    assert (record.env_steps, record.learning_curve, record.training_return) == (0, (), None)
    assert (record.parameters == 0) == (method == "zero-action")
    session = open_session(replace(experiment.config, untrained=False))
    policy = untrained_policy(session)
    assert record.weights_digest == hashlib.sha256(policy.to_bytes()).hexdigest()
    bodies = session.bodies.split("train") if method == "mlp" else ()
    loaded = policy_of_bytes(session, policy.to_bytes(), experiment.path)
    assert loaded.digests == policy.digests == tuple(body.digest for body in bodies)
    stored = read_finished_run(experiment.path)
    weights = find_weights(stored, None, [], experiment.path)
    assert verify(stored, weights).passed
    # Never in one row with a trained run, and not refused for weights that seeds may share.
    assert record.config == {
        **replace(experiment.config, untrained=False).identity(),
        "untrained": True,
    }
    assert experiment.resume() == record
    rules = installed_rules(record)
    assert rules is not None
    # Another seed of no action at all has the same weights, and so is no copy.
    protocol = replace(experiment.config.protocol, seeds=(1, 2))
    config = replace(experiment.config, protocol=protocol).identity()
    asked = {
        "protocol_digest": protocol_digest(
            protocol, experiment.session.method, SUITES.get(record.suite), record.task
        ),
        "protocol_seeds": (1, 2),
        "config": config,
        "config_digest": config_digest(config),
    }
    rules = replace(rules, seeds=(1, 2), config=config, protocol=str(asked["protocol_digest"]))
    runs = []
    for seed in (1, 2)[: 2 if method == "zero-action" else 1]:
        folder = tmp_path / str(seed)
        shutil.copytree(experiment.path, folder)
        changes = {**asked, "seed": seed, "git_commit": "0" * 40, "git_dirty": False}
        write_record(folder / "record.json", record.model_copy(update=changes))
        item = read_finished_run(folder)
        runs.append(Submission(folder, item, rules, partial(acting_weights, folder, item)))
    board = tmp_path / "board"
    assert len(add(runs, board)) == len(runs)
    found = read_board(board)
    assert len(found.records) == len(runs)
    assert find_weights(found.records[-1], found, []).read()


@pytest.mark.parametrize("method", ["recmorph", "mlp"])
def test_the_untrained_policy_is_the_one_that_training_starts_from(method):
    experiment = Experiment(method=method, **RUN)
    session = experiment.session
    bodies = session.bodies.split("train")
    trainer = make_trainer(session.config, session.method, session.task, bodies, session.spec)
    assert trainer.policy.to_bytes() == untrained_policy(session).to_bytes()


def test_zero_action_does_nothing_and_is_run_without_being_asked_not_to_train():
    experiment = Experiment(method="zero-action", **RUN)
    assert (experiment.config.untrained, experiment.session.env_steps) == (True, 0)
    assert "zero-action" not in METHODS.names()


@pytest.mark.parametrize(
    ("method", "name"),
    [
        ("mlp", "mlp-untrained_unimal-ft_smoke_tiny_seed1"),
        ("zero-action", "zero-action_unimal-ft_smoke_tiny_seed1"),
    ],
)
def test_the_folder_of_a_run_without_training_says_so_unless_its_method_does(method, name):
    experiment = Experiment(method=method, untrained=True, **RUN)
    experiment.run()
    assert experiment.path.name == name


ELSEWHERE = {"mujoco": "0.0.1"}


@pytest.mark.slow
@pytest.mark.parametrize("versions", [{}, ELSEWHERE])
def test_trained_weights_are_no_first_weights(tmp_path, versions):
    """Neither when a run is added nor when it is verified, here nor elsewhere."""
    experiment = Experiment(method="recmorph", untrained=True, **RUN)
    experiment.run()
    honest = read_finished_run(experiment.path)
    first = decode_tensors((experiment.path / POLICY).read_bytes(), "it")
    name = next(name for name in first if name.startswith("model.actor"))

    def judge(change):
        data = encode_tensors({**first, name: first[name] + np.float32(change)})
        digest = hashlib.sha256(data).hexdigest()
        (tmp_path / POLICY).write_bytes(data)
        changes = {"weights_digest": digest, "versions": {**honest.record.versions, **versions}}
        stored = honest._replace(record=honest.record.model_copy(update=changes))
        for check in (
            partial(acting_weights, tmp_path, stored),
            partial(verify, stored, KeptWeights(tmp_path / POLICY, digest), ranked_only=True),
        ):
            try:
                check()
                yield ""
            except RecordError as error:
                yield str(error).removeprefix(f"{experiment.path}/")[:58]

    refused = ["record.json says that nothing was trained, but its weights"] * 2
    assert list(judge(0.0)) == ["", ""]
    # The last bits may differ elsewhere.
    assert list(judge(1e-6)) == (["", ""] if versions else refused)
    assert list(judge(1e-3)) == refused
