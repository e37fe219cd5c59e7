"""Small untrained policies on the four robots."""

from pathlib import Path

import numpy as np
import pytest
import torch

from gmc_bench.deployment.export import export_onnx
from gmc_bench.deployment.graph import PolicyGraph
from gmc_bench.deployment.interface import make_manifest
from gmc_bench.deployment.policies import TorchPolicy
from gmc_bench.envs.bodies import tabulate
from gmc_bench.methods import METHODS
from gmc_bench.methods.policy import ActorCritic
from gmc_bench.policies.normalization import TokenNormalizer
from gmc_bench.policies.policy import Policy
from gmc_bench.robots import ROBOTS
from gmc_bench.tasks.quadruped_velocity import TASK
from gmc_bench.tokens.spec import TokenSpec

BODIES = list(ROBOTS.values())
SMALL = {
    "recmorph": {"width": 16, "hidden": 16, "num_blocks": 1},
    "mlp": {"hidden": (8,)},
    "smr": {"width": 8, "feedforward": 8, "num_layers": 1},
}


class Subject:
    """A policy with random weights and statistics."""

    def __init__(self, method_id, changes=None, num_tokens=14):
        torch.manual_seed(4)
        rng = np.random.default_rng(2)
        spec = TokenSpec(num_tokens, 1, parts="actuators")
        self.table = tabulate(TASK, BODIES, spec)
        method = METHODS.load(method_id)
        config = method.make_config(changes=changes or SMALL.get(method_id, {}))
        self.model = ActorCritic(method, config, spec, num_bodies=len(BODIES)).eval()
        for name, values in self.model.actor.named_parameters():
            if "output" in name or "decoder" in name:  # they start near zero
                torch.nn.init.uniform_(values, -0.3, 0.3)
        separate = method.capabilities.per_body
        self.normalizer = TokenNormalizer(self.table, separate=separate)
        self.trained = Policy(self.model, self.normalizer)
        moments = self.normalizer.dynamic
        moments.mean = rng.normal(0.0, 0.3, moments.mean.shape)
        moments.variance = rng.uniform(0.2, 2.0, moments.mean.shape)
        origin = {"method": method_id, "task": TASK.id, "seed": 4}
        self.manifest = make_manifest(TASK, BODIES, spec, origin)
        self.policy = TorchPolicy(self.trained, self.table, self.manifest)

    def export(self, path: Path) -> Path:
        policy = PolicyGraph(self.trained, self.table)
        path.write_bytes(export_onnx(policy, self.manifest))
        return path


@pytest.fixture(scope="session")
def subject():
    return Subject("recmorph")


@pytest.fixture(scope="session")
def onnx_file(subject, tmp_path_factory):
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    return subject.export(tmp_path_factory.mktemp("onnx") / "policy.onnx")
