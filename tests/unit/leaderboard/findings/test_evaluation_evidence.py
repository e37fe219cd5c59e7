"""Scores on other bodies as evidence for claims: what is kept and what counts."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gmc_bench.bodies.schema import MorphologySet
from gmc_bench.bodies.sets import load_morphologies
from gmc_bench.core.config import config_digest
from gmc_bench.core.errors import RecordError, UnknownNameError
from gmc_bench.evaluation.dropout import draw_silent_limbs
from gmc_bench.leaderboard.aggregate import aggregate
from gmc_bench.leaderboard.analysis import TableAnalysis, analyse
from gmc_bench.leaderboard.findings.evidence import Evidence, KeptFiles, read_evidence, require_once
from gmc_bench.leaderboard.findings.pools import VariantPool
from gmc_bench.leaderboard.keeping import files_to_keep, require_policies
from gmc_bench.records.kept import BodySetId, KeptEvaluation
from gmc_bench.records.schema import RunRecord
from gmc_bench.records.store import seal
from gmc_bench.suites import SUITES
from gmc_bench.tasks import TASKS
from tests.support.findings import ENGINE, keep_all
from tests.support.records import digest_of, make_record, make_returns, make_stored


def _evaluation(bodies: MorphologySet, **changes: object) -> dict[str, Any]:
    """Return what `evaluate --json` would print of a policy on the test bodies of a set."""
    record = make_record(method="recmorph")
    chosen = bodies.split("test")
    returns = make_returns("test", {body.name: (10.0, 20.0) for body in chosen})
    named = {"id": bodies.id, "digest": bodies.digest}
    return {
        **{name: getattr(record, name) for name in ("method", "suite", "task", "protocol", "seed")},
        "weights_digest": record.weights_digest,
        "trained_on": named,
        "morphologies": named,
        "episodes_per_body": 2,
        "silent_limbs": None,
        "versions": record.versions,
        "hardware": record.hardware.model_dump(),
        "git_commit": "0" * 40,
        "git_dirty": False,
        "returns": [
            {**item.model_dump(), "body_digest": body.digest}
            for item, body in zip(returns, chosen, strict=True)
        ],
        **changes,
    }


def test_an_evaluation_is_kept_as_one_score(tmp_path: Path, tiny_set: MorphologySet) -> None:
    content = _evaluation(tiny_set)
    (tmp_path / "e.json").write_text(json.dumps(content))
    (path,), _ = keep_all([tmp_path / "e.json"], tmp_path)
    (found,) = read_evidence((), tmp_path).evaluations.values()
    assert path.parent.name == "evaluations"
    assert f"_seed0-{content['weights_digest'][:8]}_" in path.name  # two policies, two files
    assert (found.score, found.bodies, found.episodes) == (15.0, 2, 2)
    assert found.git_commit == "0" * 40
    assert found.hardware == make_record().hardware
    assert keep_all([tmp_path / "e.json"], tmp_path)[0] == [path]  # the same once more
    better = json.dumps(content).replace("20.0", "30.0")
    (tmp_path / "better.json").write_text(better)
    said = r"is there and says something else; .* added once"
    with pytest.raises(RecordError, match=said):
        keep_all([tmp_path / "better.json"], tmp_path)
    with pytest.raises(RecordError, match=said):  # nor at the same time
        keep_all([tmp_path / "e.json", tmp_path / "better.json"], tmp_path / "empty")
    again = path.with_name("a-later-look.json")
    path.rename(again)
    twin = rf"{re.escape(path.name)} and .*{again.name} both score recmorph, seed 0, on the test"
    with pytest.raises(RecordError, match=twin):
        keep_all([tmp_path / "e.json"], tmp_path)
    path.write_bytes(again.read_bytes())
    with pytest.raises(RecordError, match=r"a-later-look\.json both score recmorph"):
        read_evidence((), tmp_path)
    again.write_bytes(seal(found.model_copy(update={"seed": found.seed + 1})))
    assert len(read_evidence((), tmp_path).evaluations) == 2
    other = BodySetId(id=tiny_set.id, digest=digest_of("other"))
    again.write_bytes(seal(found.model_copy(update={"seed": 2, "morphologies": other})))
    with pytest.raises(RecordError, match="name sets tiny with different content"):
        read_evidence((), tmp_path)


def test_only_mean_actions_are_kept_of_an_evaluation(
    tmp_path: Path, tiny_set: MorphologySet
) -> None:
    content = _evaluation(tiny_set)
    sampled = [
        {**item, "mode": "stochastic", "episodes": item["episodes"][:1]}
        for item in content["returns"]
    ]
    content["returns"] = [*sampled, *reversed(content["returns"])]  # in any order
    (tmp_path / "e.json").write_text(json.dumps(content))
    keep_all([tmp_path / "e.json"], tmp_path)
    (found,) = read_evidence((), tmp_path).evaluations.values()
    assert (found.score, found.bodies) == (15.0, 2)


def test_scores_of_unlike_evaluations_stand_beside_each_other() -> None:
    first = _varied(make_record(method="recmorph"))
    for changes in (
        {"task": "unimal-vt-v1"}, {"protocol": "paper"}, {"method": "swat"}, {"seed": 7},
        {"weights_digest": digest_of("x")}, {"split": "train"}, {"sensor_dropout": True},
        {"morphologies": BodySetId(id="another", digest=digest_of("b"))},
    ):  # fmt: skip
        require_once(KeptFiles({}, {"a": first, "b": first.model_copy(update=changes)}, {}, {}))
    again = first.model_copy(update={"score": 8.0})
    with pytest.raises(RecordError, match="b and a both score recmorph"):
        require_once(KeptFiles({}, {"a": first, "b": again}, {}, {}))


def test_an_unseen_limb_is_the_one_that_the_seed_draws(
    tmp_path: Path, tiny_set: MorphologySet
) -> None:
    bodies = tiny_set.split("test")
    for seed in (0, 1):
        drawn = draw_silent_limbs(bodies, seed).tolist()
        limbs = {body.name: body.limbs[i].name for body, i in zip(bodies, drawn, strict=True)}
        content = _evaluation(tiny_set, silent_limbs={"test": limbs}, seed=seed)
        (tmp_path / "e.json").write_text(json.dumps(content))
        (path,), _ = keep_all([tmp_path / "e.json"], tmp_path)
        assert path.name.endswith("tiny-test-dropout.json")
    assert drawn != draw_silent_limbs(bodies, 0).tolist()
    for other in ("x", {"train": limbs}, {"test": dict.fromkeys(limbs, "torso")}):
        (tmp_path / "e.json").write_text(json.dumps(_evaluation(tiny_set, silent_limbs=other)))
        with pytest.raises(RecordError, match="names other hidden limbs in 'silent_limbs'"):
            keep_all([tmp_path / "e.json"], tmp_path)


def test_quadrupeds_have_no_unseen_limbs(tmp_path: Path) -> None:
    bodies = load_morphologies("quadrupeds-v1")
    task = SUITES.get("quadruped-friction-v3").tasks[0]
    changes = {"suite": "quadruped-friction-v3", "task": task, "silent_limbs": {}}
    robots = [
        {**item, "body_digest": body.digest, "split": "train", "seen_in_train": True}
        for body in bodies.split("train")
        for item in [make_returns("train", {body.name: (1.0, 2.0)})[0].model_dump()]
    ]
    ended = TASKS.get(task).termination_names[0]
    for item in robots:
        item["episodes"] = [{**episode, "ended": ended} for episode in item["episodes"]]
    (tmp_path / "e.json").write_text(json.dumps(_evaluation(bodies, returns=robots, **changes)))
    with pytest.raises(RecordError, match="'silent_limbs', but the bodies of quadrupeds-v1 are"):
        keep_all([tmp_path / "e.json"], tmp_path)


def _episodes(**changes: object) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Return what changes the first episode of the first body."""

    def change(content: dict[str, Any]) -> dict[str, Any]:
        first, *others = content["returns"]
        episode, *more = first["episodes"]
        return {"returns": [{**first, "episodes": [{**episode, **changes}, *more]}, *others]}

    return change


