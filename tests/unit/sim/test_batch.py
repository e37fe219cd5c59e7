import copy
import multiprocessing
import pickle
from dataclasses import replace

import mujoco
import numba
import numpy as np
import pytest

from gmc_bench.conformance.morphologies import biped, chain
from gmc_bench.core.errors import ConfigError
from gmc_bench.sim.batch import FEW_ROWS, BatchSimulator, available_threads, spawn_streams
from gmc_bench.sim.kernels import next_uniform
from gmc_bench.sim.layout import NUM_MOTION
from gmc_bench.sim.model import compile_models
from gmc_bench.tasks.unimal_ft import TASK

ALL = np.arange(3)


def test_streams_do_not_depend_on_how_many_there_are():
    many = spawn_streams(7, 50)
    assert many.dtype == np.uint64
    np.testing.assert_array_equal(spawn_streams(7, 3), many[:3])
    assert len(np.unique(many)) == many.size
    assert not np.isin(spawn_streams(8, 50), many).any()
    third = np.random.SeedSequence(7, spawn_key=(2,)).generate_state(4, np.uint64)
    np.testing.assert_array_equal(many[2], third)


def test_seeding_restarts_every_stream(make_batch):
    batch, _ = make_batch()
    batch.seed(4)
    first = batch.draw_uniform(ALL)
    second = batch.draw_uniform(ALL)
    assert len({*first, *second}) == 6
    batch.seed(4)
    np.testing.assert_array_equal(batch.draw_uniform(ALL), first)
    np.testing.assert_array_equal(batch.draw_uniform(np.array([2])), second[2:])


def test_reset_adds_noise_to_every_coordinate_and_leaves_no_history(make_batch, models):
    batch, readings = make_batch()
    for _ in range(2):
        batch.seed(1)
        streams = batch.streams.copy()
        batch.reset(ALL, 0.005, readings)
        for row, compiled in enumerate(models):
            data = batch.data(row)
            noise = np.concatenate([data.qpos - compiled.model.qpos0, data.qvel])
            assert len(np.unique(noise)) == len(noise)
            drawn = np.array([next_uniform(streams[row]) for _ in noise])
            np.testing.assert_allclose(noise, 0.005 * (2.0 * drawn - 1.0), atol=1e-15)
            assert data.time == 0.0
        for _ in range(5):
            batch.step(np.ones((3, 10), np.float32), readings)
    batch.reset(ALL, 0.0, readings)
    for row, compiled in enumerate(models):
        np.testing.assert_array_equal(batch.data(row).qpos, compiled.model.qpos0)
        np.testing.assert_array_equal(batch.data(row).qvel, 0.0)
        np.testing.assert_array_equal(batch.torso_position[row], compiled.model.body(1).pos)


def test_slots_without_a_limb_or_a_joint_read_zero(make_batch, layout, models):
    """Also where another body stood before."""
    batch, readings = make_batch()
    readings[:] = 9.0
    batch.reset(ALL, 0.005, readings)
    for row, compiled in enumerate(models):
        joints = readings[row, :, NUM_MOTION:].reshape(5, 2, 2)  # limb, slot, angle and velocity
        assert ((joints[..., 1] != 0.0) == (layout.joint_qpos[row] >= 0)).all()
        assert (joints[layout.joint_qpos[row] < 0] == 0.0).all()
        assert (readings[row, compiled.body.num_limbs :] == 0.0).all()


def test_reset_touches_only_the_rows_it_is_given(make_batch):
    batch, readings = make_batch()
    batch.reset(ALL, 0.005, readings)
    batch.step(np.zeros((3, 10), np.float32), readings)
    before = [batch.data(row).qpos.copy() for row in range(3)]
    streams, kept = batch.streams.copy(), readings.copy()
    batch.reset(np.array([1]), 0.005, readings)
    for row in (0, 2):
        np.testing.assert_array_equal(batch.data(row).qpos, before[row])
        np.testing.assert_array_equal(batch.streams[row], streams[row])
        np.testing.assert_array_equal(readings[row], kept[row])
    assert (batch.data(1).qpos != before[1]).all()
    assert (batch.streams[1] != streams[1]).any()


