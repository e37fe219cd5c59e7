"""Policies as users have them: made, saved, read, and driving environments of gymnasium."""

import copy
import hashlib
import json
import pickle
from dataclasses import replace

import gymnasium
import numpy as np
import pytest
import torch

import gmc_bench.envs  # noqa: F401 - registers the environments
from gmc_bench.bodies.parts import scale_mass
from gmc_bench.conformance.morphologies import biped, chain, linkage, star
from gmc_bench.core.config import config_digest
from gmc_bench.core.errors import CheckpointError, ConfigError, RecordError
from gmc_bench.envs.bodies import tabulate
from gmc_bench.envs.morphology_env import MorphologyEnv
from gmc_bench.envs.morphology_vector_env import MorphologyVectorEnv
from gmc_bench.methods import METHODS
from gmc_bench.methods.policy import ActorCritic
from gmc_bench.policies.bound import Observed
from gmc_bench.policies.options import PolicyOptions
from gmc_bench.policies.policy import Policy, run_seeds
from gmc_bench.policies.policy_file import write_policy_file
from gmc_bench.records.ledger import append
from gmc_bench.robots import ROBOTS
from gmc_bench.suites.protocol import PPOConfig, Protocol
from gmc_bench.tasks.quadruped_velocity import TASK as QUADRUPEDS
from gmc_bench.tasks.unimal_ft import TASK
from gmc_bench.tasks.unimal_vt import TASK as RUGGED
from gmc_bench.tokens.serialization import make_serialization
from gmc_bench.tokens.spec import TokenSpec
from gmc_bench.training.trainer import Trainer
from tests.support.evaluate import evaluate

BODIES = (chain(3), star(4), biped())
SPEC = TokenSpec(6)
SMALL = {
    "recmorph": {"width": 8, "hidden": 8},
    "mlp": {"hidden": [6]},
    "gcnt": {},
    "metamorph": {"embedding_dropout": 0.5},
    "smr": {},
}


_MADE = {}
"""Policies by their arguments, which tests get copies of: to make one takes longer."""


def policy_of(method="recmorph", *, bodies=BODIES, seed=3, spec=SPEC, **options):
    """Return an untrained policy whose actions are not small."""
    key = method, seed, spec, *options.items()
    if bodies is BODIES and key in _MADE:
        return copy.deepcopy(_MADE[key])
    policy = Policy.untrained(
        method, TASK, bodies, seed=seed, config=SMALL[method], spec=spec,
        options=PolicyOptions(**options),
    )  # fmt: skip
    with torch.no_grad():
        for parameter in policy.model.actor.parameters():
            parameter.mul_(3.0)
    policy.normalizer.dynamic.mean += 0.1
    if bodies is BODIES:
        _MADE[key] = copy.deepcopy(policy)
    return policy


@pytest.mark.parametrize("method", ["metamorph", "mlp"])
def test_training_starts_from_the_untrained_policy_and_its_random_numbers(method):
    """Also where networks draw numbers (dropout), and with weights of each body's own."""
    protocol = Protocol(
        name="unit", preset="lite", env_steps=96, num_envs=3, rollout_length=16,
        ppo=PPOConfig(repeat=1, batch_size=24),
    )  # fmt: skip
    results = []
    for disturbed in (False, True):
        rules = replace(protocol, env_steps=1536) if method == "mlp" else protocol
        env = MorphologyVectorEnv(TASK, BODIES, 3, token_spec=SPEC, num_threads=1)
        before = torch.get_rng_state()
        policy = Policy.untrained(method, TASK, BODIES, seed=5, config=SMALL[method], spec=SPEC)
        assert torch.equal(torch.get_rng_state(), before)
        start = policy.to_bytes()
        if disturbed:
            torch.rand(7)
        trainer = Trainer(env, policy, rules, seed=5)
        assert policy.to_bytes() == start
        trainer.iterate()
        assert policy.to_bytes() != start
        results.append((start, policy.to_bytes()))
    assert results[0] == results[1]
    other = Policy.untrained(method, TASK, BODIES, seed=6, config=SMALL[method], spec=SPEC)
    assert other.to_bytes() != results[0][0]


@pytest.mark.parametrize("method", ["recmorph", "mlp", "smr"])
def test_a_saved_policy_acts_as_before(method, tmp_path):
    policy = policy_of(method, order="bfs", normalization="per_slot")
    policy.save(tmp_path / "walk.safetensors")
    loaded = Policy.load(tmp_path / "walk.safetensors")
    assert loaded.to_bytes() == policy.to_bytes()
    assert (loaded.order, loaded.spec, loaded.method) == ("bfs", SPEC, method)
    rules = {"episodes": 1, "seed": 2, "num_threads": 1}
    task = replace(TASK, horizon=20)
    expected = evaluate(policy, task, BODIES, **rules)
    assert evaluate(loaded, task, BODIES, **rules) == expected

    # Without its critic it acts the same, in one file, and that is all.
    path = tmp_path / "acting.safetensors"
    path.write_bytes(policy.actor_bytes())
    acting = Policy.load(path)
    assert (acting.acts_only, loaded.acts_only) == (True, False)
    assert evaluate(acting, task, BODIES, **rules) == expected
    assert policy.actor_bytes() == acting.actor_bytes() == path.read_bytes()
    assert acting.model.num_parameters() == policy.model.num_parameters()
    assert all(weight.isnan().all() for weight in acting.model.critic.parameters())
    env = MorphologyVectorEnv(TASK, BODIES, 3, token_spec=SPEC, num_threads=1)
    with pytest.raises(ConfigError, match="read without its critic and cannot be trained"):
        Trainer(
            env,
            acting,
            Protocol(
                name="unit", preset="lite", env_steps=1536, num_envs=3, rollout_length=16,
                ppo=PPOConfig(repeat=1, batch_size=24),
            ),
        )  # fmt: skip


