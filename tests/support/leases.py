"""Leases that processes left behind which were killed."""

import json
import subprocess
import sys
from pathlib import Path
from unittest.mock import patch

from gmc_bench.experiments.lease import NAME, Lease


def write_orphaned_lease(folder: Path, **changes: str) -> None:
    """Write the lease of a process of this machine that has ended, touched a moment ago.

    Args:
        folder: what was held.
        **changes: fields of its content to replace.
    """
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    with patch("os.getpid", lambda: ended.pid):
        assert Lease(folder)._create()
    path = folder / NAME
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
