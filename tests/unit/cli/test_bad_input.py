"""Whatever is wrong with a command: exit code 2, one sentence on stderr, nothing on stdout."""

import os
import shlex
import socket
import sys
from pathlib import Path

import pytest

from gmc_bench.cli.main import main

RUN = "run --method recmorph --suite unimal --task ft --protocol smoke --morphologies tiny"

SWEEP = "sweep --methods recmorph --suites unimal --protocol smoke --bodies tiny"

METHOD_FILES = {
    "stops.py": "class Stop(BaseException): pass\nraise Stop('two\\nlines')\n",
    "syntax.py": "def broken(:\n",
    "raises.py": "raise RuntimeError('no luck')\n",
    "exits.py": "import sys\nsys.exit(0)\n",
    "empty.py": "OTHER = 1\n",
    "number.py": "SPEC = 3\n",
    "methods.py": """
from dataclasses import dataclass
import torch
from gmc_bench.methods import Capabilities, MethodSpec

@dataclass(frozen=True, kw_only=True)
class Config:
    width: int = 4

class Wide(torch.nn.Module):
    def __init__(self, config, spec, num_outputs):
        super().__init__()
        self.num_outputs = num_outputs
        self.unused = torch.nn.Parameter(torch.zeros(1))
    def forward(self, tokens):
        return tokens.features[..., : self.num_outputs + 1]

class NotFinite(Wide):
    def forward(self, tokens):
        return tokens.features[..., : self.num_outputs] / 0.0

def not_a_module(config, spec, num_outputs):
    return "network"

def raising(config, spec, num_outputs):
    raise ValueError("width is odd")

WIDE = MethodSpec(id="wide", config=Config, builder=Wide)
NAN = MethodSpec(id="nan", config=Config, builder=NotFinite)
TEXT = MethodSpec(id="text", config=Config, builder=not_a_module)
RAISES = MethodSpec(id="raises", config=Config, builder=raising)
NO_CONFIG = MethodSpec(id="no-config", config="nowhere:Config", builder=Wide)
NO_PRESET = MethodSpec(id="no-preset", config=Config, builder=Wide, presets={"paper": {}})
NEGATIVE = MethodSpec(id="negative", config=Config, builder=Wide, env_steps_per_body=-1)

class Remembers(Wide):
    state_width, sequence_length = 1, 24
    def forward(self, tokens, history):
        return tokens.features[..., : self.num_outputs], history.state

TEMPORAL = MethodSpec(
    id="temporal", config=Config, builder=Remembers, capabilities=Capabilities(temporal=True)
)
""",
    "bad_id.py": """
from gmc_bench.methods import MethodSpec
SPEC = MethodSpec(id="My Method/1", config="nowhere:Config", builder="nowhere:build")
""",
    "copied.py": """
from gmc_bench.methods import MethodSpec
SPEC = MethodSpec(id="metamorph", config="nowhere:Config", builder="nowhere:build")
""",
}

SETTINGS = {
    "broken.yaml": "ppo: [1\n",
    "list.yaml": "- 1\n",
    "unknown.yaml": "env_step: 2048\n",
    "nested.yaml": "ppo: {gama: 0.9}\n",
    "locked.yaml": "seeds: [1]\n",
    "group.yaml": "ppo: 4\n",
    "model.yaml": "model: 3\n",
}

