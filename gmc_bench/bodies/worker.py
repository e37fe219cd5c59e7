"""A process that compiles untrusted models.

It answers one request after another over its standard streams. Each message is a line of JSON.
Before the first request it gives up what a hostile file could use: after `_lock` no file can be
opened any more, memory and processor time are limited. MuJoCo itself reads the files, from memory,
so every feature of its formats is understood; meshes that it does not read are converted by
trimesh.
"""

import contextlib
import json
import os
import re
import resource
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any, BinaryIO

import mujoco
import numpy as np

from gmc_bench.bodies.compiler import compile_mjcf
from gmc_bench.bodies.mesh_formats import load_packages
from gmc_bench.bodies.worker_read import read_model
from gmc_bench.bodies.worker_trial import roll_out
from gmc_bench.bodies.worker_urdf import RefusalError

_MEMORY = 2 << 30  # bytes beyond what the process has after its imports
_NO_MASS = re.compile(r"mass and inertia of moving bodies .*? name '([^']*)'")
_WARM_UP = "<mujoco><worldbody><body><joint/><geom size='1'/></body></worldbody></mujoco>"


def _lock(seconds: int) -> None:
    table = Path("/proc/self/statm")
    pages = int(table.read_text(encoding="ascii").split()[0]) if table.exists() else 0
    size = pages * resource.getpagesize()
    if size:  # elsewhere the kernel does not tell, and the parent's time limit has to do
        _limit(resource.RLIMIT_AS, size + _MEMORY, size + _MEMORY)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    # The lowest free descriptor is the limit: nothing that needs a new one can work.
    free = 0
    with contextlib.suppress(OSError):
        while True:
            os.fstat(free)
            free += 1
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, free))
    _allow(seconds)


def _allow(seconds: int) -> None:
    used = resource.getrusage(resource.RUSAGE_SELF)
    limit = int(used.ru_utime + used.ru_stime) + 1 + seconds
    _limit(resource.RLIMIT_CPU, limit, resource.RLIM_INFINITY)


def _limit(kind: int, soft: int, hard: int) -> None:
    """Set a limit, or what the process inherited where that is lower: to raise it takes rights."""
    most = resource.getrlimit(kind)[1]
    if most != resource.RLIM_INFINITY:
        soft = min(soft, most)
        hard = most if hard == resource.RLIM_INFINITY else min(hard, most)
    resource.setrlimit(kind, (soft, hard))


_JOBS = {"read": read_model, "try": roll_out}


def _answer(request: dict[str, Any]) -> dict[str, Any]:
    try:
        return {"result": _JOBS[request["job"]](request)}
    except RefusalError as error:
        return {"error": str(error)}
    except MemoryError:
        return {"error": "needs too much memory"}
    except Exception as error:  # noqa: BLE001  # what strangers send must not end the process
        reason = " ".join(str(error).split())[:300]
        if "unknown exception" in reason:  # what the engine makes of a failed allocation
            reason = "it probably needs too much memory; check its sizes"
        if massless := _NO_MASS.search(reason):
            what = repr(massless[1]) if massless[1] else "a body without a name"
            return {
                "error": f"has no mass at {what}, which moves; give it an <inertial> element, a "
                f"small one where it only chains joints"
            }
        return {"error": f"is refused by MuJoCo ({reason})"}


def _send(stream: BinaryIO, answer: dict[str, Any]) -> None:
    try:
        line = json.dumps(answer, allow_nan=False)
    except ValueError:
        line = json.dumps(
            {"error": "has a number that is not finite (inf or nan); replace it by a finite one"}
        )
    stream.write(line.encode() + b"\n")
    stream.flush()


def main() -> None:
    """Answer requests until the input ends."""
    # Whatever the engine prints goes to the error stream, not between the answers.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    seconds = int(sys.argv[1])
    if "--meshes" in sys.argv:
        load_packages()
    model = compile_mjcf(_WARM_UP)
    mujoco.mj_step(model, mujoco.MjData(model))
    ET.fromstring("<a/>")
    np.random.default_rng(0)  # numpy loads this late
    mujoco.set_mju_user_warning(lambda message: None)
    _lock(seconds)
    _send(answers, {"result": "ready"})
    for line in sys.stdin.buffer:
        _allow(seconds)
        _send(answers, _answer(json.loads(line)))


if __name__ == "__main__":
    main()