def test_a_policy_that_a_gpu_trained_in_tf32_is_loaded_on_a_cpu(tmp_path):
    policy_of(precision="tf32").save(tmp_path / "walk.safetensors")
    found = Policy.load(tmp_path / "walk.safetensors")
    assert (found.model.precision, found.device.type) == ("tf32", "cpu")


def test_a_saved_policy_keeps_its_options(tmp_path):
    policy = policy_of(action_std=0.5, precision="bfloat16", normalization="per_slot")
    assert float(policy.model.action_std) == 0.5
    policy.save(tmp_path / "walk.safetensors")
    for found in (policy, Policy.load(tmp_path / "walk.safetensors")):
        assert float(found.model.action_std) == 0.5
        assert (found.model.precision, found.normalizer.mode) == ("bfloat16", "per_slot")


@pytest.mark.parametrize("training", [False, True])
def test_acting_leaves_the_networks_in_the_mode_that_they_were_in(training):
    policy = policy_of("metamorph")
    model = policy.model.train(training)
    with policy.acting():
        assert not any(part.training for part in model.modules())
    assert all(part.training is training for part in model.modules())


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"order": "siblings"}, "'order' must be .*, got 'siblings', which is for training only"),
        ({"action_std": 0.0}, "'action_std' must be positive, from .*, got 0.0"),
        ({"action_std": -0.5}, "'action_std' must be positive, from .*, got -0.5"),
    ],
)
def test_options_that_no_policy_can_have_are_refused(change, reason):
    with pytest.raises(ConfigError, match=reason):
        PolicyOptions(**change)


def test_first_weights_follow_from_the_seed():
    assert run_seeds(1) == np.random.SeedSequence(1).generate_state(4).tolist()
    assert run_seeds(1)[0] == 1835504127
    policy = Policy.untrained("recmorph", TASK, BODIES, seed=1, config=SMALL["recmorph"], spec=SPEC)
    method = METHODS.load("recmorph")
    torch.manual_seed(1835504127)
    expected = ActorCritic(method, method.make_config(changes=SMALL["recmorph"]), SPEC)
    for one, other in zip(policy.model.parameters(), expected.parameters(), strict=True):
        assert torch.equal(one, other)


def test_weights_that_a_leaderboard_keeps_must_be_those_that_were_added(tmp_path):
    data = policy_of().actor_bytes()
    name = f"weights/{'0' * 64}.safetensors"
    (tmp_path / "weights").mkdir()
    (tmp_path / name).write_bytes(data)
    append(tmp_path / "ledger.jsonl", "weights", name, hashlib.sha256(data).hexdigest())
    assert Policy.load(tmp_path / name).actor_bytes() == data
    (tmp_path / name).write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(CheckpointError, match="another file than the one that was added"):
        Policy.load(tmp_path / name)


@pytest.mark.parametrize("listed", [True, False])
def test_a_policy_that_a_leaderboard_keeps_names_no_code(tmp_path, listed):
    (tmp_path / "evil.py").write_text(f"open({str(tmp_path / 'executed')!r}, 'w')\n")
    policy = policy_of()
    policy.method = f"{tmp_path / 'evil.py'}:SPEC"
    data, name = policy.actor_bytes(), f"weights/{'0' * 64}.safetensors"
    (tmp_path / "weights").mkdir()
    (tmp_path / name).write_bytes(data)
    if not listed:  # what a stranger's branch may bring along
        name = f"weights/{'1' * 64}.safetensors"
    append(tmp_path / "ledger.jsonl", "weights", name, hashlib.sha256(data).hexdigest())
    with pytest.raises(RecordError, match="registered methods only"):
        Policy.load(tmp_path / "weights" / f"{'0' * 64}.safetensors")
    assert not (tmp_path / "executed").exists()


def test_a_methods_file_that_draws_leaves_the_callers_generator_alone(tmp_path):
    (tmp_path / "draws.py").write_text(
        "import torch\nfrom recmorph import SPEC\nBASIS = torch.randn(4)\n"
    )
    policy = policy_of()
    policy.method = f"{tmp_path / 'draws.py'}:SPEC"
    policy.save(tmp_path / "p.safetensors")
    before = torch.get_rng_state()
    Policy.load(tmp_path / "p.safetensors")
    assert torch.equal(torch.get_rng_state(), before)


def test_files_that_hold_no_policy_are_refused(tmp_path):
    path = tmp_path / "walk.safetensors"
    with pytest.raises(ConfigError, match=r"saved as NAME\.safetensors, got .*walk\.onnx"):
        policy_of().save(tmp_path / "walk.onnx")
    with pytest.raises(CheckpointError, match=r"walk\.safetensors cannot be read"):
        Policy.load(path)
    path.write_bytes(policy_of().to_bytes())  # as in the folder of a run
    with pytest.raises(CheckpointError, match=r"does not say of which method .*; give the folder"):
        Policy.load(path)
    save_as_pair(policy_of(), path)
    described = path.with_suffix(".json")
    content = json.loads(described.read_bytes())
    described.write_text(json.dumps({**content, "order": "bfs"}))
    with pytest.raises(CheckpointError, match="was changed after it was written"):
        Policy.load(path)
    del content["digest"]  # as files of before there were digests
    described.write_text(json.dumps({**content, "format": 2}))
    with pytest.raises(CheckpointError, match=r"has format 2, but this version .* reads 1"):
        Policy.load(path)
    described.write_text(json.dumps({**content, "config": {"width": 16, "hidden": 8}}))
    with pytest.raises(CheckpointError, match="the weights of another method or other settings"):
        Policy.load(path)
    described.write_text("{}")
    with pytest.raises(CheckpointError, match="describes no policy"):
        Policy.load(path)
    described.write_text(json.dumps(content))
    path.write_bytes(policy_of(seed=4).to_bytes())
    with pytest.raises(CheckpointError, match=r"is not the file that walk\.json describes"):
        Policy.load(path)


