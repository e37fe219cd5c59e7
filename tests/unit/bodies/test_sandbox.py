import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import mujoco
import numpy as np
import pytest

from gmc_bench.bodies import sandbox as module
from gmc_bench.bodies.mjcf import emit_mjcf
from gmc_bench.bodies.mjcf_writer import FLAT_GROUND, FLAT_HEIGHT
from gmc_bench.bodies.sandbox import FlawError, Sandbox
from gmc_bench.conformance.morphologies import linkage
from tests.support.slow import slow_but
from tests.unit.bodies import foreign_robots as robots

TINY = '<mujoco><worldbody><body><freejoint/><geom size="1"/></body></worldbody></mujoco>'
linux = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")


@pytest.fixture(scope="module")
def sandbox():
    with Sandbox(seconds=2) as started:
        started.read(TINY, {})
        yield started


def _pid(sandbox):
    sandbox.read(TINY, {})
    return sandbox._process.pid


@linux
def test_the_process_has_no_file_descriptor_to_spare(sandbox):
    pid = _pid(sandbox)
    open_files = {int(entry.name) for entry in Path(f"/proc/{pid}/fd").iterdir()}
    limits = Path(f"/proc/{pid}/limits").read_text().splitlines()
    soft, hard = next(line.split()[3:5] for line in limits if line.startswith("Max open files"))
    assert soft == hard
    # A new descriptor would be the lowest free number, which is not below the limit.
    assert set(range(int(soft))) <= open_files


@linux
def test_memory_core_dumps_and_written_files_are_limited(sandbox):
    limits = Path(f"/proc/{_pid(sandbox)}/limits").read_text()
    for name in ("Max address space", "Max core file size", "Max file size", "Max cpu time"):
        line = next(line for line in limits.splitlines() if line.startswith(name))
        assert line.removeprefix(name).split()[0] != "unlimited"


def test_the_environment_holds_nothing_of_the_users(sandbox, monkeypatch):
    pid = _pid(sandbox)
    environment = Path(f"/proc/{pid}/environ")
    if not environment.exists():
        pytest.skip("needs /proc")
    allowed = {"PATH", "PYTHONPATH", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "LC_CTYPE", ""}
    allowed |= {"LD_LIBRARY_PATH"} & os.environ.keys()
    names = {entry.partition("=")[0] for entry in environment.read_text().split("\0")}
    assert names <= allowed


@linux
@pytest.mark.parametrize(
    "value", slow_but(["{}", ":{}:rel", "{}::", "{};rel"], ":{}:rel", "{};rel")
)
def test_shared_libraries_are_found_where_the_user_has_them(monkeypatch, tmp_path, value):
    """And in no place that stands for the working folder, which is anybody's."""
    monkeypatch.setenv("LD_LIBRARY_PATH", value.format(tmp_path))
    monkeypatch.setenv("DYLD_LIBRARY_PATH", ":")
    with Sandbox() as sandbox:
        environment = Path(f"/proc/{_pid(sandbox)}/environ").read_text()
    assert f"LD_LIBRARY_PATH={tmp_path}" in environment.split("\0")
    assert "DYLD_LIBRARY_PATH" not in environment


@linux
@pytest.mark.parametrize(
    ("kind", "inherited", "asked", "limits"),
    [
        ("CPU", 500, (20, -1), (20, 500)),
        ("CPU", 500, (600, -1), (500, 500)),
        ("CPU", -1, (20, -1), (20, -1)),
        ("AS", 1 << 33, (1 << 34, 1 << 34), (1 << 33, 1 << 33)),
        ("AS", 1 << 34, (1 << 33, 1 << 33), (1 << 33, 1 << 33)),
    ],
)
def test_limits_keep_below_those_that_are_inherited(kind, inherited, asked, limits):
    # Without privileges the kernel refuses to raise a hard limit.
    text = (
        "import resource as r; from gmc_bench.bodies.worker import _limit\n"
        f"kind = r.RLIMIT_{kind}; r.setrlimit(kind, ({inherited}, {inherited}))\n"
        f"_limit(kind, *{asked}); print(r.getrlimit(kind))"
    )
    command = [sys.executable, "-c", text]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(limits)


