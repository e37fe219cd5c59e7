"""Leases: who holds a folder on file systems that machines share."""

import errno
import json
import os
import threading
import time

import pytest

from gmc_bench.core.errors import RunFolderError
from gmc_bench.experiments import lease
from gmc_bench.experiments.lease import (
    NAME,
    TAKING,
    FolderInUseError,
    Lease,
    LeaseLostError,
    is_alive,
)
from tests.support.leases import write_orphaned_lease


def of_another_machine(folder, age=0.0):
    """Leave the lease of a process of another machine, touched some seconds ago."""
    content = {"token": "theirs", "machine": "another", "node": "n7", "pid": 1}
    (folder / NAME).write_text(json.dumps(content))
    os.utime(folder / NAME, (time.time() - age, time.time() - age))


def test_a_lease_is_held_and_given_back(tmp_path):
    with Lease(tmp_path) as held:
        assert held.is_held()
        assert is_alive(tmp_path)
        assert [path.name for path in tmp_path.iterdir()] == [NAME]
    assert not list(tmp_path.iterdir())
    assert not is_alive(tmp_path)


def test_that_of_another_machine_counts_until_it_gives_no_sign_of_life(tmp_path):
    of_another_machine(tmp_path)
    with pytest.raises(FolderInUseError, match=r"in use by another process \(process 1 on n7\)"):
        Lease(tmp_path).__enter__()
    for age in (lease.TIMEOUT_S + 1, -lease.TIMEOUT_S - 10):  # the latter: the clock went back
        of_another_machine(tmp_path, age=age)
        with Lease(tmp_path) as held:
            assert held.is_held()


def test_that_of_this_machine_ends_with_the_lock_or_the_process(tmp_path):
    first = Lease(tmp_path)
    assert first._create()  # and then its process was killed
    with Lease(tmp_path) as second:
        assert second.is_held()
        third = Lease(tmp_path)
        third.locked = False  # there are no locks, but the process of the second lives
        with pytest.raises(FolderInUseError):
            third.__enter__()


def test_who_is_known_to_have_ended_holds_nothing(tmp_path):
    write_orphaned_lease(tmp_path)
    assert not is_alive(tmp_path)
    mine = Lease(tmp_path)
    mine.locked = False  # nor does it need a lock to be taken over
    with mine:
        assert mine.is_held()


@pytest.mark.parametrize("text", ["", "{", "[]", "5"])
def test_a_lease_that_cannot_be_read_is_somebodys_until_it_is_old(tmp_path, text):
    """A file system without links shows it half written."""
    (tmp_path / NAME).write_text(text)
    with pytest.raises(FolderInUseError, match=r"\(process \? on another machine\)"):
        Lease(tmp_path).__enter__()
    os.utime(tmp_path / NAME, (1, 1))
    with Lease(tmp_path) as held:
        assert held.is_held()


def test_signs_of_life_are_read_on_the_clock_of_the_file_system(tmp_path, monkeypatch):
    later = time.time() + 1e6  # on this machine's clock
    monkeypatch.setattr(lease.time, "time", lambda: later)
    with Lease(tmp_path):
        assert is_alive(tmp_path)


def test_who_may_not_write_to_a_folder_reads_its_signs_of_life(tmp_path, monkeypatch):
    def refuse(path):
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    of_another_machine(tmp_path)
    monkeypatch.setattr(lease.Path, "touch", refuse)
    assert is_alive(tmp_path)
    of_another_machine(tmp_path, age=lease.TIMEOUT_S + 1)
    assert not is_alive(tmp_path)
    of_another_machine(tmp_path, age=-lease.TIMEOUT_S - 10)  # the reader's clock is slow
    assert is_alive(tmp_path)


@pytest.mark.parametrize("field", ["machine", "pids"])
def test_of_other_machines_and_containers_a_number_of_a_process_tells_nothing(tmp_path, field):
    write_orphaned_lease(tmp_path, **{field: "another"})
    assert is_alive(tmp_path)


def test_a_holder_notices_that_it_was_taken_over(tmp_path):
    with Lease(tmp_path) as held:
        held.require()
        of_another_machine(tmp_path)
        with pytest.raises(LeaseLostError, match="was taken over by process 1 on n7"):
            held.require()
    assert is_alive(tmp_path)  # what is not its own stays
    (tmp_path / NAME).unlink()
    with Lease(tmp_path) as held:
        (tmp_path / NAME).unlink()  # by who took it over, and has given it back
        with pytest.raises(LeaseLostError, match="was taken over by process"):
            held.require()


