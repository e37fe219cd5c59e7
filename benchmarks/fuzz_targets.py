"""Readers of files from elsewhere, as functions of bytes that a fuzzer calls.

A target may refuse what it is given, with an error of this package in one sentence. Everything
else that it raises is a finding. What is protected by a digest is sealed again before it is read,
so that the reader behind the digest is reached.
"""

import importlib
import json
import os
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from gmc_bench.core.errors import GmcBenchError

Target = Callable[[bytes], object]
LONGEST = 4000  # letters of a sentence
SEEDS = Path(__file__).parents[1] / "tests" / "fixtures" / "fuzz"
"""Folders of inputs by target: what fuzzing starts from, and what it found."""


def call(target: Target, data: bytes) -> str:
    """Call a target.

    Returns:
        What came of it, for telling new ways through a reader from known ones: nothing, or the
        sentence with which it refused.

    Raises:
        Exception: whatever else the target raises, or an error that is not one sentence.
    """
    try:
        target(data)
    except GmcBenchError as error:
        text = str(error)
        if not text or "\n" in text or len(text) > LONGEST:
            raise AssertionError(f"not one sentence: {text[:300]!r}") from error
        return text
    return ""


def make_target(name: str) -> Target:
    """Return a target by name; what it needs is imported now."""
    return _MAKERS[name]()


def seeds(name: str) -> list[bytes]:
    """Return the inputs that are kept for a target."""
    return [path.read_bytes() for path in sorted((SEEDS / name).iterdir())]


@cache
def _place() -> Path:
    """Return a file to write to, in memory where that is possible."""
    memory = Path("/dev/shm")
    folder = tempfile.mkdtemp(
        prefix="gmc-fuzz-", dir=memory if os.access(memory, os.W_OK) else None
    )
    return Path(folder) / "robot.xml"


def _of_file(read: Callable[[Path], object], name: str = "robot.xml") -> Target:
    """Return a reader of files as a function of their content."""
    path = _place().with_name(name)

    def target(data: bytes) -> object:
        path.write_bytes(data)
        return read(path)

    return target


def _load(module: str, name: str) -> Any:
    return getattr(importlib.import_module(f"gmc_bench.{module}"), name)


def _mjcf() -> Target:
    parse = _load("bodies.mjcf_reader", "parse_mjcf")
    return lambda data: parse(data.decode("utf-8", "replace"), "robot")


def _robot_files() -> Target:
    """Return what reads robot files before the sandboxed engine does."""
    collect = _load("bodies.model_files", "collect_files")
    return _of_file(lambda path: collect(path))


def _urdf() -> Target:
    """Return what makes trees of URDF files, inside the sandbox's process: it may refuse as XML."""
    untie = _load("bodies.worker_urdf", "untie")
    refusal = _load("bodies.worker_urdf", "RefusalError")
    errors = (refusal, importlib.import_module("xml.etree.ElementTree").ParseError)

    def target(data: bytes) -> None:
        with suppress(*errors):
            untie(data.decode("utf-8", "replace"))

    return target


def _sealed(read: Callable[[Path], object], name: str) -> Target:
    """Return a target whose inputs get the digest that they should have, or none would be read."""
    seal, path = _load("records.store", "sealed"), _place().with_name(name)

    def target(data: bytes) -> object:
        with suppress(ValueError, RecursionError, TypeError, AttributeError):
            content = json.loads(data)
            content.pop("digest", None)
            data = seal(content)
        path.write_bytes(data)
        return read(path)

    return target


def _reading(
    how: Callable[[Any, str], Target], module: str, name: str, file: str
) -> Callable[[], Target]:
    """Return what makes a target of a function that reads a file; nothing is imported before."""
    return lambda: how(_load(module, name), file)


def _tensors() -> Target:
    decode = _load("policies.tensors", "decode_tensors")
    describe = _load("policies.tensors", "read_description")

    def target(data: bytes) -> None:
        describe(data, "it")
        decode(data, "it")

    return target


