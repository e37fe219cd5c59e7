"""The options of `gmc-bench tune` are those of the search, and a stopped one goes on."""

from pathlib import Path

import yaml

from gmc_bench.core.errors import ConfigError
from gmc_bench.experiments.tuning import Tuning, TuningSpec

ASKED = TuningSpec(
    method="recmorph", task="vt", protocol="smoke", bodies="tiny", env_steps=64, trials=3,
    seeds=(5, 6), threads=1,
)  # fmt: skip
OPTIONS = (
    "recmorph", "--task", "vt", "--protocol", "smoke", "--morphologies", "tiny",
    "--env-steps", "64", "--trials", "3", "--seeds", "5", "6", "--threads", "1", "--out", "t",
)  # fmt: skip


def test_a_search_is_begun_as_asked_for_and_goes_on_as_it_was(gmc, monkeypatch):
    told = []

    def noting(what):
        def note(search):
            told.append((what, search.spec, search.path))
            raise ConfigError("so far")

        return note

    for what in ("run", "resume"):
        monkeypatch.setattr(Tuning, what, noting(what))
    assert gmc("tune", *OPTIONS)[0] == 2
    Path("t").mkdir()
    Path("t/tuning.yaml").write_text(yaml.safe_dump({**vars(ASKED), "seeds": [5, 6]}))
    assert gmc("tune", "--resume", "t")[0] == 2
    assert told == [(what, ASKED, Path("t")) for what in ("run", "resume")]
