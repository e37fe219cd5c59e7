from dataclasses import FrozenInstanceError, replace

import pytest

from gmc_bench.core.errors import ConfigError
from gmc_bench.suites.protocol import EvaluationConfig, PPOConfig, Protocol

SMALL = Protocol(name="small", preset="lite", env_steps=1000, num_envs=4, rollout_length=30)


def test_iterations_are_whole_rollouts_over_all_environments():
    assert SMALL.steps_per_iteration == 120
    assert SMALL.num_iterations == 8  # 960 of 1,000 steps
    assert replace(SMALL, env_steps=120).num_iterations == 1


@pytest.mark.parametrize(("iterations", "window"), [(1, 1), (29, 1), (30, 2), (45, 2), (60, 3)])
def test_the_window_of_returns_is_rounded_to_iterations(iterations, window):
    protocol = replace(SMALL, env_steps=iterations * 120, return_window=0.05)
    assert (protocol.num_iterations, protocol.window_iterations) == (iterations, window)


def test_the_window_of_returns_is_a_share_of_the_iterations():
    assert replace(SMALL, return_window=1.0).window_iterations == SMALL.num_iterations
    for share in (0.0, 1.01):
        with pytest.raises(ConfigError, match=f"above 0 and at most 1, got {share}"):
            replace(SMALL, return_window=share)


def test_less_than_one_iteration_is_refused():
    with pytest.raises(
        ConfigError, match=r"119, less than one .* 4 environments x 30 .* least 120"
    ):
        replace(SMALL, env_steps=119)


def test_an_iteration_of_one_transition_is_refused():
    with pytest.raises(
        ConfigError, match="at least 2 transitions, got 'num_envs' 1 x 'rollout_length' 1; raise"
    ):
        replace(SMALL, num_envs=1, rollout_length=1)
    for sizes in ({"num_envs": 2, "rollout_length": 1}, {"num_envs": 1, "rollout_length": 2}):
        assert replace(SMALL, **sizes).steps_per_iteration == 2


@pytest.mark.parametrize("name", ["env_steps", "num_envs", "rollout_length"])
@pytest.mark.parametrize("value", [0, -1])
def test_sizes_must_be_positive(name, value):
    with pytest.raises(ConfigError, match=f"'{name}' must be positive, got {value}"):
        replace(SMALL, **{name: value})


@pytest.mark.parametrize("name", ["action_std", "action_std_end"])
@pytest.mark.parametrize("value", [0.0, -1.0, 1e-46])
def test_deviations_of_actions_are_those_that_float32_can_have(name, value):
    assert getattr(replace(SMALL, **{name: 1e-6}), name) == 1e-6
    with pytest.raises(
        ConfigError, match=f"'{name}' must be positive, from 1e-06 to .*got {value}"
    ):
        replace(SMALL, **{name: value})
    with pytest.raises(ConfigError, match=r"to 1e\+06, got 1e\+50"):
        replace(SMALL, **{name: 1e50})


def test_sampling_does_not_overflow():
    assert replace(SMALL, sampling_alpha=100.0).sampling_alpha == 100.0
    with pytest.raises(ConfigError, match="'sampling_alpha' must be at most 100, got 400"):
        replace(SMALL, sampling_alpha=400.0)


@pytest.mark.parametrize("name", ["sampling_alpha", "sampling_warmup_iterations"])
def test_sampling_settings_must_not_be_negative(name):
    assert getattr(replace(SMALL, **{name: 0}), name) == 0
    with pytest.raises(ConfigError, match=f"'{name}' must not be negative, got -1"):
        replace(SMALL, **{name: -1})


@pytest.mark.parametrize("seeds", [(), (1, 2, 1)])
def test_seeds_must_be_given_and_differ(seeds):
    with pytest.raises(ConfigError, match="'seeds' must be different numbers, at least one, got"):
        replace(SMALL, seeds=seeds)


