"""Rules of a suite as they hold for one method on one task."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from gmc_bench.bodies.schema import MorphologySet
from gmc_bench.core.config import config_digest, look_up, nest, to_dict, with_overrides
from gmc_bench.core.errors import ConfigError
from gmc_bench.methods.spec import MethodSpec, require_training
from gmc_bench.methods.tuning import in_range, tuning_key
from gmc_bench.records.parts import TrialResult, TunedSettings
from gmc_bench.suites.protocol import Protocol
from gmc_bench.suites.schema import Suite
from gmc_bench.tasks import Task
from gmc_bench.tokens.config import TokenConfig
from gmc_bench.tokens.spec import TokenSpec

MIN_TRANSITIONS = 256
"""Transitions of a body per iteration, at least: fewer say too little about its advantages."""


def with_method_training(
    protocol: Protocol,
    method: MethodSpec,
    task: str | None = None,
    suite: Suite | None = None,
) -> Protocol:
    """Return a suite's protocol with what a method brings along.

    That is the threshold of the KL stop of its paper and, once it was tuned, its tuned values.

    Args:
        protocol: as it is on the task.
        method: the controller.
        task: full id, for what holds on single tasks; `None` leaves that out.
        suite: whose protocol it is; `None` gives the rules before tuning.

    Raises:
        PluginError: the method would change another rule.
    """
    require_training(method)
    protocol = with_overrides(protocol, method.training)
    if task is not None and task in method.task_target_kl:
        protocol = with_overrides(protocol, {"ppo": {"target_kl": method.task_target_kl[task]}})
    if task is None or suite is None:
        return protocol
    tuned = tuned_settings(method, suite, task, protocol.name)
    return with_overrides(protocol, nest(_of_group(tuned, "ppo.", "ppo.")))


def tuned_settings(
    method: MethodSpec, suite: Suite, task: str, protocol: str
) -> Mapping[str, float]:
    """Return the method's tuned values for a task and protocol, by dotted name."""
    return method.tuned.get(tuning_key(suite.id, task, protocol), {})


def tuning_of_run(
    method: MethodSpec,
    suite: Suite,
    task: str,
    protocol: Protocol,
    method_config: Mapping[str, Any],
) -> TunedSettings | None:
    """Return the method's tuned values, with its trials, if a run has them.

    Args:
        method: the controller.
        suite: of the run.
        task: full id.
        protocol: the run's rules.
        method_config: the run's settings of the method, as its record has them.
    """
    tuned = tuned_settings(method, suite, task, protocol.name)
    if not tuned or unlike_tuning(tuned, to_dict(protocol), method_config):
        return None
    found = method.trials().get(tuning_key(suite.id, task, protocol.name), {})
    bodies = found.get("bodies", {})
    return TunedSettings(
        settings={name: float(value) for name, value in tuned.items()},
        morphologies=bodies.get("id"),
        morphologies_digest=bodies.get("digest"),
        env_steps=found.get("env_steps"),
        trials=tuple(
            TrialResult(settings=trial["settings"], returns=trial["returns"])
            for trial in found.get("trials", ())
        ),
    )


def unlike_tuning(
    tuned: Mapping[str, float], protocol: Mapping[str, Any], method_config: Mapping[str, Any]
) -> dict[str, Any]:
    """Return what a run has instead of tuned values, by dotted name; nothing if it has them all."""
    content = {**protocol, "model": method_config}
    found = {name: look_up(content, name) for name in tuned}
    return {name: value for name, value in found.items() if value != tuned[name]}


def with_tuned_settings(
    settings: Any, method: MethodSpec, suite: Suite, task: str, protocol: str
) -> Any:
    """Return a method's settings in the protocol's preset with its tuned values."""
    tuned = tuned_settings(method, suite, task, protocol)
    return with_overrides(settings, nest(_of_group(tuned, "model.", "")))


def _of_group(settings: Mapping[str, Any], group: str, instead: str) -> dict[str, Any]:
    """Return the settings whose names begin with a group, by names that begin otherwise."""
    return {
        instead + name.removeprefix(group): value
        for name, value in settings.items()
        if name.startswith(group)
    }


def with_task_decoder(settings: Any, method: MethodSpec, suite: Suite, task: str) -> Any:
    """Return a method's settings with the decoder that a suite has on a task.

    Methods without a decoder per limb, and settings with a hidden layer of their own, stay as
    they are.
    """
    hidden = suite.rules(task).decoder_hidden
    if method.capabilities.per_body or getattr(settings, "decoder_hidden", None) != ():
        return settings
    return replace(settings, decoder_hidden=hidden)


def with_method_budget(
    protocol: Protocol, method: MethodSpec, suite: Suite, num_train: int
) -> Protocol:
    """Return a protocol as it is for a method that has a budget for every body.

    Args:
        protocol: of the suite, for one policy of all bodies.
        method: the controller; only one with separate weights per body, or with
            `MethodSpec.env_steps_per_body`, has other rules.
        suite: says how specialists are trained.
        num_train: M, bodies to train on.
    """
    rules = suite.specialists.get(protocol.name)
    if method.capabilities.per_body and rules is not None:
        protocol = rules.on(protocol, num_train)
    if method.env_steps_per_body is None:
        return protocol
    return replace(protocol, env_steps=method.env_steps_per_body * num_train)


def protocol_digest(protocol: Protocol, method: MethodSpec, suite: Suite, task: str) -> str:
    """Return the hash of the rules of a run on a task, given by its full id.

    What a method may tune does not make other rules: where the run has the threshold of the KL stop
    that the method brings along, or its tuned values within the ranges of all methods, the suite's
    own values are hashed. Nor does the training of a specialist as the suite has it: it is a
    reference in the table of that protocol.
    """
    if protocol.name not in suite.protocols:
        return config_digest(protocol)
    shared = suite.protocol(protocol.name, task)
    if method.capabilities.per_body and _is_specialist(protocol, method, suite, task):
        return config_digest(replace(shared, preset=protocol.preset))
    tuned = in_range(tuned_settings(method, suite, task, protocol.name))
    allowed = {name: [value] for name, value in _of_group(tuned, "ppo.", "").items()}
    if (paper := with_method_training(shared, method, task)) != shared:
        allowed.setdefault("target_kl", []).append(paper.ppo.target_kl)
    brought = {
        name: getattr(shared.ppo, name)
        for name, values in allowed.items()
        if getattr(protocol.ppo, name) in values
    }
    return config_digest(replace(protocol, ppo=replace(protocol.ppo, **brought)))


def _is_specialist(run: Protocol, method: MethodSpec, suite: Suite, task: str) -> bool:
    """Say whether a run follows a suite's rules for specialists, on any number of bodies."""
    rules = suite.specialists.get(run.name)
    steps = method.env_steps_per_body or (rules.env_steps if rules else run.env_steps)
    bodies = max(1, run.env_steps // steps)
    own = with_method_training(suite.protocol(run.name, task), method, task, suite)
    own = with_method_budget(own, method, suite, bodies)
    return run == replace(own, preset=run.preset)


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
    own with an equal share of steps and environments (see also `with_method_budget`): S / M steps
    in E = max(1, N / M) environments, rounded down. Its rollout has the protocol's length, or as
    much more as `MIN_TRANSITIONS` need, or as much less as there are steps. An iteration's
    transitions are cut into as many minibatches as the protocol's, so that bodies take as many
    gradient steps per iteration. Everything else stays.

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