FORGED: list[tuple[Callable[[dict[str, Any]], dict[str, Any]], str]] = [
    (_episodes(episode_return=1e308), "is not the score .*less than or equal to 1000"),
    (lambda _: {"weights_digest": None}, r"is not the score of a trained policy \(field"),
    (lambda _: {"silent_limbs": ...}, r"\(it has no 'silent_limbs'\); give what"),
    (lambda _: {"returns": ...}, r"\(it has no 'returns'\); give what"),
    (lambda _: {"hardware": ...}, r"\(it has no 'hardware'\); give what"),
    (lambda _: {"hardware": {"cpu": "x"}}, r"\(field 'cores' is invalid: Field required\); give"),
    (lambda _: {"morphologies": {"id": "a/../../b", "digest": "0" * 64}}, "field 'id' is inv"),
    (lambda _: {"returns": []}, "holds no episodes; give what"),
    (lambda _: {"learning_curve": []}, "is the record of a run; give the run's folder"),
    (lambda _: {"x": json.loads("[" * 64 + "]" * 64)}, "nested more than 64 levels deep"),
    (lambda _: {"episodes_per_body": 10**400}, "field 'episodes' is invalid"),
    (lambda _: {"episodes_per_body": 3}, "says 3 episodes per body, but has 2;"),
    (
        lambda c: {"returns": [{**c["returns"][0], "episodes": c["returns"][0]["episodes"] * 2},
                               c["returns"][1]]},
        "says 2 episodes per body, but has 2 or 4;",
    ),
    (
        lambda c: {"returns": [{**c["returns"][0], "episodes": c["returns"][0]["episodes"][:1]},
                               c["returns"][1]]},
        "says 2 episodes per body, but has 1 or 2;",
    ),
    (_episodes(ended="made_up"), "ended by 'made_up', expected one of diverged, fell, time_limit;"),
    (lambda _: {"versions": {"x": "y"}}, "lacks the version of gmc-bench, python,"),
    (lambda _: {"git_dirty": True}, "was not made from a clean clone"),
    (lambda _: {"git_dirty": "no"}, "field 'git_dirty' is invalid"),
    (lambda _: {"git_commit": ..., "git_dirty": ...}, "or by a version that did not say"),
    (lambda _: {"git_dirty": ...}, "or by a version that did not say"),
    (lambda _: {"git_commit": None}, "or by a version that did not say"),
    (
        lambda _: {"morphologies": {"id": "tiny", "digest": "0" * 64}},
        "names the set tiny with the hash 000000000000, but here it has",
    ),
    (lambda _: {"trained_on": {"id": "tiny", "digest": "0" * 64}}, "names the set tiny with the"),
    (lambda c: {"returns": c["returns"][:1]}, "does not score each test body of tiny once"),
    (lambda c: {"returns": c["returns"][:1] * 2}, "does not score each test body of tiny once"),
    (
        lambda c: {"returns": [*c["returns"], c["returns"][0]]},
        "does not score each test body of tiny once",
    ),
    (
        lambda c: {"returns": [{**item, "body_digest": digest_of("x")} for item in c["returns"]]},
        "does not score each test body of tiny once",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("forge", "reason"), FORGED, ids=[reason for _, reason in FORGED])
def test_what_no_evaluation_prints_is_not_kept(
    tmp_path: Path,
    tiny_set: MorphologySet,
    forge: Callable[[dict[str, Any]], dict[str, Any]],
    reason: str,
) -> None:
    content = _evaluation(tiny_set)
    content |= forge(content)
    content = {name: value for name, value in content.items() if value is not ...}
    (tmp_path / "e.json").write_text(json.dumps(content))
    with pytest.raises(RecordError, match=rf"e\.json .*{reason}"):
        keep_all([tmp_path / "e.json"], tmp_path)
    assert list(tmp_path.rglob("*.json")) == [tmp_path / "e.json"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("5", "must hold a JSON object, got a int"),
        ("[]", "must hold a JSON object, got a list"),
        ("[" * 100_000, "cannot be read as JSON"),
        ("{", "cannot be read as JSON"),
    ],
    ids=["number", "list", "deep", "half"],
)
def test_what_is_no_object_is_not_kept(tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "e.json").write_text(text)
    with pytest.raises(RecordError, match=rf"e\.json {problem}"):
        keep_all([tmp_path / "e.json"], tmp_path)


