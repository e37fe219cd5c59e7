"""A run's policy becomes a file, and both are put on trial."""

import hashlib
import json
import shutil
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import pytest
from safetensors.numpy import load_file

from gmc_bench.deployment import deploy as module
from gmc_bench.deployment import trained
from gmc_bench.deployment.deploy import wants_video
from gmc_bench.deployment.policies import OnnxPolicy
from gmc_bench.deployment.trials import TRIALS, draw_conditions
from gmc_bench.experiments.experiment import Experiment
from gmc_bench.experiments.run_folder import RunFolder
from gmc_bench.leaderboard import submission
from gmc_bench.records.store import read_stored_record

RUN = (
    "run", "--method", "recmorph", "--suite", "quadruped-friction", "--protocol", "smoke",
    "--seed", "1", "--env-steps", "256", "--model.num-blocks", "1", "--model.width", "16",
    "--model.hidden", "16", "--threads", "1", "--evaluation.modes", "", "--out",
)  # fmt: skip
SHORT = ("--trials", "1", "--seconds", "2", "--no-realtime")


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    return tmp_path_factory.mktemp("runs") / "run"


@pytest.fixture
def run_dir(gmc, finished):
    if not finished.exists():
        code, _, err = gmc(*RUN, finished)
        assert code == 0, err
    return finished


@pytest.mark.slow
def test_export_and_deploy(gmc, run_dir, tmp_path):
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    code, out, err = gmc("export", run_dir, "--format", "onnx", "--out", "walk.onnx")
    assert code == 0, err
    assert "robots  go1, go2, anymal-b, anymal-c" in out
    assert "of the network's on 200 random observations" in out
    code, out, err = gmc("deploy", "walk.onnx", *SHORT)
    assert code == 0, err
    assert "no evidence about hardware" in out
    content = json.loads((tmp_path / "walk_deploy" / "deploy.json").read_text())
    assert [item["robot"] for item in content["trials"]] == ["go1", "go2", "go2", "go2"]
    assert content["policy"]["method"] == "recmorph"
    stored = load_file(run_dir / "policy.safetensors")
    statistics = b"".join(
        name.removeprefix("normalizer.").encode() + stored[name].tobytes()
        for name in sorted(stored)
        if name.startswith("normalizer.")
    )
    assert content["policy"]["statistics_digest"] == hashlib.sha256(statistics).hexdigest()
    assert content["heading"] == "held"
    assert (content["seconds"], content["realtime"]) == (2.0, False)
    assert {item["seed"] for item in content["trials"]} == {1}
    code, _, err = gmc(
        "deploy", run_dir, "--robot", "anymal-c", "--trial", "forward", *SHORT, "--out", "d",
        "--seed", "7", "--heading", "free",
    )  # fmt: skip
    assert code == 0, err
    same = json.loads((tmp_path / "d" / "deploy.json").read_text())
    assert same["policy"] == content["policy"]
    assert same["heading"] == "free"
    (trial,) = same["trials"]
    assert (trial["robot_origin"], trial["seed"]) == ("built-in", 7)
    drawn = draw_conditions(TRIALS["forward"], 7, 0).to_dict()
    assert trial["conditions"] == json.loads(json.dumps(drawn))
    assert (tmp_path / "d" / "table.md").read_text().startswith("# Virtual deployment")


def test_a_policy_says_the_version_that_its_method_had(gmc, run_dir, monkeypatch, caplog):
    session = Experiment.open(run_dir).session
    version = session.method.version
    later = replace(session, method=replace(session.method, version=version + 1))
    monkeypatch.setattr(Experiment, "session", later)
    assert trained.open_run(run_dir).manifest.origin["method_version"] == version
    assert f"recmorph has version {version + 1}, the run had {version}" in caplog.text
    record = Experiment.open(run_dir).folder.find_record()
    changed = record.model_copy(update={"unofficial_reasons": ("torch changed",)})
    monkeypatch.setattr(RunFolder, "find_record", lambda folder: changed)
    assert trained.open_run(run_dir).manifest.origin["unofficial_reasons"] == ["torch changed"]


def test_a_record_is_exported_and_deployed_into_media(gmc, run_dir, tmp_path, monkeypatch):
    """More than once: what the first time leaves behind must not be taken for the record."""
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    # The run is too small to be official.
    monkeypatch.setattr(submission, "_violations", lambda *_: iter(()))
    code, _, err = gmc("leaderboard", "add", run_dir)
    assert code == 0, err
    before = {path.name for path in tmp_path.iterdir()}
    (file,) = (path for path in Path("leaderboards").rglob("*.json"))
    record = read_stored_record(file)
    media, short = Path("media", file.stem), record.digest[:8]
    forward = ("--trial", "forward", *SHORT)
    origins = []
    for named, folder in ((short, "deploy"), (file, "deploy-2")):
        code, out, err = gmc("deploy", named, *forward)
        assert code == 0, err
        assert f"report  {media / folder}\n" in out
        origins.append(json.loads((media / folder / "deploy.json").read_text())["policy"])
    code, out, err = gmc("export", short)
    assert code == 0, err
    assert f"policy  {media / 'policy.onnx'}\n" in out
    origins.append(OnnxPolicy(media / "policy.onnx").manifest.origin)
    assert {item["weights_digest"] for item in origins} == {record.record.weights_digest}
    assert {path.name for path in tmp_path.iterdir()} == before | {"media"}


