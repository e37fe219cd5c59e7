import subprocess
import sys

import mujoco
import pytest

from gmc_bench.bodies.engine_library import engine_library
from gmc_bench.core.errors import PluginError
from gmc_bench.sim.engine import engine_functions

# Warns twice, through Python and through the address: in its own process, since it changes both.
WARN = """
import ctypes, mujoco
from gmc_bench.sim.engine import engine_functions
functions = engine_functions()
model = mujoco.MjModel.from_xml_string(
    '<mujoco><option><flag autoreset="disable"/></option><worldbody><body>'
    '<freejoint/><geom size="1"/></body></worldbody></mujoco>'
)
for step in (mujoco.mj_step, lambda m, d: ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_void_p)(functions.mj_step)(m._address, d._address)):
    data = mujoco.MjData(model)
    data.qpos[0] = float("nan")
    step(model, data)
    print(sum(warning.number > 0 for warning in data.warning))
"""


def test_warnings_are_counted_but_neither_printed_nor_logged(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", WARN], capture_output=True, text=True, cwd=tmp_path, check=True
    )
    first, second = (int(line) for line in done.stdout.split())
    assert first >= 1
    assert second == first
    assert done.stderr == ""
    assert list(tmp_path.iterdir()) == []


def test_functions_are_found_once():
    functions = engine_functions()
    assert len({*functions}) == len(functions)
    assert 0 not in functions
    assert engine_functions() is functions


def test_a_wheel_without_library_is_reported(monkeypatch, tmp_path):
    monkeypatch.setattr(mujoco, "__file__", str(tmp_path / "__init__.py"))
    with pytest.raises(PluginError, match=r"no MuJoCo library in .*; reinstall the mujoco wheel"):
        engine_library.__wrapped__()


def test_an_engine_warning_leaves_no_log_file(tmp_path):
    # In a process of its own, because the log's settings belong to the process.
    code = (
        "import mujoco, numpy as np\n"
        "from gmc_bench.sim.model import compile_model\n"
        "from gmc_bench.tasks.unimal_ft import TASK\n"
        "from gmc_bench.conformance.morphologies import chain\n"
        "model = compile_model(chain(), TASK.scene).model\n"
        "data = mujoco.MjData(model)\n"
        "data.qpos[:] = np.nan\n"
        "mujoco.mj_step(model, data)\n"
        "assert data.warning.number.any()\n"
    )
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True, capture_output=True)
    assert list(tmp_path.iterdir()) == []
