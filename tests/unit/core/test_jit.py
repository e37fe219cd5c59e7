import stat
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
