"""Sweeps that go on: with the machine settings of their folder, after a stop, after a kill."""

import os
import re
import shutil
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gmc_bench.core.errors import ConfigError, MorphologySetError, RunFolderError, StorageError
from gmc_bench.experiments import driver as driving
from gmc_bench.experiments import resolve, sequential_driver
from gmc_bench.experiments import sweep as sweeping
from gmc_bench.experiments.cell_state import CellState, write_state
from gmc_bench.experiments.events import Remark, RunStoppedError, SweepRunFailed
from gmc_bench.experiments.launchers import LauncherSpec
from gmc_bench.experiments.launchers.local import LocalLauncher
from gmc_bench.experiments.resolve import another_commit
from gmc_bench.experiments.spec import ExperimentSpec
from gmc_bench.experiments.sweep import Sweep
from gmc_bench.experiments.sweep_launch import Idle, Launch, read_launch, write_launch
from gmc_bench.experiments.sweep_request import SweepRequest, continued_sweep, request_sweep
from gmc_bench.experiments.sweep_texts import describe_sweep
from gmc_bench.records.environment import GitState
from gmc_bench.records.store import LEDGER_NAME, write_record
from tests.support.records import make_record, record_of_run
from tests.support.slow import slow_but

SPEC = ExperimentSpec(
    method="recmorph", suite="unimal", task="ft", bodies="tiny", protocol="smoke", threads=1
)
SPECS = {"one": SPEC, "two": SPEC.replace(seed=2)}
OUT = Path("sweep")


CHECK = Sweep.check_methods


@pytest.fixture(autouse=True)
def _no_networks(monkeypatch):
    monkeypatch.setattr(Sweep, "check_methods", lambda sweep, **options: None)


@pytest.fixture
def ran(monkeypatch):
    """Settings of the runs that were run, by name; nothing is trained."""
    found = {}

    def execute_run(folder, name, config, bodies, emit):
        found[name] = config
        return make_record()

    monkeypatch.setattr(sequential_driver, "execute_run", execute_run)
    return found


@pytest.mark.slow
def test_the_machine_settings_of_a_folder_count_however_it_is_continued(ran):
    first = Sweep(SPECS, out=OUT)
    with first.locked(create=True) as folder:
        folder.write(first.runs)
    other = SPEC.replace(threads=3, checkpoint_interval=99)
    specs, told = {"one": other, "two": other.replace(seed=2)}, []
    sweep = Sweep(specs, out=OUT, elsewhere=True, on_event=told.append)
    assert sweep.runs["one"].threads == 3
    sweep.resume()
    assert ran == first.runs == sweep.runs  # what workers read, whoever starts them
    (text,) = [event.text for event in told if isinstance(event, Remark)]
    assert "threads 1 (not 3), checkpoint_interval 10.0 (not 99.0), which stays as it is" in text
    sweep.resume()
    assert len([event for event in told if isinstance(event, Remark)]) == 1


@pytest.mark.parametrize("now", slow_but(["b" * 40, None], "b" * 40))
def test_going_on_at_another_commit_is_told_once(ran, monkeypatch, now):
    planned = Sweep({name: SPEC.replace(seed=seed) for seed, name in enumerate("xyz", 1)}, out=OUT)
    commits = dict(zip("xyz", ("a" * 40, "b" * 40, None), strict=True))
    runs = {name: replace(run, git_commit=commits[name]) for name, run in planned.runs.items()}
    with planned.locked(create=True) as folder:
        folder.write(runs)
    monkeypatch.setattr(resolve, "checkout", lambda: GitState(now, False))
    told = []
    sweep = Sweep.open(OUT)
    sweep.subscribe(told.append)
    sweep.resume()
    texts = [event.text for event in told if isinstance(event, Remark)]
    if now is None:  # no git
        assert texts == []
        return
    (text,) = texts
    assert text.startswith(f"Begun at commit {'a' * 12}, but the checkout is at {'b' * 12}: ")
    assert [bool(another_commit([run])) for run in runs.values()] == [True, False, False]


@pytest.mark.parametrize("device", ["gpu", "tpu", "mps", "cuda:x"])
def test_a_device_that_no_machine_has_is_refused_wherever_it_shall_run(device):
    with pytest.raises(ConfigError, match=f"the device '{device}' (is not supported|cannot be)"):
        Sweep({"one": SPEC.replace(device=device)}, elsewhere=True)


