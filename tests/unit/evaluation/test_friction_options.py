import pytest

from gmc_bench.core.errors import ConfigError
from gmc_bench.evaluation.friction_options import FrictionOptions


def test_options_are_read_back_and_defaults_are_not_written():
    assert FrictionOptions().to_dict() == {}
    options = FrictionOptions(heading="free", rule="mean", robots="menagerie")
    assert options.to_dict() == {"heading": "free", "rule": "mean", "robots": "menagerie"}
    assert FrictionOptions.from_dict(options.to_dict()) == options
    assert FrictionOptions.from_dict({}).heading == "held"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ({"heading": "hold"}, "unknown heading 'hold'; did you mean 'held'"),
        ({"rule": "two_state"}, "unknown friction rule 'two_state'; did you mean 'two-state'"),
        ({"robots": "menagery"}, "unknown robot source 'menagery'; did you mean 'menagerie'"),
        ({"headings": "held"}, "measurement has no 'headings'; did you mean 'heading'"),
    ],
)
def test_unknown_options_are_refused(content, reason):
    with pytest.raises(ConfigError, match=reason):
        FrictionOptions.from_dict(content)