@pytest.mark.parametrize("num_threads", [1, 2])
def test_a_step_of_some_rows_leaves_the_others_as_they_are(make_batch, num_threads):
    if available_threads() < num_threads:
        pytest.skip("needs two cores")
    whole, some = make_batch(6, num_threads), make_batch(6)
    for batch, readings in (whole, some):
        batch.reset(np.arange(6), 0.005, readings)
    some[0].data(3).qpos[0] = np.nan  # a broken row that stands still is no danger
    before = [some[0].data(row).qpos.copy() for row in range(6)]
    readings, torso = some[1].copy(), some[0].torso_position.copy()
    controls = np.random.default_rng(0).uniform(-1.0, 1.0, (6, 10)).astype(np.float32)
    stepped, still = np.array([4, 0, 1]), [2, 3, 5]
    for _ in range(20):
        whole[0].step(controls, whole[1])
        some[0].step(controls, some[1], stepped)
    for row in stepped:
        np.testing.assert_array_equal(some[0].data(row).qpos, whole[0].data(row).qpos)
    np.testing.assert_array_equal(some[1][stepped], whole[1][stepped])
    np.testing.assert_array_equal(some[0].torso_position[stepped], whole[0].torso_position[stepped])
    for row in still:
        np.testing.assert_array_equal(some[0].data(row).qpos, before[row])
        assert some[0].data(row).time == 0.0
    np.testing.assert_array_equal(some[1][still], readings[still])
    np.testing.assert_array_equal(some[0].torso_position[still], torso[still])
    assert not some[0].diverged.any()


def test_many_rows_start_and_step_alike_on_one_thread_and_on_two(make_batch):
    if available_threads() < 2:
        pytest.skip("needs two cores")
    num_envs = 2 * FEW_ROWS + 4
    rows = np.arange(num_envs)
    actions = np.random.default_rng(0).normal(size=(20, num_envs, 10)).astype(np.float32)
    found = []
    for threads, at_once in ((1, num_envs), (2, num_envs), (2, 3)):
        batch, readings = make_batch(num_envs, threads)
        batch.seed(2)
        for start in range(0, num_envs, at_once):
            batch.reset(rows[start : start + at_once], 0.005, readings)
        numbers = [readings.tobytes(), batch.torso_position.tobytes()]
        for action in actions:
            batch.step(action, readings)
            numbers += [readings.tobytes(), batch.torso_position.tobytes()]
        found.append((numbers, batch.streams.tobytes()))
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("num_threads", [1, 2])
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_process_steps_on_one_thread_alone(make_batch, num_threads):
    """On several, OpenMP would end it by a signal."""
    if available_threads() < 2 or "fork" not in multiprocessing.get_all_start_methods():
        pytest.skip("needs two cores, and a system that forks")
    batch, readings = make_batch(3, 2)
    batch.reset(ALL, 0.005, readings)
    if numba.threading_layer() != "omp":
        pytest.skip("needs OpenMP")
    batch, readings = make_batch(3, num_threads)
    batch.reset(ALL, 0.005, readings)
    context = multiprocessing.get_context("fork")
    told = context.SimpleQueue()

    def step():
        try:
            batch.step(np.zeros((3, 10), np.float32), readings)
            told.put("stepped")
        except ConfigError as error:
            told.put(str(error))

    process = context.Process(target=step)
    process.start()
    process.join(60)
    assert process.exitcode == 0
    refused = "a process that was forked after its parent had stepped on several threads"
    assert told.get().startswith("stepped" if num_threads == 1 else refused)