class Elsewhere(Idle):
    """A launcher on other machines, which finishes nothing here."""

    def __init__(self, options):
        """Take any options."""

    def require(self):
        """Need nothing."""


def test_a_launcher_that_chooses_gpus_refuses_the_number_of_one_also_where_it_goes_on(
    recorded, monkeypatch
):
    monkeypatch.setattr(LauncherSpec, "make", lambda spec, options: Elsewhere(options))
    runs = {name: replace(run, device="cuda:1") for name, run in recorded.runs.items()}
    with recorded.locked() as folder:
        folder.write(runs)
    assert len(Sweep.open(OUT).resume("ray").records) == 2  # they are finished
    (OUT / "two" / "record.json").unlink()
    with pytest.raises(ConfigError, match=r"each run, but --device names 'cuda:1'; use .* cuda$"):
        Sweep.open(OUT).resume("ray")
    new = Sweep(SPECS, out="new")
    new.runs = runs
    with pytest.raises(ConfigError, match="--device names 'cuda:1'"):
        new.run("ray")
    assert not Path("new").exists()


def test_a_sweep_holds_the_names_of_its_runs_in_order():
    sweep = Sweep(SPECS)
    assert (list(sweep), len(sweep)) == (["one", "two"], 2)
    assert "two" in sweep
    assert "three" not in sweep


def test_a_run_without_a_seed_has_the_protocols_first_whatever_stands_beside_it():
    lite = SPEC.replace(protocol="lite")
    runs = Sweep({"third": lite.replace(seed=3), "usual": lite}).runs
    assert [config.seed for config in runs.values()] == [3, 1]


@pytest.mark.parametrize("error", [RunStoppedError, ConfigError, StorageError, OSError])
def test_a_stop_and_what_others_would_meet_is_no_failure_and_the_next_run_does_not_begin(
    monkeypatch, error
):
    begun, told = [], []

    def execute_run(folder, name, config, bodies, emit):
        begun.append(name)
        raise error

    monkeypatch.setattr(sequential_driver, "execute_run", execute_run)
    with pytest.raises(error):
        Sweep(SPECS, out=OUT, on_event=told.append).run()
    assert begun == ["one"]
    assert not [event for event in told if isinstance(event, SweepRunFailed)]


@pytest.mark.parametrize("change", [{"settings": {"ppo.lr": 0.5}}, {"seed": 3}])
def test_other_runs_of_the_same_names_are_neither_run_nor_shown_as_done(ran, change):
    first = Sweep(SPECS, out=OUT)
    with first.locked(create=True) as folder:
        folder.write(first.runs)
    write_record(OUT / "two" / "record.json", make_record())
    other = Sweep({"one": SPEC, "two": SPECS["two"].replace(**change)}, out=OUT)
    for use in (other.resume, SweepRequest(other, Launch()).preview):
        with pytest.raises(RunFolderError, match=r"holds other runs.* sweep --resume sweep \(in"):
            use()
    assert ran == {}
    assert "2 runs" in SweepRequest(Sweep(SPECS, out=OUT), Launch()).preview()


def test_a_preview_knows_what_runs_of_the_folder_have_told(ran):
    sweep = Sweep(SPECS, out=OUT)
    with sweep.locked(create=True) as folder:
        folder.write(sweep.runs)
    told = CellState(phase="training", env_steps=1, env_steps_per_s=1.0, scoring_s=1.0)
    write_state(OUT, "one", told)
    launch = Launch.from_dict({"launcher": "local", "jobs": 2})
    assert "with 2 at a time" in SweepRequest(sweep, launch).preview()


@pytest.fixture
def recorded():
    """A sweep of two runs that have records and no states, as without a launcher."""
    sweep = Sweep(SPECS, out=OUT)
    with sweep.locked(create=True) as folder:
        folder.write(sweep.runs)
        for name, config in sweep.runs.items():
            (OUT / name).mkdir()
            (OUT / name / "config.yaml").write_text(config.to_yaml())
            write_record(OUT / name / "record.json", record_of_run(config))
    return sweep


def test_finished_runs_are_shown_without_their_bodies(recorded, monkeypatch):
    def refuse(name):
        raise MorphologySetError(f"the set {name!r} is gone")

    monkeypatch.setattr(sweeping, "load_morphologies", refuse)
    assert set(Sweep.open(OUT).resume().records) == {"one", "two"}
    assert Sweep.open(OUT)["two"].record.seed == 2
    (OUT / "two" / "record.json").unlink()
    with pytest.raises(MorphologySetError, match="the set 'tiny' is gone"):
        Sweep.open(OUT).resume()


