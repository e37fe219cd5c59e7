"""The compiled block against the same block in torch's operations."""

import pytest
import torch
from threadpoolctl import threadpool_info, threadpool_limits

import recmorph.model
from gmc_bench.nn import make_packing
from gmc_bench.nn.packing import make_padded_packing
from recmorph import BIGRU, SPEC
from recmorph.compiled_block import _kernels, compilable
from recmorph.kernels import BODIES
from recmorph.model import RecurrentBlock
from tests.support.exactness import check_as_exact

MAX_LIMBS = 12
LENGTHS = {
    "none": [],
    "one limb": [1],
    "one body": [5],
    "equal": [3] * 4,
    "several groups": [1 + 7 * k % MAX_LIMBS for k in range(2 * BODIES + 3)],
    "one in the last group": [2] * BODIES + [1],
}


def make(lengths, dtype, **changes):
    torch.manual_seed(0)
    # An epsilon of the norms that is seen beside squares of size one, and two different widths.
    changes = {"norm_eps": 0.1, "hidden": 40} | changes
    block = RecurrentBlock(SPEC.make_config("lite", changes)).to(dtype)
    for parameter in block.parameters():
        parameter.data += 0.1 * torch.randn_like(parameter)
    packing = make_packing(torch.tensor(lengths, dtype=torch.int64), MAX_LIMBS)
    rows = torch.randn(packing.num_rows, block.output_norm.weight.shape[0], dtype=dtype)
    return block, rows, packing


def results(block, rows, packing):
    """The output, and the gradients of the rows and of every parameter."""
    block.zero_grad()
    rows = rows.clone().requires_grad_()
    out = block(rows, packing)
    # An expanded gradient, as that of a sum, is not contiguous.
    (out * torch.linspace(-1, 2, rows.shape[1], dtype=rows.dtype)).sum().backward()
    parameters = {name: parameter.grad for name, parameter in block.named_parameters()}
    return {"out": out.detach(), "rows": rows.grad} | parameters


@pytest.mark.parametrize(("name", "scale"), [*((name, 1.0) for name in LENGTHS), ("equal", 1e3)])
def test_it_is_as_exact_as_torch(name, scale):
    """Also where gates are so far from zero that exponentials leave single precision."""
    block, rows, packing = make(LENGTHS[name], torch.float32)
    rows *= scale
    found, torchs = results(block.train(), rows, packing), results(block.eval(), rows, packing)
    exact = results(block.double(), rows.double(), packing)
    check_as_exact(found, torchs, exact)


@pytest.mark.slow  # in double precision, the code is compiled for this test alone
@pytest.mark.parametrize("name", LENGTHS)
def test_in_double_precision_it_equals_torch(name, monkeypatch):
    monkeypatch.setattr(recmorph.model, "runs_compiled", lambda *_: True)
    block, rows, packing = make(LENGTHS[name], torch.float64, width=6, hidden=5)
    found, expected = results(block.train(), rows, packing), results(block.eval(), rows, packing)
    for part, values in expected.items():
        torch.testing.assert_close(found[part], values, rtol=1e-10, atol=1e-12, msg=part)


def test_without_gradients_the_bits_are_the_same():
    block, rows, packing = make(LENGTHS["several groups"], torch.float32)
    with torch.no_grad():
        found = block(rows, packing)
    assert torch.equal(found, block(rows, packing))


def test_numbers_that_are_not_finite_stay_visible():
    block, rows, packing = make([3, 2], torch.float32)
    rows[0, 0] = torch.nan
    out = block(rows, packing)
    first = packing.bodies == packing.bodies[0]
    assert out[first].isnan().all()
    assert out[~first].isfinite().all()


@pytest.mark.parametrize(
    "case",
    [
        *("evaluation", "double", "bfloat16", "other cell", "large", "padding"),
        *("no rms_norm", "no residual", "no modulation"),
    ],
)
def test_everything_else_takes_torchs_operations(case, monkeypatch):
    """Also each row of the ablation, which would otherwise be trained as the whole block."""
    monkeypatch.setattr(recmorph.model, "compiled_block", None)
    changes = {"hidden": 128} if case == "large" else {}
    if case.startswith("no "):
        changes = {case.removeprefix("no "): False}
    config = (BIGRU if case == "other cell" else SPEC).make_config("lite", changes)
    dtype = torch.float64 if case == "double" else torch.float32
    block = RecurrentBlock(config).to(dtype).train(case != "evaluation")
    plan = make_padded_packing if case == "padding" else make_packing
    packing = plan(torch.tensor([2, 1]), MAX_LIMBS)
    rows = torch.randn(packing.num_rows, config.width, dtype=dtype)
    with torch.autocast("cpu", torch.bfloat16, enabled=case == "bfloat16"):
        assert block(rows, packing).isfinite().all()


def test_its_products_have_one_thread_of_the_blas():
    with threadpool_limits(2, user_api="blas"):
        _kernels.cache_clear()
        _kernels()
        blas = [part for part in threadpool_info() if part["user_api"] == "blas"]
    _kernels.cache_clear()  # the limit went with the block
    assert {part["num_threads"] for part in blas} == {1}


def test_the_networks_of_lite_are_compiled_and_those_of_the_paper_are_not():
    assert compilable(SPEC.make_config("lite"))
    assert not compilable(SPEC.make_config("paper"))
