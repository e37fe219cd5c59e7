"""Representations of a real policy, and probes of made-up ones."""

import dataclasses
import math

import numpy as np
import pytest
import torch

from gmc_bench.conformance.morphologies import biped, chain, star
from gmc_bench.core.errors import ConfigError
from gmc_bench.envs.core import EnvironmentCore
from gmc_bench.methods import METHODS
from gmc_bench.methods.policy import ActorCritic
from gmc_bench.nn import TokenBatch
from gmc_bench.nn.tap import watch_representations
from gmc_bench.policies.bound import token_table
from gmc_bench.policies.normalization import TokenNormalizer
from gmc_bench.policies.policy import Policy
from gmc_bench.sim.batch import spawn_streams
from gmc_bench.studies import representation
from gmc_bench.studies.representation import Features, collect, plot_pca, probe
from gmc_bench.tasks.unimal_ft import TASK
from gmc_bench.tokens.spec import TokenSpec

BODIES = (chain(3), star(4), biped())
SPEC = TokenSpec(max_limbs=6)
LIMBS = 3 + 5 + 5


def trained(name="recmorph", order="dfs"):
    torch.manual_seed(0)
    method = METHODS.get(name)
    model = ActorCritic(method, method.make_config("lite"), SPEC, num_bodies=len(BODIES))
    core = EnvironmentCore(TASK, BODIES, 3, token_spec=SPEC, num_threads=1)
    return Policy(model, TokenNormalizer(core.table), order=order)


def collected(name="recmorph", *, horizon=12, seed=1, order="dfs", **options):
    task = dataclasses.replace(TASK, horizon=horizon)
    settings = {"kept": range(10, 30), "num_threads": 1, **options}
    return collect(trained(name, order), task, BODIES, seed=seed, **settings)


@pytest.fixture(scope="module")
def features():
    return collected()


def test_every_limb_of_every_kept_step_is_there_once(features):
    assert len(features.before) == len(features.after) == 20 * LIMBS
    columns = (part.tolist() for part in (features.step, features.robot, features.limb))
    assert set(zip(*columns, strict=True)) == {
        (step, robot, limb)
        for step in range(10, 30)
        for robot, body in enumerate(BODIES)
        for limb in range(body.num_limbs)
    }
    assert features.bodies == ("chain-3", "star-4", "biped")
    motors = sum(len(body.actuators) for body in BODIES)
    assert (~features.action_padding_mask).sum() == 20 * motors
    assert not features.actions[features.action_padding_mask].any()
    assert features.actions[~features.action_padding_mask].all()


def by_hand(name, steps, forget):
    """Play episodes of one step each, and return what the actor makes of limbs, step by step."""
    policy = trained(name)
    model, normalizer = policy.model, policy.normalizer
    model.eval()
    core = EnvironmentCore(TASK, BODIES, 3, token_spec=SPEC, num_threads=1)
    core.simulator.streams[:] = spawn_streams(1, 3)
    table, rows = token_table(core.table, normalizer), np.arange(3)
    state, found = model.initial_state(3), []
    for _ in range(steps):
        core.reset(rows, rows)
        dynamic = normalizer.normalize(core.dynamic, core.table.limb_padding_mask)
        tokens = TokenBatch(table, torch.arange(3), torch.from_numpy(dynamic))
        with torch.no_grad(), watch_representations(model.actor) as latest:
            distribution, state = model.step(tokens, state, critic=False)
            seen, real = latest(tokens), ~tokens.limb_padding_mask
        before, after = (tokens.packing.unpack(part)[real] for part in (seen.before, seen.after))
        found.append((before.numpy(), after.numpy(), distribution.mode[real].numpy()))
        core.step(distribution.mode.numpy())
        state = model.remember(state, distribution.mode)
        state = model.initial_state(3) if forget else state
    return [np.concatenate(parts) for parts in zip(*found, strict=True)]


@pytest.mark.parametrize("name", ["recmorph", "mi-hgnn", "smr"])
def test_rows_are_what_the_actor_makes_of_what_the_bodies_show(name):
    found = collected(name, horizon=1, kept=range(3))
    expected = by_hand(name, 3, forget=True)
    for rows, known in zip((found.before, found.after, found.actions), expected, strict=True):
        np.testing.assert_array_equal(rows, known)


def test_a_policy_with_a_memory_forgets_when_an_episode_ends():
    found = collected("smr", horizon=1, kept=range(3))
    kept = by_hand("smr", 3, forget=False)[0]
    np.testing.assert_array_equal(found.before[:LIMBS], kept[:LIMBS])
    assert not np.allclose(found.before[LIMBS:], kept[LIMBS:])


