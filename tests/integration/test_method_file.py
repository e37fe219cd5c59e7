"""A controller in one file comes in through the same door as the ones in the tree."""

import hashlib
import json
import os
import shutil
from pathlib import Path

from gmc_bench.records.store import read_record

EXAMPLE = Path(__file__).parents[2] / "examples" / "my_method.py"


def test_it_trains_is_recorded_and_scored_again_from_another_folder(here, gmc, tmp_path):
    shutil.copy(EXAMPLE, tmp_path / "my_method.py")
    path, run = os.path.relpath(tmp_path / "my_method.py", gmc.cwd), tmp_path / "run"
    here("run", "--method", f"{path}:SPEC", *gmc.settings, "--env-steps", "512", "--out", run)
    record = read_record(run / "record.json")
    assert record.method == "my-method"
    assert record.preset == "lite"
    assert record.env_steps == 512
    digest = hashlib.sha256(EXAMPLE.read_bytes()).hexdigest()
    assert record.config["method_source_digest"] == digest
    assert record.parameters == 140_421
    assert {item.mode for item in record.returns} == {"deterministic"}
    again = json.loads(here("evaluate", run, "--split", "test", "--json").out)["returns"]
    returns = json.loads((run / "record.json").read_bytes())["returns"]
    assert again == [item for item in returns if item["split"] == "test"]
    (run / "record.json").unlink()  # so that there is something to continue
    (tmp_path / "my_method.py").write_text("# changed\n" + EXAMPLE.read_text())
    refused = here("run", "--resume", run, code=2)
    assert "my_method.py:SPEC has changed since the run was started" in refused.err
    assert not (run / "record.json").exists()