CASES = [
    # verbs
    ("nonsense", "unknown verb 'nonsense'; known: check-method, deploy, evaluate,"),
    ("rnu", "unknown verb 'rnu'; did you mean 'run'?"),
    ("--nonsense", "unknown option '--nonsense'"),
    (f"{RUN} --out {'x' * 300}", "File name too long; choose another folder"),
    (f"run --resume {'x' * 300}", "File name too long; give a folder that you may read"),
    (f"sweep status {'x' * 300}", "File name too long; give a folder that you may read"),
    (f"morphologies import {'x' * 300}", "x: File name too long; give a path that you may use"),
    (f"leaderboard build --records {'x' * 300}", "x: File name too long; give a path that you may"),
    (f"study components --dry-run --reuse {'x' * 300}", "/ledger.jsonl: File name too long; give"),
    # names
    ("run", "--method is missing"),
    ("run --method SWAT --suite unimal", "unknown method 'SWAT'; did you mean 'swat'?"),
    ("run --method recmorph", "--suite is missing"),
    ("run --method recmorf --suite unimal", "unknown method 'recmorf'; did you mean 'recmorph'?"),
    ("run --method recmorph --suite unimol", "unknown suite 'unimol'; did you mean 'unimal'?"),
    (
        f"{RUN} --task hill",
        "suite 'unimal-v1' has no task 'hill'; known: exploration, ft, incline, obstacles, vt",
    ),
    (f"{RUN} --protocol smoek", "has no protocol 'smoek'; did you mean 'smoke'?"),
    (f"{RUN} --morphologies tony", "unknown morphology set 'tony'; did you mean 'tiny'?"),
    # options and settings
    (f"{RUN} --model.widht 3", "unknown option '--model.widht'; did you mean '--model.width'?"),
    (f"{RUN} --ppo.gama=3", "unknown option '--ppo.gama'; did you mean '--ppo.gamma'?"),
    (f"{RUN} --seeds 1", "unknown option '--seeds'"),
    (f"{RUN} --prot smoke", "unknown option '--prot'"),
    (f"{RUN} more", "unknown argument 'more'"),
    (f"{RUN} -- more", "unknown argument 'more'"),
    (f"{RUN} -- --seed 1", "'--seed' stands behind '--', which ends the options; put it before"),
    (f"{RUN} --ppo.gamma", "--ppo.gamma: expected one argument"),
    (f"{RUN} --ppo.gamma x", "'ppo.gamma' must be a finite number, got 'x'"),
    (f"{RUN} --ppo.gamma nan", "'ppo.gamma' must be a finite number, got 'nan'"),
    (f"{RUN} --ppo.gamma 2", "'ppo.gamma' must be in [0, 1], got 2.0"),
    (f"{RUN} --ppo.time-limit x", "'ppo.time_limit' must be one of bootstrap, zero_error"),
    (f"{RUN} --model.width 1.5", "method 'recmorph': 'model.width' must be an integer, got '1.5'"),
    (f"{RUN} --model.width 0", "'width' must be at least 1, got 0"),
    (f"{RUN} --num-envs 0", "'num_envs' must be positive, got 0"),
    (f"{RUN} --seed x", "--seed: must be an integer from 0 to 4294967295, got 'x'"),
    (f"{RUN} --seed -1", "--seed: must be an integer from 0 to 4294967295, got -1"),
    (f"{RUN} --env-steps 10", "'env_steps' is 10, less than one iteration of 16 environments"),
    (f"{RUN} --env-steps 1.5", "--env-steps: must be an integer of at least 1, got '1.5'"),
    (f"{RUN} --threads 0", "--threads: must be an integer of at least 1, got 0"),
    (f"{RUN} --threads 4096", "--threads must be from 1 to"),
    (f"{RUN} --checkpoint-interval nan", "must be a number of seconds that is not negative"),
    (f"{RUN} --device tpu", "the device 'tpu' is not supported; use --device cpu or cuda"),
    (f"{RUN} --device meta", "the device 'meta' is not supported; use --device cpu or cuda"),
    (
        f"{RUN} --precision tf32",
        "the precision 'tf32' is one of GPUs, but the device is 'cpu'",
    ),
    # options of several values that are repeated
    (f"{SWEEP} --methods swat", "--methods: given more than once; put all values behind one"),
    (f"{SWEEP} --morphologies tiny:1", "--bodies/--morphologies: given more than once"),
    ("study components --seeds 1 --seeds 2 --dry-run", "--seeds: given more than once"),
    ("study scaling --method recmorph --method swat", "--method: given more than once"),
    ("profile methods --method recmorph --method swat", "--method: given more than once"),
    ("replay full --body a --body b", "--body: given more than once"),
    ("leaderboard verify --all --runs a --runs b", "--runs: given more than once"),
    # values that are empty, as those of variables that are not set
    (f"{RUN} --out ''", "--out: got an empty value; give another or leave it out"),
    (f"{RUN} --resume=", "--resume: got an empty value"),
    (f"{SWEEP} --reuse=", "--reuse: got an empty value"),
    (f"{SWEEP} --out full --evaluation.modes ''", "full already exists"),  # settings may be
    ("study components --protocol= --dry-run", "--protocol: got an empty value"),
    ("study components --suite= --dry-run", "--suite: got an empty value"),
    ("evaluate ''", "RUN_DIR: got an empty value"),
    ("profile sim --task=", "--task: got an empty value"),
    ("morphologies generate walkers --descend-from=", "--descend-from: got an empty value"),
    ("leaderboard build --records ''", "--records: got an empty value"),
    # method files
    (f"{RUN} --method absent.py:SPEC", "the file 'absent.py' does not exist"),
    (f"{RUN} --method empty.py", "'empty.py' is not a registered method; for the one that it"),
    (f"{RUN} --method empty.py", "give empty.py:SPEC"),
    (f"{RUN} --method gmc_baselines.bot", "give gmc_baselines.bot:SPEC"),
    ("check-method empty.py", "give empty.py:SPEC"),
    ("profile train --morphologies tiny --method empty.py", "give empty.py:SPEC"),
    (f"{RUN} --method copied.py:SPEC", "copied.py:SPEC has the id 'metamorph' of a registered"),
    ("check-method copied.py:SPEC", "give it an id of its own, or name the registered one by"),
    ("profile train --morphologies tiny --method copied.py:SPEC", "copied.py:SPEC has the id"),
    (f"{RUN} --method syntax.py:SPEC", "'syntax.py' could not be imported: SyntaxError"),
    (
        f"{RUN} --method raises.py:SPEC",
        "could not be imported: RuntimeError: no luck [raises.py:1]",
    ),
    (
        f"{RUN} --method stops.py:SPEC",
        "'stops.py' could not be imported: Stop: two lines [stops.py:2]",
    ),
    (f"{RUN} --method exits.py:SPEC", "could not be imported: SystemExit"),
    (f"{RUN} --method empty.py:SPEC", "'empty.py' has no 'SPEC'"),
    (f"{RUN} --method number.py:SPEC", "a method must be a MethodSpec"),
    (f"{RUN} --method methods.py:NO_CONFIG", "'nowhere' could not be imported"),
    (f"{RUN} --method methods.py:NO_PRESET", "has no preset 'lite', which the protocol 'smoke'"),
    (f"{RUN} --method bad_id.py:SPEC", "must be lower-case letters, digits"),
    (f"{RUN} --method methods.py:NEGATIVE", "'env_steps_per_body' of the method 'negative' must"),
    # files and folders
    (f"{RUN} --out full", "full already exists and is not empty; choose another --out"),
    (f"{RUN} --out full/note.txt", "full/note.txt is a file; choose another folder for --out"),
    (f"{RUN} --out full --dry-run", "full already exists and is not empty; choose another --out"),
    (f"{RUN} --config absent.yaml", "cannot read the configuration file absent.yaml"),
    (f"{RUN} --config full", "cannot read the configuration file full: Is a directory"),
    (f"{RUN} --config broken.yaml", "broken.yaml is not valid YAML"),
    (f"{RUN} --config list.yaml", "list.yaml must hold 'key: value' settings, got a list"),
    (f"{RUN} --config unknown.yaml", "unknown setting 'env_step'; did you mean 'env_steps'?"),
    (f"{RUN} --config nested.yaml", "unknown setting 'ppo.gama'; did you mean 'ppo.gamma'?"),
    (f"{RUN} --config locked.yaml", "the protocol's 'seeds' cannot be changed"),
    (f"{RUN} --config group.yaml", "'ppo' is a group of settings"),
    (f"{RUN} --config model.yaml", "'model' in model.yaml must hold the method's settings"),
    ("run --resume absent", "absent is not a run folder"),
    ("run --resume full", "full is not a run folder"),
    (f"{RUN} --track wandbb", "unknown tracker 'wandbb'; did you mean 'wandb'?"),
    ("run --resume full --seed 3", "--resume takes no other options, got '--seed'"),
    # sweeps
    (f"{SWEEP} --out full", "full already exists and is not empty; choose another --out"),
    (f"{SWEEP} --out full --dry-run", "full already exists and is not empty; choose another --out"),
    (f"{SWEEP} --out full/note.txt", "full/note.txt is a file; choose another folder for --out"),
    (f"{SWEEP} --task vt", "a sweep has no option --task; give --tasks"),
    (f"{SWEEP} --seed 1 2", "a sweep has no option --seed; give --seeds"),
    (f"{SWEEP} --jobs 2 --launch.jobs 3", "--jobs and --launch.jobs are the same option"),
    (f"{SWEEP} --job 4 --dry-run", "unknown option '--job'; did you mean '--jobs'?"),
    (f"{SWEEP} --launch slurm", "unknown option '--launch'; did you mean '--launcher'?"),
    (f"{SWEEP} --dryrun", "unknown option '--dryrun'; did you mean '--dry-run'?"),
    (f"{SWEEP} --num-env=8", "unknown option '--num-env'; did you mean '--num-envs'?"),
    ("sweep --resume full --job 4", "unknown option '--job'; did you mean '--jobs'?"),
    (f"{SWEEP} --json", "--json is for 'gmc-bench sweep status DIR'; leave it out here"),
    (f"{SWEEP} --processes 0", "--processes: must be an integer of at least 1, got 0"),
    # the other verbs
    ("evaluate", "the following arguments are required: RUN_DIR"),
    ("evaluate full", "full is not a run folder"),
    ("evaluate full --episodes 0", "--episodes: must be an integer of at least 1, got 0"),
    ("evaluate full --split tset", "unknown split 'tset'; did you mean 'test'?"),
    ("list", "the following arguments are required: KIND; see"),
    ("list robots", "unknown kind 'robots'"),
    ("--method recmorph run", "'--method' stands too early; put it behind 'gmc-bench run'"),
    ("--ppo.lr=1 --seed 1 sweep", "'--ppo.lr' stands too early; put it behind 'gmc-bench sweep'"),
    ("--method recmorph", "unknown option '--method'; see 'gmc-bench --help'"),
    ("--verison", "unknown option '--verison'; did you mean '--version'?"),
    ("--json list methods", "'--json' stands too early; put it behind 'gmc-bench list'"),
    ("--dry-run study components", "'--dry-run' stands too early; put it behind 'gmc-bench study"),
    (f"--dry-run {RUN}", "'--dry-run' stands too early; put it behind 'gmc-bench run'"),
    (f"--dry-run {SWEEP}", "'--dry-run' stands too early; put it behind 'gmc-bench sweep'"),
    ("list methods --jsno", "unknown option '--jsno'; did you mean '--json'?"),
    ("morphologies describe tony", "unknown morphology set 'tony'; did you mean 'tiny'?"),
    ("morphologies describe unimals_100", "the set 'unimals_100' is not imported; run"),
    ("morphologies describe tiny --limit 5", "--limit needs --behaviour, or several sets"),
    ("morphologies describe quadrupeds", "the set 'quadrupeds-v1' holds quadrupeds"),
    ("render --stills quadrupeds", "the set 'quadrupeds-v1' holds quadrupeds"),
    (
        "run --method recmorph --suite unimal --task ft --morphologies quadrupeds",
        "is for bodies whose tokens stand for limbs, but those of 'go1' stand for actuators",
    ),
    (
        "run --method recmorph --suite quadruped-friction --morphologies tiny",
        "is for bodies whose tokens stand for actuators, but those of 'chain-3' stand for limbs",
    ),
    ("morphologies evolve walkers --threads 4096", "--threads must be from 1 to"),
    ("profile speed", "unknown measurement 'speed'"),
    ("profile policy --num-envs 3", "--num-envs has no effect on 'policy'; leave it out"),
    ("profile policy --task vt", "--task has no effect on 'policy'; leave it out"),
    ("profile policy --morphologies tiny", "--morphologies has no effect on 'policy'; leave it"),
    ("profile sim --method recmorph", "--method has no effect on 'sim'; leave it out"),
    ("profile sim --protocol paper", "--protocol has no effect on 'sim'; leave it out"),
    ("profile padding --seconds 60", "--seconds has no effect on 'padding'; leave it out"),
    ("profile padding --num-envs 3", "--num-envs has no effect on 'padding'; leave it out"),
    ("profile train --num-envs 3", "--num-envs has no effect on 'train'; leave it out"),
    ("profile train --method recmorph swat", "'train' measures one method, got --method recmorph"),
    ("profile methods --num-envs 3", "--num-envs has no effect on 'methods'; leave it out"),
    ("profile policy --preset lite", "--preset has no effect on 'policy'; leave it out"),
    (
        "profile methods --morphologies tiny --preset lite paper",
        "presets are compared of one method; give one --method",
    ),
    ("study --task ft components", "a study was expected before its options, got --task first"),
    ("study --dry-run", "write 'gmc-bench study NAME --dry-run ...'"),
    ("study nope", "unknown study 'nope'; known: attributes, bodies, budget, cells, components"),
    ("study components --job 2 --dry-run", "unknown option '--job'; did you mean '--jobs'?"),
    ("study scalin", "unknown study 'scalin'; did you mean 'scaling'?"),
    ("study gait --against recmorph --dry-run", "got 'recmorph' against itself"),
    (
        "study friction --suite unimal --morphologies tiny --dry-run",
        "the suite 'unimal-v1' measures no friction; use --suite quadruped-friction",
    ),
    (
        "study representation --method zero-action --morphologies tiny --dry-run",
        "the method 'zero-action' shows no representations of limbs",
    ),
    (
        "study representation --morphologies tiny:1 --dry-run",
        "asks which body a representation is of, but tiny.first1 has one train body",
    ),
    ("study budget --budgets 1e99 1 --dry-run", "from 1/10000 to 10000, such as 1/3 1 10, got '1"),
    (f"tune recmorph --trials {10**20}", "tuning needs 1 to 4,294,967,296 trials and different"),
    ("tune zero-action --morphologies tiny", "the method 'zero-action' trains nothing, so it has"),
    ("profile sim --seconds 0", "--seconds: must be a positive number of seconds, got '0'"),
    ("profile policy --threads 99999999999", "--threads must be from 1 to "),
    ("profile sim --num-envs 0", "--num-envs: must be an integer of at least 1, got 0"),
    ("leaderboard bild", "unknown action 'bild'; did you mean 'build'?"),
    ("leaderboard build --records absent", "the records folder absent does not exist"),
    ("leaderboard build --site --media absent", "absent is no folder, expected one of pictures"),
]