def _journal() -> Target:
    return _load("generation.journal", "read_line")  # type: ignore[no-any-return]


def _body_set() -> Target:
    """Return what reads the manifest of a stored set, with its check made anew."""
    read, digest = _load("bodies.store", "read_set"), _load("core.config", "json_digest")
    path = _place().with_name("manifest.json")

    def target(data: bytes) -> object:
        with suppress(ValueError, RecursionError, TypeError, AttributeError):
            content = json.loads(data)
            content.pop("check", None)
            data = json.dumps({**content, "check": digest(content)}).encode()
        path.write_bytes(data)
        return read(path.parent, "tiny", "0" * 64)

    return target


def _checkpoint() -> Target:
    """Return what reads the manifest of a checkpoint, with its digest made anew."""
    read, digest = (
        _load("training.checkpoint", "read_checkpoint"),
        _load("core.config", "json_digest"),
    )
    array = importlib.import_module("numpy").arange(6.0)
    path = _place().with_name("checkpoint.json")
    tensors = _load("policies.tensors", "encode_tensors")({"w": array, "moments/m": array})
    path.with_name("policy.safetensors").write_bytes(tensors)

    def target(data: bytes) -> object:
        run = None
        with suppress(ValueError, RecursionError, TypeError, AttributeError):
            content = json.loads(data)
            content.pop("digest", None)
            run = content.get("run")
            data = json.dumps({**content, "digest": digest(content)}).encode()
        path.write_bytes(data)
        return read(path.parent, run)

    return target


def _manifest() -> Target:
    """Return what reads the description in an exported policy, and prepares its robots."""
    read = _load("deployment.interface", "Manifest").from_dict
    adapt = _load("deployment.adapter", "Adapter")

    def target(data: bytes) -> None:
        content = None
        with suppress(ValueError, RecursionError):
            content = json.loads(data)
        if isinstance(content, dict):
            manifest = read(content)
            for name in manifest.robots:
                adapt(manifest, name)

    return target


def _signers() -> Target:
    return _of_file(
        lambda path: _load("records.signature", "read_signers")(path.parent), "signers.yaml"
    )


def _signature() -> Target:
    """Return what checks the signature of a record."""
    check, signers = _load("records.signature", "signer_of"), _load("records.signature", "Signers")
    record = _place().with_name("signed.json")
    record.write_bytes(b"test")
    known = signers(keys={"jane": "RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3"})
    return _of_file(lambda path: check(record, known), "signed.json.minisig")


_MAKERS: dict[str, Callable[[], Target]] = {
    "mjcf": _mjcf,
    "robot_files": _robot_files,
    "urdf": _urdf,
    "settings": _reading(_of_file, "experiments.spec", "read_settings", "settings.yaml"),
    "run_config": _reading(_of_file, "training.run_config", "read_run_config", "config.yaml"),
    "plan": _reading(_of_file, "experiments.sweep_folder", "read_runs", "plan.yaml"),
    "study": _reading(_of_file, "studies.request", "read_request", "study.yaml"),
    "record": _reading(_sealed, "records.store", "read_stored_record", "record.json"),
    "verification": _reading(
        _sealed, "records.verification", "read_verification", "verification.json"
    ),
    "evaluation": _reading(_sealed, "records.kept", "read_evaluation", "evaluation.json"),
    "study_result": _reading(_sealed, "records.kept", "read_study", "study.json"),
    "scaling": _reading(_sealed, "records.kept", "read_scaling", "scaling.json"),
    "speeds": _reading(_sealed, "records.kept", "read_speeds", "speeds.json"),
    "ledger": _reading(_of_file, "records.ledger", "read_ledger", "ledger.jsonl"),
    "signers": _signers,
    "signature": _signature,
    "tensors": _tensors,
    "journal": _journal,
    "body_set": _body_set,
    "checkpoint": _checkpoint,
    "manifest": _manifest,
}
TARGETS: Sequence[str] = tuple(_MAKERS)
