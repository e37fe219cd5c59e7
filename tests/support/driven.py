"""Batches of robots with joint drives, and states to put them into."""

import numpy as np

from gmc_bench.sim.batch import BatchSimulator
from gmc_bench.sim.model import Scene, drive_model


def make_simulator(robots, num_envs, *, rule="two-state", num_threads=None):
    scene = Scene(floor="", friction_rule=rule)
    models = [drive_model(robot, scene) for robot in robots]
    return BatchSimulator(models, num_envs, num_threads=num_threads)


def place(simulator, qpos=None, qvel=None, base_mass=1.0, index=None):
    """Put every row into its stance, or into given states."""
    rows = np.arange(simulator.num_envs)
    index = rows % len(simulator.models) if index is None else np.asarray(index)
    simulator.assign(rows, index)
    if qpos is None:
        qpos = np.stack([simulator.models[i].robot.standing_qpos() for i in index])
    qvel = np.zeros((len(rows), 18)) if qvel is None else qvel
    simulator.place(rows, qpos, qvel, base_mass=np.full(len(rows), base_mass))


def stance_of(simulator):
    return np.array([simulator.models[i].body.pose.angles for i in simulator.model_index])
