"""Launcher `ray`: tasks on a Ray cluster, an existing one or one on this machine."""

import contextlib
import os
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gmc_bench.core.errors import ConfigError
from gmc_bench.experiments.launch import search_path
from gmc_bench.experiments.launchers.cell_files import Files, newest, pack, pack_state, unpack
from gmc_bench.experiments.launchers.launcher import Cell, Ended, Launcher, LauncherSpec
from gmc_bench.experiments.launchers.process import ask_to_stop, end, ended_with, start_worker
from gmc_bench.experiments.run_folder import PLAN

LOOPBACK = "127.0.0.1"
_ANSWER_S = 10.0
"""Seconds that a cluster has to answer."""
_WATCH_S = 0.5
_STOP_S = 60.0
"""Seconds that a cell has for its checkpoint when it is asked to end."""
_OBJECTS = 256 * 2**20
"""Bytes of shared memory that a cluster of our own takes."""
_AS_OPTION = {"CPU": "num_cpus", "GPU": "num_gpus", "memory": "memory"}
"""How tasks ask for Ray's resources."""


@dataclass(frozen=True, kw_only=True)
class RayOptions:
    """Options of the launcher `ray`.

    Raises:
        ConfigError: a number is out of range.
    """

    address: str | None = None
    """Of an existing cluster, `HOST:PORT` or `auto`; by default a new one on this machine, which
    only this machine can reach."""
    jobs: int | None = None
    """Runs that Ray has at a time, running or waiting; by default 1,000."""
    shared: bool = True
    """The sweep's folder has the same path on all nodes. Without, checkpoints and results come back
    through Ray."""
    node_retries: int = 10
    """How often Ray begins a run again whose node is lost."""
    send_s: float = 30.0
    """Without a shared folder: seconds between two checkpoints that are sent."""

    def __post_init__(self) -> None:
        if (self.jobs is not None and self.jobs < 1) or self.node_retries < 0 or self.send_s <= 0:
            raise ConfigError(
                f"'jobs' must be at least 1, 'node_retries' not negative and 'send_s' positive, "
                f"got {self.jobs}, {self.node_retries} and {self.send_s}"
            )


class Post:
    """An actor beside the driver: keeps what cells of other machines send.

    The driver fetches everything once; a node that goes on with a cell gets what was sent last.
    """

    def __init__(self) -> None:
        self._kept: dict[str, Files] = {}
        self._new: dict[str, Files] = {}

    def send(self, name: str, files: Files) -> None:
        """Take files of a cell; a checkpoint takes the place of the one before."""
        for held in (self._kept, self._new):
            own = held.setdefault(name, {})
            if len(files) > 1:  # more than its state: everything that there is
                own.clear()
            own |= files

    def last(self, name: str) -> Files:
        """Return what a cell sent last, for a node that goes on with it."""
        return self._kept.get(name, {})

    def fetch(self) -> dict[str, Files]:
        """Return what came since the last call, by cell."""
        new, self._new = self._new, {}
        return new

    def forget(self, name: str) -> None:
        """Drop what a cell sent; its driver has it."""
        self._kept.pop(name, None)
        self._new.pop(name, None)


def run_in_shared_folder(sweep: str, name: str, threads: int) -> int:
    """Run a cell of a sweep whose folder all nodes share; return the worker's exit code."""
    with _worker(Path(sweep), name, threads) as process:
        while (code := process.poll()) is None:
            time.sleep(_WATCH_S)
    return code


def run_in_private_folder(
    plan: bytes, files: Files, name: str, threads: int, post: Any, send_s: float
) -> int:
    """Run a cell in a folder of its own, sending what it writes; return the exit code."""
    import ray

    with tempfile.TemporaryDirectory(prefix="gmc-bench-", ignore_cleanup_errors=True) as made:
        folder = Path(made)
        (folder / PLAN).write_bytes(plan)
        unpack(folder, files | ray.get(post.last.remote(name)))
        try:
            with _worker(folder, name, threads) as process:
                return _send_until_ended(process, folder, name, post, send_s)
        finally:
            ray.get(post.send.remote(name, pack(folder, name)))


