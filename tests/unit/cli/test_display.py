"""What the verbs write to the terminal: how to go on, and paths in any spelling."""

import io
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from gmc_bench.cli.display import Display, SweepDisplay
from gmc_bench.cli.output import say
from gmc_bench.experiments.cell_state import CellState, SweepOverview
from gmc_bench.experiments.events import FolderOpened, Progress, Remark, SweepMoved, TrainingStarted
from gmc_bench.experiments.tuning import Tuning
from gmc_bench.studies.scaling_study import ScalingRequest, run

TUNE = "gmc-bench tune --resume {path}"


def stop(display, *events):
    def show():
        with display:
            for event in events:
                display(event)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        show()


def test_who_stops_what_has_a_folder_hears_how_to_go_on(capsys):
    stop(Display(TUNE), FolderOpened(Path("tuning/my search")))
    words = "\nStopped. Continue with: gmc-bench tune --resume 'tuning/my search'\n"
    assert capsys.readouterr().err == words
    stop(Display("the same command"))
    assert capsys.readouterr().err == "\nStopped. Continue with: the same command\n"


def test_what_has_no_folder_yet_cannot_go_on(capsys):
    stop(Display(TUNE))
    stop(Display())
    assert capsys.readouterr().err == ""


def test_a_bar_is_over_when_all_is_done(capsys):
    """What follows has a bar of its own, also of the same name."""
    with Display() as display:
        for done, total in ((1, 2), (2, 2), (1, 4)):
            display(Progress("score", done, total, "episode"))
    shown = capsys.readouterr().err
    assert "2/2" in shown
    assert "1/4" in shown


def test_a_bar_goes_on_where_training_was_stopped(capsys):
    """Else the steps that were done before would count as done in no time."""
    with Display() as display:
        display(TrainingStarted(1000, 2000))
    shown = capsys.readouterr().err
    assert shown.startswith("Continuing at 1,000 of 2,000 env steps.\n")
    assert "1.00k/2.00k" in shown


def test_a_search_tells_of_its_folder_when_it_can_go_on(tmp_path):
    def interrupt(event):
        assert event == FolderOpened(tmp_path / "a")
        raise KeyboardInterrupt

    tuning = Tuning(
        method="recmorph", protocol="smoke", bodies="tiny", threads=1, out=tmp_path / "a",
        on_event=interrupt,
    )  # fmt: skip
    with pytest.raises(KeyboardInterrupt):
        tuning.run()
    assert Tuning.open(tmp_path / "a").spec == tuning.spec


def test_a_study_of_scaling_tells_of_its_folder_when_it_can_go_on(tmp_path):
    def interrupt(event):
        assert event == FolderOpened(tmp_path / "a")
        assert (tmp_path / "a" / "scaling.json").is_file()
        raise KeyboardInterrupt

    request = ScalingRequest.make(["recmorph"], preset="lite", tokens=[2], bodies=[2])
    with pytest.raises(KeyboardInterrupt):
        run(request, tmp_path / "a", interrupt)


def test_a_launched_sweep_is_shown_by_a_table_and_then_by_bars(capsys, tmp_path):
    sweep = SimpleNamespace(path=tmp_path, is_begun=False)
    overview = SweepOverview(tmp_path, {"a": CellState(phase="finished")}, is_over=True)
    moved = (Remark("One run waits."), SweepMoved(overview))
    stop(SweepDisplay(TUNE, sweep), *moved)
    assert capsys.readouterr().err == "One run waits.\n1 runs: 1 finished\n"
    sweep.is_begun = True
    stop(SweepDisplay(TUNE, sweep), *moved, Progress("orders", 1, 2, "order"), Remark("No video."))
    err = capsys.readouterr().err
    assert "orders:  50%" in err
    assert "No video.\n" in err
    assert err.endswith(f"Stopped. Continue with: gmc-bench tune --resume {tmp_path}\n")


@pytest.mark.parametrize(
    ("encoding", "shown"), [("utf-8", "runs/é\\udcff"), ("ascii", "runs/\\xe9\\udcff")]
)
def test_a_path_that_the_terminal_cannot_show_is_written_in_escapes(monkeypatch, encoding, shown):
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding=encoding))
    say("runs/é\udcff")
    assert written.getvalue().decode(encoding) == f"{shown}\n"


def _read_by_nobody():
    read, write = os.pipe()
    os.close(read)
    return os.fdopen(write, "w", buffering=1)


def _closed():
    file = _read_by_nobody()
    file.close()
    return file


@pytest.mark.parametrize("stderr", [lambda: None, _closed, _read_by_nobody])
def test_what_nobody_can_read_stops_nothing(gmc, monkeypatch, tmp_path, stderr):
    def execute(*arguments):
        with Display() as display:
            display(Progress("score", 1, 2, "episode"))
            display(Remark("No video."))
            display(Progress("score", 2, 2, "episode"))
        with SweepDisplay(TUNE, SimpleNamespace(path=tmp_path, is_begun=True)) as display:
            display(Remark("One run waits."))
        return 7

    monkeypatch.setattr("gmc_bench.cli.main.with_engine", execute)
    monkeypatch.setattr(sys, "stderr", stderr())
    assert gmc("list", "suites")[0] == 7
