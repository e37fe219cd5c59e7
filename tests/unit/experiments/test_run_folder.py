"""A run's folder: made once, one writer at a time."""

import errno
import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gmc_bench.core.errors import CheckpointError, ConfigError, RunFolderError, StorageError
from gmc_bench.experiments import launch
from gmc_bench.experiments.events import SweepStarted
from gmc_bench.experiments.experiment import Experiment
from gmc_bench.experiments.run_folder import RunFolder, new_folder
from gmc_bench.experiments.spec import ExperimentSpec
from gmc_bench.experiments.sweep import Sweep
from gmc_bench.experiments.sweep_folder import SweepFolder
from gmc_bench.experiments.sweep_texts import LiveTable
from gmc_bench.experiments.tuning import Tuning, TuningFolder
from gmc_bench.records.kept import SCALING_SETTINGS
from gmc_bench.records.store import sealed, write_record
from gmc_bench.studies.request import STUDY
from tests.support.records import make_record


def test_a_new_folder_is_made_with_its_parents(tmp_path):
    with RunFolder(tmp_path / "a" / "b", create=True) as folder:
        assert folder.path.is_dir()
        assert folder.record.name == "record.json"


def test_an_empty_folder_can_be_used(tmp_path):
    (tmp_path / "run").mkdir()
    with RunFolder(tmp_path / "run", create=True) as folder:
        assert folder.path == tmp_path / "run"


def test_a_folder_with_something_in_it_is_left_alone(tmp_path):
    (tmp_path / "note.txt").write_text("mine")
    with pytest.raises(RunFolderError, match=r"is not empty; choose another --out$"):
        RunFolder(tmp_path, create=True)
    assert [path.name for path in tmp_path.iterdir()] == ["note.txt"]


@pytest.mark.parametrize(
    ("there", "verb"),
    [
        (["config.yaml"], "run"),
        (["plan.yaml"], "run"),
        (["plan.yaml", "launch.yaml"], "sweep"),
        ([STUDY, "plan.yaml", "launch.yaml"], "study"),
        ([SCALING_SETTINGS], "study"),
        ([TuningFolder.marker], "tune"),
    ],
)
def test_what_lies_in_a_folder_says_by_which_command_it_goes_on(tmp_path, there, verb):
    for name in there:
        (tmp_path / name).touch()
    for begin in (RunFolder, SweepFolder, TuningFolder):
        with pytest.raises(RunFolderError, match=rf" with: gmc-bench {verb} --resume "):
            begin(tmp_path, create=True)


def test_commands_can_be_copied_from_messages_also_where_a_folder_has_spaces(tmp_path, monkeypatch):
    monkeypatch.setattr(launch, "END_S", 0.0)
    path = tmp_path / "my run"
    path.mkdir()
    (path / ".lock").touch()
    with pytest.raises(RunFolderError, match=f"with --out '{path}'$"):
        RunFolder(path)
    (path / "config.yaml").touch()
    with pytest.raises(RunFolderError, match=f"gmc-bench run --resume '{path}'$"):
        RunFolder(path, create=True)
    with pytest.raises(RunFolderError, match=f"gmc-bench run --resume '{path}'$"):
        SweepFolder(path)
    with pytest.raises(CheckpointError, match=f"gmc-bench run --resume '{path}'$"):
        RunFolder(path).read_policy()
    (told,) = LiveTable(live=False)(SweepStarted(path, {}, {}, {}, {}))
    assert told.endswith(f"gmc-bench sweep status '{path}'")
    assert f"gmc-bench run --resume '{path}'" in launch._what_happened({}, tmp_path, path)


@pytest.mark.parametrize("error", [errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EIO])
def test_on_file_systems_without_locks_the_lease_alone_decides(tmp_path, monkeypatch, error):
    def refuse(file, how):
        raise OSError(error, "no locks")

    monkeypatch.setattr("fcntl.flock", refuse)
    if error == errno.EIO:
        with pytest.raises(StorageError, match="cannot lock"), RunFolder(tmp_path, create=True):
            pass
        return
    with RunFolder(tmp_path, create=True) as folder:
        assert not folder.lease.locked
        assert folder.lease.is_held()
        folder.config.write_text("")
        with pytest.raises(RunFolderError, match="in use"), RunFolder(tmp_path):
            pass


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RunFolderError):
        RunFolder(tmp_path / "file", create=True)
    with pytest.raises(StorageError, match="Not a directory"):
        RunFolder(tmp_path / "file" / "run", create=True)


@pytest.mark.parametrize("way", ["too long", "forbidden"])
def test_a_folder_that_cannot_be_looked_at_is_refused_in_one_sentence(tmp_path, monkeypatch, way):
    path = tmp_path / ("x" * 300)
    if way == "forbidden":  # what others than root meet
        path = tmp_path / "theirs"

        def forbid(path, **options):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))

        monkeypatch.setattr(Path, "stat", forbid)
    reason = "File name too long" if way == "too long" else "Permission denied"
    spec = ExperimentSpec(method="recmorph", suite="unimal")
    for use in (
        lambda: RunFolder(path),
        lambda: RunFolder(path, create=True),
        lambda: Experiment.open(path),
        lambda: Experiment(spec, out=path).resume(),
        lambda: Sweep.open(path),
        lambda: Tuning.open(path),
    ):
        with pytest.raises(RunFolderError, match=reason):
            use()