@contextlib.contextmanager
def _worker(folder: Path, name: str, threads: int) -> "Iterator[subprocess.Popen[bytes]]":
    """Provide a cell's worker; where the task is cancelled, it has time for a checkpoint."""
    process = start_worker(folder, name, threads=threads)
    try:
        yield process
    except BaseException:  # cancelled
        ask_to_stop(process)
        deadline = time.monotonic() + _STOP_S
        while process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.1)
        raise
    finally:
        end(process)


def _send_until_ended(
    process: "subprocess.Popen[bytes]", folder: Path, name: str, post: Any, send_s: float
) -> int:
    """Send what a worker writes as long as it runs; return its exit code."""
    import ray

    sent, sent_at = newest(folder, name), time.monotonic()
    while (code := process.poll()) is None:
        time.sleep(_WATCH_S)
        due = time.monotonic() - sent_at > send_s
        if due and (now := newest(folder, name)) != sent:
            with contextlib.suppress(OSError):  # the checkpoint has just been dropped
                ray.get(post.send.remote(name, pack(folder, name)))
                sent = now
            sent_at = time.monotonic()
        elif files_of_state := pack_state(folder, name):
            post.send.remote(name, files_of_state)  # also the same: a heartbeat
    return code


@dataclass
class RayLauncher(Launcher):
    """Runs every cell as a task that starts a worker process on its node."""

    options: RayOptions
    _sweep: Path = field(default_factory=Path)
    _running: dict[str, Any] = field(default_factory=dict)
    """References of tasks by cell."""
    _post: Any = None
    _plan: Any = None
    _began: bool = False

    def require(self) -> None:
        """Connect to the cluster, or begin one.

        Raises:
            ConfigError: there is none at the address.
        """
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing leaves unless asked
        import ray
        from ray._private import ray_constants

        if (self.options.address or LOOPBACK).startswith((LOOPBACK, "localhost")):
            # Otherwise Ray looks for 127.0.0.1 at another address of this machine. What it reads
            # from the environment it may have read before: tianshou imports it, too.
            ray_constants.ENABLE_RAY_CLUSTER = False

        if ray.is_initialized() and self.options.address is not None:
            raise ConfigError(
                f"this process is connected to a Ray cluster already, got the address "
                f"{self.options.address!r}; leave it out, or call ray.shutdown() first"
            )
        if not ray.is_initialized():
            quiet = {"log_to_driver": False, "logging_level": "error"}
            variables = {"PYTHONPATH": search_path()}
            variables |= {key: os.environ[key] for key in os.environ if key.startswith("GMC_")}
            own: dict[str, Any] = {
                "address": "local",
                "include_dashboard": False,
                "object_store_memory": _OBJECTS,
                "_node_ip_address": LOOPBACK,
            }
            address = self.options.address
            try:
                _require_answer(address or "")
                ray.init(
                    **(own if address is None else {"address": address}),
                    **quiet,
                    runtime_env={"env_vars": variables},
                )
            except (OSError, OverflowError, ValueError, RuntimeError) as error:
                reason = " ".join(str(error).split())[:200]
                raise ConfigError(
                    f"there is no Ray cluster at {address or 'this machine'} ({reason}); start one "
                    f"with 'ray start --head', see docs/clusters.md"
                ) from error
            self._began = True

    def open(self, sweep: Path) -> None:
        """Give the cluster what nodes need that share no folder."""
        import ray

        self._sweep = sweep.absolute()
        if not self.options.shared:
            self._post = _beside_the_driver(ray.remote(Post))
            self._plan = ray.put((self._sweep / PLAN).read_bytes())

    def lack(self, cells: Sequence[Cell]) -> str:
        """Return which cell fits on no node now; a cluster that others started may grow.

        Raises:
            ConfigError: it fits on no node of the launcher's own cluster.
        """
        import ray

        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        distinct = {tuple(_needs(cell).items()): cell for cell in cells}
        for needs, cell in distinct.items():
            if any(all(node.get(what, 0) >= much for what, much in needs) for node in nodes):
                continue
            there = "; ".join(
                _shown({what: node.get(what, 0) for what, _ in needs}) for node in nodes
            )
            text = f"the run {cell.name!r} needs {_shown(dict(needs))}, but the nodes have {there}"
            if self._began and self.options.address is None:
                raise ConfigError(
                    f"{text}; begin another sweep with fewer --threads or --processes or another "
                    f"--device, or name a larger cluster by --launch.address"
                )
            return f"{text}; it waits until such a node joins the Ray cluster"
        return ""

    def takes(self, cell: Cell, waiting: int) -> bool:
        """Return whether Ray's queue has room."""
        return len(self._running) + waiting < (self.options.jobs or 1000)

    def submit(self, cells: Sequence[Cell]) -> None:
        """Give Ray a task for each."""
        import ray

        for cell in cells:
            needs: dict[str, Any] = {_AS_OPTION[what]: much for what, much in _needs(cell).items()}
            needs |= {"max_retries": self.options.node_retries, "name": cell.name}
            if self.options.shared:
                task = ray.remote(run_in_shared_folder).options(**needs)
                reference = task.remote(str(self._sweep), cell.name, cell.threads)
            else:
                task = ray.remote(run_in_private_folder).options(**needs)
                reference = task.remote(
                    self._plan,
                    pack(self._sweep, cell.name),
                    cell.name,
                    cell.threads,
                    self._post,
                    self.options.send_s,
                )
            self._running[cell.name] = reference

    def poll(self) -> list[Ended]:
        """Fetch what cells sent; return those whose tasks have ended."""
        import ray

        if not self._running:
            return []
        names = {reference: name for name, reference in self._running.items()}
        ready, _ = ray.wait(list(names), num_returns=len(names), timeout=0)
        if self._post is not None:
            for files in ray.get(self._post.fetch.remote()).values():
                unpack(self._sweep, files)
        found = [self._ended(names[reference], reference) for reference in ready]
        for ended in found:  # not before all are read: what raises loses none of them
            del self._running[ended.name]
            if self._post is not None:
                self._post.forget.remote(ended.name)
        return found

    def _ended(self, name: str, reference: Any) -> Ended:
        import ray
        from ray.exceptions import OutOfMemoryError, RayError, RayTaskError, TaskCancelledError

        try:
            return ended_with(name, ray.get(reference))
        except (OutOfMemoryError, RayTaskError) as error:
            return Ended(name, f"ended: {' '.join(str(error).split())[-300:]}")
        except TaskCancelledError:
            return Ended(name, "was cancelled", lost=True)
        except RayError as error:
            why = " ".join(str(error).split())[:300]
            return Ended(name, f"was lost with its node ({why})", lost=True)

    def stop(self) -> None:
        """Cancel all tasks, whose workers then have time for a checkpoint."""
        import ray

        for reference in self._running.values():
            ray.cancel(reference)

    def close(self) -> None:
        """Leave the cluster, or end that of this machine."""
        import ray

        for reference in self._running.values():
            ray.cancel(reference, force=True)
        self._running.clear()
        if self._post is not None:
            ray.kill(self._post)
            self._post = None
        if self._began:
            self._began = False
            ray.shutdown()


