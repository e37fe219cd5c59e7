"""Shares of training time."""

from functools import partial

from gmc_bench.core.config import to_dict
from gmc_bench.methods.spec import MethodSpec
from gmc_bench.profiling.report import Report, figure_table
from gmc_bench.profiling.setting import Setting
from gmc_bench.profiling.timing import side, take_turns
from gmc_bench.suites.method_rules import with_method_training, with_task_decoder
from gmc_bench.suites.protocol import Protocol
from gmc_bench.training.run_config import RunConfig
from gmc_bench.training.trainer import Trainer, make_trainer

PARTS = ("simulation", "policy", "update")
"""What training spends its time on."""


def profile_training(setting: Setting) -> Report:
    """Train for a while and split the time.

    The network is that of a run on the task. The first iteration, which compiles and warms up, is
    not counted.

    Returns:
        `env_steps_per_s`, the share of the total spent in simulation, policy, update and other
        as `ratio_..._to_total`, what each means, and the setting.
    """
    method = setting.methods[0]
    protocol = with_method_training(setting.protocol, method, setting.task.id, setting.suite)
    trainer = trainer_of(setting, method, protocol)
    sides = {"train": side(trainer.iterate, protocol.steps_per_iteration)}
    counters = {"train": partial(parts_of, trainer)}
    turns = take_turns(sides, 3 * setting.seconds, counters=counters)["train"]
    shares = {name: turns.share(name) for name in PARTS}
    shares["other"] = 1.0 - sum(shares.values())
    figures = {
        "env_steps_per_s": turns.mean_rate,
        **{f"ratio_{name}_to_total": share for name, share in shares.items()},
    }
    explained = {
        "env_steps_per_s": f"{method.id}, protocol {protocol.name}",
        **{f"ratio_{name}_to_total": f"share of time in {name}" for name in PARTS},
        "ratio_other_to_total": "outside simulation, policy and update",
    }
    return setting.report(
        "train",
        [figure_table(figures, explained)],
        {**figures, "explained": explained, "setting": {"num_envs": protocol.num_envs}},
    )


def parts_of(trainer: Trainer) -> dict[str, float]:
    """Return the seconds that a trainer has spent on each of `PARTS` so far."""
    return {name: float(getattr(trainer.timers, name)) for name in PARTS}


def trainer_of(setting: Setting, method: MethodSpec, protocol: Protocol) -> Trainer:
    """Return a method's training on the bodies of a setting, as a run has it, under a protocol."""
    task, suite = setting.task, setting.suite
    settings = method.make_config(setting.preset(method))
    config = RunConfig(
        method=method.id,
        method_config=to_dict(with_task_decoder(settings, method, suite, task.id)),
        suite=suite.id,
        task=task.id,
        morphologies=setting.bodies_id,
        morphologies_digest=setting.bodies_digest,
        protocol=protocol,
        seed=0,
        threads=setting.num_threads,
    )
    return make_trainer(config, method, task, tuple(setting.bodies), setting.spec)
