"""Seeds beyond those that a protocol asks for: more runs where two methods are close."""

from collections.abc import Collection, Sequence


def further_seeds(asked: Sequence[int]) -> tuple[int, ...]:
    """Return the seeds that may follow those a protocol asks for, as many again, in their order.

    None may follow a single seed, which is for trying out, nor where seeds are left open.
    """
    if len(asked) < 2:
        return ()
    last = max(asked)
    return tuple(range(last + 1, last + 1 + len(asked)))


def absent_seeds(asked: Sequence[int], there: Collection[int]) -> tuple[int, ...]:
    """Return the seeds that a row lacks: those asked for, and gaps in those that follow.

    Nobody shall choose among further seeds: the next one is the lowest that was not run.
    """
    follow = [seed for seed in further_seeds(asked) if seed < max(there, default=0)]
    return tuple(seed for seed in (*sorted(asked), *follow) if seed not in there)
