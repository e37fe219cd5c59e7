import pytest

from gmc_bench.core.errors import ConfigError
from recmorph import BIGRU, BILSTM, BIMAMBA2, SPEC
from recmorph.config import RecMorphConfig


def test_paper_preset_is_the_default():
    assert SPEC.make_config("paper") == RecMorphConfig()
    assert (RecMorphConfig().width, RecMorphConfig().hidden, RecMorphConfig().num_blocks) == (
        128,
        256,
        4,
    )
    assert RecMorphConfig().norm_eps == 1e-6  # the README's


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"width": 0}, "'width' must be at least 1, got 0"),
        ({"num_blocks": -1}, "'num_blocks' must be at least 1, got -1"),
        ({"norm_eps": 0.0}, "'norm_eps' must be positive, got 0.0"),
        ({"decoder_init": float("nan")}, "'decoder_init' must be a finite number, got nan"),
        ({"decoder_hidden": [64, 0]}, "'decoder_hidden' must hold numbers that are at least 1"),
        ({"cell": "lstm"}, "'cell' must be one of birnn, bigru, bilstm, bimamba2"),
        ({"mamba_state": 7}, "'mamba_state' has no effect with the cell 'birnn'; leave it out"),
        ({"cell": "bilstm", "mamba_head": 48}, "'mamba_head' has no effect with the cell 'bilstm'"),
        ({"cell": "bimamba2", "mamba_head": 48}, "'mamba_head' must divide .* = 128, got 48"),
        ({"cell": "bimamba2", "hidden": 40}, "'mamba_head' must divide .* = 80, got 64"),
    ],
)
def test_unusable_settings_are_refused(changes, message):
    with pytest.raises(ConfigError, match=message):
        SPEC.make_config("lite", changes)


@pytest.mark.parametrize(
    ("method", "cell", "num_blocks"),
    [(BIGRU, "bigru", 4), (BILSTM, "bilstm", 4), (BIMAMBA2, "bimamba2", 2)],
)
def test_variants_change_the_cell_only(method, cell, num_blocks):
    config = method.make_config()
    assert (config.cell, config.num_blocks) == (cell, num_blocks)
    assert config == method.make_config("paper")
    changes = {"cell": cell, "num_blocks": num_blocks}
    assert vars(SPEC.make_config("paper", changes)) == vars(config)
    assert method.make_config("paper-2").num_blocks == 2


@pytest.mark.parametrize("size", ["paper", "lite"])
def test_every_row_of_the_ablation_adds_one_part(size):
    rows = [f"{size}-plain", f"{size}-residual", f"{size}-rms-norm", size]
    configs = [SPEC.make_config(row) for row in rows]
    parts = [(config.residual, config.rms_norm, config.modulation) for config in configs]
    assert parts == [(False,) * 3, (True, False, False), (True, True, False), (True,) * 3]
    assert len({(config.width, config.hidden, config.num_blocks) for config in configs}) == 1


@pytest.mark.parametrize("size", ["paper", "lite"])
def test_the_matched_plain_network_is_as_large_as_the_full_one(size):
    assert SPEC.parameters[f"{size}-plain-matched"] == pytest.approx(
        SPEC.parameters[size], rel=0.01
    )
