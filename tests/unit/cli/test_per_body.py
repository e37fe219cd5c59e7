"""Methods with one policy per body: the size of all of them, and what they cannot be trained on."""

from gmc_bench.experiments.experiment import Experiment
from gmc_bench.experiments.session import make_networks

RUN = (
    "run", "--method", "mlp", "--suite", "unimal", "--task", "ft", "--protocol", "smoke",
    "--seed", "1",
)  # fmt: skip
SMALL = ("--env-steps", "1024", "--model.hidden", "8", "--threads", "1", "--out", "run")


def test_every_body_has_weights_of_its_own():
    experiment = Experiment(
        method="mlp", suite="unimal", task="ft", protocol="smoke", bodies="tiny", threads=1,
        settings={"model.hidden": [8]},
    )  # fmt: skip
    # 624 -> 8 -> 24 and 624 -> 8 -> 12, for each of two bodies
    expected = 2 * (2 * (624 * 8 + 8) + 9 * 24 + 9 * 12)
    assert make_networks(experiment.session).num_parameters() == expected


def test_several_token_orders_per_body_are_refused(gmc, tmp_path):
    code, _, err = gmc(*RUN, *SMALL, "--morphologies", "tiny", "--tokens.order", "siblings")
    assert code == 2
    assert "cannot be trained on several token orders of each" in err.splitlines()[-1]
    assert not (tmp_path / "run").exists()
