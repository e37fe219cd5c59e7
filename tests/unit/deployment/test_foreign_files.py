"""ONNX files that no export wrote: they are refused in one sentence, before or when they act."""

import json

import numpy as np
import pytest

from gmc_bench.core.errors import CheckpointError, ConfigError
from gmc_bench.deployment import trained
from gmc_bench.deployment.policies import OnnxPolicy

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

FLOAT, INT64, BOOL = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64, onnx.TensorProto.BOOL
TOKENS, MASK, ROBOT = ("tokens", FLOAT, [1, 14, 32]), ("mask", BOOL, [1, 14]), ("robot", INT64, [1])
STATE, ACTIONS = ("state", FLOAT, [1, 14, 4]), ("actions", FLOAT, None)
WHOLE = ("actions", INT64, None)
NEXT = ("next_state", FLOAT, None)
SUM = onnx.helper.make_node("ReduceSum", ["tokens", "axes"], ["actions"], keepdims=0)
MEMORY = onnx.helper.make_node("Identity", ["state"], ["next_state"])


@pytest.fixture
def write(subject, tmp_path):
    """Write a file whose actions are the sums of the tokens; it holds no digest, as early ones."""

    def write(inputs=(TOKENS, MASK), outputs=(ACTIONS,), nodes=(SUM,), **entries):
        constants = {"axes": [2], "few": [0]}
        graph = onnx.helper.make_graph(
            nodes,
            "policy",
            [onnx.helper.make_tensor_value_info(*item) for item in inputs],
            [onnx.helper.make_tensor_value_info(*item) for item in outputs],
            [onnx.helper.make_tensor(k, INT64, [1], v) for k, v in constants.items()],
        )
        opset = onnx.helper.make_opsetid("", 18)
        model = onnx.helper.make_model(graph, opset_imports=[opset], ir_version=9, model_version=0)
        content = {k: json.dumps(v) for k, v in subject.manifest.to_dict().items()}
        onnx.helper.set_model_props(model, {**content, **entries})
        path = tmp_path / "foreign.onnx"
        path.write_bytes(model.SerializeToString())
        return path

    return write


@pytest.mark.parametrize(
    ("inputs", "outputs", "nodes"),
    [
        ((TOKENS, MASK), (ACTIONS,), (SUM,)),
        ((TOKENS, MASK, ROBOT), (ACTIONS,), (SUM,)),
        ((TOKENS, MASK, STATE), (NEXT, ACTIONS), (SUM, MEMORY)),
    ],
)
def test_what_acts_like_a_policy_is_taken(write, inputs, outputs, nodes):
    policy = OnnxPolicy(write(inputs, outputs, nodes))
    tokens = np.arange(14 * 32, dtype=np.float32).reshape(1, 14, 32)
    for _ in range(2):
        assert np.allclose(policy(tokens, "go2"), tokens.sum(axis=2)[0])


@pytest.mark.parametrize("text", ["9" * 5000, "[" * 100_000, "{", "nan"])
def test_a_description_that_cannot_be_read_is_refused(write, text):
    with pytest.raises(ConfigError, match="has a description that is not JSON"):
        OnnxPolicy(write(seed=text))


def test_a_deep_description_is_refused_by_whatever_meets_it_first(write):
    reasons = []
    for depth in range(600, 1001, 20):
        try:
            OnnxPolicy(write(seed="[" * depth + "]" * depth))
        except ConfigError as error:
            reasons.append(str(error))
    assert 0 < len(reasons) < 21
    assert all("not JSON" in text or "cannot be read (RecursionE" in text for text in reasons)


@pytest.mark.parametrize(
    ("inputs", "outputs", "nodes", "reason"),
    [
        ((TOKENS,), (ACTIONS,), (SUM,), "has nothing as 'mask', expected tensor.bool. .1, 14.;"),
        ((TOKENS, MASK, ("gain", FLOAT, [1])), (ACTIONS,), (SUM,), "'gain', expected nothing;"),
        (
            (("tokens", FLOAT, [1, 14, 31]), MASK), (ACTIONS,), (SUM,),
            "has tensor.float. .1, 14, 31. as 'tokens', expected tensor.float. .1, 14, 32.;",
        ),
        ((("tokens", FLOAT, [1, "L", 32]), MASK), (ACTIONS,), (SUM,), "'L', 32. as 'tokens'"),
        ((("tokens", INT64, [1, 14, 32]), MASK), (WHOLE,), (SUM,), "has tensor.int64. as .act"),
        ((TOKENS, ("mask", INT64, [1, 14])), (ACTIONS,), (SUM,), "has tensor.int64. .1, 14. as"),
        ((TOKENS, MASK, ("robot", FLOAT, [1])), (ACTIONS,), (SUM,), "expected tensor.int64. .1.;"),
        *(
            (
                (TOKENS, MASK, ("state", FLOAT, shape)), (ACTIONS, NEXT), (SUM, MEMORY),
                r"as 'state', expected tensor.float. .1, 14, \w+.;",
            )
            for shape in ([1, 14, "S"], [1, 14, None], ["S"], [], [1, 14, 0], [1, 14, 1 << 40])
        ),
        ((TOKENS, MASK, STATE), (ACTIONS,), (SUM,), "has nothing as 'next_state', expected"),
        (
            (TOKENS, MASK), (("go", FLOAT, None),),
            (onnx.helper.make_node("ReduceSum", ["tokens", "axes"], ["go"], keepdims=0),),
            "has nothing as 'actions', expected tensor.float.;",
        ),
    ],
)  # fmt: skip
def test_inputs_and_outputs_are_those_of_a_policy(write, inputs, outputs, nodes, reason):
    with pytest.raises(CheckpointError, match=reason):
        OnnxPolicy(write(inputs, outputs, nodes))


@pytest.mark.parametrize(
    ("nodes", "reason"),
    [
        # Weights of one robot where the description has four.
        (
            [["Gather", ["few", "robot"], ["one"]], ["Cast", ["one"], ["actions"]]],
            "out of .*bounds",
        ),
        ([["Cast", ["robot"], ["actions"]]], r"its actions are \(1,\), not \(1, 14\)"),
    ],
)
def test_a_network_that_fails_is_said_to(write, nodes, reason):
    made = [
        onnx.helper.make_node(*node, **({"to": FLOAT} if node[0] == "Cast" else {}))
        for node in nodes
    ]
    policy = OnnxPolicy(write((TOKENS, MASK, ROBOT), nodes=made))
    with pytest.raises(CheckpointError, match=rf"foreign.onnx cannot act \(.*{reason}.*\); export"):
        policy(np.zeros((1, 14, 32), np.float32), "anymal-c")


def test_a_file_at_another_rate_than_its_task_is_refused(write):
    path = write(rate_hz="1e308")
    with pytest.raises(ConfigError, match=r"for 1e\+308 Hz, but its task .* has 50 Hz; export"):
        trained.open_policy(path)
    assert trained.open_policy(write())[1].id == "quadruped-velocity-v3"
