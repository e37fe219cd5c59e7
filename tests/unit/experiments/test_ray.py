"""What cells send that share no folder with their driver."""

import contextlib
import re
import socket
import sys
import time
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from gmc_bench.core.errors import ConfigError
from gmc_bench.experiments.launchers import Cell, Ended, ray_tasks
from gmc_bench.experiments.launchers.ray_tasks import (
    Post,
    RayLauncher,
    RayOptions,
    run_in_private_folder,
    run_in_shared_folder,
)
from gmc_bench.experiments.spec import ExperimentSpec
from gmc_bench.experiments.sweep import Sweep

STATE = ".states/a.json"


def whole(number):
    return {
        STATE: b"%d" % number,
        "a/config.yaml": b"c",
        f"a/checkpoints/{number:08d}/checkpoint.json": b"p",
    }


def test_only_what_is_new_is_fetched_and_everything_goes_to_the_next_node():
    post = Post()
    post.send("a", whole(1))
    assert post.fetch() == {"a": whole(1)}
    assert post.fetch() == {}
    post.send("a", {STATE: b"2"})
    assert post.fetch() == {"a": {STATE: b"2"}}
    assert post.last("a") == {**whole(1), STATE: b"2"}
    post.send("a", whole(3))
    post.send("b", {".states/b.json": b"1"})
    post.send("a", whole(4))
    post.send("a", {STATE: b"5"})
    latest = {**whole(4), STATE: b"5"}  # without the older checkpoint
    assert post.fetch() == {"a": latest, "b": {".states/b.json": b"1"}}
    assert post.last("a") == latest
    post.forget("a")
    assert post.last("a") == {}


class Remote:
    """A `Post` called as Ray calls actors: `post.send.remote(...)`."""

    def __init__(self, post):
        for method in (post.last, post.send, post.fetch, post.forget):
            setattr(self, method.__name__, SimpleNamespace(remote=method))


@pytest.mark.parametrize(
    ("sent", "goes_on_from"),
    [([], 1), ([{STATE: b"2"}], 1), ([{STATE: b"2"}, whole(3)], 3)],
)
def test_a_node_goes_on_from_the_newest_checkpoint_there_is(monkeypatch, sent, goes_on_from):
    """The driver's own, unless a node that is lost has sent a newer one, not just its state."""
    post, found = Post(), []
    for files in sent:
        post.send("a", files)

    def start_worker(folder, name, *, threads):
        found.extend(path.name for path in Path(folder, name, "checkpoints").iterdir())
        return SimpleNamespace(poll=lambda: 0)

    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(get=lambda reference: reference))
    monkeypatch.setattr(ray_tasks, "start_worker", start_worker)
    monkeypatch.setattr(ray_tasks, "end", lambda process: None)
    assert run_in_private_folder(b"plan", whole(1), "a", 1, Remote(post), 30.0) == 0
    assert max(found) == f"{goes_on_from:08d}"
    assert post.last("a")["a/config.yaml"] == b"c"  # what it left has been sent


class Errors(ModuleType):
    """What `ray.exceptions` has, as far as the launcher knows it."""

    RayError = type("RayError", (Exception,), {})
    OutOfMemoryError = type("OutOfMemoryError", (RayError,), {})
    RayTaskError = type("RayTaskError", (RayError,), {})
    TaskCancelledError = type("TaskCancelledError", (RayError,), {})
    NodeDiedError = type("NodeDiedError", (RayError,), {})


@pytest.fixture
def asked(monkeypatch):
    """Return what Ray was asked for; its references are results or errors."""
    found = []

    def options(**needs):
        found.append(needs)
        return SimpleNamespace(remote=lambda *arguments: arguments)

    def get(reference):
        if isinstance(reference, Exception):
            raise reference
        return reference

    ray = ModuleType("ray")
    ray.get, ray.remote = get, lambda task: SimpleNamespace(options=options)
    monkeypatch.setitem(sys.modules, "ray", ray)
    monkeypatch.setitem(sys.modules, "ray.exceptions", Errors("ray.exceptions"))
    return found


def test_a_task_has_what_its_cell_needs(asked, tmp_path):
    launcher = RayLauncher(RayOptions(node_retries=3), tmp_path)
    launcher.submit([Cell("a", 4, gpus=2, memory=5), Cell("b", 1)])
    assert asked == [
        {"num_cpus": 4, "num_gpus": 2, "memory": 5, "max_retries": 3, "name": "a"},
        {"num_cpus": 1, "num_gpus": 0, "max_retries": 3, "name": "b"},
    ]
    assert launcher._running["a"] == (str(tmp_path), "a", 4)


SMALL, LARGE = {"CPU": 2.0, "memory": 2.0**32}, {"CPU": 8.0, "GPU": 1.0, "memory": 2.0**34}


