import pytest
import torch

from gmc_bench.core.errors import TokenOverflowError
from gmc_bench.nn import make_packing
from gmc_bench.nn import packing as packing_module


def test_layout_of_a_hand_made_batch():
    packing = make_packing(torch.tensor([2, 3, 1]), max_limbs=4)
    # Longest first: body 1, body 0, body 2; then limb by limb. A place is body * 4 + limb.
    assert packing.slots.tolist() == [4, 0, 8, 5, 1, 6]
    assert packing.steps == (slice(0, 3), slice(3, 5), slice(5, 6))
    assert packing.bodies.tolist() == [1, 0, 2, 1, 0, 1]
    assert packing.positions.tolist() == [0, 0, 0, 1, 1, 2]
    assert packing.num_rows == 6


def test_bodies_of_one_length_keep_their_order():
    packing = make_packing(torch.tensor([2, 2, 2]), max_limbs=2)
    assert packing.slots.tolist() == [0, 2, 4, 1, 3, 5]


def test_pack_takes_real_limbs_only():
    values = torch.tensor([[[1.0], [2.0], [torch.nan]], [[3.0], [4.0], [5.0]]])
    packed = make_packing(torch.tensor([2, 3]), max_limbs=3).pack(values)
    assert packed.flatten().tolist() == [3, 1, 4, 2, 5]


@pytest.mark.parametrize("lengths", [[1], [3, 3], [1, 4, 2, 4], [4]])
def test_unpack_puts_rows_back_and_zeros_padding(lengths):
    packing = make_packing(torch.tensor(lengths), max_limbs=4)
    values = torch.arange(1.0, len(lengths) * 8 + 1).view(len(lengths), 4, 2)
    restored = packing.unpack(packing.pack(values))
    for body, length in enumerate(lengths):
        assert torch.equal(restored[body, :length], values[body, :length])
        assert not restored[body, length:].any()


def test_gradient_goes_to_real_limbs_only():
    values = torch.ones(2, 3, 1, requires_grad=True)
    packing = make_packing(torch.tensor([1, 2]), max_limbs=3)
    (2 * packing.unpack(packing.pack(values))).sum().backward()
    assert values.grad.flatten().tolist() == [2, 0, 0, 2, 2, 0]


def test_a_body_that_does_not_fit_is_refused():
    with pytest.raises(TokenOverflowError, match="5 limbs, but the tokens have 4 slots"):
        make_packing(torch.tensor([2, 5]), max_limbs=4)


def test_neighbours_and_mirror_images_of_a_hand_made_batch():
    packing = make_packing(torch.tensor([2, 3, 1]), max_limbs=4)
    # Rows 0..5: body 1 limb 0, body 0 limb 0, body 2 limb 0, 1.1, 0.1, 1.2; 6 stands for none.
    assert packing.batch_sizes.tolist() == [3, 2, 1]
    assert packing.previous.tolist() == [6, 6, 6, 0, 1, 3, 6]
    assert packing.mirrored.tolist() == [5, 4, 2, 3, 1, 0]
    # Three limbs of three bodies ahead, then as many behind; a place is limb * 3 + rank of body.
    places, shape = packing.side_by_side
    ahead, behind = [0, 1, 2, 3, 4, 6], [15, 13, 11, 12, 10, 9]
    assert shape == (2, 3, 3)
    assert places.view(-1, 2).T.tolist() == [ahead, behind]


def test_chunks_of_a_hand_made_batch(monkeypatch):
    monkeypatch.setattr(packing_module, "CHUNK_LIMBS", 2)
    packing = make_packing(torch.tensor([2, 3, 1]), max_limbs=4)
    first, second = packing.chunks
    assert (first.rows, second.rows) == (slice(0, 5), slice(5, 6))
    assert (first.layout.shape, second.layout.shape) == ((3, 2), (1, 1))
    rows = torch.arange(1.0, 7.0)
    assert first.layout.unpack(rows[first.rows]).tolist() == [[1, 4], [2, 5], [3, 0]]
    assert second.layout.unpack(rows[second.rows]).tolist() == [[6]]
    assert first.layout.steps == (slice(0, 3), slice(3, 5))


def test_mirror_images_of_a_padded_batch_leave_padding_where_it_is():
    """Rows 0, 2 and 4 are of the first body, of which the last one is padding."""
    packing = packing_module.make_padded_packing(torch.tensor([2, 3]), max_limbs=3)
    assert packing.mirrored.tolist() == [2, 5, 0, 3, 4, 1]


def test_padded_layouts_of_equal_shapes_are_one_for_good():
    """A captured graph reads their tensors in place, whatever batches come later."""
    lengths = torch.tensor([2, 3])
    first = packing_module.make_padded_packing(lengths, max_limbs=3).full
    for count in range(1, 40):
        packing_module.make_padded_packing(torch.ones(count, dtype=torch.int64), max_limbs=5)
    assert packing_module.make_padded_packing(lengths.flip(0), max_limbs=3).full is first
