"""`gmc-bench evaluate`: score the policy of a finished run again, also on other bodies."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gmc_bench.bodies.schema import Morphology, MorphologySet
from gmc_bench.cli.output import note, number, say, say_json, table
from gmc_bench.cli.parser import add_verb, integer
from gmc_bench.core.errors import ConfigError, TokenOverflowError

if TYPE_CHECKING:
    from gmc_bench.experiments.session import Session
    from gmc_bench.policies.policy import Policy
    from gmc_bench.records.schema import BodyReturns
    from gmc_bench.training.run_config import RunConfig

EXAMPLES = (
    "gmc-bench evaluate runs/recmorph_unimal-ft_lite_gmc-unimal-mini-v1_seed1",
    "gmc-bench evaluate runs/recmorph_unimal-ft_lite_gmc-unimal-mini-v1_seed1 "
    "--split test --episodes 16 --json",
    "gmc-bench evaluate runs/recmorph_unimal-ft_lite_gmc-unimal-mini-v1_seed1 "
    "--morphologies gmc-unimal-mini+damping-v1",
    "gmc-bench evaluate runs/recmorph_unimal-ft_lite_gmc-unimal-mini-v1_seed1 --untrained",
    "gmc-bench evaluate runs/recmorph_unimal-ft_lite_gmc-unimal-mini-v1_seed1 --sensor-dropout",
)

SEEN = " (seen in training)"


def add_parser(verbs: Any) -> None:
    """Add the verb."""
    parser = add_verb(verbs, "evaluate", "Score the policy of a finished run again.", EXAMPLES)
    add = parser.add_argument
    add("run_dir", metavar="RUN_DIR", type=Path, help="folder of a finished run")
    text = "only this split (default: both, of --morphologies the test split)"
    add("--split", choices=("train", "test"), help=text)
    add("--episodes", metavar="N", type=integer(1), help="per body and mode")
    text = "score on this set instead of the run's, without training or new observation statistics"
    add("--morphologies", metavar="SET", help=text)
    text = "one limb of every body, which follows from the run's seed, shows the policy only zeros"
    add("--sensor-dropout", action="store_true", help=text)
    add("--untrained", action="store_true", help="score the weights that training started from")
    add("--json", action="store_true", help="print one JSON document")
    parser.set_defaults(execute=execute, parser=parser)


@dataclass(frozen=True)
class _Scores:
    """Returns, and by split and body the name of the limb that was not seen."""

    returns: "tuple[BodyReturns, ...]"
    silent: dict[str, dict[str, str]] | None = None


def execute(parsed: argparse.Namespace, unknown: list[str], argv: list[str]) -> int:
    """Run the verb."""
    parsed.parser.reject_unknown(unknown)
    from gmc_bench.training.run_folder import RunFolder

    folder = RunFolder(parsed.run_dir)  # first, because loading the rest takes seconds
    from gmc_bench.cli.display import Display
    from gmc_bench.experiments import session as sessions
    from gmc_bench.experiments.scoring import score
    from gmc_bench.records.store import read_record
    from gmc_bench.training.run_config import read_run_config

    trained = sessions.open_session(_on_threads_here(read_run_config(folder.config)))
    session, splits = trained, (parsed.split,) if parsed.split else None
    if parsed.sensor_dropout:
        sessions.limb_task(trained)  # a limb that is not seen has a name
    if parsed.morphologies is not None:
        session = _on_other_bodies(trained, parsed.morphologies)
        splits = splits or ("test",)
    if parsed.untrained:
        digest, policy = None, _untrained(trained)
    else:
        digest = read_record(folder.record).weights_digest if folder.record.exists() else None
        policy = sessions.load_trained(trained, folder, digest)
    with Display() as display:
        returns = score(
            session,
            policy,
            splits=splits,
            episodes=parsed.episodes,
            sensor_dropout=parsed.sensor_dropout,
            on_progress=display,
        )
    silent = None
    if parsed.sensor_dropout:
        silent = _silent_limbs(session, list(dict.fromkeys(item.split for item in returns)))
    scores = _Scores(_marked_seen(returns, trained.bodies), silent)
    if parsed.json:
        say_json(_document(parsed.run_dir, trained, session.bodies, scores, digest))
    else:
        _show(scores)
    return 0


def _untrained(session: "Session") -> "Policy":
    """Return the policy that a run started from."""
    from gmc_bench.experiments.session import policy_options
    from gmc_bench.policies.policy import Policy

    return Policy.untrained(
        session.method,
        session.task,
        session.bodies.split("train"),
        seed=session.config.seed,
        config=session.config.method_config,
        spec=session.spec,
        options=policy_options(session.config),
    )


def _on_threads_here(config: "RunConfig") -> "RunConfig":
    """Return a run's settings with no more threads than this machine has."""
    from gmc_bench.experiments.resolve import threads_here

    threads = threads_here(config.threads)
    if threads < config.threads:
        note(
            f"Scoring on {threads} thread(s), the run had {config.threads}: the last bits may "
            f"differ."
        )
    return replace(config, threads=threads)