@pytest.mark.parametrize(
    ("method", "changes", "reason"),
    [
        ("gcnt", {"tokens": {"max_limbs": 10_001}}, "bodies of 10,001 tokens .* are too large"),
        ("gcnt", {"tokens": {"max_limbs": 6, "joints_per_limb": 10**9}}, "1,000,000,000 joints"),
        ("gcnt", {"tokens": {"max_limbs": 6, "num_heights": 10**9}}, "1,000,000,000 heights"),
        ("gcnt", {"tokens": {"max_limbs": 9999, "joints_per_limb": 500}}, "500 joints each"),
        ("gcnt", {"config": "lite"}, "describes no policy .its settings are 'lite'"),
        ("gcnt", {"num_bodies": 0}, "at least one body, got 0"),
        ("gcnt", {"num_bodies": "3"}, "at least one body, got '3'"),
        ("mlp", {"num_bodies": 300_000}, "too few numbers .* of 300,000 bodies"),
    ],
)
def test_settings_and_sizes_that_no_policy_has_are_refused(method, changes, reason, tmp_path):
    save_changed(policy_of(method), tmp_path / "walk.safetensors", changes)
    with pytest.raises(CheckpointError, match=reason):
        Policy.load(tmp_path / "walk.safetensors")


def test_networks_of_a_file_that_memory_cannot_hold_are_refused(tmp_path, monkeypatch):
    save_changed(policy_of(), tmp_path / "walk.safetensors", {"config": {"width": 10**6}})
    monkeypatch.setattr("gmc_bench.policies.policy.available_memory", lambda: 2**20)
    with pytest.raises(ConfigError, match="need more memory than this machine gives"):
        Policy.load(tmp_path / "walk.safetensors")


def test_bodies_that_share_weights_take_no_memory(tmp_path):
    policy = policy_of("gcnt")
    save_changed(policy, tmp_path / "walk.safetensors", {"num_bodies": 10**12})
    loaded = Policy.load(tmp_path / "walk.safetensors")
    assert (loaded.to_bytes(), loaded.model.num_bodies) == (policy.to_bytes(), 10**12)


def save_changed(policy, path, changes):
    """Write a policy with changes to what its file says of it."""
    write_policy_file(path, policy.tensors(), policy._description() | changes)


def save_as_pair(policy, path):
    """Write a policy as versions did that wrote the description into a second file."""
    data = policy.to_bytes()
    content = policy._description() | {"weights_digest": hashlib.sha256(data).hexdigest()}
    content["digest"] = config_digest(content)
    path.write_bytes(data)
    path.with_suffix(".json").write_text(json.dumps(content, indent=1))


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        ("lacks", "the weights of another method"),
        ("shape", r"statistics of the shape \(16,\), exp"),
    ],
)
@pytest.mark.parametrize("without_critic", [False, True])
def test_tensors_that_are_refused_leave_the_policy_as_it_was(damage, reason, without_critic):
    policy, tensors = policy_of(), policy_of(seed=4).tensors()
    policy.acts_only = not without_critic
    before = policy.to_bytes()
    if without_critic:
        tensors = {k: v for k, v in tensors.items() if not k.startswith("model.critic.")}
    name = "normalizer.dynamic_mean"
    if damage == "lacks":
        del tensors[name]
    else:
        tensors[name] = tensors[name][:-1]
    with pytest.raises(CheckpointError, match=f"the file holds .*{reason}"):
        policy.set_tensors(tensors, "the file")
    assert policy.acts_only is not without_critic
    assert policy.to_bytes() == before


def test_tensors_leave_what_is_bound_to_bodies_normalised_as_before():
    policy = policy_of()
    table = tabulate(TASK, BODIES, SPEC)
    bound = policy.on(table, 1)
    before = bound.table.context.clone()
    policy.set_tensors(policy_of(bodies=(chain(5), star(2))).tensors(), "the file")
    assert torch.equal(bound.table.context, before)
    assert not torch.allclose(policy.on(table, 1).table.context, before, atol=0.1)


def test_one_file_holds_a_saved_policy(tmp_path):
    """It can be moved; a pair of files of an older version is read, too."""
    policy, moved = policy_of(), tmp_path / "elsewhere" / "run.safetensors"
    moved.parent.mkdir()
    policy.save(tmp_path / "walk.safetensors")
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["walk.safetensors"]
    (tmp_path / "walk.safetensors").rename(moved)
    loaded = Policy.load(moved)
    assert (loaded.to_bytes(), loaded.acts_only) == (policy.to_bytes(), False)
    loaded.save(tmp_path / "again.safetensors")
    assert (tmp_path / "again.safetensors").read_bytes() == moved.read_bytes()
    save_as_pair(policy, tmp_path / "old.safetensors")
    assert Policy.load(tmp_path / "old.safetensors").to_bytes() == policy.to_bytes()


def test_a_policy_of_a_file_is_loaded_from_any_working_folder(tmp_path, monkeypatch):
    (tmp_path / "my.py").write_text("from recmorph import SPEC\n")
    monkeypatch.chdir(tmp_path)
    policy = Policy.untrained("my.py:SPEC", TASK, BODIES[:1], config=SMALL["recmorph"])
    policy.save("walk.safetensors")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert Policy.load(tmp_path / "walk.safetensors").to_bytes() == policy.to_bytes()


def test_a_saved_policy_that_was_changed_is_refused(tmp_path):
    path = tmp_path / "walk.safetensors"
    policy_of().save(path)
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(CheckpointError, match="its weights are not those that it describes"):
        Policy.load(path)
    path.write_bytes(whole.replace(b'\\"order\\": \\"dfs\\"', b'\\"order\\": \\"bfs\\"'))
    assert path.read_bytes() != whole
    with pytest.raises(CheckpointError, match="its digest is not that of its content"):
        Policy.load(path)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_a_policy_that_acts_in_an_environment_can_be_copied(copied):
    """The copy acts nowhere yet; the original goes on."""
    policy = policy_of("smr")
    env = MorphologyVectorEnv(TASK, BODIES, 2, token_spec=SPEC, num_threads=1)
    observation, _ = env.reset(seed=0)
    policy.reset(env)
    expected = policy.act(observation)
    other = copied(policy)
    assert other.to_bytes() == policy.to_bytes()
    with pytest.raises(ConfigError, match=r"say which environment it is of with policy\.reset"):
        other.act(observation)
    other.reset(env)
    np.testing.assert_array_equal(other.act(observation), expected)
    policy.act(observation)


