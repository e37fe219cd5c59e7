"""What measurements may not leave behind."""

import pytest
import torch


@pytest.fixture
def torch_as_it_was():
    """Give torch a number of threads that no measurement has, and look at it afterwards."""
    torch.set_num_threads(3)
    state = torch.get_rng_state()
    yield
    assert torch.get_num_threads() == 3
    assert torch.equal(torch.get_rng_state(), state)
