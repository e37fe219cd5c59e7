"""One ONNX file that holds a policy and everything a robot's computer must know about it."""

import hashlib
import json
import logging
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch.fx.experimental.proxy_tensor import disable_proxy_modes_tracing, make_fx
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from gmc_bench.core.errors import CheckpointError, ConfigError, PluginError
from gmc_bench.deployment.graph import PolicyGraph
from gmc_bench.deployment.interface import Manifest

EXTRA = "pip install 'gmc-bench[deploy]'"
SEALED_VERSION = 1
"""Model version of files that hold their digest; before there was one, it was not set."""
_DIGEST = "digest"
_BLANK = b"0" * 64
"""In the place of the digest while the digest is taken."""
_ENTRY = re.compile(rb'\n\x06digest\x12B"([0-9a-f]{64})"')
"""A metadata entry of this name in the file, whose value is a JSON text of 64 digits."""


def load_package(name: str) -> Any:
    """Return a package of the extra `deploy`.

    Raises:
        ConfigError: it is not installed.
    """
    try:
        return import_module(name)
    except ImportError as error:
        raise ConfigError(
            f"this needs the package {name}, which is not installed; run: {EXTRA}"
        ) from error


def export_onnx(policy: PolicyGraph, manifest: Manifest) -> bytes:
    """Return the content of an ONNX file that holds a policy.

    Inputs are `tokens` (1, L, F) float32, raw, and `mask` (1, L) bool, True = padding; `robot` (1,)
    int64 where robots have weights of their own, `state` (1, L, S) float32 where the policy has a
    memory. Outputs are `actions` (1, L) float32, deterministic and zero in padding, and
    `next_state`. Each value of `Manifest.to_dict` is a metadata entry in JSON, and so is `digest`,
    the SHA-256 of the file with 64 zeros in its place.

    Args:
        policy: the policy.
        manifest: its description.

    Raises:
        ConfigError: the packages are not installed.
        PluginError: the network does something that the format cannot say.
    """
    onnx = load_package("onnx")
    load_package("onnxscript")
    try:
        with _quiet():
            found = _convert(policy)
    except Exception as error:
        reason = " ".join(str(error).split())[:160]
        raise PluginError(
            f"the network of this method cannot be written as ONNX "
            f"({type(error).__name__}: {reason}); deploy the run's folder instead"
        ) from error
    model = onnx.load_model_from_string(found)
    for name, value in manifest.to_dict().items():
        entry = model.metadata_props.add()
        entry.key, entry.value = name, json.dumps(value)
    model.producer_name, model.model_version = "gmc-bench", SEALED_VERSION
    entry = model.metadata_props.add()
    entry.key, entry.value = _DIGEST, f'"{_BLANK.decode()}"'
    return _sealed(model.SerializeToString())


def _sealed(data: bytes) -> bytes:
    """Return a file with its SHA-256 in the place of the blank digest that it holds."""
    return data.replace(_BLANK, hashlib.sha256(data).hexdigest().encode(), 1)


def is_sealed(data: bytes, origin: Path) -> bool:
    """Return whether a file holds its digest; files of before there was one do not.

    Raises:
        CheckpointError: it holds the digest of another content.
    """
    found = _ENTRY.search(data)
    if found is None:
        return False
    if _sealed(data[: found.start(1)] + _BLANK + data[found.end(1) :]) != data:
        raise CheckpointError(
            f"{origin} was changed after it was exported (its digest is not that of its content); "
            f"export the run again"
        )
    return True


def _convert(policy: PolicyGraph) -> bytes:
    policy.prepare()
    length, features = policy.fixed.context.shape[1], policy.fixed.spec.num_features
    inputs = {
        "tokens": torch.zeros(1, length, features),
        "mask": policy.fixed.limb_padding_mask[:1].clone(),
        "robot": torch.zeros(1, dtype=torch.int64),
        "state": policy.model.initial_state(1),
    }
    used = ["tokens", "mask"]
    used += ["robot"] if policy.per_body else []
    used += ["state"] if policy.state_width else []
    outputs = ["actions"] + (["next_state"] if policy.state_width else [])

    def run(*given: torch.Tensor) -> tuple[torch.Tensor, ...]:
        values = {**inputs, **dict(zip(used, given, strict=True))}
        found: tuple[torch.Tensor, ...] = policy(**values)
        return found[: len(outputs)]

    example = tuple(inputs[name] for name in used)
    # Traced with real tensors: what depends on the shape of a body becomes a constant.
    policy.around = FixedIndices
    try:
        with torch.no_grad():
            graph = make_fx(run, tracing_mode="real")(*example)
    finally:
        policy.around = nullcontext
    program = torch.onnx.export(
        graph, example, dynamo=True, verbose=False, external_data=False,
        input_names=used, output_names=outputs,
    )  # fmt: skip
    assert program is not None
    data: bytes = program.model_proto.SerializeToString()
    return data


class FixedIndices(TorchFunctionMode):
    """Keeps what is computed from whole numbers and truth values alone out of a trace.

    In a policy these are places, lengths and graphs of bodies, which are fixed. What comes from a
    number with a fraction, such as a comparison, stays in the trace.
    """

    def __init__(self) -> None:
        super().__init__()
        self._live: list[torch.Tensor] = []  # kept, so that no other tensor takes their id
        self._ids: set[int] = set()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run a function of torch, traced or not."""
        given = [item for item in tree_leaves((args, kwargs)) if isinstance(item, torch.Tensor)]
        if given and all(_is_whole(item) and id(item) not in self._ids for item in given):
            with disable_proxy_modes_tracing():
                return func(*args, **(kwargs or {}))
        found = func(*args, **(kwargs or {}))
        for item in tree_leaves(found):
            if given and isinstance(item, torch.Tensor) and _is_whole(item):
                self._live.append(item)
                self._ids.add(id(item))
        return found


def _is_whole(values: torch.Tensor) -> bool:
    return not (values.dtype.is_floating_point or values.dtype.is_complex)


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence what the exporter says about packages that nobody asked for."""
    disabled = logging.root.manager.disable
    logging.disable(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(disabled)
