"""The friction study: what its protocols measure on a policy."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from tqdm import tqdm

from gmc_bench.cli.session import Session, evaluation_seed
from gmc_bench.envs.normalization import TokenNormalizer
from gmc_bench.errors import ConfigError
from gmc_bench.evaluation.friction import (
    EPISODE_SECONDS,
    control_steps,
    friction_size,
    measure_friction,
)
from gmc_bench.evaluation.friction_metrics import READINGS, macro_average
from gmc_bench.methods.policy import ActorCritic
from gmc_bench.robots.friction import FRICTION_PAIRS
from gmc_bench.tasks import TASKS
from gmc_bench.tasks.velocity import VelocityTask
from gmc_bench.training.run_config import RunConfig


def friction_setting(config: RunConfig) -> dict[str, Any]:
    """Return how the policy of a run is measured: protocol, size and friction rule.

    Raises:
        ConfigError: the run is not about quadrupeds, or its protocol measures no friction.
    """
    task = TASKS.get(config.task)
    if not isinstance(task, VelocityTask):
        raise ConfigError(
            f"the study 'friction' is about quadrupeds, got the task {task.id}; leave out --suite, "
            f"or use --suite quadruped-friction"
        )
    name = config.protocol.name
    return {
        "protocol": name,
        **asdict(friction_size(name)),
        "episode_seconds": EPISODE_SECONDS,
        "rule": task.friction_rule,
    }


def measure(
    session: Session, model: ActorCritic, normalizer: TokenNormalizer, _: Path
) -> dict[str, Any]:
    """Return what a policy does on every robot and friction.

    Returns:
        `setting`; `macro`, by friction and reading; `results`, per robot and friction, see
        `friction_metrics.make_result`.

    Raises:
        ConfigError: see `friction_setting`.
    """
    import torch

    config, setting = session.config, friction_setting(session.config)
    size = friction_size(config.protocol.name)
    task = session.task
    assert isinstance(task, VelocityTask)
    bodies: Any = session.bodies.split("train")
    # The last bits of a network's output depend on it.
    torch.set_num_threads(config.threads)
    steps = control_steps(task, size.seconds)
    total = steps * size.num_envs * len(bodies) * len(FRICTION_PAIRS)
    with tqdm(total=total, unit="step", unit_scale=True, desc="frictions") as bar:
        results = measure_friction(
            model,
            normalizer,
            task,
            bodies,
            pairs=FRICTION_PAIRS,
            rule=task.friction_rule,
            forward=size.forward,
            seconds=size.seconds,
            num_envs=size.num_envs,
            seed=evaluation_seed(config.seed, "train", "friction"),
            order=config.tokens.test_order,
            num_threads=config.threads,
            device=config.device,
            on_progress=lambda done: _advance(bar, done),
        )
    macro = {
        name: {reading: macro_average(results, name, reading) for reading in READINGS}
        for name in FRICTION_PAIRS
    }
    return {"setting": setting, "macro": macro, "results": results}


def _advance(bar: Any, done: int) -> None:
    bar.update(done)
