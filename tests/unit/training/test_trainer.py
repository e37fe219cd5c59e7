"""A run that is stopped and continued, inside one process."""

import copy
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from gmc_bench.conformance.morphologies import chain, star
from gmc_bench.conformance.tokens import random_tokens
from gmc_bench.core.errors import CheckpointError, ConfigError, PluginError
from gmc_bench.envs.morphology_vector_env import MorphologyVectorEnv
from gmc_bench.experiments import execution
from gmc_bench.experiments.events import CheckpointWritten
from gmc_bench.methods import METHODS
from gmc_bench.methods.policy import ActorCritic
from gmc_bench.policies.policy import Policy
from gmc_bench.policies.torch_state import require_gradients
from gmc_bench.sim.batch import available_threads
from gmc_bench.suites.protocol import PPOConfig
from gmc_bench.tasks.unimal_ft import TASK
from gmc_bench.tokens import TokenSpec
from gmc_bench.training.buffer import Minibatch
from gmc_bench.training.checkpoint import list_checkpoints
from gmc_bench.training.ppo import MorphologyPPO
from gmc_bench.training.trainer import Trainer
from tests.support.small_runs import outcome, same_statistics, stop_at


@pytest.mark.parametrize(("dropout", "stops"), [(0.0, (1, 3)), (0.5, (3,))])
def test_a_continued_run_ends_in_the_same_bits(make_trainer, dropout, stops):
    whole = make_trainer("whole", dropout=dropout, target_kl=None)
    whole.train()
    for iteration in stops:
        name = f"stopped{iteration}"
        stop_at(make_trainer(name, dropout=dropout, target_kl=None), iteration)
        rest = make_trainer(name, dropout=dropout, target_kl=None)
        assert rest.iteration == iteration
        rest.train()
        assert outcome(rest) == outcome(whole)
        assert rest.algorithm.learning_rate == whole.algorithm.learning_rate
        assert rest.collector.episodes == whole.collector.episodes
        same_statistics(rest, whole)


def test_what_listeners_draw_changes_nothing_and_is_not_changed(make_trainer):
    """Networks with dropout draw from torch's generator; so does a trainer inside a listener."""
    threads = torch.get_num_threads()
    whole, found = make_trainer("whole", dropout=0.5, target_kl=None), []
    whole.train()

    def disturb(_):
        found.append((torch.rand(3).tolist(), torch.get_num_threads()))
        torch.set_num_threads(threads + 1 + len(found))
        if len(found) == 2:
            make_trainer("inner", dropout=0.5, target_kl=None).train()

    disturbed = make_trainer("disturbed", dropout=0.5, target_kl=None)
    torch.manual_seed(7)
    expected = torch.rand(5, 3).tolist()
    torch.manual_seed(7)
    disturbed.train(disturb)
    assert outcome(disturbed) == outcome(whole)
    same_statistics(disturbed, whole)
    assert [drawn for drawn, _ in found] == expected
    assert [count for _, count in found] == [threads, *range(threads + 2, threads + 6)]


def test_a_trainer_has_gradients_where_its_caller_has_none(make_trainer):
    usual, found = make_trainer("usual"), []
    usual.train()
    with torch.no_grad():
        other = make_trainer("other")
        other.train(lambda _: found.append(torch.is_grad_enabled()))
    assert outcome(other) == outcome(usual)
    assert not any(found)


def test_training_in_torchs_inference_mode_is_refused(make_trainer):
    with torch.inference_mode():
        with pytest.raises(
            ConfigError, match=r"gradients, but torch.inference_mode\(\) is on; make"
        ):
            make_trainer("never")
        policy = Policy.untrained("recmorph", TASK, (chain(3),))
    with pytest.raises(ConfigError, match=r"inference_mode\(\) was on when the policy was made"):
        require_gradients(policy.model)


def test_a_policy_without_parameters_is_not_trained():
    policy = Policy.untrained("zero-action", TASK, (chain(3),))
    with pytest.raises(PluginError, match=r"'zero-action' cannot be trained, .* parameter;"):
        require_gradients(policy.model)