def _require_answer(address: str) -> None:
    """Raise an `OSError` unless something listens at `HOST:PORT`; Ray itself tries for minutes."""
    host, _, port = address.rpartition(":")
    if port.isdecimal() and "/" not in host:  # not `auto`, nor the address of a proxy
        socket.create_connection((host.strip("[]"), int(port)), timeout=_ANSWER_S).close()


def _needs(cell: Cell) -> dict[str, int]:
    """Return what a cell needs, by Ray's names of resources."""
    memory = {"memory": cell.memory} if cell.memory else {}
    return {"CPU": cell.threads, "GPU": cell.gpus, **memory}


def _shown(resources: dict[str, float]) -> str:
    return ", ".join(
        f"{much / 2**30:.1f} GiB" if what == "memory" else f"{much:g} {what}s"
        for what, much in resources.items()
        if much or what != "GPU"
    )


def _beside_the_driver(actor: Any) -> Any:
    """Start an actor on the driver's node, which lives as long as the driver."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    node = ray.get_runtime_context().get_node_id()
    place = NodeAffinitySchedulingStrategy(node_id=node, soft=True)
    return actor.options(num_cpus=0, scheduling_strategy=place).remote()


SPEC = LauncherSpec(
    id="ray",
    title="tasks on a Ray cluster",
    builder="gmc_bench.experiments.launchers.ray_tasks:RayLauncher",
    options=RayOptions(),
    module="ray",
    extra="ray",
    elsewhere=True,
)