@pytest.mark.parametrize("method", ["recmorph", "metamorph", "mlp", "smr"])
def test_a_batched_environment_is_driven_as_in_an_evaluation(method):
    """Two episodes in every row: what a policy remembers ends with the first."""
    task, policy = replace(TASK, horizon=8, terminations=()), policy_of(method)
    env = MorphologyVectorEnv(task, BODIES, 3, token_spec=SPEC, num_threads=1, fixed=True)
    observation, _ = env.reset(seed=7, options={"morphology_index": np.arange(3)})
    policy.reset(env)
    twin, returns = policy_of(method), np.zeros(3)
    for step in range(16):
        actions = policy.act(observation)
        if step == 4 and method != "smr":  # who comes in the middle knows the bodies, too
            late = policy_of(method)
            late.reset(env)
            np.testing.assert_array_equal(late.act(observation), actions)
        if step == 8:  # new episodes: a policy that has seen nothing would do the same
            twin.reset(env)
            np.testing.assert_array_equal(twin.act(observation), actions)
        observation, reward, *_ = env.step(actions)
        returns += reward if step < 8 else 0.0
    found = evaluate(policy, task, BODIES, episodes=1, seed=7, num_threads=1)
    assert [items[0].episode_return for items in found] == returns.tolist()


@pytest.mark.parametrize("first", [0, 1])
def test_episodes_begin_in_torchs_inference_mode_and_outside_of_it(first):
    """Each of four steps in another mode than the one before; the second episode begins later."""
    env, policy = MorphologyEnv(TASK, BODIES, token_spec=SPEC), policy_of("smr")
    found = []
    for modes in ((False,) * 5, (first, 1 - first) * 2 + (first,)):
        for step, mode in enumerate(modes):
            with torch.inference_mode(bool(mode)):
                if step in (0, 3):
                    observation, _ = env.reset(seed=1)
                if step == 0:
                    policy.reset(env)
                found.append(policy.act(observation))
                observation, *_ = env.step(found[-1])
    np.testing.assert_array_equal(found[:5], found[5:])


def test_networks_are_float32_whatever_torchs_default_type_is(tmp_path):
    policy_of().save(tmp_path / "walk.safetensors")
    torch.set_default_dtype(torch.float64)
    try:
        with pytest.raises(ConfigError, match=r"float64 by default here, but networks are float32"):
            Policy.load(tmp_path / "walk.safetensors")
    finally:
        torch.set_default_dtype(torch.float32)


def test_networks_are_made_on_the_cpu_whatever_torchs_default_device_is(tmp_path):
    policy_of().save(tmp_path / "walk.safetensors")
    with (
        torch.device("meta"),
        pytest.raises(ConfigError, match=r"device meta by default here, but"),
    ):
        Policy.load(tmp_path / "walk.safetensors")


@pytest.mark.parametrize("method", ["metamorph", "smr"])
def test_networks_run_in_their_own_precision_where_the_caller_has_autocast(method, tmp_path):
    env, found = MorphologyEnv(TASK, BODIES, token_spec=SPEC), []
    policy_of(method).save(tmp_path / "walk.safetensors")
    for enabled in (False, True):
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            policy = Policy.load(tmp_path / "walk.safetensors")
            observation, _ = env.reset(seed=1)
            policy.reset(env)
            found.append([policy.act(observation) for _ in range(2)])
    np.testing.assert_array_equal(*found)


def test_a_policy_on_bodies_remembers_as_its_networks_do():
    """Also what it has done."""
    policy, index = policy_of("smr"), np.arange(3)
    bound = policy.on(tabulate(TASK, BODIES, SPEC), 3)
    bound.start(index, index)
    state, rng = policy.model.initial_state(3), np.random.default_rng(0)
    with policy.acting():
        for _ in range(3):
            shown = Observed(rng.standard_normal((3, 6, 17), np.float32), index)
            tokens = bound.see(shown)
            expected, state = policy.model.act(tokens, state, None)
            np.testing.assert_array_equal(bound.act(shown), expected)
            assert torch.equal(bound.state, state)
    assert state[..., -2:].any()  # the actions


def test_a_silent_limb_is_zero_wherever_a_sequence_shows_it():
    policy, table = policy_of(), tabulate(TASK, BODIES, SPEC)
    several = make_serialization("siblings", table)
    sequences = np.arange(len(several))
    silent = np.array([2, 3, 1])
    bound = policy.on(table, len(several), serialization=several, silent_limbs=silent)
    bound.start(sequences, sequences)
    shown = np.ones((len(several), 6, 17), np.float32)
    features = bound.see(Observed(shown, several.body)).features.numpy()
    for limbs, body, seen in zip(several.limbs, several.body, features, strict=True):
        zero = limbs[: table.num_limbs[body]][~seen[: table.num_limbs[body]].any(axis=1)]
        assert zero.tolist() == [silent[body]]


def test_weights_of_each_body_are_for_one_order_of_its_limbs():
    table = tabulate(TASK, BODIES, SPEC)
    with pytest.raises(ConfigError, match="reads each body in one order of its limbs, got several"):
        policy_of("mlp").on(table, 3, serialization=make_serialization("siblings", table))