def test_a_holder_gives_signs_of_life(tmp_path, monkeypatch):
    monkeypatch.setattr(lease, "TOUCH_S", 0.01)
    with Lease(tmp_path):
        os.utime(tmp_path / NAME, (1, 1))
        deadline = time.monotonic() + 10
        while not is_alive(tmp_path) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert is_alive(tmp_path)


def test_signs_of_life_come_long_before_a_lease_is_void():
    assert lease.TIMEOUT_S >= 10 * lease.TOUCH_S


def test_a_process_of_another_user_is_alive(tmp_path, monkeypatch):
    def refuse(pid, number):
        raise PermissionError(errno.EPERM, "Operation not permitted")

    with Lease(tmp_path):
        monkeypatch.setattr(lease.os, "kill", refuse)
        assert is_alive(tmp_path)


def test_a_disk_that_fails_for_a_moment_takes_no_lease(tmp_path, monkeypatch):
    """Whoever cannot read its lease has not lost it, and goes on touching it afterwards."""
    failed = threading.Event()
    read = lease.Path.read_bytes

    def fail(path):
        failed.set()
        raise OSError(errno.EIO, "Input/output error", str(path))

    monkeypatch.setattr(lease, "TOUCH_S", 0.01)
    with Lease(tmp_path) as held:
        monkeypatch.setattr(lease.Path, "read_bytes", fail)
        held.require()
        failed.clear()
        assert failed.wait(10)  # the thread that gives signs of life has met it, too
        assert is_alive(tmp_path)  # who cannot read it does not take it
        monkeypatch.setattr(lease.Path, "read_bytes", read)
        held.require()
        os.utime(tmp_path / NAME, (1, 1))
        deadline = time.monotonic() + 10
        while not is_alive(tmp_path) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert is_alive(tmp_path)


def test_who_was_killed_while_it_put_a_lease_away_stops_nobody(tmp_path, monkeypatch):
    of_another_machine(tmp_path, age=lease.TIMEOUT_S + 1)
    (tmp_path / TAKING).touch()
    of_late = time.time() - lease.TIMEOUT_S / 2
    os.utime(tmp_path / TAKING, (of_late, of_late))
    waits = iter(range(3))
    monkeypatch.setattr(lease.time, "sleep", lambda seconds: next(waits))
    with pytest.raises(StopIteration):  # it may still be at it
        Lease(tmp_path).__enter__()
    for stamp in (1, time.time() + 1e6):
        of_another_machine(tmp_path, age=lease.TIMEOUT_S + 1)
        (tmp_path / TAKING).touch()
        os.utime(tmp_path / TAKING, (stamp, stamp))
        waits = iter(range(3))
        with Lease(tmp_path) as held:
            assert held.is_held()


def test_a_lease_that_was_taken_anew_is_not_put_away_with_the_void_one(tmp_path, monkeypatch):
    of_another_machine(tmp_path, age=lease.TIMEOUT_S + 1)
    rename = lease.Path.rename

    def take_before(path, target):
        path.write_text('{"token": "anew"}')
        return rename(path, target)

    monkeypatch.setattr(lease.Path, "rename", take_before)
    Lease(tmp_path)._end_void()
    assert [path.name for path in tmp_path.iterdir()] == [NAME]
    assert json.loads((tmp_path / NAME).read_text()) == {"token": "anew"}


def test_without_links_a_lease_is_made_once_too(tmp_path, monkeypatch):
    def refuse(source, target):
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(lease.os, "link", refuse)
    with Lease(tmp_path) as held:
        assert held.is_held()
        assert not Lease(tmp_path)._create()
        assert held.is_held()


def test_of_many_that_find_a_void_one_a_single_one_gets_it(tmp_path):
    for _ in range(20):
        of_another_machine(tmp_path, age=lease.TIMEOUT_S + 1)
        start, held = threading.Barrier(8), []

        def take(start=start, held=held):
            mine = Lease(tmp_path)
            mine.locked = False
            start.wait()
            try:
                mine.__enter__()
            except RunFolderError:
                return
            held.append(mine)

        threads = [threading.Thread(target=take) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [mine.is_held() for mine in held] == [True]
        held[0].__exit__()
