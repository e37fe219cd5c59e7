"""A round of fuzzing under atheris, which ends the process; `benchmarks.fuzz` starts it.

python -m benchmarks.fuzz_guided TARGET [OPTIONS OF LIBFUZZER] [FOLDERS OF INPUTS]

It is a module of its own because atheris must be there before what it shall watch.
"""

import sys

import atheris


def main() -> None:
    """Run the round; the exit code is libFuzzer's."""
    with atheris.instrument_imports(include=["gmc_bench"]):
        from benchmarks.fuzz_targets import call, make_target

        target = make_target(sys.argv[1])
    atheris.Setup([sys.argv[0], *sys.argv[2:]], lambda data: call(target, data))
    atheris.Fuzz()


if __name__ == "__main__":
    main()
