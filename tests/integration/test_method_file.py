"""A controller in one file comes in through the same door as the ones in the tree."""

import hashlib
import json
import os
import shutil
from pathlib import Path

import pytest

from gmc_bench import Experiment
from gmc_bench.bodies.store import DATA_VARIABLE
from gmc_bench.core.errors import ConfigError
from gmc_bench.experiments import events
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


QUICK = {
    "env_steps": 512, "num_envs": 4, "rollout_length": 32, "ppo.batch_size": 64, "model.width": 16,
    "evaluation.modes": ["deterministic"], "evaluation.episodes": 1,
}  # fmt: skip
LAYER = "nn.Linear(config.width, config.width)"


def changed(text):
    """Return the example with a layer more: 2 networks x (16 * 16 + 16) parameters."""
    assert text.count(LAYER) == 1
    return text.replace(LAYER, f"nn.Sequential({LAYER}, {LAYER})")


@pytest.fixture
def notebook(gmc, tmp_path, monkeypatch):
    """Return a function that makes a run of `my_method.py` in this process, as a notebook does."""
    monkeypatch.setenv(DATA_VARIABLE, str(gmc.data))
    monkeypatch.chdir(tmp_path)
    shutil.copy(EXAMPLE, "my_method.py")

    def make(out, on_event=None):
        return Experiment(
            method="my_method.py:SPEC", suite="unimal", task="ft", protocol="smoke", bodies="tiny",
            settings=QUICK, threads=1, out=out, on_event=on_event,
        )  # fmt: skip

    return make


@pytest.mark.slow
def test_a_file_that_is_edited_between_runs_of_one_process_trains_as_it_is(notebook):
    file = Path("my_method.py")
    texts = [file.read_bytes(), changed(file.read_text()).encode()]
    records = []
    for number, text in enumerate(texts):
        file.write_bytes(text)
        records.append(notebook(f"run{number}").run())
    first, second = records
    assert second.parameters - first.parameters == 2 * (16 * 16 + 16)
    for record, text in zip(records, texts, strict=True):
        assert record.config["method_source_digest"] == hashlib.sha256(text).hexdigest()
    with pytest.raises(ConfigError, match=r"SPEC has changed since the run was started"):
        notebook("run0").resume()
    assert notebook("run1").resume() == second


@pytest.mark.slow
def test_a_run_of_another_process_continues_with_the_text_it_began_with(notebook, gmc, tmp_path):
    file, run = tmp_path / "my_method.py", tmp_path / "run"
    before = file.read_text()
    options = ("--env-steps", "512", "--model.width", "16", "--out", run)
    gmc("run", "--method", f"{file}:SPEC", *gmc.settings, *options)
    first = read_record(run / "record.json")
    (run / "record.json").unlink()
    file.write_text(changed(before))
    assert notebook("other").resolved.choice.method.id == "my-method"  # this process has it now
    with pytest.raises(ConfigError, match="has changed since the run was started"):
        Experiment.open(run).resume()
    file.write_text(before)
    again = Experiment.open(run).resume()
    assert (again.parameters, again.weights_digest) == (first.parameters, first.weights_digest)


@pytest.mark.slow
def test_a_file_that_is_edited_during_a_run_does_not_reach_it(notebook):
    file = Path("my_method.py")
    text = file.read_text()
    first = notebook("run").run()

    def edit(event):
        if isinstance(event, events.IterationFinished):
            file.write_text("SPEC = 1 / 0\n")

    second = notebook("edited", edit).run()
    assert second.weights_digest == first.weights_digest
    assert second.returns == first.returns
    assert second.config["method_source_digest"] == hashlib.sha256(text.encode()).hexdigest()


FIELDS = {
    "an enumeration": "odd: Kind = Kind.A",
    "a path": "odd: pathlib.Path = pathlib.Path('x')",
    "a type of torch": "odd: torch.dtype = torch.float32",
    "no default": "odd: int",
    "an unknown annotation": "odd: 'Foo' = 3",
}


@pytest.mark.parametrize("line", FIELDS.values(), ids=list(FIELDS))
def test_settings_that_no_record_can_hold_are_refused_in_one_sentence(here, gmc, tmp_path, line):
    kind = "import enum, pathlib\nclass Kind(enum.Enum):\n    A = 1\n\n\n@dataclass("
    text = EXAMPLE.read_text().replace("@dataclass(", kind)
    file, out = tmp_path / "my_method.py", tmp_path / "run"
    file.write_text(text.replace("    width: int = 256", f"    {line}\n    width: int = 256"))
    checked = here("check-method", f"{file}:SPEC", "--preset", "lite", "--backend", "none", code=1)
    refused = here("run", "--method", f"{file}:SPEC", *gmc.settings, "--out", out, code=2)
    for err in (checked.err, refused.err):
        assert "the setting 'odd' of the method 'my-method'" in err.splitlines()[-1]
        assert "Traceback" not in err
    assert not out.exists()


def test_a_dropout_rate_of_its_own_may_be_zero(here, gmc, tmp_path):
    line = "    width: int = 256"
    text = EXAMPLE.read_text().replace(line, f"    dropout: float = 0.1\n{line}")
    file, out = tmp_path / "my_method.py", tmp_path / "run"
    file.write_text(text)
    settings = (*gmc.settings, "--env-steps", "512", "--evaluation.modes", "")
    settings += ("--model.dropout", "0")
    here("run", "--method", f"{file}:SPEC", *settings, "--out", out)
    assert read_record(out / "record.json").config["method_config"]["dropout"] == 0.0
