"""Which values the shared settings of networks take, and those of subclasses."""

from dataclasses import dataclass

import pytest

from gmc_bench.core.config import leaves, with_overrides
from gmc_bench.core.errors import ConfigError
from gmc_bench.methods import METHODS
from gmc_bench.methods.config import AttentionConfig, NetworkConfig, require_positive


@dataclass(frozen=True, kw_only=True)
class Own(AttentionConfig):
    dropout: float = 0.1
    scale: float = 0.0
    skip: int = 0
    shift: float = -1.0
    widths: tuple[int, ...] = (0, 2)
    size: int = 4


class Strict(Own):
    def __post_init__(self):
        super().__post_init__()
        require_positive(self, "size")


def test_own_fields_may_be_zero():
    assert with_overrides(Own(), {"dropout": 0, "size": 0}).dropout == 0.0


@pytest.mark.parametrize("cls", [NetworkConfig, AttentionConfig, Own, Strict])
@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("embedding_init", 0.0, "'embedding_init' must be positive, got 0.0"),
        ("decoder_init", float("inf"), "'decoder_init' must be positive, got inf"),
        (
            "decoder_hidden",
            (8, 0),
            r"'decoder_hidden' must hold widths of at least 1, got",
        ),
        ("height_map_hidden", (), "'height_map_hidden' must hold at least one width, got none"),
        ("num_layers", 0, "'num_layers' must be at least 1, got 0"),
        ("width", -2, "'width' must be at least 1, got -2"),
    ],
)
def test_shared_fields_are_positive_in_subclasses_too(cls, name, value, why):
    if hasattr(cls, name):
        with pytest.raises(ConfigError, match=why):
            cls(**{name: value})


def test_a_subclass_chooses_which_of_its_own_are_positive():
    with pytest.raises(ConfigError, match="'size' must be at least 1, got 0"):
        Strict(size=0)


@pytest.mark.parametrize("name", METHODS.names())
def test_numbers_of_registered_methods_are_positive_but_for_dropout(name):
    config = METHODS.get(name).make_config("lite")
    for field, value, _ in leaves(config):
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            zero = type(value)(0)
            if field.endswith("dropout"):
                assert getattr(with_overrides(config, {field: zero}), field) == zero
            else:
                with pytest.raises(ConfigError, match=f"'{field}' must be"):
                    with_overrides(config, {field: zero})
