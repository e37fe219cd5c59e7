"""One file that gives the actions of the network."""

import numpy as np
import pytest
import torch

from gmc_bench.core.errors import CheckpointError, ConfigError, UnknownNameError
from gmc_bench.deployment.export import FixedIndices, load_package
from gmc_bench.deployment.graph import PolicyGraph
from gmc_bench.deployment.policies import OnnxPolicy, largest_difference
from tests.unit.deployment.conftest import Subject


def test_the_file_agrees_with_the_network(subject, onnx_file):
    exported = OnnxPolicy(onnx_file)
    assert exported.manifest.to_dict() == subject.manifest.to_dict()
    assert largest_difference(subject.policy, exported, 300) < 1e-5
    assert largest_difference(subject.policy, exported, 100, spread=30.0) < 1e-5  # clipped


class Shifted:
    """A policy whose actions are one number, plus what it is told to add at each call."""

    def __init__(self, manifest, action, shifts):
        self.manifest, self.action, self.shifts = manifest, action, shifts
        self.seen = []

    def reset(self):
        self.seen.clear()

    def __call__(self, tokens, robot):
        self.seen.append((robot, tokens))
        actions = np.full(14, self.action, np.float32)
        actions[len(self.seen) % 14] += self.shifts[len(self.seen) - 1]
        return actions


@pytest.mark.parametrize(("action", "apart"), [(4.0, 0.2), (-0.5, 0.8)])
def test_policies_are_as_far_apart_as_in_their_worst_action(subject, action, apart):
    """Relative to large actions, absolute for usual ones."""
    one = Shifted(subject.manifest, action, [0.0] * 5)
    other = Shifted(subject.manifest, action, [0.1, 0.0, -0.8, 0.2, 0.0])
    other("forgotten", "by the reset")
    assert largest_difference(one, other, 5) == pytest.approx(apart, rel=1e-5)
    names = list(subject.manifest.robots)
    assert [robot for robot, _ in one.seen] == [*names, names[0]]
    places = subject.manifest.layout.context_places
    for (robot, tokens), (same, others) in zip(one.seen, other.seen, strict=True):
        assert robot == same
        assert np.array_equal(tokens, others)
        assert np.array_equal(tokens[0, :12, places].T, subject.manifest.robot(robot).context)


def test_what_is_not_finite_is_a_difference(subject):
    """Whichever of the two it comes from, and whatever comes after it."""
    one = Shifted(subject.manifest, 1.0, [0.0] * 5)
    other = Shifted(subject.manifest, 1.0, [0.0, np.nan, 0.0, 0.3, 0.0])
    assert np.isnan(largest_difference(one, other, 5))
    assert np.isnan(largest_difference(other, one, 5))


def test_robots_are_scaled_by_the_ranges_of_those_of_the_training(subject):
    """The published method ModuMorph reads features so; others are told nothing of it."""
    graph, places = PolicyGraph(subject.trained, subject.table), subject.table.spec.context_indices
    known = subject.table.context[:, :12].astype(np.float64).reshape(-1, len(places))
    low, high = known.min(axis=0), known.max(axis=0)
    tokens = np.zeros((1, 14, 32), np.float32)
    tokens[0, :12, places] = np.random.default_rng(0).uniform(-9.0, 9.0, (len(places), 12))
    tokens[0, 0, places] = low + 0.75 * (high - low)
    found = graph._batch(torch.from_numpy(tokens), 0).table.scaled_context[0].numpy()
    varies = high > low + 1e-6
    assert varies.any()
    assert not varies.all()
    np.testing.assert_allclose(found[0, varies], 0.5, atol=1e-5)
    assert not found[:, ~varies].any()
    assert not found[12:].any()
    assert (np.abs(found).max(), found.min()) == (3.0, -3.0)


@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_numbers_that_are_not_finite_are_refused(subject, onnx_file, number):
    tokens = np.zeros((1, 14, 32), np.float32)
    for policy in (subject.policy, OnnxPolicy(onnx_file)):
        expected = policy(tokens, "go2")
        for place, name in ((0, "base_linear_velocity"), (12, "joint_offset"), (31, "active")):
            broken = tokens.copy()
            broken[0, 3, place] = number
            with pytest.raises(ConfigError, match=f"feature '{name}' of token 3 is {number}, exp"):
                policy(broken, "go2")
        assert np.array_equal(policy(tokens, "go2"), expected)


def test_tokens_of_another_precision_are_read_and_of_another_shape_refused(subject, onnx_file):
    rng = np.random.default_rng(0)
    tokens = rng.standard_normal((1, 14, 32)).astype(np.float32)
    for policy in (subject.policy, OnnxPolicy(onnx_file)):
        expected = policy(tokens, "go2")
        for same in (tokens.astype(np.float64), tokens.tolist()):
            assert np.array_equal(policy(same, "go2"), expected)
        for wrong, got in (
            (tokens[0], r"the shape \(14, 32\)"),
            (tokens[:, :, :31], r"the shape \(1, 14, 31\)"),
            ([[1.0], [2.0, 3.0]], r"\[\[1.0\], \[2.0, 3.0\]\]"),
            ("tokens", "'tokens'"),
        ):
            with pytest.raises(
                ConfigError, match=rf"of the shape \(1, 14, 32\), got {got}; give wh"
            ):
                policy(wrong, "go2")