@pytest.mark.parametrize("launcher", ["ray", "slurm"])
def test_where_nothing_is_left_nobody_needs_a_cluster(recorded, monkeypatch, launcher):
    def refuse(spec, options):
        raise ConfigError("there is no cluster")

    monkeypatch.setattr(LauncherSpec, "make", refuse)
    before = {"launcher": launcher, "retries": 3, "jobs": 7}
    write_launch(OUT, before)
    result = continued_sweep(OUT, {}, []).run()
    assert (set(result.records), result.failures) == ({"one", "two"}, {})
    assert read_launch(OUT) == before
    assert "2 runs: 2 finished" in (OUT / "sweep.html").read_text()
    with pytest.raises(ConfigError, match=f"the launcher '{launcher}' has no option 'nice'"):
        continued_sweep(OUT, {}, ["--launch.nice", "1"])
    (OUT / "one" / "record.json").write_text("{}")
    result = Sweep.open(OUT).resume(launcher)  # nor to hear that a record is damaged
    assert (set(result.records), set(result.failures)) == ({"two"}, {"one"})
    (OUT / "one" / "record.json").unlink()
    with pytest.raises(ConfigError, match="there is no cluster"):
        Sweep.open(OUT).resume(launcher)
    monkeypatch.setattr(Sweep, "is_done", True)  # as a moment ago
    with pytest.raises(RunFolderError, match="record of the run 'one' was taken away"):
        Sweep.open(OUT).resume(launcher)


@pytest.mark.parametrize(
    ("file", "content", "reason"),
    [
        ("record.json", "{}", r"one/record\.json has schema_version None"),
        ("config.yaml", None, r"one holds record\.json but no config\.yaml"),
        ("config.yaml", "", r"one/config\.yaml has other settings"),
    ],
)
def test_who_looks_at_a_sweep_hears_of_damage_that_nobody_has_met_yet(
    recorded, file, content, reason
):
    overview, record = recorded.overview(), make_record()
    assert overview.counts() == {"finished": 2}
    assert {(state.env_steps, state.mean_return) for state in overview.states.values()} == {
        (record.env_steps, record.training_return)
    }
    assert overview.states["one"].env_steps_planned == record.env_steps_planned > 0
    assert overview.states["one"].env_steps_per_s == record.env_steps_per_s > 0
    if content is None:
        (OUT / "one" / file).unlink()
    else:
        (OUT / "one" / file).write_text(content or recorded.runs["two"].to_yaml())
    found = Sweep.open(OUT).overview()
    assert found.counts() == {"finished": 1, "failed": 1}
    assert re.search(reason, found.states["one"].reason)
    assert re.search(f"failed: one: .*{reason}", describe_sweep(found))
    write_state(OUT, "one", CellState(phase="finished"))  # a worker that has just written it
    assert Sweep.open(OUT).overview().counts() == {"finished": 2}  # thousands are not read
    os.utime(OUT / "one" / "record.json", (time.time() + 9, time.time() + 9))
    assert Sweep.open(OUT).overview().counts() == {"finished": 1, "failed": 1}


def test_a_launcher_that_can_run_nothing_leaves_no_folder(monkeypatch):
    def refuse(launcher):
        raise ConfigError("there is no cluster")

    monkeypatch.setattr(LocalLauncher, "require", refuse)
    told = []
    with pytest.raises(ConfigError, match="there is no cluster"):
        Sweep(SPECS, out=OUT, on_event=told.append).run("local")
    assert (told, OUT.exists()) == ([], False)


@pytest.mark.parametrize("call", ["run", "resume"])
def test_what_a_launcher_took_is_given_back_where_no_driver_comes(monkeypatch, call):
    told = []
    monkeypatch.setattr(LocalLauncher, "require", lambda launcher: told.append("require"))
    monkeypatch.setattr(LocalLauncher, "close", lambda launcher: told.append("close"))
    sweep = Sweep(SPECS, out=OUT)
    OUT.mkdir()
    (OUT / "notes.txt").touch()
    with pytest.raises(RunFolderError, match="is not empty"):
        getattr(sweep, call)("local")
    assert told == ["require", "close"]


