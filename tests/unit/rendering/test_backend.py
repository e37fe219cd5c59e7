"""Which OpenGL is taken, and what is said when there is none."""

import ctypes.util
import os
import subprocess
import sys

import pytest

from gmc_bench.core.errors import ConfigError
from gmc_bench.rendering import backend
from gmc_bench.rendering.backend import choose_backend, open_context, with_engine


def test_the_users_choice_counts():
    assert choose_backend({"MUJOCO_GL": " EGL ", "DISPLAY": ":0"}) == "egl"
    with pytest.raises(ConfigError, match="MUJOCO_GL is 'vulkan', expected one of osmesa, egl"):
        choose_backend({"MUJOCO_GL": "vulkan"})


def test_a_display_is_used_and_software_comes_before_a_gpu(monkeypatch):
    monkeypatch.setattr(ctypes.util, "find_library", {"OSMesa": "libOSMesa.so.8"}.get)
    assert choose_backend({"DISPLAY": ":0"}) == "glfw"
    assert choose_backend({}) == "osmesa"
    monkeypatch.setattr(ctypes.util, "find_library", {}.get)
    assert choose_backend({}) == "egl"


@pytest.mark.parametrize(
    "error", [ImportError("no module"), AttributeError("no glGetError"), RuntimeError("no device")]
)
def test_what_is_missing_is_said_in_one_sentence(monkeypatch, error):
    def fail(name):
        raise error

    monkeypatch.setenv("MUJOCO_GL", "osmesa")
    monkeypatch.setattr(backend, "import_module", fail)
    with pytest.raises(ConfigError, match=f"{error}.*apt-get install libosmesa6") as found:
        open_context(64, 64)
    assert found.value.exit_code == 2
    assert "\n" not in str(found.value)


def test_an_engine_that_cannot_be_loaded_is_refused_by_commands_that_draw_nothing(tmp_path):
    command = [sys.executable, "-m", "gmc_bench.cli.main", "run", "--out", str(tmp_path / "run")]
    command += ["--method", "recmorph", "--suite", "unimal", "--task", "ft", "--protocol", "smoke"]
    environment = {**os.environ, "MUJOCO_GL": "vulkan"}
    found = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert found.returncode == 2
    assert "MuJoCo cannot be loaded with MUJOCO_GL=vulkan (invalid value" in found.stderr
    assert "apt-get install libosmesa6) and set it to osmesa" in found.stderr
    assert found.stderr.count("\n") == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("backend", ["osmesa", None])
def test_other_failures_are_not_taken_for_the_engine(monkeypatch, backend):
    def fail(what):
        raise RuntimeError(what)

    if backend is None:
        monkeypatch.delenv("MUJOCO_GL", raising=False)
    else:
        monkeypatch.setenv("MUJOCO_GL", backend)
    with pytest.raises(RuntimeError, match=r"^broken$"):
        with_engine(fail, "broken")
    assert with_engine(max, 1, 2) == 2
