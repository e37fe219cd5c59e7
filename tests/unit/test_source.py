"""Rules about the source that no linter has: who may write and leave, and how large things get."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROGRAMS = ("gmc_bench/bodies/worker.py", "gmc_bench/experiments/launchers/worker.py")
"""Modules that are run in a process of their own, and nothing else."""
MAX_LINES = 80  # of a function
MAX_PARAMETERS = 8  # of a function, `self` not counted
MAX_COMMAND_LINE = 2492  # lines of all of `cli`
COMPILED = {"njit", "compiled"}
"""Decorators of kernels: compiled code takes arrays, not objects."""
UNPICKLERS = {"cloudpickle", "dill", "joblib", "jsonpickle", "marshal", "pickle", "shelve"}
"""Packages that run what stands in the data they read."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


def modules(*folders: str) -> Iterator[tuple[str, ast.Module]]:
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            yield path.relative_to(ROOT).as_posix(), parsed(path)


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_bytes())


def functions() -> Iterator[tuple[str, Function]]:
    for path, module in modules("gmc_bench", "recmorph", "baselines", "benchmarks"):
        for node in ast.walk(module):
            if isinstance(node, Function):
                yield f"{path}:{node.name}", node


def is_kernel(function: Function) -> bool:
    names = {ast.unparse(decorator).split("(")[0] for decorator in function.decorator_list}
    return any(name.split(".")[-1] in COMPILED for name in names)


def parameters(function: Function) -> list[str]:
    given = function.args
    every = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
    return [item.arg for item in every if item is not None and item.arg not in ("self", "cls")]


def _talks(node: ast.AST) -> bool:
    """Tell whether a piece of code writes to the terminal, reads its words or ends the process."""
    match node:
        case ast.Call(func=ast.Name("print" | "input" | "exit" | "quit")):
            return True
        case ast.Attribute(ast.Name("sys"), "stdout" | "stderr" | "stdin" | "argv" | "exit"):
            return True
        case ast.Raise(exc=ast.Name("SystemExit") | ast.Call(func=ast.Name("SystemExit"))):
            return True
        case ast.Import():
            return any(item.name.split(".")[0] in ("tqdm", "argparse") for item in node.names)
        case ast.ImportFrom(module="sys"):
            return bool(
                {item.name for item in node.names} & {"stdout", "stderr", "stdin", "argv", "exit"}
            )
        case ast.ImportFrom():
            return str(node.module).split(".")[0] in ("tqdm", "argparse")
    return False


def _trusts_data(node: ast.AST) -> bool:
    """Tell whether a piece of code can run what stands in a file or in a text."""
    match node:
        case ast.Import():
            return any(item.name.split(".")[0] in UNPICKLERS for item in node.names)
        case ast.ImportFrom():
            return str(node.module).split(".")[0] in UNPICKLERS
        case ast.Call(func=ast.Name("eval" | "exec" | "compile")):
            return True
        case ast.Call(func=ast.Attribute(ast.Name("yaml"), "load" | "load_all")):
            loaders = [ast.unparse(word.value) for word in node.keywords if word.arg == "Loader"]
            return not any("Safe" in loader for loader in loaders)
        case ast.Attribute(ast.Name("yaml"), "unsafe_load" | "full_load" | "UnsafeLoader"):
            return True
        case ast.Call(func=ast.Attribute(ast.Name("torch"), "load")):
            return "weights_only=True" not in map(ast.unparse, node.keywords)
        case ast.Attribute(ast.Name("os"), "system" | "popen"):
            return True
        case ast.keyword(arg="shell" | "allow_pickle"):
            return not (isinstance(node.value, ast.Constant) and node.value.value is False)
    return False


@pytest.mark.parametrize(
    "code",
    [
        "import pickle", "from dill import loads", "eval('1')", "exec(text)", "os.system('ls')",
        "yaml.load(text)", "yaml.load(text, Loader=yaml.Loader)", "yaml.full_load(text)",
        "torch.load(path)", "run(words, shell=True)", "np.load(path, allow_pickle=flag)",
    ],
)  # fmt: skip
def test_what_runs_data_is_seen(code: str) -> None:
    assert any(map(_trusts_data, ast.walk(ast.parse(code))))


@pytest.mark.parametrize(
    "code",
    ["yaml.load(text, Loader=_SafeLoader)", "model.eval()", "torch.load(f, weights_only=True)"],
)
def test_what_only_reads_data_is_allowed(code: str) -> None:
    assert not any(map(_trusts_data, ast.walk(ast.parse(code))))


def test_nothing_unpickles_evaluates_or_starts_a_shell() -> None:
    found = [
        f"{path}:{getattr(node, 'lineno', '?')}"
        for path, module in modules("gmc_bench", "recmorph", "baselines", "benchmarks")
        for node in ast.walk(module)
        if _trusts_data(node)
    ]
    assert found == []


@pytest.mark.parametrize(
    "code",
    [
        "print(1)", "import sys; sys.stderr.write('a')", "from sys import argv", "sys.exit(1)",
        "raise SystemExit(2)", "from tqdm import tqdm", "import argparse", "exit()",
    ],
)  # fmt: skip
def test_what_talks_is_seen(code: str) -> None:
    assert any(map(_talks, ast.walk(ast.parse(code))))


def test_only_the_command_line_writes_reads_arguments_and_exits() -> None:
    found = [
        f"{path}:{node.lineno}"
        for path, module in modules("gmc_bench", "recmorph", "baselines")
        if not path.startswith("gmc_bench/cli/") and path not in PROGRAMS
        for node in ast.walk(module)
        if _talks(node)
    ]
    assert found == []


def test_no_function_is_longer_than_a_screen() -> None:
    found = [
        f"{name} has {node.end_lineno - node.lineno + 1} lines"
        for name, node in functions()
        if node.end_lineno - node.lineno >= MAX_LINES
    ]
    assert found == []


def test_no_function_has_many_parameters() -> None:
    found = [
        f"{name} has {len(parameters(node))} parameters"
        for name, node in functions()
        if len(parameters(node)) > MAX_PARAMETERS and not is_kernel(node)
    ]
    assert found == []


def test_the_command_line_is_thin() -> None:
    texts = [path.read_text() for path in (ROOT / "gmc_bench" / "cli").rglob("*.py")]
    assert sum(text.count("\n") for text in texts) <= MAX_COMMAND_LINE
