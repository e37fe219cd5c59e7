import pytest

from gmc_bench.errors import ConfigError
from recmorph import SPEC
from recmorph.config import RecMorphConfig


def test_paper_preset_is_the_default():
    assert SPEC.make_config("paper") == RecMorphConfig()
    assert (RecMorphConfig().width, RecMorphConfig().hidden, RecMorphConfig().num_blocks) == (
        128,
        256,
        4,
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"width": 0}, "'width' must be at least 1, got 0"),
        ({"num_blocks": -1}, "'num_blocks' must be at least 1, got -1"),
        ({"norm_eps": 0.0}, "'norm_eps' must be positive, got 0.0"),
        ({"decoder_init": float("nan")}, "'decoder_init' must be a finite number, got nan"),
        ({"decoder_hidden": [64, 0]}, "'decoder_hidden' must hold widths of at least 1"),
        ({"cell": "lstm"}, "'cell' must be one of birnn"),
    ],
)
def test_unusable_settings_are_refused(changes, message):
    with pytest.raises(ConfigError, match=message):
        SPEC.make_config("lite", changes)
