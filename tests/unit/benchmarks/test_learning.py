import numpy as np
import pytest

from benchmarks import learning
from gmc_bench.records.store import read_record
from tests.support.records import make_record


@pytest.mark.slow
def test_a_run_is_compared_with_its_untrained_weights(tmp_path, monkeypatch):
    from gmc_bench.cli.main import main

    monkeypatch.chdir(tmp_path)
    argv = (
        "run --method recmorph --suite unimal --task ft --protocol smoke --seed 1 --threads 1 "
        "--morphologies gmc-unimal-mini:3 --env-steps 1024 --model.width 8 --model.hidden 8 "
        "--evaluation.splits train --out run"
    )
    assert main(argv.split()) == 0
    record = read_record(tmp_path / "run" / "record.json")
    (gain,) = learning.gains(record, tmp_path / "run")
    assert gain.mode == "deterministic"
    trained = np.array([item.mean_return for item in record.returns if item.split == "train"])
    np.testing.assert_allclose(gain.trained, trained)
    # The sign says whether it helped.
    assert np.sign(gain.over_bodies) == np.sign((gain.trained - gain.untrained).mean())
    assert np.isnan(gain.over_episodes)  # one episode each
    learning.draw([record], tmp_path / "new" / "learning.png")
    assert (tmp_path / "new" / "learning.png").read_bytes()[:4] == b"\x89PNG"


def test_standard_errors_over_bodies_and_over_episodes():
    gain = learning.Gain(
        mode="deterministic",
        untrained=np.array([0.0, 1.0, 2.0, 3.0]),
        trained=np.array([2.0, 5.0, 4.0, 7.0]),  # gains of 2, 4, 2, 4: mean 3, deviation 2 / sqrt 3
        variance=np.array([0.25, 0.0, 0.5, 0.25]),  # sum 1: error of the mean 1 / 4
    )
    assert gain.over_bodies == pytest.approx(3 / (2 / 3**0.5 / 2))
    assert gain.over_episodes == pytest.approx(3 / 0.25)


def test_seeds_are_averaged_body_by_body():
    one, two = (
        learning.Gain(
            mode="stochastic",
            untrained=np.array([0.0, 0.0]),
            trained=np.array(trained),
            variance=np.array([1.0, 3.0]),
        )
        for trained in ([2.0, 6.0], [4.0, 0.0])
    )
    pooled = learning.pool([one, two])
    assert pooled.mode == "stochastic"
    np.testing.assert_array_equal(pooled.trained, [3.0, 3.0])
    np.testing.assert_array_equal(pooled.variance, [0.5, 1.5])


def test_only_runs_that_differ_in_nothing_but_their_seeds_are_put_together(
    tmp_path, monkeypatch, capsys
):
    runs = {"one": (1, 8), "two": (2, 8), "wide": (3, 16)}
    records = {
        tmp_path / name / "record.json": make_record(seed=seed, config={"width": width})
        for name, (seed, width) in runs.items()
    }

    def gains(record, _):
        return [
            learning.Gain(
                mode=mode,
                untrained=np.array([0.0, 1.0]),
                trained=np.array([gain, gain + 2.0 * record.seed]),
                variance=np.ones(2),
            )
            for mode, gain in (("deterministic", 4.0), ("stochastic", 2.0))
        ]

    monkeypatch.setattr(learning, "read_record", records.__getitem__)
    monkeypatch.setattr(learning, "gains", gains)
    monkeypatch.setattr(learning, "draw", lambda *_: None)
    monkeypatch.setattr("sys.argv", ["learning", *(str(tmp_path / name) for name in runs)])
    learning.main()
    lines = capsys.readouterr().out.splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")][3:7] for line in lines]
    assert [row[:2] for row in rows[2:]] == [
        [seed, mode] for seed in ("1", "2", "3", "1, 2") for mode in ("deterministic", "stochastic")
    ]
    assert [row[2:] for row in rows[-2:]] == [["0.5", "5.5"], ["0.5", "3.5"]]


def test_scatter_of_a_mean():
    assert learning._scatter([1.0, 3.0]) == pytest.approx(1.0)  # variance 2, two episodes
