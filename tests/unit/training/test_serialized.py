"""Training in other token orders: what is stored is rearranged, what is simulated is not."""

import numpy as np
import pytest
import torch

from gmc_bench.tokens.serialization import make_serialization
from tests.support.small_runs import same_statistics, stop_at

# The bodies are a chain of three and a star of three: the star has six sibling orders, of which
# three are kept from training; its breadth-first order is the canonical one.


@pytest.mark.parametrize("order", ["random", "siblings"])
@pytest.mark.parametrize("method", ["toy", "forgetful"])
def test_stored_tokens_are_rearranged_and_actions_put_back(make_trainer, order, method):
    trainer = make_trainer(order=order, method=method)
    serialization = make_serialization(order, trainer.env.table)
    raw, done, sent = [], [], []
    step = trainer.env.step

    def watched(actions):
        raw.append([part.copy() for part in trainer.collector._seen[:2]])
        sent.append(actions.copy())
        found = step(actions)
        done.append(found[2] | found[3])
        return found

    trainer.env.step = watched
    normalize = trainer.policy.normalizer.normalize
    normal = []
    trainer.policy.normalizer.normalize = lambda values, *rest: (
        normal.append(normalize(values, *rest)) or normal[-1].copy()
    )
    trainer.collector.collect(trainer.buffer)
    buffer = trainer.buffer
    per_step = [values for values in normal if len(values) == 4]
    previous = None
    for t in range(buffer.length):
        rows = buffer.morphology_index[t].numpy()
        np.testing.assert_array_equal(serialization.body[rows], raw[t][1])
        np.testing.assert_array_equal(
            buffer.dynamic[t].numpy(), serialization.arrange(per_step[t], rows)
        )
        np.testing.assert_array_equal(
            serialization.arrange(sent[t], rows), buffer.actions[t].numpy()
        )
        if previous is not None:  # the order of an episode stays as it is
            np.testing.assert_array_equal(rows[~done[t - 1]], previous[~done[t - 1]])
        previous = rows
    assert len(serialization) == (2 if order == "random" else 1 + 3)
    for t, n, dynamic, _, _ in buffer.truncations:
        index = buffer.morphology_index[t, n].item()
        padding = trainer.env.table.limb_padding_mask[serialization.body[index]]
        assert (dynamic.numpy()[padding] == 0.0).all()


def test_every_sequence_that_training_may_use_is_drawn(make_trainer):
    trainer = make_trainer(order="siblings")
    used = set()
    for _ in range(12):
        trainer.collector.collect(trainer.buffer)
        used |= set(trainer.buffer.morphology_index.flatten().tolist())
    assert used == {0, 1, 2, 3}


def test_the_engines_order_trains_as_before_and_others_do_not(make_trainer):
    """The toy treats tokens alike, so that a fixed order changes nothing but rounding."""
    dfs, random = make_trainer("dfs"), make_trainer("random", order="random")
    for trainer in (dfs, random):
        trainer.collector.collect(trainer.buffer)
    order = make_serialization("random", dfs.env.table)
    index = dfs.buffer.morphology_index[0].numpy()
    np.testing.assert_allclose(
        order.restore(random.buffer.dynamic[0].numpy(), index), dfs.buffer.dynamic[0].numpy()
    )
    assert not torch.equal(random.buffer.dynamic[0], dfs.buffer.dynamic[0])


@pytest.mark.parametrize("method", ["toy", "forgetful"])
def test_a_continued_run_ends_in_the_same_bits(make_trainer, method):
    """The one order that draws sequences while training."""
    options = {"order": "siblings", "method": method}
    whole = make_trainer("whole", **options)
    whole.train(lambda progress: None)

    stop_at(make_trainer("parts", **options), 3)
    parts = make_trainer("parts", **options)
    assert parts.env_steps == 192
    parts.train(lambda progress: None)
    for name, value in whole.model.state_dict().items():
        assert torch.equal(parts.model.state_dict()[name], value), name
    assert parts.curve == whole.curve
    same_statistics(parts, whole)
    assert torch.equal(parts.buffer.morphology_index, whole.buffer.morphology_index)


def test_a_run_with_other_tokens_is_another_run(make_trainer):
    trainer = make_trainer()
    assert "tokens" not in trainer.config.identity()  # records made before keep their digest
    other = make_trainer("other", order="bfs").config.identity()
    assert other["tokens"] == {"order": "bfs", "attributes": "all"}
