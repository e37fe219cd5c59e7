"""In a process of its own, because the settings cannot be taken back."""

import subprocess
import sys

import pytest

PROGRAM = """
import resource
from gmc_bench.training.allocator import keep_freed_memory
import numpy as np

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        np.empty(2**20).fill(1.0)  # 8 MiB: 2,048 pages
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

assert keep_freed_memory()
faults()
print(faults())
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="changes glibc's settings")
def test_freed_memory_is_used_again_without_page_faults():
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 2048  # mapped anew each time it would be 20 * 2,048
