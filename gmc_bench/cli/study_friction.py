"""The friction study: what its protocols measure on a policy."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from tqdm import tqdm

from gmc_bench.bodies.sets import load_morphologies
from gmc_bench.core.errors import ConfigError
from gmc_bench.evaluation.friction import (
    EPISODE_SECONDS,
    control_steps,
    friction_size,
    measure_friction,
)
from gmc_bench.evaluation.friction_metrics import READINGS, macro_average
from gmc_bench.evaluation.friction_options import FrictionOptions
from gmc_bench.experiments.scoring import evaluation_seed
from gmc_bench.experiments.session import Session
from gmc_bench.policies.policy import Policy
from gmc_bench.robots.bodies import BUILT_IN, RobotBody
from gmc_bench.robots.friction import FRICTION_PAIRS
from gmc_bench.robots.menagerie import bodies_from
from gmc_bench.tasks import TASKS
from gmc_bench.tasks.velocity import VelocityTask
from gmc_bench.training.run_config import RunConfig


def friction_setting(config: RunConfig, options: FrictionOptions) -> dict[str, Any]:
    """Return how the policy of a run is measured: protocol, size, rules and robots.

    Raises:
        ConfigError: the run is not about quadrupeds, its protocol measures no friction, or robots
            cannot be had from where they are to come from.
        MorphologyError: a robot's file does not fit.
    """
    task = TASKS.get(config.task)
    if not isinstance(task, VelocityTask):
        raise ConfigError(
            f"the study 'friction' is about quadrupeds, got the task {task.id}; leave out --suite, "
            f"or use --suite quadruped-friction"
        )
    name = config.protocol.name
    bodies: Any = load_morphologies(config.morphologies).split("train")
    return {
        "protocol": name,
        **asdict(friction_size(name)),
        "episode_seconds": EPISODE_SECONDS,
        "rule": options.rule or task.friction_rule,
        "heading": options.heading,
        "robots": _robots(bodies_from(options.robots, bodies)),
    }


def _robots(bodies: Sequence[RobotBody]) -> str | dict[str, str]:
    """Return whose bodies are simulated; of files, also their content."""
    if all(body.origin == BUILT_IN for body in bodies):
        return BUILT_IN
    return {body.name: f"{body.origin}, digest {body.digest[:12]}" for body in bodies}


def measure(session: Session, policy: Policy, options: FrictionOptions) -> dict[str, Any]:
    """Return what a policy does on every robot and friction.

    Returns:
        `setting`; `macro`, by friction and reading; `results`, per robot and friction, see
        `friction_metrics.make_result`.

    Raises:
        ConfigError: see `friction_setting`.
    """
    import torch

    config, setting = session.config, friction_setting(session.config, options)
    size = friction_size(config.protocol.name)
    task = session.task
    assert isinstance(task, VelocityTask)
    trained: Any = session.bodies.split("train")
    bodies = bodies_from(options.robots, trained)
    # The last bits of a network's output depend on it.
    torch.set_num_threads(config.threads)
    steps = control_steps(task, size.seconds)
    total = steps * size.num_envs * len(bodies) * len(FRICTION_PAIRS)
    with tqdm(total=total, unit="step", unit_scale=True, desc="frictions") as bar:
        results = measure_friction(
            policy,
            task,
            bodies,
            pairs=FRICTION_PAIRS,
            rule=setting["rule"],
            heading=options.heading,
            forward=size.forward,
            seconds=size.seconds,
            num_envs=size.num_envs,
            seed=evaluation_seed(config.seed, "train", "friction"),
            num_threads=config.threads,
            on_progress=lambda done: _advance(bar, done),
        )
    macro = {
        name: {reading: macro_average(results, name, reading) for reading in READINGS}
        for name in FRICTION_PAIRS
    }
    return {"setting": setting, "macro": macro, "results": results}


def _advance(bar: Any, done: int) -> None:
    bar.update(done)