@pytest.fixture(autouse=True)
def files(tmp_path):
    """Lay out broken files and a folder that is in use for something else."""
    for name, content in {**METHOD_FILES, **SETTINGS}.items():
        (tmp_path / name).write_text(content)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "note.txt").write_text("mine")


@pytest.mark.parametrize(("command", "reason"), CASES, ids=[case[0] for case in CASES])
def test_bad_input(gmc, tmp_path, command, reason):
    before = {path.name for path in tmp_path.iterdir()}
    code, out, err = gmc(*shlex.split(command))
    assert code == 2
    assert out == ""
    *notes, sentence = err.splitlines()
    assert all(note.startswith("Using ") for note in notes)
    assert sentence.startswith("gmc-bench: ")
    assert reason in sentence
    assert "Traceback" not in err
    left = {path.name for path in tmp_path.iterdir()} - {"__pycache__", "MUJOCO_LOG.TXT"}
    assert left == before


@pytest.mark.parametrize(
    ("attribute", "reason"),
    [
        ("WIDE", r"its network returned shape (2, 12, 3), expected (2, 12, 2)"),
        ("NAN", "its network returned numbers that are not finite"),
        ("TEXT", "its builder returned a str, not a torch.nn.Module"),
        ("RAISES", "its builder failed with ValueError: width is odd [methods.py:26]"),
        ("TEMPORAL", "trained on sequences of 24 steps, so the protocol's 'rollout_length' must"),
    ],
)
def test_a_builder_that_breaks_its_contract_leaves_no_folder(gmc, tmp_path, attribute, reason):
    command = [*RUN.split(), "--method", f"methods.py:{attribute}", "--out", "run"]
    code, out, err = gmc(*command)
    assert (code, out) == (2, "")
    assert reason in err.splitlines()[-1]
    assert not (tmp_path / "run").exists()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_results_that_cannot_be_written(gmc, monkeypatch):
    with Path("/dev/full").open("w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        code, _, err = gmc("list", "suites")
    assert (code, err.count("\n")) == (2, 1)
    assert "cannot write the results to stdout: No space left on device" in err
    monkeypatch.setattr(sys, "stdout", None)
    code, _, err = gmc("list", "suites")
    assert code == 2
    assert "stdout is closed" in err
    monkeypatch.setattr(sys, "stderr", None)
    assert gmc("list", "robots")[0] == 2


def test_what_a_method_file_prints_is_no_result(gmc, tmp_path, caplog):
    (tmp_path / "noisy.py").write_text("print('noise')\n")
    code, out, _ = gmc("check-method", "noisy.py:SPEC")
    assert (code, out) == (2, "")
    assert "noisy.py printed: noise" in caplog.text


def test_a_device_that_is_not_there(gmc):
    import torch

    if torch.cuda.is_available():
        pytest.skip("this machine has a CUDA device")
    code, out, err = gmc(*RUN.split(), "--device", "cuda")
    assert (code, out) == (2, "")
    assert err.startswith("gmc-bench: the device 'cuda' cannot be used here (")
    assert err.endswith("use --device cpu\n")
    assert err.count("\n") == 1


def test_a_folder_that_is_in_use(gmc, tmp_path):
    from gmc_bench.experiments.run_folder import RunFolder

    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.yaml").write_text("")
    with RunFolder(tmp_path / "run"):
        code, out, err = gmc("run", "--resume", "run")
    assert (code, out) == (2, "")
    assert err == (
        f"gmc-bench: the run folder run is in use by another process (process {os.getpid()} on "
        f"{socket.gethostname()}); wait for it or stop it\n"
    )


def test_settings_of_a_run_that_were_tampered_with(gmc, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.yaml").write_text("method: recmorph\n")
    code, out, err = gmc("run", "--resume", "run")
    assert (code, out) == (2, "")
    assert "lacks 'method_config'; it is not the configuration of a run" in err


def test_running_out_of_memory_is_bad_input_in_one_sentence(monkeypatch, capsys):
    def need_too_much(*arguments):
        raise MemoryError("Unable to allocate 26.2 GiB")

    monkeypatch.setattr("gmc_bench.cli.main.with_engine", need_too_much)
    assert main(["list", "methods"]) == 2
    assert capsys.readouterr().err == (
        "gmc-bench: this needs more memory than there is (Unable to allocate 26.2 GiB); ask for "
        "less\n"
    )
