"""Rules of a suite as they hold for one method on one task."""

from dataclasses import replace
from typing import Any

from gmc_bench.bodies.schema import MorphologySet
from gmc_bench.core.config import config_digest, with_overrides
from gmc_bench.core.errors import ConfigError
from gmc_bench.methods.spec import MethodSpec, require_training
from gmc_bench.suites.protocol import Protocol
from gmc_bench.suites.schema import Suite
from gmc_bench.tasks import Task
from gmc_bench.tokens.config import TokenConfig
from gmc_bench.tokens.spec import TokenSpec

MIN_TRANSITIONS = 256
"""Transitions of a body per iteration, at least: fewer say too little about its advantages."""


def with_method_training(
    protocol: Protocol, method: MethodSpec, task: str | None = None
) -> Protocol:
    """Return a suite's protocol with the threshold of the KL stop that a method brings along.

    Args:
        protocol: as it is on the task.
        method: the controller.
        task: full id, for thresholds of single tasks; `None` leaves those out.

    Raises:
        PluginError: the method would change another rule.
    """
    require_training(method)
    protocol = with_overrides(protocol, method.training)
    if task is not None and task in method.task_target_kl:
        return with_overrides(protocol, {"ppo": {"target_kl": method.task_target_kl[task]}})
    return protocol


def with_task_decoder(settings: Any, method: MethodSpec, suite: Suite, task: str) -> Any:
    """Return a method's settings with the decoder that a suite has on a task.

    Methods without a decoder per limb, and settings with a hidden layer of their own, stay as
    they are.
    """
    hidden = suite.rules(task).decoder_hidden
    if method.capabilities.per_body or getattr(settings, "decoder_hidden", None) != ():
        return settings
    return replace(settings, decoder_hidden=hidden)


def with_method_budget(protocol: Protocol, method: MethodSpec, num_train: int) -> Protocol:
    """Return a protocol with the env steps of a reference that has a budget for every body."""
    if method.env_steps_per_body is None:
        return protocol
    return replace(protocol, env_steps=method.env_steps_per_body * num_train)


def protocol_digest(protocol: Protocol, method: MethodSpec, suite: Suite, task: str) -> str:
    """Return the hash of the rules of a run on a task, given by its full id.

    The threshold of the KL stop that a method brings along does not make other rules: where the
    run has it, the suite's own threshold is hashed.
    """
    brings = bool(method.training) or task in method.task_target_kl
    brought = brings and with_method_training(protocol, method, task) == protocol
    if brought and protocol.name in suite.protocols:
        shared = suite.protocol(protocol.name, task).ppo.target_kl
        protocol = replace(protocol, ppo=replace(protocol.ppo, target_kl=shared))
    return config_digest(protocol)


def token_spec(
    suite: Suite, bodies: MorphologySet, task: Task, tokens: TokenConfig | None = None
) -> TokenSpec:
    """Return the token layout of a suite's task on a body set; train and test share it."""
    tokens = tokens or TokenConfig()
    return task.token_spec(
        max(suite.min_token_slots, bodies.max_limbs),
        bodies.joints_per_limb,
        without=tokens.without,
        loops=suite.marks_loops,
        tree=tokens.tree,
    )


def training_rules(protocol: Protocol, num_bodies: int, *, per_body: bool) -> Protocol:
    """Return the rules that a run follows.

    With one policy of all bodies they are the protocol's. Otherwise every body is trained on its
    own with an equal share of steps and environments: S / M steps in E = max(1, N / M)
    environments, rounded down. Its rollout has the protocol's length, or as much more as
    `MIN_TRANSITIONS` need, or as much less as there are steps. An iteration's transitions are cut
    into as many minibatches as the protocol's, so that bodies take as many gradient steps per
    iteration. Everything else stays.

    Args:
        protocol: rules for one policy of all bodies.
        num_bodies: M, bodies to train on.
        per_body: the method has separate weights per body.

    Returns:
        `env_steps`, `num_envs` and `rollout_length` of all bodies together; `ppo.batch_size` of
        one policy.

    Raises:
        ConfigError: there are fewer than two steps for each of the environments.
    """
    if not per_body:
        return protocol
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
    """Return the control steps of a whole run over all environments, see `training_rules`."""
    rules = training_rules(protocol, num_bodies, per_body=per_body)
    return rules.num_iterations * rules.steps_per_iteration