def test_episodes_start_again_and_steps_go_on_counting(monkeypatch):
    ends = []
    reset = EnvironmentCore.reset

    def watched(self, rows, bodies):
        ends.append((int(self.episode_length.max()), rows.tolist(), bodies.tolist()))
        reset(self, rows, bodies)

    monkeypatch.setattr(EnvironmentCore, "reset", watched)
    found = collected(horizon=12)
    started = [row for _, rows, _ in ends[1:] for row in rows]
    assert all(rows == bodies for _, rows, bodies in ends)
    assert min(started.count(row) for row in range(3)) >= 2  # after 12 and 24 steps at the latest
    assert found.step.max() == 29


def test_the_same_seed_gives_the_same_bits_and_the_policy_is_left_as_it_was(features):
    torch.manual_seed(9)
    again = collected()
    for field in dataclasses.fields(Features):
        np.testing.assert_array_equal(getattr(features, field.name), getattr(again, field.name))
    assert not np.array_equal(collected(seed=2).before, features.before)
    policy = trained()
    model = policy.model
    before = {key: value.clone() for key, value in model.state_dict().items()}
    collect(policy, TASK, BODIES, seed=1, kept=range(2), num_threads=1)
    assert model.training
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())


def test_another_order_moves_limbs_and_nothing_else():
    found = collected("metamorph-star", kept=range(1))  # which is blind to the order
    other = collected("metamorph-star", kept=range(1), order="bfs")
    biped = slice(LIMBS - 5, LIMBS)  # torso, thigh, shin, thigh, shin
    order = np.array([0, 1, 3, 2, 4])
    np.testing.assert_array_equal(other.limb, found.limb)
    np.testing.assert_allclose(other.before[biped], found.before[biped][order], atol=1e-5)
    assert not np.allclose(other.before[biped], found.before[biped], atol=1e-3)
    masks = (item.action_padding_mask[biped] for item in (other, found))
    np.testing.assert_array_equal(next(masks), next(masks)[order])
    again = collected("metamorph-star", order="bfs")
    np.testing.assert_allclose(
        again.after[biped], collected("metamorph-star").after[biped][order], atol=1e-3
    )


def test_steps_are_thinned_out_evenly(features, monkeypatch):
    thin = collected(kept=range(10, 30, 3))
    assert sorted(set(thin.step.tolist())) == [10, 13, 16, 19, 22, 25, 28]
    kept = (features.step - 10) % 3 == 0
    np.testing.assert_array_equal(thin.after, features.after[kept])
    monkeypatch.setattr(representation, "MAX_COLLECTED", 7 * LIMBS)
    np.testing.assert_array_equal(collected().after, thin.after)


def test_steps_are_thinned_out_to_as_many_rows_as_may_be():
    assert representation._thinned(range(200, 500), 1) == range(200, 500)
    for limbs in (907, 12_000, 199_999):
        kept = representation._thinned(range(200, 500), limbs)
        more = range(200, 500, kept.step - 1)
        assert len(kept) * limbs <= representation.MAX_COLLECTED < len(more) * limbs
    assert representation._thinned(range(200, 500), 300_000) == range(200, 201, 300)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"kept": range(30, 30)}, r"got range\(30, 30\)"),
        ({"kept": range(9, 0, -1)}, r"got range\(9, 0, -1\)"),
    ],
)
def test_settings_that_keep_nothing_are_refused(options, sentence):
    with pytest.raises(ConfigError, match=sentence):
        collected(**options)


def test_a_method_that_sees_whole_bodies_is_refused():
    with pytest.raises(ConfigError, match="MLPBank shows no limbs before and after"):
        collected("mlp")


def made_up(before, after, *, bodies=3, limbs=4, steps=60):
    """Return features of two functions of (robot, limb, actions, rng)."""
    rng = np.random.default_rng(3)
    shape = (steps, bodies, limbs)
    step, robot, limb = (part.ravel() for part in np.indices(shape))
    actions = rng.normal(size=(step.size, 2)).astype(np.float32)
    return Features(
        before=before(robot, limb, actions, rng).astype(np.float32),
        after=after(robot, limb, actions, rng).astype(np.float32),
        robot=robot,
        limb=limb,
        step=step,
        actions=actions,
        action_padding_mask=np.zeros((step.size, 2), bool),
        bodies=tuple("abcdefgh"[:bodies]),
    )


def identities(robot, limb, actions, rng):
    marks = np.concatenate((np.eye(3)[robot], np.eye(4)[limb]), axis=1)
    return marks + 0.01 * rng.normal(size=marks.shape)


def mapped_actions(robot, limb, actions, rng):
    return actions @ rng.normal(size=(2, 7))