def _on_other_bodies(trained: "Session", set_id: str) -> "Session":
    """Return a run's session with another set of bodies.

    Raises:
        ConfigError: the method has separate weights per body.
        TokenOverflowError: a body does not fit the run's token layout.
    """
    from gmc_bench.bodies.sets import load_morphologies

    if trained.method.capabilities.per_body:
        raise ConfigError(
            f"the method {trained.method.id!r} has one policy for each training body and cannot "
            f"be scored on other bodies; leave out --morphologies"
        )
    bodies, spec = load_morphologies(set_id), trained.spec
    if bodies.max_limbs > spec.max_limbs or bodies.joints_per_limb > spec.joints_per_limb:
        raise TokenOverflowError(
            f"the set {bodies.id!r} has bodies of up to {bodies.max_limbs} limbs with up to "
            f"{bodies.joints_per_limb} joints each, but the run's token layout has "
            f"{spec.max_limbs} slots with {spec.joints_per_limb}; choose a set of smaller bodies"
        )
    note(f"Scoring on {bodies.id}; trained on {trained.bodies.id}.")
    return replace(trained, bodies=bodies)


def _silent_limbs(session: "Session", splits: Sequence[str]) -> dict[str, dict[str, str]]:
    """Return by split and body the name of the limb that is not seen."""
    from gmc_bench.evaluation.dropout import draw_silent_limbs

    found = {}
    for split in splits:
        bodies = session.bodies.split(split)
        limbs = draw_silent_limbs(bodies, session.config.seed).tolist()
        found[split] = _limb_names(bodies, limbs)
    return found


def _limb_names(bodies: Sequence[Morphology], limbs: list[int]) -> dict[str, str]:
    return {body.name: body.limbs[limb].name for body, limb in zip(bodies, limbs, strict=True)}


def _marked_seen(
    returns: "tuple[BodyReturns, ...]", trained_on: MorphologySet
) -> "tuple[BodyReturns, ...]":
    """Return the returns with `seen_in_train` as the run's own training bodies make it.

    The train split of another set may be unseen, which no record of a run could state.
    """
    seen = {body.digest for body in trained_on.split("train")}
    return tuple(
        item.model_copy(update={"seen_in_train": item.body_digest in seen}) for item in returns
    )


def _document(
    run_dir: Path,
    trained: "Session",
    bodies: MorphologySet,
    scores: _Scores,
    weights_digest: str | None,
) -> dict[str, Any]:
    """Return everything that says what was scored, and the scores, as plain values."""
    import torch

    from gmc_bench.records.environment import collect_hardware, collect_versions

    config = trained.config
    gpu = torch.cuda.get_device_name(config.device) if config.device.startswith("cuda") else None
    return {
        "run": str(run_dir),
        "method": trained.method.id,
        "suite": config.suite,
        "task": config.task,
        "protocol": config.protocol.name,
        "seed": config.seed,
        "weights_digest": weights_digest,
        "trained_on": {"id": trained.bodies.id, "digest": trained.bodies.digest},
        "morphologies": {"id": bodies.id, "digest": bodies.digest},
        "episodes_per_body": len(scores.returns[0].episodes),
        "silent_limbs": scores.silent,
        "versions": collect_versions(),
        "hardware": collect_hardware(config.threads, gpu).model_dump(),
        "returns": [item.model_dump() for item in scores.returns],
    }


def _show(scores: _Scores) -> None:
    """Print a row per body and mode, and the summary."""
    from gmc_bench.cli.report import HEADINGS, summarize

    note("")
    headings = ["body", "split", "mode", "return", "length"]
    rows = []
    for item in scores.returns:
        seen = item.split == "test" and item.seen_in_train
        rows.append(
            [
                item.body + (SEEN if seen else ""),
                item.split,
                item.mode,
                number(item.mean_return),
                number(sum(e.length for e in item.episodes) / len(item.episodes), 0),
            ]
        )
        if scores.silent is not None:
            rows[-1].append(scores.silent[item.split][item.body])
    say(table([*headings, *(["unseen limb"] if scores.silent is not None else [])], rows))
    say()
    say(table(HEADINGS, summarize(scores.returns)))