def test_a_score_needs_the_record_of_its_policy(tmp_path: Path, tiny_set: MorphologySet) -> None:
    (tmp_path / "e.json").write_text(json.dumps(_evaluation(tiny_set)))
    board = tmp_path / "board"
    files, _ = files_to_keep([tmp_path / "e.json"], board)
    named = {"id": tiny_set.id, "digest": tiny_set.digest}
    bodies = {**make_record().morphologies.model_dump(), **named}
    scored = make_record(method="recmorph", morphologies=bodies)
    require_policies(files, board, [scored])
    for other in (
        [],
        [make_record(method="swat", morphologies=bodies)],
        [make_record(method="recmorph", seed=1, morphologies=bodies)],
        [make_record(method="recmorph", protocol="standard", morphologies=bodies)],
        [make_record(method="recmorph")],
        [make_record(method="recmorph", weights_digest=digest_of("other"))],
    ):
        with pytest.raises(RecordError, match=r"has no record of the policy .*\(recmorph, seed 0"):
            require_policies(files, board, other)
    versions = {**scored.versions, "mujoco": "1.2.4"}
    with pytest.raises(RecordError, match=r"scored with MuJoCo 1\.2\.3, but its run was made with"):
        require_policies(files, board, [scored.model_copy(update={"versions": versions})])
    assert not board.exists()