@pytest.mark.slow
def test_trainers_in_threads_take_turns(make_trainer):
    """Of torch's generator a process has one; all come to the bits of one alone."""
    names = ("alone", "a", "b")
    alone, *others = (make_trainer(name, dropout=0.5, target_kl=None) for name in names)
    alone.train()
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda trainer: trainer.train(), others))
    assert [outcome(trainer) for trainer in others] == [outcome(alone)] * 2


def test_the_spread_of_actions_shrinks_also_in_a_continued_run(make_trainer):
    settings = {"action_std_end": 0.5, "target_kl": None}
    whole = make_trainer("whole", **settings)
    spreads = []
    whole.train(lambda _: spreads.append(float(whole.model.action_std)))
    assert spreads == pytest.approx([0.9, 0.8, 0.7, 0.6, 0.5])
    stop_at(make_trainer("parts", **settings), 3)
    rest = make_trainer("parts", **settings)
    rest.train()
    assert outcome(rest) == outcome(whole)


def test_bodies_that_fall_early_are_drawn_more_often(make_trainer, monkeypatch):
    """Probabilities of every iteration, worked out from the lengths of the episodes before it.

    And so are the points of the learning curve, whose window is one of these 15 iterations.
    """
    trainer = make_trainer(env_steps=960)
    env, horizon, lengths = trainer.env, 10, ([], [])
    set_sampling, step, used, expected = env.set_sampling, env.step, [], []
    latest = ({}, {})  # by iteration

    def setting(probabilities):
        used.append(np.array(probabilities))
        expected.append(probable())
        set_sampling(probabilities)

    def probable():
        if len(used) == 1:  # the warm-up
            return [0.5, 0.5]
        means = [np.mean(ended[:10]) for ended in lengths]  # every body has finished an episode
        for body, ended in enumerate(lengths):
            for length in ended[10:]:
                means[body] = 0.9 * means[body] + 0.1 * length
        weights = horizon / np.array(means)
        return weights / weights.sum()

    def stepping(actions):
        result = step(actions)
        ended = np.flatnonzero(result[2] | result[3])
        for row in ended:  # every second body lasts half as long
            final = result[4]["final_info"]
            body = final["morphology_index"][row]
            final["episode_length"][row] //= 1 + body
            lengths[body].append(final["episode_length"][row])
            latest[body].setdefault(len(used), []).append(lengths[body][-1])
        return result

    monkeypatch.setattr(env, "set_sampling", setting)
    monkeypatch.setattr(env, "step", stepping)
    trainer.train()
    assert len(used) == 15
    np.testing.assert_allclose(used, expected)
    assert used[-1][1] > 0.6
    for iteration, point in enumerate(trainer.curve, start=1):
        shown = [
            found.get(iteration, ended[-1:]) for found, ended in zip(latest, lengths, strict=True)
        ]
        assert point["mean_length"] == pytest.approx(np.mean([np.mean(x) for x in shown]))


def draws(trainer, monkeypatch):
    """Return the chances that the first three iterations give two bodies of unlike episodes."""
    used = []
    monkeypatch.setattr(trainer.env, "set_sampling", lambda found: used.append(found.tolist()))
    trainer.sampler.record([0, 1] * 10, [2, 8] * 10)
    for _ in range(3):
        trainer.iterate()
    return used


def test_without_balance_all_bodies_are_drawn_alike(make_trainer, monkeypatch):
    """Also after the warm-up of one iteration, and though body 0 lasts a quarter as long."""
    assert draws(make_trainer(sampling_alpha=0.0), monkeypatch) == [[0.5, 0.5]] * 3


def test_drawing_is_uniform_for_as_many_iterations_as_the_protocol_says(make_trainer, monkeypatch):
    used = draws(make_trainer(sampling_warmup_iterations=2), monkeypatch)
    assert used[:2] == [[0.5, 0.5]] * 2
    assert used[2][0] > 0.5  # of body 0, whose first episodes were shorter


def test_another_seed_gives_another_run(make_trainer):
    first, second = make_trainer("a", seed=0), make_trainer("b", seed=1)
    for trainer in (first, second):
        trainer.iterate()
    assert first.policy.to_bytes() != second.policy.to_bytes()