@pytest.mark.parametrize(
    ("cell", "nodes", "reason"),
    [
        (Cell("a", 2), [SMALL], ""),
        (Cell("a", 8, gpus=1, memory=2**33), [SMALL, LARGE], ""),
        (Cell("a", 3), [SMALL], "'a' needs 3 CPUs, but the nodes have 2 CPUs;"),
        (Cell("a", 1, gpus=1), [SMALL], "needs 1 CPUs, 1 GPUs, but the nodes have 2 CPUs;"),
        (Cell("a", 1, memory=2**33), [SMALL], "needs 1 CPUs, 8.0 GiB, but .* 2 CPUs, 4.0 GiB;"),
        (Cell("a", 9, gpus=1), [SMALL, LARGE], "but the nodes have 2 CPUs; 8 CPUs, 1 GPUs;"),
    ],
)
def test_what_no_node_holds_is_refused_unless_the_cluster_may_grow(asked, cell, nodes, reason):
    lost = {"Alive": False, "Resources": {"CPU": 99.0, "GPU": 99.0}}
    alive = [{"Alive": True, "Resources": resources} for resources in nodes]
    sys.modules["ray"].nodes = lambda: [lost, *alive]
    foreign = RayLauncher(RayOptions(address="10.0.0.1:6379"), _began=True)
    found = foreign.lack([Cell("small", 1), cell])
    assert re.search(reason, found)
    assert bool(found) == bool(reason) == ("waits until such a node joins" in found)
    own = RayLauncher(RayOptions(), _began=True)
    with pytest.raises(ConfigError, match=reason) if reason else contextlib.nullcontext():
        own.lack([Cell("small", 1), cell])
    assert RayLauncher(RayOptions()).lack([cell]) == found  # Ray was there before


@pytest.mark.parametrize(
    ("outcome", "ended"),
    [
        (0, Ended("a")),
        (4, Ended("a", "ended because another process holds the run", lost=True, held=True)),
        (1, Ended("a", "ended with exit code 1 without a word")),
        (Errors.TaskCancelledError(), Ended("a", "was cancelled", lost=True)),
        (Errors.NodeDiedError("n7"), Ended("a", "was lost with its node (n7)", lost=True)),
        (Errors.OutOfMemoryError("too much"), Ended("a", "ended: too much")),
        (Errors.RayTaskError("KeyError"), Ended("a", "ended: KeyError")),
    ],
)
def test_a_task_that_ended_was_lost_or_not(asked, tmp_path, outcome, ended):
    assert RayLauncher(RayOptions(), tmp_path)._ended("a", outcome) == ended


def test_what_a_cell_sent_last_arrives_before_it_counts_as_ended(asked, tmp_path):
    """Also if it ends while the driver asks; what it sent is then forgotten."""
    post = Post()

    def wait(references, *, num_returns, timeout):
        post.send("a", whole(2))
        return references, []

    sys.modules["ray"].wait = wait
    launcher = RayLauncher(RayOptions(shared=False), tmp_path, {"a": 0}, Remote(post))
    assert launcher.poll() == [Ended("a")]
    assert (tmp_path / "a/checkpoints/00000002/checkpoint.json").is_file()
    assert post.last("a") == {}


class Worker:
    """A worker that ends some time after it is asked to stop, and leaves a file."""

    stdin = None

    def __init__(self, sweep, name, *, threads):
        self.folder, self.left = Path(sweep, name), None

    def send_signal(self, number):
        self.left = 5

    def poll(self):
        if self.left is None or self.left > 0:
            self.left = self.left and self.left - 1
            return None
        (self.folder / "left").write_text("c")
        return 3

    def kill(self):
        """Leave nothing."""

    def wait(self):
        """Have ended."""


@pytest.mark.parametrize("shared", [True, False])
def test_who_cancels_a_task_waits_for_the_checkpoint_of_its_worker(
    asked, monkeypatch, tmp_path, shared
):
    post = Post()

    def sleep(seconds):
        if seconds == ray_tasks._WATCH_S:
            raise KeyboardInterrupt

    monkeypatch.setattr(ray_tasks, "time", SimpleNamespace(sleep=sleep, monotonic=time.monotonic))
    monkeypatch.setattr(ray_tasks, "start_worker", Worker)
    (tmp_path / "a").mkdir()
    alone = (run_in_private_folder, b"plan", whole(1), "a", 1, Remote(post), 30.0)
    run, *arguments = (run_in_shared_folder, str(tmp_path), "a", 1) if shared else alone
    with pytest.raises(KeyboardInterrupt):
        run(*arguments)
    assert (tmp_path / "a/left").is_file() == shared
    assert ("a/left" in post.last("a")) != shared


@pytest.fixture
def begun(asked, monkeypatch):
    """Return the addresses of clusters that were connected to, and `None` for each end."""
    ray, found = sys.modules["ray"], []

    def init(**options):
        if options["address"] == "auto":
            raise ConnectionError("Could not find any\nrunning Ray instance.")
        found.append(options["address"])

    ray.__spec__ = ModuleSpec("ray", None)
    ray.init, ray.shutdown = init, lambda: found.append(None)
    ray.is_initialized = lambda: False
    private = ModuleType("ray._private")
    private.ray_constants = SimpleNamespace()
    monkeypatch.setitem(sys.modules, "ray._private", private)
    return found


@pytest.fixture
def port():
    """A port of this machine and its socket, which does not listen yet."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        yield found.getsockname()[1], found


def test_a_cluster_that_does_not_answer_leaves_no_folder(begun, port, tmp_path):
    number, server = port
    silent, spec = f"127.0.0.1:{number}", ExperimentSpec(method="recmorph", suite="closed-loop")
    for address, reason in (
        (silent, r"Connection refused\)"),
        (f"127.0.0.1:{10**30}", r"to convert to C long\)"),
        ("auto", r"Could not find any running Ray instance\.\)"),
    ):
        sweep = Sweep({"a": spec}, out=tmp_path / "sweep", elsewhere=True)
        with pytest.raises(ConfigError, match=f"no Ray cluster at {address} .*{reason}; start one"):
            sweep.run("ray", address=address)
    assert begun == []  # and nobody waits for Ray, which tries again and again
    assert not (tmp_path / "sweep").exists()
    server.listen()
    launcher = RayLauncher(RayOptions(address=silent))
    launcher.require()
    assert begun == [silent]
    for _ in range(2):
        launcher.close()
    assert begun == [silent, None]