def test_a_number_of_processes_is_checked_also_where_nothing_is_left_to_run(tmp_path):
    (tmp_path / "config.yaml").touch()
    write_record(RunFolder(tmp_path).record, make_record())
    with pytest.raises(ConfigError, match="a run needs at least one process, got 0"):
        Experiment.open(tmp_path).resume(processes=0)


def test_a_policy_is_that_of_the_record_or_what_a_leaderboard_keeps_of_it(tmp_path):
    whole, acting, other = (hashlib.sha256(data).hexdigest() for data in (b"w", b"a", b"o"))
    (tmp_path / "config.yaml").touch()
    folder = RunFolder(tmp_path)
    write_record(folder.record, make_record(weights_digest=whole))

    def belongs(data):
        folder.policy.write_bytes(data)
        try:
            return folder.read_policy() == data
        except CheckpointError:
            return False

    assert [belongs(data) for data in (b"w", b"a", b"o")] == [True, False, False]
    folder.kept.write_bytes(sealed({"weights_digest": whole, "kept": acting}))
    assert [belongs(data) for data in (b"w", b"a", b"o")] == [True, True, False]
    folder.kept.write_bytes(sealed({"weights_digest": other, "kept": acting}))
    assert not belongs(b"a")


@pytest.mark.parametrize("name", [".", "absent"])
def test_a_folder_without_settings_is_no_run(tmp_path, name):
    with pytest.raises(RunFolderError, match=r"not a run folder \(it has no config.yaml\)"):
        RunFolder(tmp_path / name)


def test_what_a_process_leaves_that_was_killed_at_its_start_is_no_obstacle(tmp_path):
    (tmp_path / ".lock").write_text("")
    (tmp_path / ".config.yaml.0f.tmp").write_text("meth")
    for name in (STUDY, "launch.yaml", "kept.json"):
        (tmp_path / name).write_text("written before the marker")
    with pytest.raises(RunFolderError, match=r"holds no run yet .* give the command .* again"):
        RunFolder(tmp_path)
    with RunFolder(tmp_path, create=True) as folder:
        assert {path.name for path in folder.path.iterdir()} == {".lock", ".lease"}


def test_who_comes_second_to_a_new_folder_is_refused(tmp_path):
    second = RunFolder(tmp_path, create=True)
    with RunFolder(tmp_path, create=True) as first:
        with pytest.raises(RunFolderError, match="in use"), second:
            pass
        first.config.write_text("")
    with pytest.raises(RunFolderError, match="is not empty"), second:
        pass
    with RunFolder(tmp_path):  # the one that was refused holds no lock
        pass


def test_two_writers_are_kept_apart_and_the_lock_is_given_back(tmp_path):
    (tmp_path / "config.yaml").write_text("")
    with (
        RunFolder(tmp_path),
        pytest.raises(RunFolderError, match="in use by another process"),
        RunFolder(tmp_path),
    ):
        pass
    with RunFolder(tmp_path):
        pass


def test_the_lock_holds_between_processes_and_ends_with_them(tmp_path):
    (tmp_path / "config.yaml").write_text("")
    holder = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys; from pathlib import Path\n"
            "from gmc_bench.experiments.run_folder import RunFolder\n"
            "with RunFolder(Path(sys.argv[1])): print('held', flush=True); sys.stdin.read()",
            str(tmp_path),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with holder:
        assert holder.stdout.readline() == "held\n"
        named = rf"in use by another process \(process {holder.pid} on .+\); wait for it"
        with pytest.raises(RunFolderError, match=named), RunFolder(tmp_path):
            pass
        (tmp_path / ".lease").unlink()  # nobody knows who holds it
        with (
            pytest.raises(RunFolderError, match="in use by another process; wait for it"),
            RunFolder(tmp_path),
        ):
            pass
        holder.kill()
    with RunFolder(tmp_path):
        pass


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_process_that_was_forked_meanwhile_does_not_keep_the_lock(tmp_path):
    read, write = os.pipe()
    with RunFolder(tmp_path / "a", create=True) as folder:
        folder.config.touch()
        child = os.fork()
        if child == 0:
            os.close(write)
            os.read(read, 1)  # until the test has ended
            os._exit(0)
    with RunFolder(tmp_path / "a"):
        pass
    os.close(write)
    os.close(read)
    os.waitpid(child, 0)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_process_that_was_forked_meanwhile_does_not_give_the_lock_back(tmp_path):
    with RunFolder(tmp_path / "a", create=True) as folder:
        folder.config.touch()
        child = os.fork()
        if child == 0:
            try:
                folder.__exit__()
                os._exit(0)
            finally:  # whatever went wrong, no second process runs the other tests
                os._exit(1)
        assert os.waitpid(child, 0)[1] == 0
        folder.lease.require()
        with pytest.raises(RunFolderError, match="is in use by another process"):
            RunFolder(tmp_path / "a").__enter__()


def test_the_next_free_name_is_found(tmp_path):
    assert new_folder(tmp_path, "run").name == "run"
    (tmp_path / "run").mkdir()
    (tmp_path / "run-2").mkdir()
    assert new_folder(tmp_path, "run").name == "run-3"
