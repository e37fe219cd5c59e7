import importlib
import stat
import sys
from pathlib import Path

import numba
import pytest

from gmc_bench.core import jit


def test_where_nothing_can_be_written_compiled_code_is_kept_for_the_process_alone(monkeypatch):
    def refuse(**options):
        raise RuntimeError("cannot cache function: no locator available")

    monkeypatch.setattr(numba, "njit", refuse)
    monkeypatch.setattr(numba.config, "CACHE_DIR", "")
    with pytest.warns(UserWarning, match="set NUMBA_CACHE_DIR to a folder that can be written"):
        jit._require_cache()
    folder = Path(numba.config.CACHE_DIR)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_where_it_can_be_written_numba_decides(recwarn):
    before = numba.config.CACHE_DIR
    jit._require_cache()
    assert (numba.config.CACHE_DIR, len(recwarn)) == (before, 0)


CALLED = """
from typing import NamedTuple
from gmc_bench.core.jit import njit

class {name}(NamedTuple):
    number: float

Numbers = {name}
FACTOR = {factor}

@njit(cache=True)
def times(given):
    return FACTOR * given.number
"""
CALLS = """
from gmc_bench.core.jit import njit
from called_by_a_test import Numbers, times

@njit(cache=True)
def number(given):
    return times(given)

def run():
    return number(Numbers(2.0))
"""


def test_code_is_compiled_anew_when_what_it_calls_has_changed(tmp_path, monkeypatch):
    """As after an update of a checkout in which commands have run."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "calls_in_a_test.py").write_text(CALLS)
    found = []
    for name, factor in (("Before", 1.0), ("Before", 10.0), ("Later", 10.0)):
        (tmp_path / "called_by_a_test.py").write_text(CALLED.format(name=name, factor=factor))
        importlib.invalidate_caches()
        jit._digest.cache_clear()
        for module in ("called_by_a_test", "calls_in_a_test"):
            monkeypatch.delitem(sys.modules, module, raising=False)
        module = importlib.import_module("calls_in_a_test")
        found.append(module.run())
        hits = sum(module.number.stats.cache_hits.values())
        assert hits == 0
    assert found == [2.0, 20.0, 20.0]
    monkeypatch.delitem(sys.modules, "calls_in_a_test")
    again = importlib.import_module("calls_in_a_test")
    assert (again.run(), sum(again.number.stats.cache_hits.values())) == (20.0, 1)