@pytest.mark.parametrize("method", ["recmorph", "gcnt", "smr"])
def test_a_single_environment_tells_all_about_its_body(method):
    bodies, spec = (linkage(1), biped()), TokenSpec(7, loops=True)
    policy = policy_of(method, bodies=bodies, spec=spec)
    env = MorphologyEnv(TASK, bodies, token_spec=spec)
    for body in (0, 1):
        # The same body still where zeros have another sign, so that a memory is kept.
        observation, _ = env.reset(seed=body, options={"morphology": body})
        assert env.observation_space.contains(observation)
        alone, told = policy_of(method, bodies=bodies, spec=spec), policy
        alone.reset()
        told.reset(env)
        for step in range(4):
            actions = told.act(observation)
            assert actions.shape == (7, 2)
            tokens = observation["tokens"]
            if step % 2:
                observation["tokens"] = np.where(tokens == 0.0, np.float32(-0.0), tokens)
            np.testing.assert_allclose(alone.act(observation), actions, atol=1e-3)  # rounding
            observation, *_ = env.step(actions)


def test_any_registered_environment_can_be_driven():
    policy = policy_of(bodies=BODIES, spec=TokenSpec(12))
    env = gymnasium.make_vec(
        "gmc_bench/unimal-ft-v1", num_envs=2, morphologies="gmc-unimal-mini", split="test",
        token_spec=policy.spec,
    )  # fmt: skip
    observation, _ = env.reset(seed=0)
    policy.reset(env)
    mean = policy.act(observation)
    drawn = policy.act(observation, torch.Generator().manual_seed(0))
    padding = env.unwrapped.table.action_padding_mask[observation["morphology_index"]]
    assert not mean[padding].any()
    assert not drawn[padding].any()
    assert 0.3 < np.std((drawn - mean)[~padding]) < 1.8


def test_what_a_policy_cannot_read_is_refused():
    policy = policy_of()
    for spec in (TokenSpec(9), TokenSpec(6, tree="breadth-first")):
        env = MorphologyVectorEnv(TASK, BODIES, 2, token_spec=spec, num_threads=1)
        with pytest.raises(ConfigError, match=r"make the environment with token_spec=policy\.spec"):
            policy.reset(env)
    env = MorphologyVectorEnv(TASK, BODIES, 2, token_spec=SPEC, num_threads=1)
    with pytest.raises(ConfigError, match=r"say which environment it is of with policy.reset"):
        policy.act(env.reset(seed=0)[0])
    single = MorphologyEnv(TASK, BODIES, token_spec=SPEC)
    for other in (policy_of("mlp"), policy_of(order="random")):  # which follows from the digest
        with pytest.raises(ConfigError, match=r"policy\.reset"):
            other.act(single.reset(seed=0)[0])
    wide = MorphologyEnv(TASK, BODIES, token_spec=TokenSpec(9))
    with pytest.raises(ConfigError, match=r"reads tokens of the shape \(6, 52\), got \(9, 52\)"):
        policy.act(wide.reset(seed=0)[0])


@pytest.mark.parametrize("wrong", [None, 3, "tokens", [], {}, {"dynamic": "a"}])
@pytest.mark.parametrize("batch", [False, True])
def test_what_is_no_observation_is_refused(wrong, batch):
    policy = policy_of()
    with pytest.raises(ConfigError):
        policy.act(wrong)
    env = MorphologyEnv(TASK, BODIES, token_spec=SPEC)
    if batch:
        env = MorphologyVectorEnv(TASK, BODIES, 2, token_spec=SPEC, num_threads=1)
    env.reset(seed=0)
    policy.reset(env)
    with pytest.raises(ConfigError, match="an observation of gmc_bench "):
        policy.act(wrong)


@pytest.mark.parametrize(
    "changed",
    [
        lambda part: part[::-1].copy()[::-1],
        lambda part: np.broadcast_to(part, (1, *part.shape))[0],
        lambda part: part.tolist(),
        torch.from_numpy,
    ],
    ids=["backwards", "read-only", "a list", "a tensor"],
)
def test_an_observation_may_lie_anywhere_in_memory(changed, recwarn):
    env, policy = MorphologyEnv(TASK, BODIES, token_spec=SPEC), policy_of()
    observation, _ = env.reset(seed=1)
    expected = policy.act(observation)
    policy.reset()
    np.testing.assert_array_equal(
        policy.act({name: changed(part) for name, part in observation.items()}), expected
    )
    assert not recwarn


def test_what_a_policy_knows_of_a_body_does_not_change_with_the_observation_that_told():
    env, policy = MorphologyEnv(TASK, BODIES, token_spec=SPEC), policy_of("gcnt")
    observation, _ = env.reset(seed=1, options={"morphology": 1})
    observation = {
        name: part.astype(bool) if "mask" in name else part for name, part in observation.items()
    }
    expected = policy.act(observation)
    again = {name: part.copy() for name, part in observation.items()}
    for part in observation.values():
        part[...] = 1
    np.testing.assert_array_equal(policy.act(again), expected)


def test_a_tensor_that_carries_gradients_is_refused():
    env, policy = MorphologyEnv(TASK, BODIES, token_spec=SPEC), policy_of()
    observation, _ = env.reset(seed=1)
    tokens = torch.from_numpy(observation["tokens"]).requires_grad_()
    with pytest.raises(ConfigError, match="an observation of gmc_bench has numbers for 'tokens'"):
        policy.act(observation | {"tokens": tokens})


@pytest.mark.parametrize("name", ["limb_padding_mask", "action_padding_mask", "parents"])
def test_an_observation_that_lacks_a_part_is_refused(name):
    observation, _ = MorphologyEnv(TASK, BODIES, token_spec=SPEC).reset(seed=0)
    del observation[name]
    with pytest.raises(ConfigError, match=f"has numbers for '{name}', got "):
        policy_of().act(observation)