def test_one_step_is_four_engine_steps_under_the_mapped_controls(make_batch, models):
    batch, readings = make_batch()
    batch.reset(ALL, 0.005, readings)
    twin = mujoco.MjData(models[2].model)  # the biped: thigh xy, shin y, twice
    twin.qpos[:], twin.qvel[:] = batch.data(2).qpos, batch.data(2).qvel
    actions = np.arange(30, dtype=np.float32).reshape(3, 10) / 50
    batch.step(actions, readings)
    # Limbs 1 to 4 own the actions 2, 3 | 4, 5 | 6, 7 | 8, 9; shins have no x motor.
    twin.ctrl[:] = actions[2, [2, 3, 5, 6, 7, 9]]
    mujoco.mj_step(models[2].model, twin, 4)
    np.testing.assert_array_equal(batch.data(2).qpos, twin.qpos)
    np.testing.assert_array_equal(batch.data(2).qvel, twin.qvel)
    assert batch.data(2).time == pytest.approx(0.02)


def test_a_row_may_host_another_body_and_come_back(make_batch, models):
    batch, readings = make_batch()
    batch.reset(ALL, 0.005, readings)
    for _ in range(3):
        batch.step(np.ones((3, 10), np.float32), readings)
    old = batch.data(0)
    batch.assign(np.array([0, 1]), np.array([1, 0]))
    assert [batch.data(row).qpos.size for row in range(3)] == [
        models[index].model.nq for index in (1, 0, 2)
    ]
    assert batch.data(1) is old  # simulation states are used again
    batch.seed(9)
    batch.reset(ALL, 0.005, readings)
    fresh, other = make_batch()
    fresh.assign(ALL, np.array([1, 0, 2]))
    fresh.seed(9)
    fresh.reset(ALL, 0.005, other)
    for _ in range(10):
        batch.step(np.ones((3, 10), np.float32), readings)
        fresh.step(np.ones((3, 10), np.float32), other)
        np.testing.assert_array_equal(readings, other)
        np.testing.assert_array_equal(batch.torso_position, fresh.torso_position)


def test_a_fresh_batch_continues_from_a_state(make_batch):
    batch, readings = make_batch()
    batch.reset(ALL, 0.005, readings)
    actions = np.random.default_rng(0).normal(size=(60, 3, 10)).astype(np.float32)
    for action in actions[:30]:
        batch.step(action, readings)
    state = batch.get_state()
    twin, other = make_batch()
    twin.set_state(state)
    np.testing.assert_array_equal(twin.torso_position, batch.torso_position)
    for action in actions[30:]:
        batch.step(action, readings)
        twin.step(action, other)
        np.testing.assert_array_equal(readings, other)
    np.testing.assert_array_equal(batch.draw_uniform(ALL), twin.draw_uniform(ALL))


def test_set_state_clears_a_broken_simulation(make_batch):
    batch, readings = make_batch()
    batch.reset(ALL, 0.005, readings)
    state = batch.get_state()
    batch.data(1).qpos[:] = np.nan
    batch.step(np.zeros((3, 10), np.float32), readings)
    np.testing.assert_array_equal(batch.diverged, [False, True, False])
    batch.set_state(state)
    assert not batch.diverged.any()
    batch.step(np.zeros((3, 10), np.float32), readings)
    assert not batch.diverged.any()
    assert np.isfinite(readings).all()


def test_a_warning_counts_even_if_all_numbers_are_finite(make_batch):
    batch, readings = make_batch()
    batch.reset(ALL, 0.005, readings)
    state = batch.get_state()
    for kind in range(mujoco.mjtWarning.mjNWARNING):  # whatever the engine warns of
        batch.set_state(state)
        assert not batch.diverged.any()
        batch.data(2).warning[kind].number = 1
        batch.step(np.zeros((3, 10), np.float32), readings)
        assert np.isfinite(readings).all()
        np.testing.assert_array_equal(batch.diverged, [False, False, True])


def test_a_number_that_is_not_finite_counts_even_without_a_warning(models, layout):
    spans = layout.joint_span.copy()
    spans[1, 2, 0] = 1e-300  # the angle over it is beyond float32
    batch = BatchSimulator(models, 3, replace(layout, joint_span=spans), num_threads=1)
    readings = np.zeros((3, 5, 17), np.float32)
    batch.assign(ALL, ALL)
    batch.reset(ALL, 0.005, readings)
    assert np.isinf(readings[1, 2, 13])
    np.testing.assert_array_equal(batch.diverged, [False, True, False])
    batch.step(np.zeros((3, 10), np.float32), readings)
    np.testing.assert_array_equal(batch.diverged, [False, True, False])
    assert not any(warning.number for warning in batch.data(1).warning)


