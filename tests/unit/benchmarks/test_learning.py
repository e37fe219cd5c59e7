import numpy as np
import pytest

from benchmarks import learning
from gmc_bench.results.store import read_record


def test_gains_are_counted_in_standard_errors_over_bodies(tmp_path, monkeypatch):
    from gmc_bench.cli.main import main

    monkeypatch.chdir(tmp_path)
    words = (
        "run --method recmorph --suite unimal --task ft --protocol smoke --seed 1 --threads 1 "
        "--morphologies gmc-unimal-mini:3 --env-steps 1024 --model.width 8 --model.hidden 8 "
        "--out run"
    )
    assert main(words.split()) == 0
    record = read_record(tmp_path / "run" / "record.json")
    (gain,) = learning.gains(record, tmp_path / "run")
    assert (gain.mode, gain.bodies) == ("deterministic", 3)
    trained = np.array([item.mean_return for item in record.returns if item.split == "train"])
    assert gain.trained == pytest.approx(trained.mean())
    # The sign says whether it helped.
    assert np.sign(gain.standard_errors) == np.sign(gain.trained - gain.untrained)
    learning.draw([record], tmp_path / "learning.png")
    assert (tmp_path / "learning.png").read_bytes()[:4] == b"\x89PNG"
