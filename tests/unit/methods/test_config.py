"""Which values the shared settings of networks take, and those of subclasses."""

from dataclasses import dataclass
from typing import get_args

import pytest
import torch

from gmc_bench.core.config import leaves, type_hints, with_overrides
from gmc_bench.core.errors import ConfigError
from gmc_bench.methods import METHODS
from gmc_bench.methods.config import AttentionConfig, NetworkConfig, require_positive
from gmc_bench.tokens import TokenSpec


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


@pytest.mark.parametrize(
    ("first", "name", "value", "why"),
    [
        (NetworkConfig, "embedding_init", 0.0, "'embedding_init' must be positive, got 0.0"),
        (NetworkConfig, "decoder_init", float("inf"), "'decoder_init' must be positive, got inf"),
        (
            NetworkConfig,
            "decoder_hidden",
            (8, 0),
            "'decoder_hidden' must hold numbers that are at ",
        ),
        (NetworkConfig, "height_map_hidden", (), "'height_map_hidden' must hold at least one wid"),
        (AttentionConfig, "num_layers", 0, "'num_layers' must be at least 1, got 0"),
        (AttentionConfig, "num_heads", 0, "'num_heads' must be at least 1, got 0"),
        (AttentionConfig, "feedforward", 0, "'feedforward' must be at least 1, got 0"),
        (AttentionConfig, "width", -2, "'width' must be at least 1, got -2"),
    ],
)
def test_shared_fields_are_positive_in_subclasses_too(first, name, value, why):
    """From the first class that has them on."""
    classes = [NetworkConfig, AttentionConfig, Own, Strict]
    for cls in classes[classes.index(first) :]:
        with pytest.raises(ConfigError, match=why):
            cls(**{name: value})


@pytest.mark.parametrize("cls", [AttentionConfig, Own, Strict])
def test_heads_divide_the_width_in_subclasses_too(cls):
    with pytest.raises(ConfigError, match="'num_heads' must divide 'width', got 3 and 128"):
        cls(num_heads=3)


def test_a_subclass_chooses_which_of_its_own_are_positive():
    with pytest.raises(ConfigError, match="'size' must be at least 1, got 0"):
        Strict(size=0)


def test_numbers_in_tuples_are_positive_too():
    @dataclass(frozen=True)
    class Mixed:
        names: tuple[str, ...] = ("a", "b")
        scales: tuple[float, ...] = (0.5, 0.1)
        flags: tuple[bool, ...] = (False, True)
        widths: tuple[int, ...] = (2, 1)

    require_positive(Mixed())
    with pytest.raises(ConfigError, match="'widths' must hold numbers that are at least 1"):
        require_positive(Mixed(widths=(2, 0)))
    with pytest.raises(ConfigError, match="'scales' must hold numbers that are positive"):
        require_positive(Mixed(scales=(0.5, 0.0)), "scales")


def _others(config, field, value):
    """Return other values of a setting, of which at least one goes with the other settings."""
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [2 * value, value // 2 or 3]
    if isinstance(value, float):
        return [value / 2]
    if isinstance(value, tuple):
        return [(*value, 3)]
    return [word for word in get_args(type_hints(type(config))[field]) if word != value]


@pytest.mark.parametrize("name", METHODS.names())
def test_every_setting_reaches_the_network_or_is_refused(name):
    """Shared ones, too: a network that forgets one would be another than its record says."""
    method, spec = METHODS.get(name), TokenSpec(4, num_heights=3)

    def built(**changes):
        torch.manual_seed(0)
        network = method.build(method.make_config("lite", changes), spec, 2)
        plain = {
            (part, attribute): value
            for part, module in network.named_modules()
            for attribute, value in vars(module).items()
            if isinstance(value, (int, float, str, tuple))
        }
        return plain | {key: value.numpy().tobytes() for key, value in network.state_dict().items()}

    plain, config = built(), method.make_config("lite")
    assert built() == plain
    for field, value, _ in leaves(config):
        others, refusals = _others(config, field, value), []
        for other in others:
            try:
                assert built(**{field: other}) != plain, (field, other)
            except ConfigError as error:
                refusals.append(str(error))
        if len(refusals) == len(others):
            assert all("has no effect" in refusal for refusal in refusals)


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