def test_a_launcher_that_is_interrupted_gives_back_what_it_took(monkeypatch):
    closed = []

    def interrupt(launcher):
        raise KeyboardInterrupt

    monkeypatch.setattr(LocalLauncher, "require", interrupt)
    monkeypatch.setattr(LocalLauncher, "close", lambda launcher: closed.append(launcher))
    with pytest.raises(KeyboardInterrupt):
        Sweep(SPECS, out=OUT).run("local")
    assert len(closed) == 1


def test_who_launched_a_sweep_from_python_goes_on_with_it(monkeypatch):
    monkeypatch.setattr(driving.Driver, "run", lambda driver: ({}, {}))
    Sweep(SPECS, out=OUT).run("local", retries=np.int64(4), jobs=np.int64(3))
    kept = {"launcher": "local", "retries": 4, "jobs": 3}
    assert read_launch(OUT) == kept
    assert continued_sweep(OUT, {}, []).launch.content() == kept
    Sweep.open(OUT).resume("local", nice=2)
    assert read_launch(OUT) == {"launcher": "local", "retries": 1, "nice": 2}
    Sweep.open(OUT).resume("local", jobs=None, spare_gib=2)
    kept = {"launcher": "local", "retries": 1, "jobs": None, "spare_gib": 2.0}
    assert read_launch(OUT) == kept


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"retries": None}, "'retries' must be an integer, got None"),
        ({"retries": "often"}, "'retries' must be an integer, got 'often'"),
        ({"retries": "2"}, "'retries' must be an integer, got '2'"),
        ({"retries": True}, "'retries' must be an integer, got True"),
        ({"retries": 2.0}, "'retries' must be an integer, got 2.0"),
        ({"jobs": "2"}, "'jobs' must be an integer or none, got '2'"),
        ({"jobs": "none"}, "'jobs' must be an integer or none, got 'none'"),
        ({"jobs": True}, "'jobs' must be an integer or none, got True"),
        ({"nice": "0"}, "'nice' must be an integer, got '0'"),
        ({"spare_gib": "1"}, "'spare_gib' must be a finite number, got '1'"),
        ({"spare_gib": False}, "'spare_gib' must be a finite number, got False"),
        ({"retries": -1}, "'retries' must not be negative"),
        ({"nicer": 1}, "the launcher 'local' has no option 'nicer'; did you mean 'nice'"),
        ({"launcher": None, "jobs": 2}, "'jobs' is an option of a launcher, but none is named"),
    ],
)
def test_a_launch_that_does_not_fit_is_refused_before_anything_runs(options, reason):
    with pytest.raises(ConfigError, match=reason):
        Sweep(SPECS, out=OUT).run(**{"launcher": "local", **options})
    assert not OUT.exists()


def test_networks_are_built_once_where_others_train_and_for_every_run_here(monkeypatch):
    built = []

    def check(session, *, trains_here):
        built.append((session.config.precision, session.config.seed, trains_here))

    monkeypatch.setattr("gmc_bench.experiments.session.check_networks", check)
    specs = {"three": SPEC.replace(precision="bfloat16"), **SPECS}
    CHECK(Sweep(specs), trains_here=False)
    assert built == [("bfloat16", 1, False), ("float32", 1, False)]
    built.clear()
    CHECK(Sweep(specs), trains_here=True)
    assert built == [("bfloat16", 1, True), ("float32", 1, True), ("float32", 2, True)]


@pytest.mark.parametrize(
    "change",
    [
        {"method": "metamorph-star"},
        {"task": "vt"},
        {"bodies": "tiny:1"},
        {"processes": 2},
        {"settings": {"model.width": 8}},
        {"settings": {"num_envs": 2}},
        {"settings": {"rollout_length": 8}},
    ],
)
def test_networks_that_differ_are_all_built_where_others_train(monkeypatch, change):
    built = []
    session = "gmc_bench.experiments.session"
    monkeypatch.setattr(f"{session}.open_session", lambda config, bodies: config)
    monkeypatch.setattr(f"{session}.check_networks", lambda config, **_: built.append(config))
    sweep = Sweep({"one": SPEC, "other": SPEC.replace(**change)}, elsewhere=True)
    CHECK(sweep, trains_here=False)
    assert built == list(sweep.runs.values())


