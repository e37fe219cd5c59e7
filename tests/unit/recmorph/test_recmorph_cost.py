"""What a forward pass costs, counted in numbers computed, not in seconds."""

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from gmc_bench.conformance.tokens import random_tokens
from gmc_bench.nn.tokens import TokenBatch
from gmc_bench.tokens import TokenSpec
from recmorph import BIGRU, BILSTM, BIMAMBA2, SPEC


class Work(TorchDispatchMode):
    """Count the numbers that operators put out."""

    def __init__(self):
        super().__init__()
        self.numbers = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        found = func(*args, **(kwargs or {}))
        if isinstance(found, torch.Tensor):
            self.numbers += found.numel()
        return found


def work(method, num_limbs, index, *, backward=False):
    """Return the work of one pass over the bodies `index`, the plan of the batch included."""
    spec = TokenSpec(max(num_limbs))
    network = method.build(method.make_config("lite", {"width": 8, "num_blocks": 1}), spec, 2)
    drawn = random_tokens(np.random.default_rng(0), spec, num_limbs, len(index))
    tokens = TokenBatch(drawn.table, torch.tensor(index), drawn.dynamic)
    with Work() as counter:
        outputs = network(tokens)
        if backward:
            outputs.sum().backward()
    return counter.numbers


@pytest.mark.parametrize("index", [[0], [0] * 4])
@pytest.mark.parametrize(
    ("method", "backward"),
    # The gradient of torch's GRU on packed rows is not linear on a CPU.
    [(SPEC, True), (BIGRU, False), (BILSTM, True), (BIMAMBA2, True)],
    ids=["birnn", "bigru", "bilstm", "bimamba2"],
)
def test_work_is_linear_in_the_limbs(method, backward, index):
    shorter, longer = (work(method, [count], index, backward=backward) for count in (128, 256))
    assert longer < 2.1 * shorter


@pytest.mark.parametrize("method", [SPEC, BIMAMBA2], ids=lambda spec: spec.id)
def test_short_bodies_beside_a_long_one_are_not_padded_to_its_length(method):
    """A short body costs a chunk of the scan at most; padded, eleven would cost eleven times."""
    alone = work(method, [256, 2], [0])
    together = work(method, [256, 2], [0] + [1] * 10)
    assert together < 3 * alone
