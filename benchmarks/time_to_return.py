"""Core seconds of training until a return is reached: new rules, earlier rules, plain code.

python -m benchmarks.time_to_return --morphologies unimals_100 --env-steps 10000000 --out FOLDER

Three contenders train RecMorph `lite` on flat terrain on one thread: gmc-bench under the rules
`lite` of today, gmc-bench under those of before, and the plain implementation (see
`plain_training`) under those of before. Each runs in processes of its own, one contender after
the other, until its training return has reached every target, its schedule is over or its budget
is spent. Time is processor time of the whole process tree, not wall-clock time, so that a busy
machine matters less (it still slows caches and clocks): seconds of one core.

A folder is continued where it was stopped; the plain implementation has no checkpoints and starts
again. Nothing but the training return is looked at: bodies of test splits take no part.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any
from typing import Protocol as Interface

from benchmarks.plain_training import PlainTraining
from benchmarks.script import add_bodies, count, duration, make_parser, run, show
from benchmarks.training import new_trainer, run_config
from gmc_bench.bodies.schema import MorphologySet
from gmc_bench.bodies.sets import load_morphologies
from gmc_bench.core.config import config_digest, to_dict
from gmc_bench.core.errors import ConfigError
from gmc_bench.core.table import Table
from gmc_bench.profiling.report import ROOT, Report, describe_machine
from gmc_bench.suites.method_rules import token_spec
from gmc_bench.suites.protocol import PPOConfig, Protocol
from gmc_bench.suites.unimal import SUITE
from gmc_bench.tasks.unimal_ft import TASK
from gmc_bench.training.checkpoint import Checkpoint, read_latest, write_checkpoint

BEFORE = Protocol(
    name="lite-before",
    preset="lite",
    env_steps=600_000,
    num_envs=64,
    rollout_length=32,
    ppo=PPOConfig(
        gamma=0.99, gae_lambda=0.95, eps_clip=0.2, value_clip=True, vf_coef=0.2, ent_coef=0.0,
        max_grad_norm=0.5, repeat=4, batch_size=512, lr=5e-4, adam_eps=1e-5, warmup_iterations=2,
        warmup_start=0.1, decay_start=0.0, target_kl=0.05, time_limit="bootstrap",
    ),
    action_std=0.9,
    sampling_alpha=1.0,
    sampling_warmup_iterations=40,
)  # fmt: skip
"""The rules `lite` until they were searched for; every rule is written out, defaults may move."""

CONTENDERS = {
    "new": "gmc-bench, the rules `lite`",
    "before": "gmc-bench, the rules `lite` of before",
    "plain": "plain implementation, the rules `lite` of before",
}
"""What is compared, by name."""
METRES = 0.02
"""m per unit of return: the reward is the speed along x, m/s, and a control step takes 0.02 s."""
SAVE_EVERY = 60.0
"""Core seconds between checkpoints, and between lines of progress."""


@dataclass(frozen=True)
class Point:
    """What is known after an iteration."""

    core_s: float
    """Processor time of all iterations so far, s."""
    env_steps: int
    mean_return: float | None
    """Training return; `None` until every body has finished an episode."""


class Contender(Interface):
    """Training of one side, iteration by iteration."""

    @property
    def env_steps(self) -> int:
        """Control steps so far."""

    @property
    def env_steps_planned(self) -> int:
        """Control steps of the whole schedule."""

    @property
    def mean_return(self) -> float | None:
        """See `Point`."""

    def core_seconds(self) -> float:
        """Return the processor time of its processes so far, s."""

    def iterate(self) -> None:
        """Collect a rollout and learn from it."""

    def save(self) -> None:
        """Keep the state, if it can be kept."""

    def close(self) -> None:
        """End its processes."""


class Ours:
    """gmc-bench's training, with checkpoints."""

    def __init__(self, bodies: MorphologySet, protocol: Protocol, seed: int, folder: Path) -> None:
        config = run_config(bodies, protocol, seed=seed, threads=1)
        self._trainer = new_trainer(config, bodies)
        self._run, self._folder = config.run_digest, folder
        kept = read_latest(folder, self._run)
        if kept is not None:
            self._trainer.set_state(kept.state)

    def iterate(self) -> None:
        """Collect a rollout and learn from it."""
        self._trainer.iterate()

    @property
    def env_steps(self) -> int:
        """Control steps so far."""
        return self._trainer.env_steps

    @property
    def env_steps_planned(self) -> int:
        """Control steps of the whole schedule."""
        return self._trainer.env_steps_planned

    @property
    def mean_return(self) -> float | None:
        """See `Point`."""
        return self._trainer.tracker.mean_return(complete=True)

    def core_seconds(self) -> float:
        """Return the processor time of this process."""
        return time.process_time()

    def save(self) -> None:
        """Write a checkpoint."""
        state = self._trainer.get_state()
        write_checkpoint(self._folder, Checkpoint(self._run, self._trainer.iteration, state))

    def close(self) -> None:
        """There is nothing to end."""