@pytest.mark.parametrize(
    ("name", "wrong", "reason"),
    [
        ("limb_padding_mask", np.zeros(5), r"'limb_padding_mask' of the shape \(6,\), got \(5,\)"),
        ("limb_padding_mask", 0, r"of the shape \(6,\), got \(\)"),
        ("limb_padding_mask", np.ones(6), "got .* with 0 limbs that are no padding"),
        ("limb_padding_mask", [1, 0, 0, 0, 0, 0], "got .* with 5 limbs that are no padding"),
        ("action_padding_mask", np.zeros((6, 1)), r"of the shape \(6, 2\), got \(6, 1\)"),
        ("parents", [-1, 0, 1, 0], r"'parents' of the shape \(6,\), got \(4,\)"),
        ("parents", [-1, 0, 1, 0, 99, -2], r"to the torso, .*, got \[-1, 0, 1, 0, 99, -2\] with 5"),
        ("parents", [-1, 0, 1, 0, -1, -2], "lead from each limb to the torso"),
        ("parents", [0, 0, 1, 0, 3, 0], "lead from each limb to the torso"),
        ("parents", [-1, 0, 1, 4, 3, -2], "lead from each limb to the torso"),
        ("loops", [1, 2], r"'loops' of the shape \(2, 2\), got \(2,\)"),
        ("loops", [[1, 5]], r"join two of its 5 limbs each .*, got \[\[1, 5\]\]; give what"),
        ("loops", [[-2, 1]], r"join two of its 5 limbs each .*, got \[\[-2, 1\]\]; give what"),
        ("loops", [[2, -1]], r"no joint joins, or are \[-1, -1\], got \[\[2, -1\]\]; give what"),
        ("loops", [[3, 3]], r"no joint joins, or are \[-1, -1\], got \[\[3, 3\]\]; give what"),
        ("loops", [[2, 1]], r"no joint joins, or are \[-1, -1\], got \[\[2, 1\]\]; give what"),
        ("loops", "a", "has numbers for 'loops', got "),
    ],
)
def test_what_is_shown_of_a_body_must_be_a_tree_of_limbs(name, wrong, reason):
    """Whose parents lead in a circle would be read for ever."""
    observation, _ = MorphologyEnv(TASK, BODIES, token_spec=SPEC).reset(
        seed=0, options={"morphology": 2}
    )
    policy, twin = policy_of("smr"), policy_of("smr")
    for _ in range(2):
        with pytest.raises(ConfigError, match=reason):
            policy.act({**observation, name: wrong})
        np.testing.assert_array_equal(policy.act(observation), twin.act(observation))


def test_a_generator_on_another_device_than_the_policy_is_refused():
    policy = policy_of()
    observation, _ = MorphologyEnv(TASK, BODIES, token_spec=SPEC).reset(seed=0)
    policy.model.to("meta")
    with pytest.raises(
        ConfigError, match=r"needs a Generator on meta, .*, got one on cpu; make it"
    ):
        policy.act(observation, torch.Generator())


@pytest.mark.parametrize("single", [False, True])
def test_a_height_map_is_there_where_the_policy_reads_one_and_fits(single):
    spec = TokenSpec(6, num_heights=RUGGED.num_heights)
    policy = policy_of("recmorph", spec=spec)
    if single:
        env = MorphologyEnv(RUGGED, BODIES, token_spec=spec)
    else:
        env = MorphologyVectorEnv(RUGGED, BODIES, 2, token_spec=spec, num_threads=1)
    observation, _ = env.reset(seed=0)
    policy.reset(env)
    policy.act(observation)
    heights = observation["height_map"]
    lacks = {name: value for name, value in observation.items() if name != "height_map"}
    with pytest.raises(ConfigError, match="has numbers for 'height_map', got "):
        policy.act(lacks)
    for wrong in (heights[..., :-1], np.zeros((3, 3, spec.num_heights)), heights.reshape(-1, 2)):
        with pytest.raises(
            ConfigError, match=r"reads a 'height_map' of the shape .*1410,?\), got \("
        ):
            policy.act({**observation, "height_map": wrong})
    plain = MorphologyEnv(TASK, BODIES, token_spec=SPEC).reset(seed=0)[0]
    with pytest.raises(ConfigError, match=r"of the shape \(0,\), got \(1410,\)"):
        policy_of().act({**plain, "height_map": np.zeros(1410)})


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize(
    ("place", "name"), [(7, "body_xvelr"), (13, "body_pos"), (41, "qpos/1"), (51, "gear/1")]
)
def test_a_number_of_a_token_that_is_not_finite_is_refused_and_nothing_remembered(
    place, name, number
):
    """Infinite features would be cut off and acted on, NaN would come out."""
    env = MorphologyEnv(TASK, BODIES, token_spec=SPEC)
    observation, _ = env.reset(seed=0)
    broken = {**observation, "tokens": observation["tokens"].copy()}
    broken["tokens"][2, place] = number
    policy, twin = policy_of("smr"), policy_of("smr")
    for _ in range(2):
        with pytest.raises(ConfigError, match=f"^the feature '{name}' of token 2 is {number}, exp"):
            policy.act(broken)
        np.testing.assert_array_equal(policy.act(observation), twin.act(observation))


def test_in_a_batch_the_environment_is_named_whose_number_is_not_finite():
    task, spec = replace(RUGGED, horizon=8), TokenSpec(6, num_heights=RUGGED.num_heights)
    env = MorphologyVectorEnv(task, BODIES, 3, token_spec=spec, num_threads=1)
    observation, _ = env.reset(seed=0)
    policy, twin = policy_of("smr", spec=spec), policy_of("smr", spec=spec)
    policy.reset(env)
    twin.reset(env)
    dynamic, heights = observation["dynamic"].copy(), observation["height_map"].copy()
    dynamic[1, 2, 4] = np.nan
    with pytest.raises(ConfigError, match=r"^the feature 'body_xvelp' of token 2 of environment 1"):
        policy.act({**observation, "dynamic": dynamic})
    heights.reshape(3, -1)[2, 5] = np.inf
    with pytest.raises(ConfigError, match=r"^height 5 of the map of environment 2 is inf, exp"):
        policy.act({**observation, "height_map": heights})
    np.testing.assert_array_equal(policy.act(observation), twin.act(observation))