def test_a_stop_without_checkpoint_starts_again(make_trainer):
    stop_at(make_trainer("run", interval=1e6), 3)
    again = make_trainer("run", interval=1e6)
    assert again.iteration == 0
    whole = make_trainer("whole")
    for trainer in (again, whole):
        trainer.train()
    assert outcome(again) == outcome(whole)


def test_the_end_is_always_saved(make_trainer):
    trainer = make_trainer("run", interval=1e6)
    trainer.train()
    assert [path.name for path in list_checkpoints(trainer.folder.checkpoints)] == ["00000005"]
    finished = make_trainer("run", interval=1e6)
    assert finished.iteration == 5
    assert outcome(finished) == outcome(trainer)
    finished.train()
    assert finished.env_steps == finished.env_steps_planned == 320


def test_the_interval_of_checkpoints_begins_with_each(make_trainer, monkeypatch):
    trainer = make_trainer(interval=10.0, env_steps=7 * 64)
    clock = SimpleNamespace(perf_counter=lambda: 4.0 * trainer.iteration)
    monkeypatch.setattr(execution, "time", clock)
    told = []
    execution.train(trainer.trainer, trainer.folder, trainer.config, told.append)
    kept = [event.env_steps // 64 for event in told if isinstance(event, CheckpointWritten)]
    assert kept == [3, 6, 7]  # after 12 and 24 s, and at the end


@pytest.mark.parametrize("change", [{"seed": 7}, {"gamma": 0.5}, {"env_steps": 640}])
def test_the_checkpoint_of_other_settings_is_refused(make_trainer, change):
    stop_at(make_trainer("run"), 1)
    with pytest.raises(CheckpointError, match="belongs to a run with other settings"):
        make_trainer("run", **change)


def test_the_curve_and_the_logs_have_one_point_per_iteration(make_trainer):
    stop_at(make_trainer("run"), 2)
    trainer = make_trainer("run")
    trainer.train()
    assert [point["env_steps"] for point in trainer.curve] == [64, 128, 192, 256, 320]
    assert trainer.curve[-1]["episodes"] == trainer.collector.episodes
    accumulator = EventAccumulator(str(trainer.folder.logs))
    accumulator.Reload()
    steps = [event.step for event in accumulator.Scalars("ppo/loss")]
    assert steps == [64, 128, 192, 256, 320]
    assert set(accumulator.Tags()["scalars"]) == {
        *(f"ppo/{name}" for name in (
            "loss", "actor_loss", "vf_loss", "entropy", "approx_kl", "clip_fraction",
            "explained_variance", "gradient_steps", "stopped_early", "learning_rate",
        )),
        *(f"train/{name}" for name in (
            "return", "episode_length", "episodes", "diverged_episodes"
        )),
        "time/env_steps_per_s",
    }  # fmt: skip


def test_progress_is_reported_after_every_iteration(make_trainer):
    trainer, seen = make_trainer(), []
    trainer.train(seen.append)
    assert [progress.env_steps for progress in seen] == [64, 128, 192, 256, 320]
    assert seen[-1].mean_return == trainer.tracker.mean_return(complete=False)


def test_points_of_the_curve_are_of_all_bodies_and_progress_of_those_seen(make_trainer):
    """No episode ends within eight steps; two that have ended before are written by hand."""
    trainer, seen = make_trainer(rollout_length=4, env_steps=32), []
    trainer.tracker.record([0], [2.5], [5])

    def listen(progress):
        seen.append(progress)
        trainer.tracker.record([1], [4.5], [7])

    trainer.trainer.train(listen)
    assert trainer.collector.episodes == 0
    curve = [(point["mean_return"], point["mean_length"]) for point in trainer.curve]
    assert curve == [(None, None), (3.5, 6.0)]
    scalars = [progress.scalars for progress in seen]
    assert [progress.mean_return for progress in seen] == [2.5, 3.5]
    assert [values["train/return"] for values in scalars] == [2.5, 3.5]
    assert [values["train/episode_length"] for values in scalars] == [5.0, 6.0]
    assert [progress.is_last for progress in seen] == [False, True]


def test_scalars_are_what_their_tags_say(make_trainer):
    trainer, stats, expected, shown = make_trainer().trainer, [], [], []
    iterate = trainer.iterate

    def iterating():
        stats.append(iterate())
        return stats[-1]

    def listen(progress):
        shown.append(progress.scalars)
        parts = {f"ppo/{name}": value for name, value in vars(stats[-1]).items()}
        expected.append(
            {name: value for name, value in parts.items() if name in progress.scalars}
            | {
                "ppo/learning_rate": trainer.algorithm.learning_rate,
                "train/return": trainer.tracker.mean_return(complete=False),
                "train/episode_length": trainer.tracker.mean_length(complete=False),
                "train/episodes": trainer.curve[-1]["episodes"],
                "train/diverged_episodes": 1000,
                "time/env_steps_per_s": progress.env_steps / trainer.timers.total,
            }
        )

    trainer.iterate = iterating
    trainer.collector.diverged_episodes = 1000  # none diverges here
    trainer.train(listen)
    assert shown == expected
    assert len({values["train/episodes"] for values in shown}) == 5


def test_the_training_return_spans_a_share_of_the_iterations(make_trainer):
    trainer = make_trainer(env_steps=60 * 64)
    assert trainer.tracker.get_state()["sums"].shape == (3, 2, 3)  # 5 % of 60, bodies


def test_every_purpose_has_random_numbers_of_its_own(make_trainer):
    first, second = make_trainer("a", seed=1), make_trainer("b", seed=2)
    seeds = [
        generator.initial_seed()
        for generator in (first.learner.shuffling, first.learner.acting, first.drawing)
    ]
    # numpy.random.SeedSequence(1).generate_state(4), of which the first is that of the weights
    assert seeds == [1731038949, 1320224556, 2330041505]
    assert first.algorithm.generator is first.learner.shuffling
    streams = [trainer.env.core.simulator.streams for trainer in (first, second)]
    assert not (streams[0] == streams[1]).all(axis=1).any()


def test_dropout_draws_what_follows_the_first_weights(make_trainer):
    """Not the very numbers that the weights were drawn from."""
    trainer = make_trainer("a", seed=1).trainer
    assert torch.equal(trainer.torch_state.cpu, trainer.policy.random_state)
    start = int(np.random.SeedSequence(1).generate_state(4)[0])
    assert not torch.equal(
        trainer.torch_state.cpu, torch.Generator().manual_seed(start).get_state()
    )


@pytest.mark.parametrize(("num_envs", "limbs"), [(3, 4), (4, 5)])
def test_environments_that_are_not_those_of_the_rules_are_refused(make_trainer, num_envs, limbs):
    trainer, spec = make_trainer().trainer, TokenSpec(limbs)
    env = MorphologyVectorEnv(TASK, [chain(3), star(3)], num_envs, token_spec=spec, num_threads=1)
    with pytest.raises(ConfigError, match=r"training needs 4 environments .* make them with num_e"):
        Trainer(env, trainer.policy, trainer.protocol)


def test_a_policy_keeps_the_name_that_its_method_was_given_by(make_trainer):
    assert make_trainer(method="toy.py:SPEC").policy.method == "toy.py:SPEC"


def test_a_state_stays_what_it_was_while_training_goes_on(make_trainer):
    trainer = make_trainer("a")
    stop_at(trainer, 2)
    state = trainer.get_state()
    del state["environment"]  # which never shared memory
    before = copy.deepcopy(state)
    trainer.trainer.iterate()
    np.testing.assert_equal(state, before)


def test_a_state_stays_what_it_was_while_another_trainer_goes_on_from_it(make_trainer):
    trainer, again = make_trainer("a"), make_trainer("b")
    stop_at(trainer, 2)
    state = trainer.get_state()
    before = copy.deepcopy(state)
    again.set_state(state)
    again.trainer.iterate()
    np.testing.assert_equal(state, before)


def test_a_continued_run_counts_its_time_from_the_start(make_trainer):
    trainer, again = make_trainer("a"), make_trainer("b")
    stop_at(trainer, 2)
    again.set_state(trainer.get_state())
    assert again.timers == trainer.timers
    assert min(vars(again.timers).values()) > 0
    again.timers.total = before = 1e6
    again.trainer.train()
    assert before < again.timers.total < before + 1e5


def test_the_state_of_a_gpu_is_part_of_its_checkpoints_only(make_trainer, monkeypatch):
    """With a stand-in for the GPU; what a real one draws is looked at in `test_gpu`."""
    trainer, given = make_trainer().trainer, []
    random = trainer.get_state()["statistics"]["random"]
    assert random.keys() == {"shuffling", "acting", "drawing", "torch"}
    drawn, place = torch.arange(16, dtype=torch.uint8), torch.device("cuda", 1)
    own = {"torch": torch.from_numpy(random["torch"])}
    others = {"torch_of_others": own["torch"][None], "torch_cuda_of_others": drawn[None] + 1}
    with monkeypatch.context() as gpu:
        gpu.setattr(trainer.torch_state, "_device", place)
        trainer.torch_state.gpu = drawn
        found = {name: torch.from_numpy(v) for name, v in trainer._torch_states().items()}
        trainer.torch_state.gpu = drawn + 2
        trainer._set_torch_states(own, 0)  # of a version before, or of a CPU
        given.append(trainer.torch_state.gpu)
        trainer._set_torch_states(found, 0)
        given.append(trainer.torch_state.gpu)
        gpu.setattr(trainer, "group", SimpleNamespace(rank=1, size=2))
        trainer._set_torch_states({**found, **others}, 0)
        given.append(trainer.torch_state.gpu)
    trainer._set_torch_states(found, 0)  # which a CPU does not need
    assert trainer.torch_state.gpu is None
    expected = [(drawn + change).tolist() for change in (2, 0, 1)]
    assert [state.tolist() for state in given] == expected


def test_a_state_of_another_kind_of_device_is_refused_and_changes_nothing(make_trainer):
    """A generator of a GPU has 16 bytes."""
    trainer, other = make_trainer("a").trainer, make_trainer("b")
    stop_at(other, 2)
    state, before = other.get_state(), trainer.get_state()
    state["statistics"]["random"]["acting"] = np.arange(16, dtype=np.uint8)
    with pytest.raises(CheckpointError, match="another kind of device than cpu, which draws other"):
        trainer.set_state(state)
    np.testing.assert_equal(trainer.get_state(), before)


def test_a_state_of_another_version_of_the_method_is_refused_and_changes_nothing(make_trainer):
    trainer, other = make_trainer("a").trainer, make_trainer("b")
    stop_at(other, 2)
    state, before = other.get_state(), trainer.get_state()
    state["progress"]["method_version"] = 7
    with pytest.raises(CheckpointError, match=r"version 1, but the .* with version 7; install"):
        trainer.set_state(state)
    np.testing.assert_equal(trainer.get_state(), before)
    del state["progress"]["method_version"]  # older ones do not say it
    trainer.set_state(state)


def test_what_has_changed_since_the_latest_count_is_noted(make_trainer):
    """One process with one thread goes on with runs that had others, or these again."""
    trainer, state = make_trainer(), make_trainer("b").get_state()
    again = [[0, 1], [2, 4], [3, 1]]
    changed = {"iteration": 3, "processes": [[0, 1], [2, 4]], "threads": again}
    trainer.set_state({**state, "progress": {**state["progress"], **changed}})
    assert (trainer.processes, trainer.threads) == (again, again)


def test_what_a_run_was_made_with_is_noted_where_it_changes(make_trainer, monkeypatch):
    trainer, state = make_trainer(), make_trainer("b").get_state()
    before = {**trainer.made_with[0][1], "torch": "1.0"}
    progress = {**state["progress"], "iteration": 2, "made_with": [[0, before]]}
    trainer.set_state({**state, "progress": progress})
    assert trainer.made_with == [[0, before], [2, make_trainer("c").made_with[0][1]]]
    del progress["made_with"]  # older ones do not say it
    trainer.set_state({**state, "progress": progress})
    assert trainer.made_with == [[2, make_trainer("d").made_with[0][1]]]


def test_the_threads_of_a_run_are_those_of_simulation_and_networks(make_trainer):
    if available_threads() < 2:
        pytest.skip("needs two cores")
    trainer = make_trainer(threads=2).trainer
    assert trainer.env.core.simulator.num_threads == 2
    assert (trainer.num_threads, trainer.threads) == (2, [[0, 2]])


def test_networks_act_on_one_thread_and_learn_on_all(make_trainer, monkeypatch):
    trainer, seen = make_trainer().trainer, {}
    trainer.num_threads = 2

    def noting(owner, name):
        call = getattr(owner, name)

        def noted(*arguments, **options):
            seen[name] = torch.get_num_threads()
            return call(*arguments, **options)

        monkeypatch.setattr(owner, name, noted)

    noting(trainer.collector, "collect")
    noting(trainer.algorithm, "update")
    trainer.iterate()
    assert seen == {"collect": 1, "update": 2}


def test_seconds_are_added_up_by_purpose(make_trainer, monkeypatch):
    """By a clock that moves in simulation, policy, updates and listeners."""
    trainer, now = make_trainer().trainer, [0.0]
    clock = SimpleNamespace(perf_counter=lambda: now[0])
    for module in ("collector", "trainer"):
        monkeypatch.setattr(f"gmc_bench.training.{module}.time", clock)

    def takes(seconds, owner, name):
        call = getattr(owner, name)

        def taking(*arguments, **options):
            now[0] += seconds
            return call(*arguments, **options)

        monkeypatch.setattr(owner, name, taking)

    takes(100.0, trainer.env, "step")
    takes(1.0, trainer.collector.bound, "explore")
    takes(10_000.0, trainer.algorithm, "update")
    trainer.train(lambda _: now.append(now.pop() + 1e6))
    assert vars(trainer.timers) == {
        "simulation": 5 * 16 * 100.0,
        "policy": 5 * 16 * 1.0,
        "update": 5 * 10_000.0,
        "total": 5 * (16 * 101.0 + 10_000.0 + 1e6),
    }


def test_bfloat16_keeps_weights_and_actions_in_float32(make_trainer):
    trainer = make_trainer("half", precision="bfloat16")
    trainer.iterate()
    assert {value.dtype for value in trainer.model.parameters()} == {torch.float32}
    assert trainer.buffer.actions.dtype == torch.float32
    exact = make_trainer("full")
    exact.iterate()
    found, expected = trainer.buffer.value, exact.buffer.value
    assert not torch.equal(found, expected)
    # The first rollouts differ by rounding only: eight bits of the mean action.
    assert (trainer.buffer.actions[0] - exact.buffer.actions[0]).abs().max() < 0.05
    assert (found[0] - expected[0]).abs().max() < 0.05


def test_bfloat16_is_part_of_a_runs_identity(make_trainer):
    half = make_trainer("half", precision="bfloat16").config
    assert half.identity()["precision"] == "bfloat16"
    assert half.identity() != make_trainer("full").config.identity()


@pytest.mark.parametrize("name", ["recmorph", "metamorph-star", "nervenet"])
def test_losses_in_bfloat16_are_those_of_float32(name):
    """To one in a hundred, with weights that have left their start."""
    spec, method = TokenSpec(12), METHODS.get(name)
    tokens = random_tokens(np.random.default_rng(0), spec, (12, 5, 9, 7), batch_size=64)
    generator = torch.Generator().manual_seed(0)
    actions = torch.randn(64, 12, 2, generator=generator)
    numbers = torch.randn(4, 64, generator=generator)
    losses = []
    for precision in ("float32", "bfloat16"):
        torch.manual_seed(0)
        model = ActorCritic(method, method.make_config("lite"), spec, precision=precision)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(0.02 * torch.randn_like(parameter))
        space = gymnasium.spaces.Box(-1.0, 1.0, (12, 2))
        config = PPOConfig(target_kl=None)
        algorithm = MorphologyPPO(model, space, config, 10, torch.Generator())
        if not losses:
            old = model.distribution(tokens).log_prob(actions).detach()
        batch = Minibatch(tokens, None, actions, old + 0.1 * numbers[0], *numbers[1:])
        parts, _ = algorithm._gradients(batch)
        losses.append(parts[0])
    torch.testing.assert_close(losses[1], losses[0], rtol=1e-2, atol=0)