class Plain:
    """The plain implementation; what it has learned ends with its processes."""

    def __init__(self, bodies: MorphologySet, protocol: Protocol, seed: int) -> None:
        spec, train = token_spec(SUITE, bodies, TASK), tuple(bodies.split("train"))
        self._training = PlainTraining(train, spec, protocol, seed=seed, threads=1)
        self._planned = protocol.num_iterations * protocol.steps_per_iteration
        self._bodies = len(train)

    def iterate(self) -> None:
        """Collect a rollout and learn from it."""
        self._training.iterate()

    def close(self) -> None:
        """End its processes."""
        self._training.close()

    @property
    def env_steps(self) -> int:
        """Control steps so far."""
        return self._training.env_steps

    @property
    def env_steps_planned(self) -> int:
        """Control steps of the whole schedule."""
        return self._planned

    @property
    def mean_return(self) -> float | None:
        """See `Point`."""
        episodes = self._training.episodes
        return episodes.mean_return() if len(episodes.last) == self._bodies else None

    def core_seconds(self) -> float:
        """Return the processor time of this process and of those of its environments."""
        workers = [process.pid for process in self._training.envs.processes]
        return time.process_time() + sum(seconds_of(pid) for pid in workers if pid is not None)

    def save(self) -> None:
        """Keep nothing."""


