"""Videos and pictures from the command line."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gmc_bench.core.errors import ConfigError
from gmc_bench.rendering import episode
from gmc_bench.rendering.canvas import Canvas


@pytest.fixture
def drawing():
    """Skip, with the reason, where no picture can be drawn."""
    pytest.importorskip("imageio_ffmpeg", reason="the extra 'video' is not installed")
    try:
        Canvas(64, 64).close()
    except ConfigError as error:
        pytest.skip(str(error))


@pytest.mark.usefixtures("drawing")
@pytest.mark.parametrize(("body", "split"), [("biped", "test"), ("star-3", "train")])
def test_the_recorded_episode_is_shown(here, finished_run, tmp_path, body, split):
    (recorded,) = [
        item["episodes"][0]
        for item in finished_run.record["returns"]
        if (item["split"], item["body"]) == (split, body)
    ]
    path = tmp_path / "a.mp4"
    size = ("--size", "64x64", "--fps", "5")
    done = here("render", finished_run.path, "--body", body, *size, "--out", path)
    steps, total = recorded["length"], recorded["episode_return"]
    title = f"{body}, {split}, deterministic #1"
    assert f"{title}: {steps} steps, return {total!r}\n" in done.out
    assert "this is the recorded episode, to the last bit" in done.out
    assert path.stat().st_size > 1000


@pytest.mark.usefixtures("drawing")
def test_another_mode_and_a_part_are_shown_without_a_record(here, finished_run, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(finished_run.path, run)
    argv = ("--body", "chain-3", "--split", "train", "--mode", "stochastic", "--fps", "5")
    done = here("render", run, *argv, "--size", "64x64", "--seconds", "0.2")
    assert "chain-3, train, stochastic #1: 10 steps" in done.out
    assert "goes on after the part that is shown" in done.err
    assert "to the last bit" not in done.out
    assert (run / "videos" / "chain-3_train_stochastic_1.mp4").is_file()


@pytest.mark.usefixtures("drawing")
def test_bodies_of_a_set_are_drawn_once(here, tmp_path):
    argv = ("render", "--stills", "tiny", "--size", "64x64", "--out", tmp_path)
    assert "3 drawn, 1 kept" in here(*argv).out  # one body is in both splits
    assert "0 drawn, 2 kept" in here(*argv, "--split", "test").out
    assert (tmp_path / "contact_sheet.png").is_file()


@pytest.mark.usefixtures("drawing")
def test_a_body_is_drawn_at_the_start_of_a_task(here, tmp_path):
    argv = ("--stills", "tiny", "--task", "unimal-vt", "--body", "biped", "--size", "64x64")
    done = here("render", *argv, "--seed", "4")
    assert "1 drawn, 0 kept" in done.out
    folder = Path("media", "tiny", "unimal-vt-v1")
    (picture,) = folder.glob("*_unimal-vt-v1_4.png")
    assert picture.stat().st_size > 500
    assert "did you mean 'biped'?" in here("render", *argv[:4], "--body", "bipod", code=2).err


@pytest.mark.slow
@pytest.mark.usefixtures("drawing")
@pytest.mark.parametrize("task", ["incline", "exploration", "obstacles", "vt"])
def test_the_recorded_episode_is_shown_on_every_task(gmc, here, tmp_path, task):
    argv = ("--task", f"unimal-{task}", "--env-steps", "256", "--out", tmp_path / "run")
    gmc("run", *gmc.small, *argv)
    size = ("--size", "64x64", "--fps", "2")
    done = here("render", tmp_path / "run", "--body", "biped", *size)
    assert "this is the recorded episode, to the last bit" in done.out


@pytest.mark.parametrize(
    ("argv", "complaint"),
    [
        ((), "expected RUN_DIR or --stills SET, got neither"),
        (("RUN", "--stills", "tiny"), "expected RUN_DIR or --stills SET, got both"),
        (("RUN",), "add --body ID"),
        (("RUN", "--task", "unimal-vt"), "--task was given with RUN_DIR, which has a task"),
        (("RUN", "--seed", "0"), "--seed was given with RUN_DIR, which has a seed; leave it out"),
        *(
            (("--stills", "tiny", f"--{name}", value), f"--{name} was given with --stills, which")
            for name, value in {
                "mode": "deterministic",
                "episode": "1",
                "seconds": "2",
                "fps": "25",
            }.items()
        ),
        (("--stills", "tiny", "--seed", "2"), "--seed 2 was given without --task"),
        (("--stills", "tiny", "--task", "unimal-vx"), "unknown task 'unimal-vx'"),
        (("/nowhere", "--body", "biped"), "is not a run folder"),
        (("--stills", "tinny"), "did you mean 'tiny'?"),
        (("--stills", "tiny", "--size", "65x64"), "must be two even numbers, got '65x64'"),
        (("--stills", "tiny", "--size", "9999x64"), "from 64 to 4096 pixels"),
        (("--stills", "tiny", "--size", "big"), "such as 320x240, got 'big'"),
        (("--stills", "tiny", "--colour"), "unknown option '--colour'"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(here, finished_run, argv, complaint):
    argv = [finished_run.path if word == "RUN" else word for word in argv]
    done = here("render", *argv, code=2)
    assert complaint in done.err
    assert done.err.count("\n") == 1
    assert done.out == ""


@pytest.mark.usefixtures("drawing")
@pytest.mark.parametrize(
    ("argv", "complaint"),
    [
        (("--body", "bipod"), "did you mean 'biped'?"),
        (("--body", "biped", "--split", "train"), "the train bodies of tiny have none named"),
        (("--body", "zzz"), "none named 'zzz'; there are 4, such as 'biped'"),
        (("--body", "biped", "--episode", "2"), "give a number from 1 to 1"),
    ],
)
def test_an_episode_that_does_not_exist_is_refused(here, finished_run, argv, complaint):
    done = here("render", finished_run.path, *argv, code=2)
    assert complaint in done.err
    assert done.out == ""


@pytest.mark.usefixtures("drawing")
@pytest.mark.parametrize(
    ("out", "complaint"),
    [
        ("walk.gif", "a video is an MP4 file, got walk.gif; give a file that ends in .mp4"),
        ("walk", "a video is an MP4 file, got walk; give a file that ends in .mp4"),
        ("folder.mp4", "a video is an MP4 file, got folder.mp4; give a file that ends in .mp4"),
        ("file/walk.mp4", "cannot create file: File exists; choose another --out"),
    ],
)
def test_a_place_for_a_video_is_checked_before_the_long_part(
    here, finished_run, tmp_path, monkeypatch, out, complaint
):
    def never(*_, **__):
        raise AssertionError

    monkeypatch.chdir(tmp_path)
    Path("folder.mp4").mkdir()
    Path("file").touch()
    monkeypatch.setattr(episode, "replay_episode", never)
    done = here("render", finished_run.path, "--body", "biped", "--out", out, code=2)
    assert complaint in done.err
    assert done.err.count("\n") == 1
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["file", "folder.mp4"]


@pytest.mark.usefixtures("drawing")
def test_a_return_that_differs_from_the_record_is_said(here, finished_run, tmp_path):
    from gmc_bench.records.store import read_record, write_record

    run = tmp_path / "run"
    shutil.copytree(finished_run.path, run)
    record = read_record(run / "record.json")
    first, *others = record.returns
    episode = first.episodes[0].model_copy(update={"episode_return": 123.25})
    changed = first.model_copy(update={"episodes": (episode, *first.episodes[1:])})
    write_record(run / "record.json", record.model_copy(update={"returns": (changed, *others)}))
    argv = ("--body", first.body, "--split", first.split, "--size", "64x64", "--fps", "2")
    done = here("render", run, *argv, "--out", tmp_path / "a.mp4")
    assert "warning: the record has" in done.err
    assert "123.25" in done.err
    assert "to the last bit" not in done.out


def test_a_machine_that_cannot_draw_says_so_first(here, finished_run, monkeypatch, tmp_path):
    monkeypatch.setenv("MUJOCO_GL", "vulkan")
    for argv in ((finished_run.path, "--body", "biped"), ("--stills", "tiny", "--out", tmp_path)):
        done = here("render", *argv, code=2)
        assert "MUJOCO_GL is 'vulkan', expected one of osmesa, egl, glfw" in done.err


def test_an_engine_that_cannot_be_imported_ends_in_one_sentence(tmp_path, monkeypatch):
    # MuJoCo opens the library that the variable names when it is imported.
    (tmp_path / "OpenGL").mkdir()
    (tmp_path / "OpenGL" / "__init__.py").write_text("raise AttributeError('no glGetError')\n")
    monkeypatch.setenv("MUJOCO_GL", "osmesa")
    # An engine that tried another backend in this process has left its name here.
    monkeypatch.delenv("PYOPENGL_PLATFORM", raising=False)
    root = Path(__file__).parents[2]
    code = (
        f"import sys; sys.path[:0] = [{str(tmp_path)!r}, {str(root)!r}]\n"
        "from gmc_bench.cli.main import main; sys.exit(main(['render', '--stills', 'tiny']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert done.returncode == 2, done.stderr
    assert "MUJOCO_GL=osmesa (no glGetError); install libOSMesa" in done.stderr
    assert done.stderr.count("\n") == 1