def test_a_process_that_ends_by_itself_keeps_its_exit_code():
    text = "import os, sys, time; os.close(1); time.sleep(0.2); sys.exit(3)"
    process = subprocess.Popen(
        [sys.executable, "-c", text], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    sandbox = Sandbox()
    sandbox._process = process
    assert sandbox._exchange(process, b"", time.monotonic() + 30) is None
    assert process.returncode == 3


@pytest.mark.parametrize(
    "text",
    [
        '<mujoco><include file="{}"/></mujoco>',
        '<mujoco><asset><mesh name="m" file="{}"/></asset><worldbody><body><freejoint/>'
        '<geom type="mesh" mesh="m"/></body></worldbody></mujoco>',
        '<mujoco><asset><hfield name="h" file="{}" size="1 1 1 1"/></asset></mujoco>',
        '<mujoco><asset><texture name="t" type="2d" file="{}"/></asset></mujoco>',
        '<mujoco><asset><model name="t" file="{}"/></asset></mujoco>',
        '<mujoco><asset><skin name="t" file="{}"/></asset></mujoco>',
    ],
)
def test_files_that_were_not_sent_cannot_be_read(sandbox, tmp_path, text):
    # Each would be read outside: the file is a valid model, mesh, picture and so on by its name.
    canary = tmp_path / "canary.xml"
    canary.write_text(TINY)
    for name in (canary, os.path.relpath(canary, "/tmp")):
        with pytest.raises(FlawError, match="refused by MuJoCo"):
            sandbox.read(text.format(name), {})


def test_files_that_were_sent_are_read(sandbox):
    text = '<mujoco><include file="parts/part.xml"/></mujoco>'
    found = sandbox.read(text, {"part.xml": TINY.encode()})
    assert len(found["bodies"]) == 2


def test_a_trial_is_that_of_random_controls_every_four_steps(sandbox):
    """Against a loop of its own: 0.3 s in which two legs that are closed loops fall and bounce."""
    text = emit_mjcf(linkage(2), floor=FLAT_GROUND, spawn=(0.0, 0.0, FLAT_HEIGHT))
    model = mujoco.MjModel.from_xml_string(text)
    for seed in (0, 3):
        data, rng = mujoco.MjData(model), np.random.default_rng(seed)
        heights, gaps = [linkage(2).limbs[0].position[2]], []
        fastest = dict.fromkeys((model.joint(j).name for j in range(1, model.njnt)), 0.0)
        for step in range(60):
            if step in range(0, 60, 4):
                data.ctrl[:] = rng.uniform(-1, 1, size=model.nu)
            mujoco.mj_step(model, data)
            heights.append(data.qpos[2] - 1.0)
            for name in fastest:
                fastest[name] = max(fastest[name], abs(float(data.joint(name).qvel[0])))
            for loop in range(model.neq):
                ends = zip(
                    (model.eq_obj1id[loop], model.eq_obj2id[loop]),
                    (model.eq_data[loop, :3], model.eq_data[loop, 3:6]),
                    strict=True,
                )
                one, other = (
                    data.xpos[body] + data.xmat[body].reshape(3, 3) @ point for body, point in ends
                )
                gaps.append(np.linalg.norm(one - other))
        found = sandbox.roll_out(text, steps=60, seed=seed)
        assert (found["time"], found["warnings"]) == (pytest.approx(0.3), [])
        assert (found["height"], found["lowest"]) == pytest.approx((heights[0], min(heights)))
        assert found["speeds"] == pytest.approx(fastest)
        assert found["opening"] == pytest.approx(max(gaps), rel=1e-6)
        assert found["lowest"] < heights[-1] - 0.01
    assert len(gaps) == 2 * 60


def test_endless_work_ends_and_the_next_request_is_answered(sandbox):
    with pytest.raises(FlawError, match=r"longer than 2 s .* fewer --seconds$"):
        sandbox.roll_out(robots.FOUR_BAR, steps=10**9, seed=0)
    assert len(sandbox.read(TINY, {})["bodies"]) == 2


def test_models_that_need_much_memory_are_refused(sandbox):
    field = '<asset><hfield name="h" nrow="30000" ncol="30000" size="1 1 1 1"/></asset>'
    hungry = TINY.replace("<worldbody>", f"{field}<worldbody>")
    with pytest.raises(FlawError, match=r"memory|allocat|crash"):
        sandbox.read(hungry, {})
    assert len(sandbox.read(TINY, {})["bodies"]) == 2


def test_a_killed_process_is_replaced(sandbox):
    os.kill(_pid(sandbox), signal.SIGKILL)
    with pytest.raises(FlawError, match="crash"):
        sandbox.read(TINY, {})
    assert len(sandbox.read(TINY, {})["bodies"]) == 2


def test_what_earlier_requests_used_of_a_processes_time_is_no_fault_of_the_next(
    sandbox, monkeypatch
):
    """Under a limit that cannot be raised the kernel kills a process that has used it up."""
    monkeypatch.setattr(module.resource, "getrlimit", lambda kind: (600, 600))
    os.kill(_pid(sandbox), signal.SIGKILL)
    assert len(sandbox.read(TINY, {})["bodies"]) == 2
    sandbox.close()
    os.kill(sandbox._start().pid, signal.SIGKILL)  # the first request of its process
    with pytest.raises(FlawError, match=r"more than the processor time allowed here \(ulimit -t\)"):
        sandbox.read(TINY, {})


def test_a_robot_that_takes_long_is_tried_once_also_under_a_limit_of_hours(monkeypatch):
    monkeypatch.setattr(module.resource, "getrlimit", lambda kind: (36_000, 36_000))
    with Sandbox() as sandbox:
        sandbox.read(TINY, {})
        pids = []
        exchange = sandbox._exchange

        def slow(process, line, deadline):
            pids.append(process.pid)
            os.kill(process.pid, signal.SIGXCPU)
            return exchange(process, line, deadline)

        monkeypatch.setattr(sandbox, "_exchange", slow)
        with pytest.raises(FlawError, match="takes longer than 20 s to compile"):
            sandbox.read(TINY, {})
    assert len(pids) == 1


@pytest.mark.parametrize("used_up", [False, True])
def test_closing_and_many_jobs_end_the_process(monkeypatch, used_up):
    monkeypatch.setattr(module, "_MAX_JOBS", 2)
    sandbox = Sandbox()
    pid = _pid(sandbox)
    sandbox.read(TINY, {}) if used_up else sandbox.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