@pytest.mark.parametrize("index", [[0, 3], [0, -1], [0], [0.0, 1.0], "a"])
def test_bodies_that_the_environment_does_not_have_are_refused(index):
    policy = policy_of()
    env = MorphologyVectorEnv(TASK, BODIES, 2, token_spec=SPEC, num_threads=1)
    observation, _ = env.reset(seed=0)
    policy.reset(env)
    with pytest.raises(ConfigError, match=r"must be one integer in 0\.\.2 for each of 2 env"):
        policy.act({**observation, "morphology_index": np.array(index)})
    with pytest.raises(ConfigError, match="shows 1 bodies, but the policy acts in an environment"):
        policy.act({**observation, "dynamic": observation["dynamic"][:1]})
    with pytest.raises(ConfigError, match="drawing actions needs a Generator, got 3"):
        policy.act(observation, 3)


@pytest.mark.parametrize(
    "others", [BODIES[:2], (chain(3), star(3), biped()), (star(4), chain(3), biped())]
)
def test_weights_of_each_body_need_the_bodies_of_training(others, tmp_path):
    """Those alone, in their order, also once a file was read; an older one does not say which."""
    policy = policy_of("mlp")
    policy.save(tmp_path / "new.safetensors")
    renamed = (replace(BODIES[0], name="renamed"), *BODIES[1:])
    for found in (policy, Policy.load(tmp_path / "new.safetensors")):
        found.reset(MorphologyVectorEnv(TASK, renamed, 2, token_spec=SPEC, num_threads=1))
        with pytest.raises(
            ConfigError, match=r"weights for 3 bodies, got \d that are others or in"
        ):
            evaluate(found, TASK, others, episodes=1, seed=0, num_threads=1)
        with pytest.raises(
            ConfigError, match="use the bodies they were trained on, in their order"
        ):
            found.reset(MorphologyVectorEnv(TASK, others, 2, token_spec=SPEC, num_threads=1))
    policy.digests = ()
    policy.save(tmp_path / "old.safetensors")
    old, env = Policy.load(tmp_path / "old.safetensors"), (BODIES if len(others) == 2 else others)
    old.reset(MorphologyVectorEnv(TASK, env, 2, token_spec=SPEC, num_threads=1))
    assert policy_of("recmorph").digests == ()


def test_bodies_that_differ_in_their_loops_alone_are_told_apart():
    closed = linkage(1)
    bodies, spec = (closed, replace(closed, name="open", loops=())), TokenSpec(6)
    env = MorphologyEnv(TASK, bodies, token_spec=spec)
    seen = [env.reset(seed=0, options={"morphology": body})[0] for body in (0, 1)]
    np.testing.assert_array_equal(seen[0]["tokens"], seen[1]["tokens"])
    policy, another = (policy_of("gcnt", bodies=bodies, spec=spec) for _ in range(2))
    policy.act(seen[0])
    np.testing.assert_array_equal(policy.act(seen[1]), another.act(seen[1]))


@pytest.mark.parametrize("part", ["action_padding_mask", "parents"])
def test_bodies_that_differ_in_their_motors_or_tree_alone_are_told_apart(part):
    env = MorphologyEnv(TASK, BODIES, token_spec=SPEC)
    biped, _ = env.reset(seed=0, options={"morphology": 2})
    other = {**biped, part: biped[part].copy()}
    assert biped["parents"][:5].tolist() == [-1, 0, 1, 0, 3]
    if part == "parents":
        other[part][4] = 1
    else:
        limb, slot = np.argwhere(biped[part] == 0)[-1]
        other[part][limb, slot] = 1
    policy, another = (policy_of("gcnt") for _ in range(2))
    seen, expected = policy.act(biped), another.act(other)
    assert (seen != expected).any()
    np.testing.assert_array_equal(policy.act(other), expected)


def quadruped(name, /, **changes):
    """Return an environment of one robot, and what it shows."""
    env = MorphologyEnv(
        QUADRUPEDS,
        [replace(ROBOTS[name], **changes)],
        token_spec=TokenSpec(14, 1, parts="actuators"),
    )
    return env, env.reset(seed=0)[0]


@pytest.fixture(scope="module")
def two_robots():
    """A policy that acts on one robot, what it is shown, and what another robot shows."""
    (_, other), (env, own) = quadruped("go1"), quadruped("anymal-c")
    spec = env.core.spec
    policy = Policy.untrained("smr", QUADRUPEDS, list(ROBOTS.values()), spec=spec)
    return policy, env, own, other


def test_an_observation_of_another_robot_than_the_environments_is_refused(two_robots):
    """All robots have as many motors, joined alike; nothing is remembered of what is refused."""
    policy, env, own, other = two_robots
    twin = copy.deepcopy(policy)
    for one in (policy, twin):
        one.reset(env)
    refused = (other, {"tokens": other["tokens"]}, {**own, "tokens": other["tokens"]})
    for seen in refused:
        with pytest.raises(
            ConfigError, match=r"^the observation shows another body, by its 'joint_limits', .* "
            r"with the environment that gave it$",
        ):  # fmt: skip
            policy.act(seen)
        np.testing.assert_array_equal(policy.act(own), twin.act(own))


