"""Profile of a training run: seconds by purpose."""

import contextlib
import tempfile
from dataclasses import replace
from pathlib import Path

from gmc_bench.core.config import to_dict
from gmc_bench.profiling.report import Report, figure_table
from gmc_bench.profiling.setting import Setting
from gmc_bench.training.independent_trainer import make_trainer
from gmc_bench.training.run_config import RunConfig
from gmc_bench.training.run_folder import RunFolder


class _Enough(Exception):  # noqa: N818 - not an error, it ends a measurement
    pass


def profile_training(setting: Setting) -> Report:
    """Train for a while and split the time.

    The first iteration, which compiles and warms up, is not counted.

    Returns:
        `env_steps_per_s`, the share of the total spent in simulation, policy, update and other
        as `ratio_..._to_total`, what each means, and the setting.
    """
    method = setting.methods[0]
    config = RunConfig(
        method=method.id,
        method_config=to_dict(method.make_config(setting.protocol.preset)),
        suite="",
        task=setting.task.id,
        morphologies=setting.bodies_id,
        morphologies_digest=setting.bodies_digest,
        protocol=setting.protocol,
        seed=0,
        threads=setting.num_threads,
    )
    with (
        tempfile.TemporaryDirectory() as temporary,
        RunFolder(Path(temporary) / "run", create=True) as folder,
    ):
        trainer = make_trainer(
            config, method, setting.task, tuple(setting.bodies), setting.spec, folder
        )
        first = replace(trainer.timers)
        steps = 0

        def advance(_: object) -> None:
            nonlocal first, steps
            if trainer.iteration == 1:
                first, steps = replace(trainer.timers), trainer.env_steps
            elif trainer.timers.total - first.total >= 3 * setting.seconds:
                raise _Enough

        with contextlib.suppress(_Enough):
            trainer.train(advance)
    last = trainer.timers
    total = last.total - first.total
    parts = {
        name: (getattr(last, name) - getattr(first, name)) / total
        for name in ("simulation", "policy", "update")
    }
    parts["other"] = 1.0 - sum(parts.values())
    explained = {
        "env_steps_per_s": f"{method.id}, protocol {setting.protocol.name}",
        **{f"ratio_{name}_to_total": f"share of time in {name}" for name in parts},
        "ratio_other_to_total": "outside simulation, policy and update",
    }
    figures = {
        "env_steps_per_s": (trainer.env_steps - steps) / total,
        **{f"ratio_{name}_to_total": share for name, share in parts.items()},
    }
    return setting.report(
        "train",
        [figure_table(figures, explained)],
        {**figures, "explained": explained, "setting": {"num_envs": setting.protocol.num_envs}},
    )