def test_scores_on_a_set_that_is_not_here_are_not_kept(
    tmp_path: Path, tiny_set: MorphologySet
) -> None:
    content = _evaluation(replace(tiny_set, id="elsewhere"))
    (tmp_path / "e.json").write_text(json.dumps(content))
    with pytest.raises(UnknownNameError, match="unknown morphology set 'elsewhere'"):
        keep_all([tmp_path / "e.json"], tmp_path)


def _varied(record: RunRecord, **changes: object) -> KeptEvaluation:
    """Return the score of a recorded policy on varied bodies."""
    fields = {name: getattr(record, name) for name in ("method", "seed", "weights_digest")}
    return KeptEvaluation(
        suite="unimal-v1", task="unimal-ft-v1", protocol="lite", split="test",
        sensor_dropout=False, **{**fields, "versions": ENGINE, **changes},
        trained_on=BodySetId(id="unimals_100", digest=digest_of("set")),
        morphologies=BodySetId(id="unimals_100+dynamics-v1", digest=digest_of("b")),
        bodies=1600, episodes=2, score=7.0,
    )  # fmt: skip


def test_scores_on_other_bodies_count_for_policies_with_a_record() -> None:
    bodies = {**make_record().morphologies.model_dump(), "id": "unimals_100"}
    records = [
        make_record(
            method="recmorph", seed=seed, protocol_seeds=(1, 2, 3), morphologies=bodies,
            weights_digest=digest_of(f"weights {seed}"),
        )
        for seed in (1, 2, 3, 4)
    ]  # fmt: skip
    pool = VariantPool("dynamics-v1", 1600)
    stored = [make_stored(item, f"{item.seed}.json") for item in records]
    (table,), _ = aggregate(stored)

    def seeds(
        *kept: KeptEvaluation, analyses: tuple[TableAnalysis, ...] = (analyse(table),)
    ) -> object:
        found = pool.samples(Evidence(analyses, {}, dict(zip("abcd", kept, strict=False))), "score")
        return {method: (item.seeds, item.values) for method, item in found.items()}

    first, second, third, further = map(_varied, records)
    assert seeds(first) == {"recmorph": ((1,), (7.0,))}
    assert seeds(first, analyses=()) == {}
    assert seeds(second) == {}  # the first seed is missing
    # Nor does the seed that was added where the table was close.
    assert seeds(first, second, third, further) == {"recmorph": ((1, 2, 3), (7.0,) * 3)}
    # One policy is neither another seed nor another method.
    assert seeds(first, _varied(records[0], seed=2)) == seeds(first)
    assert seeds(first, _varied(records[0], method="swat")) == seeds(first)
    # Fewer episodes or bodies than asked for, an hidden limb and train bodies are other scores.
    for change in ({"episodes": 1}, {"bodies": 800}, {"sensor_dropout": True}, {"split": "train"}):
        assert seeds(first.model_copy(update=change), second) == {}
    other = BodySetId(id="unimals_100", digest=digest_of("other"))
    assert seeds(first.model_copy(update={"trained_on": other})) == {}
    assert seeds(first.model_copy(update={"versions": {"mujoco": "1.2.4"}})) == {}
    # Nor are policies of settings that the method has no more those of its row.
    config = {"training": {"gamma": 0.5}}
    older = make_record(
        **{**records[0].model_dump(), "config": config, "config_digest": config_digest(config),
           "weights_digest": digest_of("older"), "method_version": 1}
    )  # fmt: skip
    newer = [item.model_copy(update={"method_version": 2}) for item in records]
    (both,), _ = aggregate(
        [make_stored(item, f"{place}.json") for place, item in enumerate([older, *newer])]
    )
    assert seeds(_varied(older), analyses=(analyse(both),)) == {}
    assert seeds(first, analyses=(analyse(both),)) == {"recmorph": ((1,), (7.0,))}


def test_scores_with_an_unseen_limb_are_of_train_bodies() -> None:
    bodies = {**make_record().morphologies.model_dump(), "id": "unimals_100"}
    record = make_record(method="recmorph", seed=1, protocol_seeds=(1,), morphologies=bodies)
    tables, _ = aggregate([make_stored(record)])
    dropped = {
        "split": "train", "sensor_dropout": True, "bodies": 100,
        "morphologies": BodySetId(id="unimals_100", digest=digest_of("set")),
    }  # fmt: skip
    item = _varied(record).model_copy(update=dropped)
    for change, count in (
        ({}, 1), ({"split": "test"}, 0), ({"sensor_dropout": False}, 0),
        ({"morphologies": BodySetId(id="unimals_100+dynamics-v1", digest=digest_of("b"))}, 0),
    ):  # fmt: skip
        kept = {"a": item.model_copy(update=change)}
        evidence = Evidence(tuple(map(analyse, tables)), {}, kept)
        assert len(VariantPool("", 100).samples(evidence, "score")) == count
