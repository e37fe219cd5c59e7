"""Let MuJoCo work on untrusted models in a process of its own, with limits.

A file that crashes the engine, runs for ever or needs all memory ends that process and not this
one. The process cannot open files; what it may read is sent to it.
"""

import base64
import json
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from threading import Timer
from typing import Any, Self

from gmc_bench.bodies.mesh_formats import needs_conversion
from gmc_bench.core.errors import MorphologyError

_PACKAGE = Path(__file__).parents[2]
_START_SECONDS = 60  # imports on a busy machine
_END_SECONDS = 1.0  # from the end of the output to that of the process
_MAX_ANSWER = 1 << 25  # bytes
_LIBRARIES = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
_MAX_JOBS = 500
"""Requests after which a process is replaced, in case the engine keeps memory."""


def _libraries() -> dict[str, str]:
    """Return where shared libraries are looked for: interpreters that come as modules need it.

    Only absolute places: others, and empty ones, mean the working folder, which anybody can write
    to here. Linux separates them by semicolons, too.
    """
    found = {}
    for name in _LIBRARIES:
        places = filter(os.path.isabs, re.split("[:;]", os.environ.get(name, "")))
        if value := os.pathsep.join(places):
            found[name] = value
    return found


class FlawError(MorphologyError):
    """A robot cannot be used; the message goes on after the robot's name."""


class Sandbox:
    """A worker process that is started when it is needed and replaced when it dies.

    Args:
        seconds: of processor time that one request may take; of wall-clock time, four times as
            many.
    """

    def __init__(self, seconds: int = 20) -> None:
        self._seconds = seconds
        self._process: subprocess.Popen[bytes] | None = None
        self._jobs = 0
        self._turns_meshes = False

    def read(
        self,
        text: str,
        files: Mapping[str, bytes],
        *,
        keyframe: str | None = None,
        urdf: bool = False,
    ) -> dict[str, Any]:
        """Compile a model and describe it in numbers.

        Args:
            text: MJCF or URDF.
            files: what it refers to, by the name under which the engine looks for it, or, of meshes
                that are converted first, whose `stl_name` it looks for.
            urdf: the text is URDF; a link with two parents then closes a loop.
            keyframe: the start pose; None takes `home` where there is one, or else, as `none`
                does, the pose in which the model is written.

        Returns:
            What `worker.py` collects: world coordinates in the start pose, SI units.

        Raises:
            FlawError: the engine refuses the model, crashes, or does not answer in time.
        """
        try:
            turns = any([needs_conversion(*file) for file in files.items()])
        except ValueError as error:
            raise FlawError(str(error)) from error
        if turns and not self._turns_meshes:
            self.close()
            self._turns_meshes = True
        encoded = {name: base64.b64encode(data).decode() for name, data in files.items()}
        return self._ask(
            {"job": "read", "text": text, "files": encoded, "keyframe": keyframe, "urdf": urdf}
        )

    def roll_out(self, text: str, *, steps: int, seed: int) -> dict[str, Any]:
        """Simulate a complete model under random control.

        Args:
            text: what `emit_mjcf` writes, with a floor as the first geom at a height of 1 m.
            steps: engine steps.
            seed: of the controls.

        Returns:
            `time` s, `warnings`, `height` and `lowest` of the torso above the floor m, highest
            `speeds` of the joints by name, rad/s or m/s, `touching` pairs in the start pose,
            whether it `landed`, and the widest `opening` of a loop m.

        Raises:
            FlawError: as in `read`.
        """
        return self._ask({"job": "try", "text": text, "steps": steps, "seed": seed})

    def close(self) -> None:
        """End the process; a later request starts another."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            for stream in (self._process.stdin, self._process.stdout):
                with suppress(OSError):  # what was not sent is lost
                    stream.close() if stream else None
        self._process = None

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close the process."""
        self.close()

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        limited = resource.getrlimit(resource.RLIMIT_CPU)[1] != resource.RLIM_INFINITY
        answer, slow, killed = self._send(request)
        if killed and limited and self._jobs:
            # Requests before it may have used up what one process has.
            answer, slow, killed = self._send(request)
        if answer is None:
            shorter = ", or try it for fewer --seconds" if request["job"] == "try" else ""
            if slow:
                problem = (
                    f"takes longer than {self._seconds} s to compile or simulate; make it smaller"
                    f"{shorter}"
                )
            elif killed and limited:
                problem = (
                    f"takes more than the processor time allowed here (ulimit -t), or more memory "
                    f"than there is; make it smaller{shorter}"
                )
            else:
                problem = "makes MuJoCo crash or run out of memory; check its numbers and sizes"
            raise FlawError(problem)
        self._jobs += 1
        if self._jobs >= _MAX_JOBS:
            self.close()
        if "error" in answer:
            raise FlawError(str(answer["error"]))
        result: dict[str, Any] = answer["result"]
        return result

    def _send(self, request: dict[str, Any]) -> tuple[dict[str, Any] | None, bool, bool]:
        """Return the answer, whether it took too long, and whether the process was killed."""
        process = self._process or self._start()
        deadline = time.monotonic() + 4 * self._seconds
        answer = self._exchange(process, json.dumps(request).encode(), deadline)
        if answer is not None:
            return answer, False, False
        slow = time.monotonic() >= deadline or process.returncode == -signal.SIGXCPU
        return None, slow, process.returncode == -signal.SIGKILL and not slow

    def _start(self) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [
                *(sys.executable, "-P", "-m", "gmc_bench.bodies.worker", str(self._seconds)),
                *(["--meshes"] if self._turns_meshes else []),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=tempfile.gettempdir(),  # relative names lead nowhere near the user's files
            env={
                "PATH": os.defpath,
                "PYTHONPATH": str(_PACKAGE),
                "OMP_NUM_THREADS": "1",
                "OPENBLAS_NUM_THREADS": "1",
                **_libraries(),
            },
            start_new_session=True,
        )
        self._process, self._jobs = process, 0
        if self._exchange(process, b"", time.monotonic() + _START_SECONDS) is None:
            raise FlawError(
                f"cannot be read, because the process that reads models does not start "
                f"(it ended with {process.returncode})"
            )
        return process

    def _exchange(
        self, process: subprocess.Popen[bytes], line: bytes, deadline: float
    ) -> dict[str, Any] | None:
        """Send a line, if there is one, and return the answer; None where the process ended."""
        assert process.stdin is not None
        assert process.stdout is not None
        # Ends what blocks, be it that the process does not answer or that it does not listen.
        timer = Timer(deadline - time.monotonic(), process.kill)
        timer.start()
        try:
            process.stdin.write(line + b"\n" if line else b"")
            process.stdin.flush()
            answer: dict[str, Any] = json.loads(process.stdout.readline(_MAX_ANSWER))
        except (OSError, ValueError, RecursionError):
            # A process that is about to end has a reason of its own, which a kill would hide.
            with suppress(subprocess.TimeoutExpired):
                process.wait(_END_SECONDS)
            self.close()
            return None
        finally:
            timer.cancel()
        return answer