def seconds_of(process: int) -> float:
    """Return the processor time of a running process, s.

    Raises:
        ConfigError: this system does not tell.
    """
    try:
        after_name = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        raise ConfigError(
            "processor time of other processes is read from /proc, which this system does not "
            "have; leave out --contender plain"
        ) from None
    user, system = after_name[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


class Log:
    """The learning curve of a contender in a file, a line per iteration.

    Args:
        path: the file.
        setting: what decides the curve; the file of another one is refused.

    Raises:
        ConfigError: the file is of another setting.
    """

    def __init__(self, path: Path, setting: dict[str, Any]) -> None:
        self._path = path
        head = {"setting": config_digest(setting), **setting}
        self._head = f"{json.dumps(head)}\n"
        lines = path.read_text().splitlines() if path.is_file() else []
        if lines and json.loads(lines[0])["setting"] != head["setting"]:
            raise ConfigError(
                f"{path} was measured with another setting; choose another --out, or give the "
                f"options that it was begun with"
            )
        # A process that is killed while it writes leaves half a line.
        whole = [line for line in lines[1:] if line.endswith("}")]
        self.points = [Point(**json.loads(line)) for line in whole]

    def keep(self, env_steps: int) -> None:
        """Forget what came after a number of steps: it will happen again."""
        self.points = [point for point in self.points if point.env_steps <= env_steps]
        lines = (f"{json.dumps(asdict(point))}\n" for point in self.points)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.write_text("".join([self._head, *lines]))

    def add(self, point: Point) -> None:
        """Write a point."""
        self.points.append(point)
        with self._path.open("a") as file:
            file.write(f"{json.dumps(asdict(point))}\n")


def first_reached(points: Sequence[Point], target: float) -> Point | None:
    """Return the first point whose return is at least the target."""
    return next((p for p in points if p.mean_return is not None and p.mean_return >= target), None)


def is_over(points: Sequence[Point], targets: Sequence[float], budget: float, planned: int) -> bool:
    """Return whether nothing is left to do: targets reached, budget spent or schedule over."""
    if not points:
        return False
    return (
        all(first_reached(points, target) for target in targets)
        or points[-1].core_s >= budget
        or points[-1].env_steps >= planned
    )


def follow(
    contender: Contender, log: Log, targets: Sequence[float], budget: float
) -> Iterator[Point]:
    """Train until nothing is left to do, and yield a point about every `SAVE_EVERY` core seconds.

    Only iterations count: neither the start of processes nor checkpoints.

    Args:
        contender: where it was stopped, or at its start.
        log: of the same contender; points later than its state are dropped.
        targets: returns to reach.
        budget: core seconds.
    """
    log.keep(contender.env_steps)
    spent = saved = log.points[-1].core_s if log.points else 0.0
    while not is_over(log.points, targets, budget, contender.env_steps_planned):
        before = contender.core_seconds()
        contender.iterate()
        spent += contender.core_seconds() - before
        log.add(Point(spent, contender.env_steps, contender.mean_return))
        if spent - saved >= SAVE_EVERY:
            contender.save()
            saved = spent
            yield log.points[-1]
    contender.save()


def rules_of(name: str, env_steps: int | None) -> Protocol:
    """Return the rules of a contender, with a schedule of some length (default: their own)."""
    rules = SUITE.protocol("lite") if name == "new" else BEFORE
    return rules if env_steps is None else replace(rules, env_steps=env_steps)


def run_side(
    name: str,
    bodies: MorphologySet,
    protocol: Protocol,
    seed: int,
    targets: Sequence[float],
    budget: float,
    out: Path,
) -> list[Point]:
    """Run one contender in this process, from where its files end; return its curve."""
    log = open_log(name, bodies, protocol, seed, out)
    planned = protocol.num_iterations * protocol.steps_per_iteration
    if is_over(log.points, targets, budget, planned):
        return log.points
    contender: Contender = (
        Plain(bodies, protocol, seed)
        if name == "plain"
        else Ours(bodies, protocol, seed, out / f"{name}-checkpoints")
    )
    try:
        for point in follow(contender, log, targets, budget):
            shown = "-" if point.mean_return is None else f"{point.mean_return:.0f}"
            text = f"{name}: {point.core_s:,.0f} core s, {point.env_steps:,} steps, return {shown}"
            print(text, file=sys.stderr, flush=True)
    finally:
        contender.close()
    return log.points


def open_log(name: str, bodies: MorphologySet, protocol: Protocol, seed: int, out: Path) -> Log:
    """Return the curve of a contender, as far as there is one."""
    setting = {
        "contender": name,
        "protocol": to_dict(protocol),
        "morphologies": bodies.digest,
        "seed": seed,
    }
    return Log(out / f"{name}.jsonl", setting)


def report(
    curves: dict[str, list[Point]], targets: Sequence[float], budget: float, notes: Sequence[str]
) -> Report:
    """Return when each contender reached each return, and how much sooner than the others."""
    reached = {
        name: [first_reached(points, target) for target in targets]
        for name, points in curves.items()
    }
    headings = ["contender", "env steps", "core s", "last return"]
    headings += [f"core s to {target:,.0f} ({METRES * target:g} m)" for target in targets]
    rows = []
    for name, points in curves.items():
        last = points[-1]
        shown = "-" if last.mean_return is None else f"{last.mean_return:,.1f}"
        cells = ["not reached" if p is None else f"{p.core_s:,.0f}" for p in reached[name]]
        rows.append([CONTENDERS[name], f"{last.env_steps:,}", f"{last.core_s:,.0f}", shown, *cells])
    tables = [Table(headings, rows)]
    others = [name for name in curves if name != "new"]
    if "new" in curves and others:
        rows = [
            [f"{name} / new", *(_ratio(curves, reached, name, k) for k in range(len(targets)))]
            for name in others
        ]
        tables.append(Table(["core s", *headings[4:]], rows))
    figures = {
        name: {
            "core_s": points[-1].core_s,
            "env_steps": points[-1].env_steps,
            "last_return": points[-1].mean_return,
            "core_s_to": {
                f"{target:g}": None if p is None else p.core_s
                for target, p in zip(targets, reached[name], strict=True)
            },
        }
        for name, points in curves.items()
    }
    return Report(
        name="time_to_return",
        claim=f"Core seconds of training until a training return is reached, at most {budget:,.0f} "
        f"per contender; one run of each.",
        tables=tables,
        figures=figures,
        machine=describe_machine(1),
        notes=notes,
    )


def _ratio(
    curves: dict[str, list[Point]],
    reached: dict[str, list[Point | None]],
    name: str,
    index: int,
) -> str:
    """Return how many times as long a contender took; at least, where it did not get there."""
    new, other = reached["new"][index], reached[name][index]
    if new is None:
        return "-"
    if other is None:
        return f"> {curves[name][-1].core_s / new.core_s:.1f}"
    return f"{other.core_s / new.core_s:.1f}"


def main() -> int:
    """Run the benchmark from the command line."""
    description = "Measure core seconds until training returns are reached."
    parser = make_parser(description, threads=None, seconds=None)
    add_bodies(parser, "unimals_100")
    add = parser.add_argument
    add("--contender", nargs="+", choices=tuple(CONTENDERS), default=list(CONTENDERS),
        help="default: all")  # fmt: skip
    add("--returns", nargs="+", type=float, default=[500.0, 1000.0, 2000.0],
        help="to reach (default: 500 1000 2000)")  # fmt: skip
    add("--budget", type=duration, default=3600.0, help="core seconds of each (default: 3600)")
    add("--env-steps", type=count, help="schedule of the new rules (default: that of lite)")
    add("--env-steps-before", type=count, help="of the rules of before (default: the same)")
    add("--seed", type=int, default=1, help="default: 1")
    add("--out", type=Path, default=Path("time_to_return"), help="folder, continued if it is there")
    add("--side", choices=tuple(CONTENDERS), help="only this, in this process, without a report")
    options = parser.parse_args()
    bodies = load_morphologies(options.morphologies)
    steps = options.env_steps
    before = options.env_steps_before or steps or SUITE.protocol("lite").env_steps
    rules = {name: rules_of(name, steps if name == "new" else before) for name in CONTENDERS}
    if options.side:
        name = options.side
        targets, budget = options.returns, options.budget
        run_side(name, bodies, rules[name], options.seed, targets, budget, options.out)
        return 0
    one_core = os.environ | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    for name in options.contender:
        command = [sys.executable, "-m", "benchmarks.time_to_return", *sys.argv[1:]]
        place = str(options.out.resolve())  # the side runs in another folder
        side = [*command, "--side", name, "--out", place]
        if code := subprocess.run(side, cwd=ROOT, env=one_core, check=False).returncode:
            return code  # it has said why
    curves = {
        name: open_log(name, bodies, rules[name], options.seed, options.out).points
        for name in options.contender
    }
    notes = [
        f"{len(bodies.split('train'))} train bodies of {bodies.id}, FT, RecMorph `lite`, seed "
        f"{options.seed}, one thread.",
        "Reached: the first iteration whose training return (mean over bodies of the episodes of "
        "the latest iterations) is not below. The start of processes and checkpoints do not count.",
        "Rules: " + "; ".join(f"{name} {describe(rules[name])}" for name in curves) + ".",
        "Processor time of the whole process tree; 'plain' has a process per environment.",
    ]
    found = report(curves, options.returns, options.budget, notes)
    show(found, as_json=options.json)
    return 0


def describe(rules: Protocol) -> str:
    """Return rules in a few words."""
    ppo = rules.ppo
    return (
        f"{rules.num_envs} x {rules.rollout_length}, {ppo.repeat} epoch(s), minibatches of "
        f"{ppo.batch_size}, rate {ppo.lr:g} with a cosine from {ppo.decay_start:g} of "
        f"{rules.env_steps:,} steps on, gamma {ppo.gamma:g}"
    )


if __name__ == "__main__":
    run(main)