def test_what_is_refused(gmc, run_dir, tmp_path):
    code, _, err = gmc("deploy", run_dir, "--trial", "backward")
    assert code == 2
    assert "unknown trial 'backward'; did you mean 'backward-right'?" in err
    code, _, err = gmc("deploy", run_dir, "--robot", "go1")
    assert code == 2
    assert "add --trial TRIAL" in err
    code, _, err = gmc("deploy", run_dir, "--robot", "go3", "--trial", "forward")
    assert code == 2
    assert "unknown robot 'go3'" in err
    code, _, err = gmc("deploy", run_dir, "--robot-source", "menagery")
    assert code == 2
    assert "unknown robot source 'menagery'; did you mean 'menagerie'?" in err
    if find_spec("mujoco_menagerie") is None:
        code, _, err = gmc("deploy", run_dir, "--robot-source", "menagerie")
        assert code == 2
        assert "run: pip install 'gmc-bench[menagerie]'" in err
    code, _, err = gmc("deploy", run_dir, "--seconds", "1.9")
    assert code == 2
    assert "1.9 s long, but its command rises for 1 s; give at least 2 s" in err
    (tmp_path / "notes.txt").write_text("mine")
    code, _, err = gmc("deploy", "notes.txt")
    assert code == 2
    assert "RUN_DIR or FILE.onnx of 'gmc-bench export', got the file notes.txt" in err
    code, _, err = gmc("deploy", "absent.onnx", *SHORT)
    assert code == 2
    assert "cannot be read as ONNX" in err
    code, _, err = gmc("export", run_dir, "--out", "walk.pt")
    assert code == 2
    assert "give a file that ends in .onnx" in err
    code, _, err = gmc("evaluate", run_dir, "--sensor-dropout")
    assert code == 2
    assert (
        "'gmc-bench replay' shows their recorded episodes, 'gmc-bench deploy' makes trials" in err
    )
    shutil.copytree(run_dir, tmp_path / "copy")
    (tmp_path / "copy" / "policy.safetensors").unlink()
    for argv in (("export", "copy"), ("deploy", "copy"), ("watch", "copy")):
        code, _, err = gmc(*argv)
        assert code == 2
        assert "delete record.json, then finish the run with: gmc-bench run --resume copy" in err


def test_a_place_that_cannot_be_written_to_is_refused_before_the_long_part(
    gmc, run_dir, tmp_path, monkeypatch
):
    def never(*_, **__):
        raise AssertionError

    monkeypatch.setattr(trained, "export_onnx", never)
    monkeypatch.setattr(trained, "load_package", lambda _: None)
    monkeypatch.setattr(module, "_run", never)
    (tmp_path / "file").write_text("")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "deploy.json").write_text("mine")
    for argv, reason in (
        (("export", run_dir, "--out", "file/bar.onnx"), "cannot create file: File exists; choose"),
        (("export", run_dir, "--out", "file/a/b.onnx"), "cannot create file/a: Not a directory"),
        (("deploy", run_dir, "--out", "file/a"), "cannot create file/a: Not a directory; choose"),
        (("deploy", run_dir, "--out", "file"), "file is a file; choose another folder for --out"),
        (("deploy", run_dir, "--out", "full"), "is not empty; choose another --out\n"),
    ):
        code, _, err = gmc(*argv)
        assert code == 2, err
        assert reason in err
        assert err.count("\n") == 1
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["deploy.json"]


def test_runs_on_other_bodies_are_refused(gmc):
    code, _, err = gmc(
        "run", "--method", "recmorph", "--suite", "unimal", "--task", "ft", "--protocol", "smoke",
        "--seed", "1", "--morphologies", "tiny", "--env-steps", "1024", "--threads", "1",
        "--model.width", "8", "--model.hidden", "8", "--out", "limbs",
    )  # fmt: skip
    assert code == 0, err
    code, _, err = gmc("export", "limbs")
    assert code == 2
    assert "the task 'unimal-ft-v1' commands no velocities" in err
    assert "use one that does, e.g. a run of the suite 'quadruped-friction'" in err


def test_which_trials_are_shown():
    def attempt(number, succeeded):
        return SimpleNamespace(number=number, result=SimpleNamespace(succeeded=succeeded))

    outcomes, chosen = [True, True, False, False], {}
    for which in (None, "first", "failed", "all"):
        shown = set()
        chosen[which] = []
        for number, succeeded in enumerate(outcomes):
            if wants_video(which, attempt(number, succeeded), shown):
                shown.add(succeeded)
                chosen[which].append(number)
    assert chosen == {None: [], "first": [0, 2], "failed": [2, 3], "all": [0, 1, 2, 3]}