def test_numbers_of_threads_that_do_not_exist_are_refused(models, layout):
    most = available_threads()
    assert BatchSimulator(models, 1, layout).num_threads == most
    for threads in (0, most + 1):
        with pytest.raises(ConfigError, match=f"between 1 and {most}, got {threads}"):
            BatchSimulator(models, 1, layout, num_threads=threads)


def test_batches_that_cannot_be_are_refused(models, layout):
    with pytest.raises(ConfigError, match="at least one model and one environment, got 0 and 2"):
        BatchSimulator([], 2, layout)
    with pytest.raises(ConfigError, match="got 3 and 0"):
        BatchSimulator(models, 0, layout)
    fast = compile_models([biped()], replace(TASK.scene, num_substeps=2))
    with pytest.raises(ConfigError, match="same time steps"):
        BatchSimulator([*compile_models([chain(2)], TASK.scene), *fast], 2, layout)


def test_rows_without_a_body_are_refused_instead_of_crashing(models, layout):
    batch = BatchSimulator(models, 2, layout)
    batch.assign(np.array([0]), np.array([0]))
    readings = np.zeros((2, 5, 17), np.float32)
    batch.reset(np.array([0]), 0.0, readings)
    with pytest.raises(ConfigError, match="call reset first"):
        batch.step(np.zeros((2, 10), np.float32), readings)
    with pytest.raises(ConfigError, match="call reset first"):
        batch.reset(np.array([0, 1]), 0.0, readings)
    with pytest.raises(ConfigError, match="row 1 hosts no model yet"):
        batch.data(1)


def test_what_is_simulated_does_not_depend_on_idle_data(make_batch, models):
    """Rows that change bodies over and over move alike with kept data and with new data."""
    found = []
    for capacity in (0, 1, 100):
        batch, readings = make_batch()
        batch._idle.capacity = capacity
        batch.seed(3)
        rng = np.random.default_rng(5)
        history = []
        for _ in range(8):
            batch.assign(ALL, rng.integers(len(models), size=3))
            batch.reset(ALL, 0.005, readings)
            for _ in range(3):
                batch.step(rng.uniform(-1, 1, (3, 10)).astype(np.float32), readings)
            history.append(batch.get_state()["physics"])
        assert len(batch._idle) <= capacity
        found.append(np.concatenate(history))
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])


def test_ground_that_is_always_the_same_has_no_height_map(make_batch):
    batch, _ = make_batch()
    with pytest.raises(ConfigError, match="only scenes with random terrain have a height map"):
        batch.read_ground(ALL, np.zeros((3, 1410), np.float32), np.zeros(3))


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickle.dumps])
def test_copies_which_would_step_the_data_of_the_original_are_refused(make_batch, duplicate):
    batch, _ = make_batch()
    with pytest.raises(ConfigError, match="build another environment and hand over the state"):
        duplicate(batch)


@pytest.mark.parametrize("seed", [-1, 1.0, "1", True, None])
def test_seeds_are_integers_that_are_not_negative(make_batch, seed):
    batch, _ = make_batch()
    with pytest.raises(ConfigError, match=f"a seed must be an integer .* got {seed!r}"):
        batch.seed(seed)
    batch.seed(np.int64(3))
    kept = batch.streams.copy()
    batch.seed(3)
    np.testing.assert_array_equal(batch.streams, kept)
    batch.seed(3 + 2**64)  # every digit counts
    assert (batch.streams != kept).all()


@pytest.mark.parametrize("count", [0, 2.0, "2", True, None])
def test_sizes_are_positive_integers(models, count):
    with pytest.raises(ConfigError, match=f"one environment, got 3 and {count!r}"):
        BatchSimulator(models, count)
    if count is not None:  # which takes all
        with pytest.raises(ConfigError, match=f"num_threads must be .* got {count!r}"):
            BatchSimulator(models, 2, num_threads=count)