def test_a_robot_that_the_policy_does_not_know_is_refused(subject, onnx_file):
    """Also where all robots share the weights."""
    tokens = np.zeros((1, 14, 32), np.float32)
    for policy in (subject.policy, OnnxPolicy(onnx_file)):
        with pytest.raises(UnknownNameError, match=r"no robot 'go3'; did you mean 'go2'\?"):
            policy(tokens, "go3")


def test_the_file_may_be_named_by_text(onnx_file, monkeypatch):
    monkeypatch.chdir(onnx_file.parent)
    expected = OnnxPolicy(onnx_file).manifest.to_dict()
    assert OnnxPolicy(onnx_file.name).manifest.to_dict() == expected
    with pytest.raises(ConfigError, match="exported policy must be named by text or a path, got 3"):
        OnnxPolicy(3)


@pytest.mark.slow
def test_it_agrees_on_ten_thousand_observations(subject, onnx_file):
    assert largest_difference(subject.policy, OnnxPolicy(onnx_file), 10_000) < 1e-5


def test_robots_are_told_apart_and_padding_does_not_matter(subject, onnx_file):
    import onnxruntime

    session = onnxruntime.InferenceSession(onnx_file)
    rng = np.random.default_rng(0)
    tokens = rng.normal(size=(1, 14, 32)).astype(np.float32)
    mask = np.zeros((1, 14), np.bool_)
    mask[:, 12:] = True
    (one,) = session.run(None, {"tokens": tokens, "mask": mask})
    assert one.shape == (1, 14)
    assert not one[:, 12:].any()
    assert np.abs(one[:, :12]).min() > 0.0
    tokens[:, 12:] = 1e6
    (other,) = session.run(None, {"tokens": tokens, "mask": mask})
    assert np.array_equal(one, other)
    tokens[0, :12, 31] = 0.0  # the robot's own features are inputs
    tokens[0, :12, 26] += 0.5
    (changed,) = session.run(None, {"tokens": tokens, "mask": mask})
    assert np.abs(changed - one).max() > 1e-4
    mask[0, 3] = True
    (masked,) = session.run(None, {"tokens": tokens, "mask": mask})
    assert masked[0, 3] == 0.0


@pytest.mark.slow
@pytest.mark.parametrize(
    "method",
    [
        "bot", "gcnt", "metamorph", "metamorph-star", "mi-hgnn", "mlp", "modumorph", "nervenet",
        "recmorph-bigru", "recmorph-bilstm", "recmorph-bimamba2", "smr", "swat",
    ],
)  # fmt: skip
def test_files_of_other_methods_agree_with_their_networks(method, tmp_path):
    other = Subject(method)
    exported = OnnxPolicy(other.export(tmp_path / "policy.onnx"))
    # Random weights make large numbers inside NerveNet, and so large rounding.
    tolerance = 3e-5 if method == "nervenet" else 1e-5
    assert largest_difference(other.policy, exported, 100) < tolerance


def test_a_reset_forgets_what_was_seen():
    policy = Subject("smr").policy
    tokens = np.random.default_rng(0).normal(size=(1, 14, 32)).astype(np.float32)
    first, second = policy(tokens, "go2"), policy(tokens, "go2")
    assert not np.array_equal(first, second)
    policy.reset()
    assert np.array_equal(policy(tokens, "go2"), first)


def test_only_whole_numbers_are_fixed():
    from torch.fx.experimental.proxy_tensor import make_fx

    index = torch.tensor([2, 0, 1])

    def function(values):
        with FixedIndices():
            order = index.sort().indices
            positive = ~(values > 0)
            return values[order] * positive

    traced = make_fx(function)(torch.tensor([1.0, -2.0, 3.0]))
    assert "sort" not in traced.code
    values = torch.tensor([-1.0, 2.0, -3.0])
    assert torch.equal(traced(values), function(values))


@pytest.mark.parametrize("part", [b"digest", b'"recmorph"', b"tokens", None])
def test_a_changed_file_is_refused_whatever_was_changed(onnx_file, tmp_path, part):
    data = bytearray(onnx_file.read_bytes())
    data[len(data) // 2 if part is None else data.rindex(part)] ^= 1
    (tmp_path / "a.onnx").write_bytes(data)
    with pytest.raises(CheckpointError, match=r"export the run again|cannot be read as ONNX"):
        OnnxPolicy(tmp_path / "a.onnx")


def test_files_of_before_there_were_digests_are_read(onnx_file, tmp_path):
    model = pytest.importorskip("onnx").load(str(onnx_file))
    assert model.metadata_props[-1].key == "digest"
    del model.metadata_props[-1]
    model.model_version = 0
    (tmp_path / "a.onnx").write_bytes(model.SerializeToString())
    expected = OnnxPolicy(onnx_file).manifest.to_dict()
    assert OnnxPolicy(tmp_path / "a.onnx").manifest.to_dict() == expected


def test_what_is_missing_or_broken_is_said(tmp_path):
    with pytest.raises(ConfigError, match=r"pip install 'gmc-bench\[deploy\]'"):
        load_package("no_such_package")
    pytest.importorskip("onnxruntime")
    (tmp_path / "a.onnx").write_bytes(b"no")
    with pytest.raises(CheckpointError, match="cannot be read as ONNX"):
        OnnxPolicy(tmp_path / "a.onnx")