@pytest.mark.parametrize(
    "change",
    ["dynamic", "zeros", "column", "normalised", "noise", "half", "tokens", "lists", "dead token"],
)
def test_what_wrappers_make_of_an_observation_is_no_other_body(two_robots, change):
    policy, env, own, _ = two_robots
    twin, spec, rng = copy.deepcopy(policy), env.core.spec, np.random.default_rng(0)
    expected, tokens = {**own, "tokens": own["tokens"].copy()}, own["tokens"].copy()
    fixed = spec.context_indices
    if change == "dynamic":
        tokens[:, spec.dynamic_indices] = 0.0
        expected["tokens"] = tokens
    elif change == "zeros":
        tokens[:, fixed] = 0.0
    elif change == "column":
        tokens[:, spec.slice("torque_limit").start] = 0.0
    elif change == "normalised":
        tokens[:12, fixed] -= tokens[:12, fixed].mean(axis=0)
        tokens[:12, fixed] /= tokens[:12, fixed].std(axis=0) + 1e-8
    elif change == "noise":
        tokens[:, fixed] += 0.05 * rng.standard_normal((14, len(fixed)))
    elif change == "half":
        tokens[:, fixed] = tokens[:, fixed].astype(np.float16)
    elif change == "dead token":
        tokens[3] = 0.0
        expected["tokens"][3, spec.dynamic_indices] = 0.0
    seen = {**own, "tokens": tokens}
    if change == "tokens":
        seen = {"tokens": tokens}
    elif change == "lists":
        seen = {name: np.asarray(part).tolist() for name, part in own.items()}
    policy.reset(env)
    twin.reset(env)
    for _ in range(2):
        np.testing.assert_array_equal(policy.act(seen), twin.act(expected))


def test_a_body_of_the_same_content_is_no_other_body(two_robots):
    policy, env, own, _ = two_robots
    renamed, seen = quadruped("anymal-c", name="renamed")
    policy.reset(env)
    expected = policy.act(own)
    policy.reset(renamed)
    np.testing.assert_array_equal(policy.act(own), expected)
    policy.reset(env)
    np.testing.assert_array_equal(policy.act(seen), expected)


def test_an_observation_of_another_body_than_the_environment_hosts_now_is_refused():
    """Trees of limbs, in one environment, in padding; each part tells."""
    policy, env = policy_of(), MorphologyEnv(TASK, BODIES, token_spec=SPEC)
    seen = [env.reset(seed=0, options={"morphology": body})[0] for body in range(3)]
    policy.reset(env)
    policy.act(seen[2])
    for name in ("limb_padding_mask", "action_padding_mask", "parents"):
        with pytest.raises(ConfigError, match=f"shows another body, by its '{name}', than the env"):
            policy.act({"tokens": seen[2]["tokens"], name: seen[0][name]})
    with pytest.raises(ConfigError, match="shows another body"):
        policy.act(seen[0])
    env.reset(seed=0, options={"morphology": 0})
    policy.act(seen[0])
    with pytest.raises(ConfigError, match="give what that environment returned last, or call"):
        policy.act(seen[2])
    heavy = replace(BODIES[0], limbs=(*BODIES[0].limbs[:-1], scale_mass(BODIES[0].limbs[-1], 2.0)))
    another, _ = MorphologyEnv(TASK, (heavy,), token_spec=SPEC).reset(seed=0)
    with pytest.raises(ConfigError, match=r"by its 'body_mass', than"):
        policy.act(another)


def test_loops_tell_bodies_apart_and_the_room_for_more_does_not():
    closed = linkage(1)
    opened, spec = replace(closed, name="open", loops=()), TokenSpec(6)
    env = MorphologyEnv(TASK, (closed, opened), token_spec=spec)
    policy = policy_of("gcnt", bodies=(closed, opened), spec=spec)
    policy.reset(env)
    seen = [env.reset(seed=0, options={"morphology": body})[0] for body in (0, 1)]
    expected = policy.act(seen[1])
    with pytest.raises(ConfigError, match="shows another body, by its 'loops', than"):
        policy.act(seen[0])
    alone = {name: part for name, part in seen[1].items() if name != "loops"}
    wide = {**seen[1], "loops": np.full((4, 2), -1)}
    for same in (alone, wide):
        np.testing.assert_array_equal(policy.act(same), expected)


def test_an_environment_that_was_refused_leaves_the_policy_as_it_was():
    policy, twin = policy_of(), policy_of()
    single = MorphologyEnv(TASK, BODIES, token_spec=SPEC)
    observation, _ = single.reset(seed=0, options={"morphology": 2})
    refused = MorphologyEnv(TASK, BODIES[:2], token_spec=TokenSpec(9))
    refused.reset(seed=0, options={"morphology": 1})
    with pytest.raises(ConfigError, match=r"token_spec=policy\.spec"):
        policy.reset(refused)
    for _ in range(2):
        np.testing.assert_array_equal(policy.act(observation), twin.act(observation))


@pytest.mark.parametrize("other", [gymnasium.make("CartPole-v1"), "unimal-ft"])
def test_environments_without_bodies_are_refused(other):
    with pytest.raises(ConfigError, match=r"shows no bodies; give an environment of gmc_bench"):
        policy_of().reset(other)


def test_batches_that_gymnasium_puts_together_are_refused_with_the_way_to_make_one():
    make = [lambda: MorphologyEnv(TASK, BODIES, token_spec=SPEC)] * 2
    env, policy = gymnasium.vector.SyncVectorEnv(make), policy_of()
    observation, _ = env.reset(seed=0)
    with pytest.raises(ConfigError, match=r"made by gmc_bench\.make_env\(TASK, num_envs=N, token_"):
        policy.reset(env)
    with pytest.raises(ConfigError, match=r"batch of 2 single .*make_env\(TASK, num_envs=2, "):
        policy.act(observation)


def test_seeds_are_integers():
    for seed in (-1, 0.5, None):
        with pytest.raises(ConfigError, match="a seed must be an integer"):
            policy_of(seed=seed)


@pytest.mark.parametrize(
    ("device", "reason"),
    [
        ("cuda:99", "cannot be used here"),
        ("abacus", "is not supported; use --device cpu or cuda"),
        ("meta", "is not supported; use --device cpu or cuda"),  # torch has it, without numbers
        (3, "is not supported; use --device cpu or cuda"),
    ],
)
def test_a_device_that_is_not_there_is_refused(device, reason, tmp_path):
    policy_of().save(tmp_path / "walk.safetensors")
    with pytest.raises(ConfigError, match=f"the device '{device}' {reason}"):
        Policy.load(tmp_path / "walk.safetensors", device=device)
