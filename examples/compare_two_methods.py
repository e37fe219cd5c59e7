"""Trains two methods, compares them on bodies they have never seen, and draws the picture.

Run it with `python examples/compare_two_methods.py`; on two cores it takes about half an hour,
with `--protocol smoke` about two minutes, which is enough to see that it works and no more.
"""

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd

import gmc_bench as gmc
from gmc_bench.experiments import events


def show(event: events.Event) -> None:
    """Print where a sweep is."""
    match event:
        case events.SweepRunStarted():
            print(f"training {event.name}")
        case events.SweepRunKept():
            print(f"{event.name} is there already")
        case events.SweepRunFailed():
            print(f"{event.name} failed: {event.reason}")


def draw(curves: pd.DataFrame, unseen: pd.DataFrame, path: Path) -> None:
    """Draw learning curves, and the returns on unseen bodies as one point per body."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
    for position, (method, curve) in enumerate(curves.groupby("method")):
        for number, (_, run) in enumerate(curve.groupby("seed")):
            label = method if number == 0 else None  # the legend names each method once
            left.plot(run["env_steps"], run["mean_return"], color=f"C{position}", label=label)
        bodies = unseen[unseen["method"] == method].groupby("body")["episode_return"].mean()
        right.plot([position] * len(bodies), bodies, "o", color=f"C{position}", alpha=0.4)
        right.plot(position, bodies.mean(), "_", color="black", markersize=30)
    names = sorted(curves["method"].unique())
    left.set(xlabel="env steps", ylabel="return in training")
    left.legend()
    right.set(xticks=range(len(names)), xticklabels=names, ylabel="return on unseen bodies")
    figure.savefig(path, dpi=150)


def main() -> None:
    """Train, compare, draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--methods", nargs=2, default=["recmorph", "metamorph-star"])
    parser.add_argument("--protocol", default="lite")
    parser.add_argument("--bodies", default=None, help="body set (default: the suite's)")
    parser.add_argument("--env-steps", type=int, default=None, help="default: the protocol's")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--out", type=Path, help="default: runs/two_methods_PROTOCOL")
    options = parser.parse_args()
    out = options.out or Path(f"runs/two_methods_{options.protocol}")
    specs = [
        gmc.ExperimentSpec(
            method=method,
            suite="unimal",
            task="ft",
            protocol=options.protocol,
            bodies=options.bodies,
            seed=seed,
            settings={"env_steps": options.env_steps} if options.env_steps else {},
        )
        for method in options.methods
        for seed in options.seeds
    ]
    # A call with the same options goes on where an earlier one stopped.
    result = gmc.Sweep(specs, out=out, on_event=show).resume()
    if result.failures:
        raise SystemExit(f"failed, so there is nothing to compare: {', '.join(result.failures)}")

    records = gmc.load_records(out)
    episodes = records.episodes()
    unseen = episodes[~episodes["seen_in_train"] & (episodes["mode"] == "deterministic")]
    print(unseen.groupby(["method", "seed"])["episode_return"].describe().round(1))
    picture = out / "comparison.png"
    draw(records.curves(), unseen, picture)
    print(f"picture  {picture}")


if __name__ == "__main__":
    main()
