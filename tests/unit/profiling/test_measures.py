"""Every measurement runs and says what its figures mean; the figures are the machine's."""

import math
from dataclasses import replace
from functools import cache
from statistics import median

import pytest

from gmc_bench.conformance.morphologies import chain, linkage, star
from gmc_bench.core.errors import ConfigError
from gmc_bench.envs.bodies import smallest_layout
from gmc_bench.experiments.events import Progress
from gmc_bench.methods import METHODS
from gmc_bench.policies.torch_state import forked_rng
from gmc_bench.profiling import (
    MEASURES,
    Setting,
    methods,
    policy,
    profile_tasks,
    training,
    usual_methods,
)
from gmc_bench.profiling.timing import Timing
from gmc_bench.profiling.workload import make_networks
from gmc_bench.suites.unimal import SUITE
from gmc_bench.tasks import TASKS
from gmc_bench.tasks.unimal_ft import TASK
from gmc_bench.tokens.spec import TokenSpec

RATIOS = {
    "sim": {"ratio_env_to_bare_mj_step", "ratio_env_to_async_vector_env"},
    "train": {
        f"ratio_{part}_to_total" for part in ("simulation", "policy", "update", "other")
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def setting():
    """Two bodies, two environments, a fifth of a second per figure."""
    protocol = SUITE.protocol("smoke")
    return Setting(
        suite=SUITE,
        task=TASK,
        bodies=(chain(3), star(3)),
        bodies_id="unit",
        bodies_digest="0" * 64,
        spec=TokenSpec(max_limbs=4, joints_per_limb=2),
        methods=(METHODS.get("recmorph"), METHODS.get("smr"), METHODS.get("mlp")),
        protocol=replace(
            protocol,
            num_envs=4,
            rollout_length=16,
            env_steps=64 * 200,
            ppo=replace(protocol.ppo, batch_size=64),
        ),
        num_envs=2,
        threads=1,
        seconds=0.2,
    )


@pytest.fixture(scope="module")
def measured(setting):
    """Return the figures of a measure, taken once."""
    return cache(lambda name: MEASURES[name](setting))


def test_there_is_a_test_for_every_measure():
    # Padding has tests of its own.
    assert {*RATIOS, "policy", "padding", "methods"} == MEASURES.keys()


@pytest.mark.parametrize("name", sorted(RATIOS))
def test_a_measure_gives_finite_ratios_and_explains_them(measured, name):
    report = measured(name)
    figures = report.figures
    found = {field for field in figures if field.startswith("ratio_")}
    assert found == RATIOS[name]
    assert all(math.isfinite(figures[field]) for field in found)
    numbers = {field for field, value in figures.items() if isinstance(value, float)}
    assert figures["explained"].keys() == numbers
    assert all(figures[field] > 0 for field in numbers - {"ratio_other_to_total"})
    assert figures["setting"]["threads"] == 1
    assert figures["setting"]["morphologies"] == {"id": "unit", "digest": "0" * 64, "bodies": 2}
    assert figures["setting"]["num_envs"] == {"sim": 2, "train": 4}[name]
    text = report.to_markdown()
    assert all(field in text for field in numbers)


def test_bodies_with_closed_loops_are_simulated_beside_others(setting):
    """The process pool takes only environments with one and the same space of observations."""
    bodies = (linkage(2), chain(3))
    spec = smallest_layout(TASK, bodies)
    figures = MEASURES["sim"](replace(setting, bodies=bodies, spec=spec, seconds=0.05)).figures
    assert figures["async_steps_per_s"] > 0.0


@pytest.mark.slow
def test_all_tasks_are_measured_beside_their_own_models(setting):
    settings = [
        replace(setting, task=task, spec=replace(setting.spec, num_heights=task.num_heights))
        for task in map(TASKS.get, SUITE.tasks)
    ]
    report = profile_tasks(settings)
    figures = report.figures
    assert figures["setting"]["task"] == list(figures["tasks"]) == list(SUITE.tasks)
    for found in figures["tasks"].values():
        env, bare, ratio = found.values()
        assert 0 < env / bare == ratio < math.inf
    (table,) = report.tables
    assert "2 bodies of unit" in report.to_markdown()
    assert [row[0] for row in table.rows] == list(SUITE.tasks)
    assert [row[-1] for row in table.rows] == [
        f"{found['ratio_env_to_bare_mj_step']:.3f}" for found in figures["tasks"].values()
    ]
    assert {len(row) for row in table.rows} == {len(table.headings)}
    assert figures["setting"]["hardware"] == report.machine["hardware"]


@pytest.mark.slow
def test_policies_are_measured_in_every_cell(setting, monkeypatch, torch_as_it_was):
    for name, value in {"TOKENS": (3, 4, 5), "BATCHES": (1, 7), "SCALING_TOKENS": (4, 8)}.items():
        monkeypatch.setattr(policy, name, value)
    told: list[Progress] = []
    report = MEASURES["policy"](replace(setting, listener=told.append))
    figures = report.figures
    assert list(figures["methods"]) == ["recmorph", "smr", "mlp"]
    for found in figures["methods"].values():
        places = [(cell["tokens"], cell["batch"]) for cell in found["cells"]]
        assert places == [(t, b) for t in (3, 4, 5) for b in (1, 7)]
        for cell in found["cells"]:
            assert cell["samples_per_s"] == pytest.approx(1e3 * cell["batch"] / cell["latency_ms"])
            assert cell["ratio_to_mlp"] > 0
            assert cell["peak_mib"] > 0
        assert found["scaling"]["tokens"] == [4, 8]
        assert math.isfinite(found["scaling"]["slope"])
    own, separate = METHODS.get("mlp"), figures["methods"]["mlp"]  # with weights for each body
    with forked_rng():
        alone = make_networks(own, setting.preset(own), 5, bodies=1).actor
    assert separate["parameters"] == sum(part.numel() for part in alone.parameters())
    assert report.claim == "Random trees of 3, 4 and 5 limbs, all token slots filled, 1 thread(s)."
    assert figures["setting"].keys() == {"threads", "hardware", "versions"}
    titles = [table.title for table in report.tables if len(table.rows) == 3]
    assert [title.split(";")[0] for title in titles[:3]] == ["3 tokens", "4 tokens", "5 tokens"]
    assert len(titles) == 4
    assert [event.done for event in told] == [0, 1, 2, 3]


@pytest.mark.parametrize("name", ["policy", "padding"])
def test_networks_are_not_measured_on_limbs_for_bodies_with_drives(setting, name):
    driven = replace(setting, spec=TokenSpec(12, 1, parts="actuators"))
    with pytest.raises(ConfigError, match=f"^'{name}' measures networks on random trees of limbs"):
        MEASURES[name](driven)


def test_the_ratio_to_the_plain_network_is_that_of_speeds(monkeypatch):
    turns = {"ours": Timing([0.004] * 3, [7.0] * 3), "mlp": Timing([0.001] * 3, [1.0] * 3)}
    monkeypatch.setattr(policy, "take_turns", lambda sides, seconds: turns)
    model = make_networks(METHODS.get("recmorph"), "lite", 4, bodies=7)
    plain = policy.per_token_mlp(model.spec.num_features, model.spec.actions_per_token, 5_000)
    cell = policy.measure_cell(model, plain, 7, seconds=1.0)
    figures = (cell["latency_ms"], cell["samples_per_s"], cell["ratio_to_mlp"])
    assert figures == pytest.approx((4.0, 1750.0, 0.25))


def test_the_slope_is_that_of_log_time_over_log_tokens(setting, monkeypatch):
    sizes = {"TOKENS": (4,), "BATCHES": (1,), "SCALING_TOKENS": (4, 8, 16)}
    for name, value in sizes.items():
        monkeypatch.setattr(policy, name, value)
    counts = iter(sizes["SCALING_TOKENS"])
    monkeypatch.setattr(policy, "repeat", lambda act, seconds: Timing([next(counts) ** 2], [1.0]))
    figures = MEASURES["policy"](replace(setting, methods=setting.methods[:1])).figures
    scaling = figures["methods"]["recmorph"]["scaling"]
    assert scaling["latency_ms"] == [16e3, 64e3, 256e3]
    assert scaling["slope"] == pytest.approx(2.0)


@pytest.mark.slow
def test_methods_are_timed_in_turns_with_the_first(setting, monkeypatch):
    monkeypatch.setattr(methods, "MIN_ROUNDS", 3)
    chosen = tuple(map(METHODS.get, ("recmorph", "nervenet", "swat")))
    told: list[Progress] = []
    report = MEASURES["methods"](
        replace(setting, methods=chosen, seconds=1e-3, listener=told.append)
    )
    figures = report.figures
    assert (figures["suite"], figures["task"], figures["protocol"]) == (SUITE.id, TASK.id, "smoke")
    assert figures["steps_per_iteration"] == 64
    assert figures["reference"] == {
        "method": "recmorph",
        "method_version": chosen[0].version,
        "preset": "lite",
        "parameters": METHODS.get("recmorph").parameters["lite"],
    }
    assert [item["method"] for item in figures["methods"]] == ["nervenet", "swat"]
    for item in figures["methods"]:
        for side in ("", "reference_"):
            pairs = zip(item[f"{side}acting_seconds"], item[f"{side}seconds"], strict=True)
            assert len(item[f"{side}seconds"]) == 3
            assert all(0 < acting < whole for acting, whole in pairs)
    (table,) = report.tables
    assert [row[0] for row in table.rows] == ["recmorph", "nervenet", "swat"]
    assert [table.rows[0][3], table.rows[0][5]] == ["1.00", "1.00"]
    swat, expected = figures["methods"][1], []
    for name in ("seconds", "acting_seconds"):
        own, beside = swat[name], swat[f"reference_{name}"]
        ratios = [b / a for a, b in zip(own, beside, strict=True)]
        expected += [f"{64 / median(own):,.0f}", f"{median(ratios):.2f}"]  # env steps
    assert table.rows[2][2:6] == expected
    assert [event.done for event in told] == [0, 1, 2]


def test_all_updates_are_timed_whatever_was_learned(setting, monkeypatch):
    made = []

    def stop(setting, method, protocol):
        made.append(protocol)
        raise KeyboardInterrupt

    monkeypatch.setattr(methods, "trainer_of", stop)
    chosen = tuple(map(METHODS.get, ("recmorph", "swat")))
    stopping = replace(setting.protocol, ppo=replace(setting.protocol.ppo, target_kl=0.01))
    with pytest.raises(KeyboardInterrupt):
        MEASURES["methods"](replace(setting, methods=chosen, protocol=stopping))
    assert [protocol.ppo.target_kl for protocol in made] == [None]


def test_presets_of_a_method_are_timed_in_turns_with_the_first(setting, monkeypatch):
    monkeypatch.setattr(methods, "MIN_ROUNDS", 3)
    recmorph = METHODS.get("recmorph")
    presets = ("lite-plain", "lite")
    report = MEASURES["methods"](
        replace(setting, methods=(recmorph,), presets=presets, seconds=1e-3)
    )
    (other,) = report.figures["methods"]
    described = [report.figures["reference"], other]
    assert [item["method"] for item in described] == ["recmorph", "recmorph"]
    assert tuple(item["preset"] for item in described) == presets
    assert [item["parameters"] for item in described] == [
        recmorph.parameters[name] for name in presets
    ]
    (table,) = report.tables
    assert table.headings[0] == "preset"
    assert table.headings[3] == "x lite-plain"
    assert [row[0] for row in table.rows] == list(presets)


def test_what_is_measured_by_default():
    assert [method.id for method in usual_methods("train")] == ["recmorph"]
    policies = [method.id for method in usual_methods("policy")]
    assert {"mlp", "recmorph", "swat"} <= set(policies)
    assert "mlp-10m" not in policies  # the network of `mlp`
    first, *others = (method.id for method in usual_methods("methods"))
    assert first == "recmorph"
    assert sorted(others) == sorted(set(policies) - {"mlp", "recmorph"})


@pytest.mark.parametrize(
    ("names", "presets", "message"),
    [
        (["recmorph"], [], "only recmorph was given; add a second --method"),
        (["recmorph", "mlp"], [], "mlp trains a policy for each body by rules of its own"),
        (["recmorph", "swat", "mlp"], [], "mlp trains a policy for each body by rules of its own"),
        (["recmorph", "swat"], ["lite", "paper"], "presets are compared of one method"),
        (["recmorph"], ["lite"], "different presets are compared, got lite; give --preset two"),
        (["recmorph"], ["lite", "paper", "lite"], "compared, got lite paper lite; give --preset"),
        (["recmorph"], ["lite", "lit"], "'recmorph' has no preset 'lit'; did you mean 'lite'"),
    ],
)
def test_speeds_that_cannot_be_compared(setting, monkeypatch, names, presets, message):
    chosen = tuple(map(METHODS.get, names))
    # Nothing is measured, because what was measured before a refusal would be lost.
    monkeypatch.setattr(methods, "take_turns", lambda *_, **__: pytest.fail("measured"))
    with pytest.raises(ConfigError, match=message):
        MEASURES["methods"](replace(setting, methods=chosen, presets=presets))


def test_shares_of_training_time_add_up_to_one(measured):
    figures = measured("train").figures
    assert sum(figures[field] for field in RATIOS["train"]) == pytest.approx(1.0)


def test_the_reference_network_is_as_large_as_the_method():
    for size in (5_000, 70_000, 1_500_000):
        network = policy.per_token_mlp(52, 2, size)
        assert sum(p.numel() for p in network.parameters()) == pytest.approx(size, rel=0.03)


def test_training_is_that_of_the_tasks_decoder(setting, monkeypatch):
    made = []

    def stop(config, *_):
        made.append(config)
        raise KeyboardInterrupt

    monkeypatch.setattr(training, "make_trainer", stop)
    for task in map(TASKS.get, SUITE.tasks):
        with pytest.raises(KeyboardInterrupt):
            training.profile_training(replace(setting, task=task))
    found = [config.method_config["decoder_hidden"] for config in made]
    assert found == [list(SUITE.rules(task).decoder_hidden) for task in SUITE.tasks]
    assert len({tuple(hidden) for hidden in found}) > 1
