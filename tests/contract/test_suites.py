"""What every registered suite must fulfil."""

import re
from dataclasses import replace

import pytest

from gmc_bench.bodies.registry import registered_sets
from gmc_bench.bodies.sets import load_morphologies, resolve_set
from gmc_bench.core.config import config_digest
from gmc_bench.suites import SUITES
from gmc_bench.tasks import TASKS


@pytest.fixture(params=SUITES.names())
def suite(request):
    return SUITES.get(request.param)


def test_its_id_is_versioned_and_the_name_it_is_registered_under(suite):
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*-v\d+", suite.id)
    assert SUITES.get(suite.id) is suite
    assert suite.title
    assert suite.description.endswith(".")


def test_its_tasks_exist_and_have_unmistakable_short_names(suite):
    assert suite.tasks
    assert len(set(suite.tasks)) == len(suite.tasks)
    for task in suite.tasks:
        assert TASKS.get(task).id == task
        bare = task.rpartition("-v")[0]
        assert suite.task(task) == suite.task(bare) == suite.task(bare.partition("-")[2]) == task


def test_its_bodies_are_known_and_the_last_choice_needs_no_files(suite):
    for name in suite.default_morphologies:
        assert resolve_set(name) == name
    assert suite.default_morphologies[-1] in registered_sets()


def test_its_token_slots_fit_its_generated_bodies(suite):
    for name in suite.default_morphologies:
        if name in registered_sets():
            assert load_morphologies(name).max_limbs <= suite.min_token_slots


def test_its_protocols_are_valid_and_differ(suite):
    assert suite.protocols
    digests = set()
    for name, protocol in suite.protocols.items():
        assert protocol.name == name
        assert replace(protocol) == protocol  # its checks pass
        assert protocol.num_iterations >= 1
        # Every iteration has at least one whole minibatch.
        assert protocol.ppo.batch_size <= protocol.steps_per_iteration
        assert protocol.ppo.warmup_iterations <= protocol.num_iterations
        digests.add(config_digest(protocol))
    assert len(digests) == len(suite.protocols)
    assert suite.protocol(None).name == suite.default_protocol