def test_features_that_tell_who_and_features_that_tell_what():
    found = probe(made_up(identities, mapped_actions), seed=0)
    assert (found.robot_id_before, found.limb_id_before) == (1.0, 1.0)
    assert found.robot_id_after == pytest.approx(1 / 3, abs=0.1)
    assert found.limb_id_after == pytest.approx(1 / 4, abs=0.1)
    assert found.action_r2_before < 0.05
    assert found.action_r2_after == pytest.approx(1.0, abs=1e-4)
    assert found.action_nrmse_before == pytest.approx(1.0, abs=0.03)
    assert found.action_nrmse_after == pytest.approx(0.0, abs=0.01)
    assert found.ch_before > 50 * found.ch_after
    assert (found.num_rows, found.num_bodies) == (60 * 12, 3)


def test_the_pair_of_errors_is_that_of_the_same_rows():
    found = probe(made_up(identities, mapped_actions), seed=0)
    assert found.action_nrmse_before == pytest.approx(math.sqrt(1 - found.action_r2_before))


def test_equal_features_give_equal_numbers_and_scale_does_not_count():
    found = probe(made_up(identities, lambda *args: 0 * identities(*args)), seed=0)
    assert found.robot_id_after == pytest.approx(1 / 3)
    fixed = made_up(identities, identities).before
    same = probe(made_up(lambda *_: fixed, lambda *_: 1000 * fixed + 7), seed=0)
    for name in ("robot_id", "limb_id", "action_r2", "ch"):
        pair = (getattr(same, f"{name}_{stage}") for stage in ("before", "after"))
        assert next(pair) == pytest.approx(next(pair), abs=0.02)


def test_clusters_are_those_of_limbs_whatever_the_units_of_a_channel():
    """By the definition of the index, with channels in units of their spread."""
    units = np.array([1e3, 1.0, 1e-3, 1.0, 5.0, 1.0, 20.0])
    features = made_up(identities, lambda *args: units * mapped_actions(*args), steps=20)
    found = probe(features, seed=0)
    for values, index in ((features.before, found.ch_before), (features.after, found.ch_after)):
        values = values.astype(np.float64)
        scaled = (values - values.mean(axis=0)) / values.std(axis=0)
        groups = [scaled[features.limb == limb] for limb in range(4)]
        between = sum(len(group) * (group.mean(axis=0) ** 2).sum() for group in groups) / (4 - 1)
        within = sum(((group - group.mean(axis=0)) ** 2).sum() for group in groups)
        assert index == pytest.approx(between / (within / (len(values) - 4)), rel=1e-3)


def test_what_holds_only_in_the_time_fitted_to_is_not_believed():
    features = made_up(identities, identities)
    late = features.step >= 40
    swapped = np.where(late, (features.robot + 1) % 3, features.robot)
    found = probe(dataclasses.replace(features, robot=swapped), seed=0)
    assert found.robot_id_before == 0.0


def test_one_body_is_refused():
    features = dataclasses.replace(made_up(identities, identities), bodies=("a",))
    with pytest.raises(ConfigError, match="need at least two bodies, got 1"):
        probe(features, seed=0)


def test_a_real_policy_is_probed_with_the_same_bits_twice(features):
    found = probe(features, seed=0)
    assert found == probe(features, seed=0)
    assert found.num_rows == 20 * LIMBS
    # Context tells the limbs of three unlike bodies apart before they exchange anything.
    assert found.limb_id_before > 0.6
    # RecMorph's decoder is linear in what it reads.
    assert found.action_r2_after > found.action_r2_before


@pytest.mark.slow
def test_the_picture_is_the_same_file_twice_and_shows_the_features(features, tmp_path):
    other = dataclasses.replace(features, after=features.before)
    for name, shown in (("a.png", features), ("b.png", features), ("c.png", other)):
        plot_pca(shown, tmp_path / "new" / name)
    first, second, third = (path.read_bytes() for path in sorted((tmp_path / "new").iterdir()))
    assert first == second != third
    assert first.startswith(b"\x89PNG")


def test_components_explain_variance_and_point_to_the_largest_weight():
    rng = np.random.default_rng(0)
    line = rng.normal(size=(500, 1))
    values = np.hstack((line, line, -line, rng.normal(size=(500, 1)))).astype(np.float32)
    places, shares = representation._principal(values)
    assert shares == pytest.approx([0.75, 0.25], abs=0.01)
    assert abs(np.corrcoef(places[:, 0], line[:, 0])[0, 1]) > 0.99
    again, _ = representation._principal(-values)
    np.testing.assert_allclose(again, -places, atol=1e-4)
