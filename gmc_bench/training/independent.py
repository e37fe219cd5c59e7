"""The rules by which separate bodies are trained, each as if it were alone."""

from dataclasses import replace

from gmc_bench.core.errors import ConfigError
from gmc_bench.suites.protocol import Protocol

MIN_TRANSITIONS = 256
"""Transitions of a body per iteration, at least: fewer say too little about its advantages."""


def independent_protocol(protocol: Protocol, num_bodies: int) -> Protocol:
    """Return the rules by which every body is trained on its own.

    The body gets an equal share of steps and environments: S / M steps in E = max(1, N / M)
    environments, rounded down. Its rollout has the protocol's length, or as much more as
    `MIN_TRANSITIONS` need, or as much less as there are steps. An iteration's transitions are cut
    into as many minibatches as the protocol's, so that bodies take as many gradient steps per
    iteration. Everything else stays.

    Args:
        protocol: rules for one policy of all bodies.
        num_bodies: M.

    Returns:
        `env_steps`, `num_envs` and `rollout_length` of all bodies together; `ppo.batch_size` of
        one body.

    Raises:
        ConfigError: there are fewer than two steps for each of the environments.
    """
    steps = protocol.env_steps // num_bodies
    envs = max(1, protocol.num_envs // num_bodies)
    if steps < 2 * envs:
        raise ConfigError(
            f"'env_steps' is {protocol.env_steps}, less than two steps in each of {envs} "
            f"environments of {num_bodies} separate bodies; raise it to at least "
            f"{2 * envs * num_bodies}"
        )
    length = max(protocol.rollout_length, -(-MIN_TRANSITIONS // envs))
    length = min(length, steps // envs)
    minibatches = -(-protocol.steps_per_iteration // protocol.ppo.batch_size)
    return replace(
        protocol,
        env_steps=steps * num_bodies,
        num_envs=envs * num_bodies,
        rollout_length=length,
        ppo=replace(protocol.ppo, batch_size=max(2, envs * length // minibatches)),
    )


def planned_steps(protocol: Protocol, num_bodies: int, *, per_body: bool) -> int:
    """Return the control steps of a whole run, over all environments.

    Args:
        protocol: rules of the run.
        num_bodies: M, bodies to train on.
        per_body: the method has separate weights per body.

    Raises:
        ConfigError: see `independent_protocol`.
    """
    rules = independent_protocol(protocol, num_bodies) if per_body else protocol
    return rules.num_iterations * rules.steps_per_iteration