@pytest.mark.parametrize("name", ["gamma", "gae_lambda", "decay_start"])
@pytest.mark.parametrize("value", [-0.01, 1.01, float("nan")])
def test_discounts_must_be_in_the_unit_interval(name, value):
    with pytest.raises(ConfigError, match=rf"'ppo\.{name}' must be in \[0, 1\], got {value}"):
        PPOConfig(**{name: value})


@pytest.mark.parametrize(
    "name", ["eps_clip", "max_grad_norm", "lr", "adam_eps", "repeat", "batch_size"]
)
@pytest.mark.parametrize("value", [0, -1, float("nan")])
def test_steps_must_be_positive(name, value):
    with pytest.raises(ConfigError, match=rf"'ppo\.{name}' must be positive, got {value}"):
        PPOConfig(**{name: value})


@pytest.mark.parametrize("name", ["vf_coef", "ent_coef", "warmup_iterations", "warmup_start"])
def test_coefficients_must_not_be_negative(name):
    assert getattr(PPOConfig(**{name: 0}), name) == 0
    with pytest.raises(ConfigError, match=rf"'ppo\.{name}' must not be negative, got -1"):
        PPOConfig(**{name: -1})


def test_the_kl_threshold_is_positive_or_none():
    assert PPOConfig(target_kl=None).target_kl is None
    for value in (0.0, -0.1):
        with pytest.raises(ConfigError, match=r"'ppo\.target_kl' must be positive or none"):
            PPOConfig(target_kl=value)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_numbers_are_finite(value):
    for name in ("target_kl", "vf_coef", "warmup_start"):
        with pytest.raises(
            ConfigError, match=rf"'ppo\.{name}' must be a finite number, got {value}"
        ):
            PPOConfig(**{name: value})
    with pytest.raises(ConfigError, match=r"'ppo\.lr' must be a finite number, got inf"):
        PPOConfig(lr=float("inf"))
    with pytest.raises(ConfigError, match="'sampling_alpha' must be a finite number, got"):
        replace(SMALL, sampling_alpha=value)


@pytest.mark.parametrize("change", [{"modes": ("stochastic",) * 2}, {"splits": ("test", "test")}])
def test_nothing_is_scored_twice(change):
    (name,) = change
    with pytest.raises(ConfigError, match=rf"'evaluation.{name}' must be different ones, got \("):
        EvaluationConfig(**change)


def test_nobody_trains_for_ever():
    assert replace(SMALL, env_steps=10**11).env_steps == 10**11
    with pytest.raises(ConfigError, match="'env_steps' must be at most 100,000,000,000, got 1,000"):
        Protocol(name="p", preset="p", env_steps=10**12, num_envs=1, rollout_length=2)


def test_records_can_hold_every_number():
    most = "must be at most 100,000,000,000, got 1,000"
    with pytest.raises(ConfigError, match=f"'num_envs' {most}"):
        replace(SMALL, num_envs=10**12)
    with pytest.raises(ConfigError, match=rf"'ppo\.batch_size' {most}"):
        PPOConfig(batch_size=10**18)
    with pytest.raises(ConfigError, match=rf"'evaluation\.episodes' {most}"):
        EvaluationConfig(episodes=10**21)


@pytest.mark.parametrize("change", [{"episodes": 0}, {"splits": ()}])
def test_an_evaluation_needs_something_to_do(change):
    with pytest.raises(ConfigError, match="at least one episode and split"):
        EvaluationConfig(**change)


def test_protocols_cannot_be_changed_in_place():
    with pytest.raises(FrozenInstanceError):
        SMALL.env_steps = 5


def test_the_spread_of_actions_can_shrink_in_equal_steps():
    protocol = Protocol(
        name="p", preset="lite", env_steps=500, num_envs=10, rollout_length=10,
        action_std=0.9, action_std_end=0.5,
    )  # fmt: skip
    found = [protocol.action_std_at(iteration) for iteration in range(protocol.num_iterations)]
    assert found == pytest.approx([0.9, 0.8, 0.7, 0.6, 0.5])
    assert replace(protocol, action_std_end=None).action_std_at(4) == 0.9
