"""Evaluations after a run."""

from gmc_bench.experiments.experiment import Experiment


def test_a_run_that_scores_nothing_can_be_evaluated():
    """As the trials of a tuning are: in both modes, or in the one that is named."""
    experiment = Experiment(
        method="zero-action", suite="unimal", task="ft", protocol="smoke", bodies="tiny", threads=1,
        settings={"evaluation.modes": [], "evaluation.splits": ["train"]},
    )  # fmt: skip
    assert experiment.run().returns == ()
    content = experiment.evaluate(episodes=1).to_dict()
    assert content["episodes_per_body"] == 1
    found = [(item["split"], item["mode"]) for item in content["returns"]]
    assert found == [("train", "deterministic")] * 2 + [("train", "stochastic")] * 2
    (only,) = {item.mode for item in experiment.evaluate(mode="stochastic", episodes=1).returns}
    assert only == "stochastic"
