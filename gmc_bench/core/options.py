"""Options of a command line that nobody takes, refused in one sentence that says what was meant."""

from collections.abc import Collection, Iterable, Sequence

from gmc_bench.core.errors import ConfigError, did_you_mean


def reject_options(
    unknown: Iterable[str], known: Collection[str], prog: str, also: Iterable[str] = ()
) -> None:
    """Raise for arguments that nobody took, naming the closest option that exists.

    Args:
        unknown: the arguments; `--`, which only ends the options, does not count.
        known: options of the command.
        prog: the command, e.g. `gmc-bench run`.
        also: further options that may have been meant.

    Raises:
        ConfigError: `unknown` is not empty.
    """
    first = next((word.partition("=")[0] for word in unknown if word != "--"), None)
    if first is None:
        return
    if first in known:
        raise ConfigError(f"{first!r} stands behind '--', which ends the options; put it before")
    close = did_you_mean(first, {*known, *also}) if first.startswith("-") else ""
    hint = close if "did you mean" in close else f"; see '{prog} --help'"
    kind = "option" if first.startswith("-") else "argument"
    raise ConfigError(f"unknown {kind} {first!r}{hint}")


def require_verb_first(
    argv: Sequence[str], known: Collection[str], verbs: Collection[str], prog: str
) -> None:
    """Raise for an option in front of the verb, whose value would be taken for a verb.

    Args:
        argv: arguments of the command line.
        known: options that stand in front of a verb.
        verbs: names of the verbs.
        prog: the program.

    Raises:
        ConfigError: the first argument is an option, and none of `known`.
    """
    first = argv[0].partition("=")[0] if argv else ""
    if not first.startswith("-") or first in ("--", *known):
        return
    verb = next((word for word in argv if word in verbs), None)
    if verb is None:
        reject_options([first], known, prog)
    raise ConfigError(f"{first!r} stands too early; put it behind '{prog} {verb}'")
