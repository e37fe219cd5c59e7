"""Probes of limb representations, before and after limbs exchange information.

Linear probes for the robot, the limb and the action, separability of limbs, and a picture.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from gmc_bench.bodies.schema import Morphology
from gmc_bench.core.errors import ConfigError
from gmc_bench.core.types import Array, BoolArray, FloatArray, IntArray
from gmc_bench.envs.core import EnvironmentCore
from gmc_bench.records.store import write_atomic
from gmc_bench.sim.batch import spawn_streams
from gmc_bench.studies.linear_probe import (
    balanced_accuracy,
    explained_variance,
    split_by_time,
    standardised,
)
from gmc_bench.studies.panels import draw_panels
from gmc_bench.tasks.spec import Task

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from gmc_bench.policies.policy import Policy

MAX_COLLECTED = 200_000
"""Limb rows that a collection holds at most; more control steps are thinned out evenly."""
_DRAWN = 3_000  # points per panel of the picture


@dataclass(frozen=True)
class Features:
    """Limb representations of several bodies over time, one row per limb and control step.

    Args:
        before: (N, W1) float32, before limbs exchange information.
        after: (N, W2) float32, after the last exchange.
        robot: (N,) int64, which of `bodies`.
        limb: (N,) int64, token slot; 0 is the torso unless the order is random.
        step: (N,) int64, control steps of this body before this one, over all its episodes.
        actions: (N, J) float32, the actor's mean actions of the limb; anything without actuator.
        action_padding_mask: (N, J) bool, True where the limb has no such actuator.
        bodies: names of the bodies.
    """

    before: FloatArray
    after: FloatArray
    robot: IntArray
    limb: IntArray
    step: IntArray
    actions: FloatArray
    action_padding_mask: BoolArray
    bodies: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class ProbeResult:
    """What linear probes read from representations, on held-out control steps.

    Accuracies are balanced (mean recall of the classes), from 0 to 1.
    """

    robot_id_before: float
    """Bodies that are equal count as different ones, and can hardly be told apart."""
    robot_id_after: float
    limb_id_before: float
    limb_id_after: float
    action_r2_before: float
    """1 - residual / total sum of squares over all active actuators; at most 1."""
    action_r2_after: float
    action_nrmse_before: float
    """Root mean squared error / standard deviation of the target, = sqrt(1 - R2)."""
    action_nrmse_after: float
    ch_before: float
    """Calinski-Harabasz index of limbs; grows with the number of rows, so compare equal ones."""
    ch_after: float
    num_rows: int
    num_bodies: int


def collect(
    policy: "Policy",
    task: Task,
    bodies: Sequence[Morphology],
    *,
    seed: int,
    kept: range = range(200, 500),
    num_threads: int | None = None,
    on_progress: Callable[[int], None] | None = None,
) -> Features:
    """Run every body with the mean actions of a policy, and keep its actor's limb representations.

    An episode that ends early starts again from another state, with a fresh recurrent state; its
    steps go on counting, so that every body gives the same number of them.

    Args:
        policy: who acts.
        task: what to do.
        bodies: M bodies.
        seed: start states.
        kept: control steps per body that are kept; with a step of 1 they are thinned out to at
            most `MAX_COLLECTED` rows.
        num_threads: threads that step; default all.
        on_progress: called with 1 after every control step of all bodies.

    Returns:
        The rows, control step by control step, then by body, then by token slot.

    Raises:
        ConfigError: no steps are kept, or the method shows no representations.
        PluginError: the method's taps are not as they should be, see `gmc_bench.nn.tap`.

    Source:
        The RecMorph paper: 500 steps per training robot, the first 200 of them dropped. It does not
        say whether actions are sampled, nor what happens when a robot falls.
    """
    from gmc_bench.nn.tap import watch_representations

    count = len(bodies)
    core = EnvironmentCore(task, bodies, count, token_spec=policy.spec, num_threads=num_threads)
    kept = _thinned(kept, int(core.table.num_limbs.sum()))
    rows, real = np.arange(count), ~core.table.limb_padding_mask
    core.simulator.streams[:] = spawn_streams(seed, count)
    core.reset(rows, rows)
    bound = policy.on(core.table, count)
    bound.start(rows, rows)
    found: list[tuple[Array, ...]] = []
    with policy.acting(), watch_representations(policy.model.actor) as latest:
        for step in range(kept.stop):
            tokens = bound.see(core)
            actions = bound.choose(tokens)
            seen = latest(tokens)
            if step in kept:
                places = tokens.packing.slots.argsort()  # by body, then by slot
                parts = (part[places].cpu().numpy() for part in (seen.before, seen.after))
                found.append((*parts, actions.cpu().numpy()[real]))
            result = core.step(bound.restore(actions))
            ended = np.flatnonzero(result.terminated | result.truncated)
            if len(ended):
                core.reset(ended, ended)
                bound.start(ended, ended)
            if on_progress:
                on_progress(1)
    robot, limb = np.nonzero(real)
    inactive = bound.serialization.arrange(core.table.action_padding_mask, rows)
    times = np.array(kept)
    before, after, chosen = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return Features(
        before=before,
        after=after,
        robot=np.tile(robot, len(times)),
        limb=np.tile(limb, len(times)),
        step=np.repeat(times, len(robot)),
        actions=chosen,
        action_padding_mask=np.tile(inactive[real], (len(times), 1)),
        bodies=tuple(body.name for body in bodies),
    )


def _thinned(kept: range, limbs: int) -> range:
    """Return at most as many steps as fit into `MAX_COLLECTED` rows, `limbs` at each step."""
    if not kept or kept.start < 0 or kept.step < 1:
        raise ConfigError(
            f"a collection needs a rising range of control steps to keep, got {kept}; give e.g. "
            f"range(200, 500)"
        )
    if kept.step > 1:
        return kept
    steps = max(1, MAX_COLLECTED // limbs)
    return range(kept.start, kept.stop, math.ceil(len(kept) / steps))


def probe(features: Features, seed: int) -> ProbeResult:
    """Fit linear probes to representations before and after communication.

    Probes are matched: both stages have the same rows, the same split and the same penalties, and
    features are standardised on the rows that the probe is fitted to. Robot and limb are read by
    multinomial logistic regression, and actions by ridge regression, one per joint slot, with the
    target standardised in the same way.

    The last third of the time is held out, and the fifteenth in front of it is left out. Rows held
    out at random would leak, as neighbouring control steps are nearly copies of each other. Every
    body occurs on both sides, which reading its identity needs.

    Where the decoder is a single linear map without a height map, as by default, actions are linear
    in what it reads: R2 is then 1 after communication by construction, and only the other value
    tells methods apart.

    Args:
        features: of at least two bodies.
        seed: draws `linear_probe.MAX_ROWS` rows of either side where there are more.

    Raises:
        ConfigError: fewer than two bodies, or too few control steps to hold any out.

    Source:
        The RecMorph paper, linear probes and Calinski-Harabasz index. It gives neither split nor
        penalties nor scaling. Its pairs of R2 and NRMSE agree with NRMSE = sqrt(1 - R2); its R2 of
        0.354 after communication shows that features or targets were others than these.
    """
    from sklearn.metrics import calinski_harabasz_score
    from threadpoolctl import threadpool_limits

    if len(features.bodies) < 2:
        raise ConfigError(
            f"probes for the robot need at least two bodies, got {len(features.bodies)}"
        )
    train, test = split_by_time(features.step, np.random.default_rng(seed))
    active, numbers = ~features.action_padding_mask, dict[str, float]()
    # With one thread the order of sums, and so every bit, is the same on any number of cores.
    with threadpool_limits(1):
        for stage, values in (("before", features.before), ("after", features.after)):
            inputs = standardised(values[train], values[test])
            for name, label in (("robot_id", features.robot), ("limb_id", features.limb)):
                numbers[f"{name}_{stage}"] = balanced_accuracy(inputs, label[train], label[test])
            r2 = explained_variance(
                inputs,
                (features.actions[train], features.actions[test]),
                (active[train], active[test]),
            )
            numbers[f"action_r2_{stage}"] = r2
            numbers[f"action_nrmse_{stage}"] = math.sqrt(1.0 - r2)
            (scaled,) = standardised(values)
            numbers[f"ch_{stage}"] = float(calinski_harabasz_score(scaled, features.limb))
    return ProbeResult(**numbers, num_rows=len(features.robot), num_bodies=len(features.bodies))


def plot_pca(features: Features, path: Path) -> None:
    """Draw limbs on the first two principal components, before and after communication.

    Features are standardised. Components have the sign that makes their largest weight positive,
    and every limb keeps its colour in both panels. The same features give the same file.

    Args:
        features: what to draw; `_DRAWN` rows of it where there are more.
        path: a PNG file; it is seen whole or not at all.
    """
    count = int(features.limb.max()) + 1
    rng = np.random.default_rng(0)
    rows = rng.permutation(len(features.limb))[:_DRAWN]  # in random order, so that none hides

    def draw(axes: "Axes", stage: str) -> None:
        from matplotlib import colormaps
        from matplotlib.colors import BoundaryNorm

        places, shares = _principal(getattr(features, stage))
        axes.scatter(
            places[rows, 0], places[rows, 1], c=features.limb[rows], s=5, linewidths=0, alpha=0.7,
            cmap=colormaps["turbo"].resampled(count),
            norm=BoundaryNorm(np.arange(count + 1) - 0.5, count),
        )  # fmt: skip
        first, second = (f"PC {k + 1} ({shares[k]:.0%} of variance)" for k in range(2))
        axes.set(title=f"{stage.title()} communication", xlabel=first, ylabel=second)

    def add_bar(figure: "Figure") -> None:
        points = figure.axes[0].collections[0]
        figure.colorbar(points, ax=figure.axes, label="Limb (token slot)", ticks=range(count))

    picture = draw_panels(("before", "after"), draw, inches=(4.2, 3.8), columns=2, finish=add_bar)
    write_atomic(path, picture)


def _principal(values: FloatArray) -> tuple[Array, Array]:
    """Return places (N, 2) on the first two principal components, and their shares of variance."""
    from threadpoolctl import threadpool_limits

    (scaled,) = standardised(values)
    with threadpool_limits(1):  # as in `probe`
        variances, directions = np.linalg.eigh(np.cov(scaled.astype(np.float64), rowvar=False))
    first = directions[:, [-1, -2]]
    largest = np.abs(first).argmax(axis=0)
    first = first * np.sign(first[largest, [0, 1]])
    return scaled @ first, variances[[-1, -2]] / variances.sum()
