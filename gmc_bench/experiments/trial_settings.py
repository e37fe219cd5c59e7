"""Settings that the trials of a tuning try: spread over the ranges first, then drawn by optuna."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from gmc_bench.experiments.trials import TuningTrial
from gmc_bench.methods.tuning import Range

if TYPE_CHECKING:
    import optuna

SPREAD = 4
"""Trials, after the protocol's own values, that are spread over the ranges; later ones follow from
what was found."""
DIGITS = 3
"""Significant digits of a drawn value: more would not be told apart."""


def draw(
    ranges: Mapping[str, Range], number: int, trials: Sequence[TuningTrial], seed: int
) -> dict[str, float]:
    """Return the settings of a trial, which follow from its number and those before it.

    Args:
        ranges: what is tuned, by name.
        number: from 1; trial 0 has values of its own.
        trials: those before it.
        seed: of the sampler.
    """
    if number <= SPREAD:
        drawn = spread(ranges, number, seed)
    else:
        drawn = suggest(ranges, trials, seed + number)
    return {
        name: min(max(float(f"{value:.{DIGITS}g}"), ranges[name].low), ranges[name].high)
        for name, value in drawn.items()
    }


def spread(ranges: Mapping[str, Range], number: int, seed: int) -> dict[str, float]:
    """Return values that fill ranges evenly as numbers rise (a scrambled Halton sequence).

    Args:
        ranges: by name. The first values do not depend on how many ranges follow.
        number: from 1.
        seed: of the scrambling.
    """
    from scipy.stats import qmc

    found = {}
    for place, (name, item) in enumerate(ranges.items()):
        # A sequence of `place + 1` dimensions: its last one does not depend on later ranges.
        point = qmc.Halton(d=place + 1, scramble=False).random(number + 1)[number, place]
        found[name] = _between(item, (float(point) + _shift(seed, place)) % 1.0)
    return found


def suggest(
    ranges: Mapping[str, Range], trials: Sequence[TuningTrial], seed: int
) -> dict[str, float]:
    """Return what optuna's tree-structured Parzen estimator would try next."""
    import optuna

    level = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)  # it would write to the terminal
    try:
        sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=1, multivariate=True)
        study = optuna.create_study(direction="maximize", sampler=sampler)
    finally:
        optuna.logging.set_verbosity(level)
    places = {name: _distribution(item) for name, item in ranges.items()}
    for trial in trials:
        # The first trial lacks what the protocol sets to none, e.g. a KL stop.
        inside = all(trial.settings.get(name) in item for name, item in ranges.items())
        if trial.value is not None and inside:
            study.add_trial(
                optuna.trial.create_trial(
                    params=dict(trial.settings), distributions=places, value=trial.value
                )
            )
    return {name: float(value) for name, value in study.ask(places).params.items()}


def _distribution(item: Range) -> "optuna.distributions.BaseDistribution":
    import optuna

    return optuna.distributions.FloatDistribution(item.low, item.high, log=item.log)


def _shift(seed: int, place: int) -> float:
    return float(np.random.default_rng((seed, place)).random())


def _between(item: Range, share: float) -> float:
    if item.log:
        return float(item.low * (item.high / item.low) ** share)
    return item.low + share * (item.high - item.low)