def test_what_comes_to_the_same_run_is_run_once():
    lr = ["1e-4", "0.0001", 1e-3, "1e-3"]
    fields = {"methods": "recmorph", "suites": "unimal", "tasks": "ft", "seeds": (1, 2)}
    sweep = Sweep.grid(**fields, bodies="tiny", protocol="smoke", vary={"ppo.lr": lr})
    assert list(sweep.runs) == [f"lr={lr}_seed{i}" for i in (1, 2) for lr in ("1e-4", "0.001")]
    assert [item.config for item in sweep.resolved] == list(sweep.runs.values())


class Board:
    """A leaderboard that has all runs; a kill may come while one of them is taken."""

    kills_at: str | None = None

    def __init__(self, root):
        self.root = root

    def find_all(self, runs):
        return {name: (name, config) for name, config in runs.items()}

    def restore(self, stored, path):
        name, config = stored
        path.mkdir(exist_ok=True)
        (path / "config.yaml").write_text(config.to_yaml())
        if name == self.kills_at:
            (path / "kept.json").touch()
            raise KeyboardInterrupt
        write_record(path / "record.json", record_of_run(config))


@pytest.fixture
def board(monkeypatch):
    Path("board").mkdir()
    Path("board", LEDGER_NAME).touch()
    monkeypatch.setattr(sweeping, "KnownRuns", Board)
    monkeypatch.setattr(Board, "kills_at", "seed2")
    return monkeypatch


def request(**given):
    grid = {"methods": ["recmorph"], "suites": ["unimal"], "tasks": ["ft"], "seeds": [1, 2, 3]}
    return request_sweep({**grid, "bodies": ["tiny"], "protocol": ["smoke"], **given}, [], out=OUT)


def test_runs_of_a_leaderboard_are_taken_also_after_a_kill_in_between(board, monkeypatch, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        request(reuse="board", retries=5).run()
    assert [path.parent.name for path in OUT.glob("*/record.json")] == ["seed1"]
    board.setattr(Board, "kills_at", None)
    monkeypatch.chdir("/")
    monkeypatch.setattr(LocalLauncher, "require", lambda launcher: pytest.fail("none is needed"))
    again = continued_sweep(tmp_path / OUT, {}, [])
    assert "3 runs; about 0 s" in again.preview()  # nothing is left to train
    result = again.run()
    assert (set(result.records), result.failures) == ({"seed1", "seed2", "seed3"}, {})
    kept = {"launcher": "local", "retries": 5, "reuse": str(tmp_path / "board")}
    assert read_launch(tmp_path / OUT) == kept
    shutil.rmtree(tmp_path / "board")
    assert len(continued_sweep(tmp_path / OUT, {}, []).run().records) == 3  # nothing is missing
    assert len(Sweep.open(tmp_path / OUT).resume().records) == 3
    assert read_launch(tmp_path / OUT) == kept
    shutil.rmtree(tmp_path / OUT / "seed3")
    with pytest.raises(RunFolderError, match=r"launch\.yaml names the leaderboard .* put it back"):
        continued_sweep(tmp_path / OUT, {}, []).run()


def test_a_sweep_that_was_killed_before_it_could_be_continued_is_begun_again(board, monkeypatch):
    def kill(*_):
        raise KeyboardInterrupt

    board.setattr(Board, "kills_at", None)
    with monkeypatch.context() as killing:
        killing.setattr(sweeping.SweepFolder, "write", kill)
        with pytest.raises(KeyboardInterrupt):
            request(reuse="board", retries=5).run()
    assert read_launch(OUT)["retries"] == 5  # whatever has a plan knows how it was launched
    assert len(request(reuse="board").run().records) == 3


def test_a_sweep_without_options_of_a_launch_takes_them_too(board, ran):
    with pytest.raises(KeyboardInterrupt):
        Sweep({"seed1": SPEC, "seed2": SPEC.replace(seed=2)}, out=OUT, reuse="board").run()
    board.setattr(Board, "kills_at", None)
    assert set(Sweep.open(OUT).resume().records) == {"seed1", "seed2"}
    assert set(ran) == set()
    assert continued_sweep(OUT, {}, []).launch.options == {}


def test_who_begins_a_sweep_again_says_anew_whether_runs_are_taken(board):
    with pytest.raises(KeyboardInterrupt):
        request(reuse="board").run()
    sweep = request().sweep
    assert not sweep.will_take("seed2")
    assert continued_sweep(OUT, {}, []).sweep.will_take("seed2")
    assert not continued_sweep(OUT, {}, []).sweep.will_take("seed1")  # it is there
