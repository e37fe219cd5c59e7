"""Steps EnvPool's Ant-v5 whenever a line arrives; run by `benchmarks.ant_envpool`.

It imports nothing of this repository, so that EnvPool may live in an environment of its own:

    python3 -m venv /tmp/envpool && /tmp/envpool/bin/pip install envpool
    python -m benchmarks.ant_envpool --envpool-python /tmp/envpool/bin/python

The first line of output is `{"version": ...}` or `{"error": ...}`; then every line of input is
answered by `[seconds, transitions]` of one block of steps.
"""

import argparse
import json
import sys
import time
from typing import Any


def main() -> None:
    """Serve blocks until the input ends."""
    parser = argparse.ArgumentParser()
    for name in ("num-envs", "threads", "steps"):
        parser.add_argument(f"--{name}", type=int, required=True)
    options = parser.parse_args()
    try:
        import envpool  # type: ignore[import-not-found, unused-ignore]
        import numpy as np
    except ImportError as error:
        _answer({"error": str(error)})
        return
    envs = envpool.make(
        "Ant-v5",
        env_type="gymnasium",
        num_envs=options.num_envs,
        num_threads=options.threads,
        seed=0,
    )
    envs.reset()
    random = np.random.default_rng(0)
    actions = random.uniform(-1.0, 1.0, (options.steps, options.num_envs, 8))
    _answer({"version": envpool.__version__})
    resetting = np.zeros(options.num_envs, np.bool_)
    for _ in sys.stdin:
        transitions = 0
        started = time.perf_counter()
        for action in actions:
            _, _, terminated, truncated, _ = envs.step(action)
            # EnvPool resets in the step after an episode's end, which is no transition.
            transitions += options.num_envs - int(resetting.sum())
            resetting = terminated | truncated
        _answer([time.perf_counter() - started, transitions])


def _answer(content: Any) -> None:
    print(json.dumps(content), flush=True)


if __name__ == "__main__":
    main()
