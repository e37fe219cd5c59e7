"""Which OpenGL is taken, and what is said when there is none."""

import ctypes.util

import pytest

from gmc_bench.core.errors import ConfigError
from gmc_bench.rendering import backend
from gmc_bench.rendering.backend import choose_backend, open_context


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
