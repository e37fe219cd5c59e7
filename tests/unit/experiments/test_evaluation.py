"""Evaluations after a run."""

from dataclasses import replace

import pytest

import gmc_bench
from gmc_bench.bodies.schema import MorphologySet
from gmc_bench.conformance.morphologies import biped, chain, star
from gmc_bench.core.errors import ConfigError, MorphologyError
from gmc_bench.experiments.experiment import Experiment
from gmc_bench.experiments.grid import Grid

OWN = MorphologySet(
    id="made-here", splits={"train": (chain(2),), "test": (star(3), biped())}, source="Python."
)


def scoring_nothing(**options):
    """Return an experiment of seconds that leaves all scores to evaluations after it."""
    return Experiment(
        method="zero-action", suite="unimal", task="ft", protocol="smoke", bodies="tiny", threads=1,
        settings={"evaluation.modes": [], "evaluation.splits": ["train"]}, **options,
    )  # fmt: skip


def test_a_run_that_scores_nothing_can_be_evaluated():
    """As the trials of a tuning are: in both modes, or in the one that is named."""
    experiment = scoring_nothing()
    assert experiment.run().returns == ()
    content = experiment.evaluate(episodes=1).to_dict()
    assert content["episodes_per_body"] == 1
    found = [(item["split"], item["mode"]) for item in content["returns"]]
    assert found == [("train", "deterministic")] * 2 + [("train", "stochastic")] * 2
    (only,) = {item.mode for item in experiment.evaluate(mode="stochastic", episodes=1).returns}
    assert only == "stochastic"


@pytest.fixture
def finished():
    experiment = scoring_nothing(out="run")
    experiment.run()
    return experiment


def test_the_first_cpu_is_no_gpu():
    experiment = scoring_nothing(device="cpu:0")
    experiment.run()
    found = experiment.evaluate(mode="deterministic", episodes=1)
    assert found.trained.config.device == "cpu:0"
    assert found.to_dict()["hardware"]["gpu"] is None


def test_a_set_of_bodies_is_scored_by_itself_or_by_its_id(finished):
    found = gmc_bench.evaluate("run", bodies=OWN, mode="deterministic", episodes=1)
    assert [item.body for item in found.returns] == ["star-3", "biped"]
    content = found.to_dict()
    assert content["morphologies"] == {"id": "made-here", "digest": OWN.digest}
    torso, *limbs = chain(2).limbs
    unusable = replace(chain(2), limbs=(replace(torso, name="world"), *limbs))
    bad = replace(OWN, splits={**OWN.splits, "test": (unusable,)})
    with pytest.raises(MorphologyError, match="has a limb named 'world'; rename it"):
        gmc_bench.evaluate("run", bodies=bad, episodes=1)
    with pytest.raises(ConfigError, match="'bodies' must be a string or MorphologySet or none"):
        gmc_bench.evaluate("run", bodies=3)


def test_a_run_of_another_version_of_its_method_is_loaded_with_a_warning(finished, caplog):
    finished.evaluate(mode="deterministic", episodes=1)
    assert caplog.messages == []
    method = replace(finished.session.method, version=2)
    finished.session = replace(finished.session, method=method)
    warned = "zero-action has version 2, the run had 1: its policy may act as another network"
    finished.evaluate(mode="deterministic", episodes=1)
    assert caplog.messages == [warned]
    assert finished.policy.method == "zero-action"
    assert caplog.messages == [warned, warned]


def test_a_run_is_not_opened_on_other_bodies(finished):
    """Both sets are named, and the way that is meant for it."""
    with pytest.raises(ConfigError) as caught:
        Experiment.open("run", bodies=OWN).evaluate()
    assert "made on the body set 'tiny', got the set 'made-here'" in str(caught.value)
    assert "evaluate(bodies=...)" in str(caught.value)


def test_runs_take_a_set_by_its_id():
    common = {"protocol": "smoke", "bodies": OWN}
    for make in (
        lambda: Experiment(method="recmorph", suite="unimal", **common),
        lambda: Grid(methods=["recmorph"], suites=["unimal"], **common),
    ):
        with pytest.raises(ConfigError, match="the id of a set, got the set 'made-here' itself"):
            make()


def test_an_option_that_an_evaluation_does_not_have_is_refused(finished):
    with pytest.raises(ConfigError, match="an evaluation has no 'num_episodes'; did you mean 'epi"):
        gmc_bench.evaluate("run", num_episodes=2)
