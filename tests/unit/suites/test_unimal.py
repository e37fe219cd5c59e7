from dataclasses import replace

from gmc_bench.suites import SUITES
from gmc_bench.suites.unimal import SUITE


def test_it_is_registered_under_its_id():
    assert SUITES.get("unimal-v1") is SUITE
    assert SUITES.resolve("unimal") == SUITE.id == "unimal-v1"


def test_flat_terrain_on_the_published_bodies_or_else_the_evolved_ones():
    assert SUITE.task("ft") == "unimal-ft-v1"
    assert SUITE.default_morphologies == ("unimals_100", "gmc-unimal-mini-v2")
    assert SUITE.min_token_slots == 12
    assert SUITE.protocol(None).name == "lite"


def test_the_paper_protocol_is_the_table_of_the_paper():
    paper = SUITE.protocol("paper")
    ppo = paper.ppo
    # Hyperparameters of RecMorph's PPO in UNIMAL.
    assert len(paper.seeds) == 4
    assert ppo.gamma == 0.99
    assert ppo.gae_lambda == 0.95
    assert ppo.repeat == 8
    assert ppo.batch_size == 5120
    assert paper.num_envs == 32
    assert paper.env_steps == 100_000_000
    assert ppo.lr == 3e-4
    assert ppo.warmup_iterations == 5
    assert ppo.max_grad_norm == 0.5
    assert ppo.vf_coef == 0.2
    assert ppo.target_kl == 0.05  # on flat terrain
    assert paper.preset == "paper"


def test_what_the_paper_leaves_open_is_that_of_the_public_code():
    paper = SUITE.protocol("paper")
    ppo = paper.ppo
    assert paper.rollout_length == 2560
    assert paper.num_iterations == 1220
    assert paper.steps_per_iteration == 16 * ppo.batch_size
    assert ppo.eps_clip == 0.2
    assert ppo.value_clip
    assert ppo.ent_coef == 0.0
    assert ppo.adam_eps == 1e-5
    assert ppo.warmup_start == 0.1
    assert paper.action_std == 0.9
    assert paper.sampling_alpha == 1.0
    assert paper.sampling_warmup_iterations == 30
    assert paper.evaluation.episodes == 16
    assert set(paper.evaluation.modes) == {"deterministic", "stochastic"}
    assert set(paper.evaluation.splits) == {"train", "test"}


def test_protocols_grow_from_smoke_to_paper():
    budgets = [SUITE.protocol(name).env_steps for name in ("smoke", "lite", "standard", "paper")]
    assert budgets == [8_192, 2_000_000, 20_000_000, 100_000_000]


def test_standard_is_lite_for_ten_times_as_long_and_twice_as_wide():
    lite, standard = SUITE.protocol("lite"), SUITE.protocol("standard")
    sizes = [(item.num_envs, item.rollout_length, item.ppo.batch_size) for item in (lite, standard)]
    assert sizes == [(256, 16, 512), (512, 16, 1024)]
    assert standard.ppo == replace(lite.ppo, batch_size=1024)
    assert [item.evaluation.episodes for item in (lite, standard)] == [2, 4]


def test_hidden_layers_of_decoders_are_those_of_the_public_code():
    found = {task: SUITE.rules(task).decoder_hidden for task in SUITE.tasks}
    assert found == {
        **dict.fromkeys(SUITE.tasks, ()),
        "unimal-obstacles-v1": (64, 64),
        "unimal-vt-v1": (64,),
    }


def test_the_specialists_of_the_paper_protocol_are_those_of_the_public_script():
    paper = SUITE.specialists["paper"]
    assert (paper.env_steps, paper.num_envs, paper.rollout_length) == (1_000_000, 32, 2560)
    assert (paper.repeat, paper.batch_size, paper.lr) == (8, 5120, 3e-4)


def test_the_first_board_has_five_seeds_and_the_others_three():
    boards = [(suite, task) for suite in map(SUITES.get, SUITES.names()) for task in suite.tasks]
    for name in ("lite", "standard"):
        counts = {(suite.id, task): len(suite.protocol(name, task).seeds) for suite, task in boards}
        assert counts.pop(("unimal-v1", "unimal-ft-v1")) == 5
        assert len(counts) >= 7
        assert set(counts.values()) == {3}
