"""Argument parsing shared by the verbs: one-sentence errors and options made from settings."""

import argparse
import math
import os
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Any, NoReturn

from gmc_bench.core.config import leaves
from gmc_bench.core.errors import ConfigError, did_you_mean
from gmc_bench.core.options import reject_options


class _Store(argparse._StoreAction):
    """Stores a value; refuses an option of several values that is repeated, and not added to."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option: str | None = None) -> None:
        given = getattr(namespace, self.dest, self.default) is not self.default
        if option and given and self.nargs == argparse.ONE_OR_MORE:
            raise argparse.ArgumentError(self, "given more than once; put all values behind one")
        super().__call__(parser, namespace, values, option)


class Parser(argparse.ArgumentParser):
    """An argument parser whose complaints are `ConfigError`s."""

    verbs: Collection[str] = ()
    """Names of its subcommands."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.register("action", None, _Store)

    def error(self, message: str) -> NoReturn:
        """Raise instead of printing the usage."""
        raise ConfigError(f"{message}; see '{self.prog} --help'")

    def _get_value(self, action: argparse.Action, arg_string: str) -> Any:
        # Elsewhere than in settings, a variable of the shell had no value: an empty path would be
        # the working folder, and an empty name often the default.
        own = action.nargs not in (argparse.PARSER, argparse.ZERO_OR_MORE)  # else also what follows
        if own and not arg_string and not action.dest.startswith("set:"):
            raise argparse.ArgumentError(action, "got an empty value; give another or leave it out")
        if action.type is Path:  # `~` is left to us in --out=~/DIR
            arg_string = os.path.expanduser(arg_string)  # noqa: PTH111 - Path's may raise
        return super()._get_value(action, arg_string)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            choices = [str(choice) for choice in action.choices]
            what = action.metavar if isinstance(action.metavar, str) else action.dest
            raise ConfigError(f"unknown {what.lower()} {value!r}{did_you_mean(value, choices)}")

    def parse_each(self, argv: list[str]) -> tuple[dict[str, Any], list[str]]:
        """Parse each option on its own, so that none takes the values of one it does not know.

        Returns:
            The values by name, and the options that are unknown, with their values.

        Raises:
            ConfigError: a value is missing, does not fit, or is one too many.
        """
        from gmc_bench.experiments.sweep_request import further_options

        found = self.parse_args([])  # the defaults, also where no argument follows
        left = further_options(argv, lambda group: self.parse_known_args(group, found)[1])
        return vars(found), left

    @property
    def options(self) -> list[str]:
        """The options that it takes, in all spellings."""
        return list(self._option_string_actions)

    def reject_unknown(self, unknown: list[str], also: Iterable[str] = ()) -> None:
        """Raise for options that nobody took, naming the closest of its own and those of `also`.

        Raises:
            ConfigError: `unknown` is not empty.
        """
        reject_options(unknown, self.options, self.prog, also)

    def refuse(self, parsed: argparse.Namespace, names: Iterable[str], why: str) -> None:
        """Raise for an option that has no effect beside the others; its default says nothing.

        Raises:
            ConfigError: one of the options `names` was given; `why` goes on behind its name.
        """
        for name in names:
            default = self.get_default(name)
            if getattr(parsed, name, default) != default:
                raise ConfigError(f"--{name.replace('_', '-')} {why}")


def add_verb(
    verbs: Any, name: str, summary: str, examples: Iterable[str], **options: Any
) -> Parser:
    """Add a subcommand with runnable examples under its help."""
    parser: Parser = verbs.add_parser(
        name,
        help=summary,
        description=summary,
        epilog="examples:\n" + "\n".join(f"  {example}" for example in examples),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
        **options,
    )
    return parser


def add_settings(parser: Parser, config: Any, title: str, prefix: str, skip: set[str]) -> None:
    """Add one option per setting of a nested configuration, with its default and help.

    Args:
        parser: where the options go.
        config: a frozen dataclass instance whose values are the defaults shown.
        title: heading of the group in the help.
        prefix: put before each dotted name, e.g. `model.`.
        skip: names without prefix that get no option.
    """
    group = parser.add_argument_group(title)
    for name, value, text in leaves(config):
        if name in skip:
            continue
        group.add_argument(
            f"--{prefix}{name.replace('_', '-')}",
            dest=f"set:{prefix}{name}",
            default=argparse.SUPPRESS,
            metavar="VALUE",
            help=f"{text} (default: {_shown(value)})".replace("%", "%%"),
        )


def integer(low: int, high: int | None = None) -> Callable[[str], int]:
    """Return a converter for options that take a whole number from `low` to `high`."""
    wanted = f"an integer of at least {low}" if high is None else f"an integer from {low} to {high}"

    def convert(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"must be {wanted}, got {text!r}") from None
        if value < low or (high is not None and value > high):
            raise argparse.ArgumentTypeError(f"must be {wanted}, got {value}")
        return value

    return convert


seed = integer(0, 2**32 - 1)
"""Converter for options that take a seed."""


def amount(unit: str, *, zero: bool, most: float = math.inf) -> Callable[[str], float]:
    """Return a converter for options that take so many of a unit; `zero`: whether 0 will do."""
    wanted = f"a number of {unit} that is not negative" if zero else f"a positive number of {unit}"
    if most < math.inf:
        wanted = f"{0 if zero else 'more than 0'} to {most:g} {unit}"

    def convert(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not math.isfinite(value) or not 0 <= value <= most or (value == 0 and not zero):
            raise argparse.ArgumentTypeError(f"must be {wanted}, got {text!r}")
        return value

    return convert


def add_reuse(add: Callable[..., Any], default: Any = None) -> None:
    """Add the option that takes runs from a leaderboard."""
    text = "take runs that this leaderboard has, with weights, from there, e.g. leaderboards"
    add("--reuse", metavar="DIR", type=Path, default=default, help=text)


def add_launch(add: Callable[..., Any], default: str) -> None:
    """Add the options that say who runs a sweep; those that are not given get no attribute.

    Args:
        add: of the parser.
        default: who does without them, for the help.
    """
    one: dict[str, Any] = {"default": argparse.SUPPRESS}
    text = f"who runs them: local, ray, slurm, see docs/clusters.md (default: {default})"
    add("--launcher", metavar="L", help=text, **one)
    text = "runs at a time (default: local: by cores, ray: 1,000, slurm: all)"
    add("--jobs", metavar="N", type=integer(1), help=text, **one)
    add("--retries", metavar="N", type=integer(0), help="of a run that failed, default: 1", **one)


def require_resume_alone(unknown: list[str], argv: list[str], rest: str) -> None:
    """Raise unless `--resume` is the only option; `rest` says what goes on, and with what."""
    others = [word for word in argv[1:] if word.startswith("-") and not word.startswith("--resume")]
    if others or unknown:
        raise ConfigError(f"--resume takes no other options, got {(others + unknown)[0]!r}; {rest}")


def settings_given(arguments: argparse.Namespace, prefix: str) -> dict[str, Any]:
    """Return the settings of `add_settings` that were given, by dotted name without prefix."""
    start = f"set:{prefix}"
    return {
        name.removeprefix(start): value
        for name, value in vars(arguments).items()
        if name.startswith(start)
    }


def _shown(value: Any) -> str:
    if value is None or value == ():
        return "none"
    return ",".join(str(item) for item in value) if isinstance(value, tuple) else str(value)
