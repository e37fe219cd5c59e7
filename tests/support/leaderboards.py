"""Made-up runs for tests of tables, statistics and pages, and texts that try to break pages."""

from typing import Any

import numpy as np

from gmc_bench.core.types import DoubleArray
from gmc_bench.records.schema import RunRecord
from tests.support.records import digest_of, make_record, make_returns

REFERENCE_METHOD = "mlp"
BEST_SCORE = 5000.0
METHOD_STEP = 0.12  # share of the best score between neighbouring methods
RUN_SD = 0.06  # share of a method's score; shared by all bodies of one run
BODY_SD = 0.3  # share; difficulty of a body, shared by all methods
NOISE_SD = 0.05  # share; own noise of every run, body and episode
NUM_POINTS = 40
ENV_STEPS = 10_000_000
TRAIN_SECONDS = 5000.0

_PREFIXES = ("", '">', "'>", "</bdi>", "</script>", "</title>", "-->", "\u202e", "\\")
_MARKUP = (
    "<script>window.hit={n}</script>",
    "<img src=x onerror=window.hit={n}>",
    "<img src=http://hostile.invalid/{n}.png>",
    "<svg onload=window.hit={n}>",
    "<svg><script href=http://hostile.invalid/{n}.js></script></svg>",
    "<iframe src=javascript:parent.hit={n}></iframe>",
    "<object data=http://hostile.invalid/{n}></object>",
    "<embed src=http://hostile.invalid/{n}>",
    "<video src=http://hostile.invalid/{n}.mp4 autoplay></video>",
    "<link rel=stylesheet href=http://hostile.invalid/{n}.css>",
    "<style>@import url(http://hostile.invalid/{n}.css);body{{display:none}}</style>",
    "<base href=http://hostile.invalid/{n}/>",
    "<meta http-equiv=refresh content='0;url=http://hostile.invalid/{n}'>",
    "<form action=http://hostile.invalid/{n}><button autofocus onfocus=window.hit={n}>x</button>",
    "<a href=javascript:window.hit={n}>{n}</a>",
    "<p style=position:fixed;inset:0;background:url(http://hostile.invalid/{n})>{n}",
    "<template><script>window.hit={n}</script></template>",
    "<!-- {n} ",
    "&lt;script&gt;window.hit={n}&lt;/script&gt;",
    "&#60;script&#62;window.hit={n}&#60;/script&#62;",
    "\\u003cscript\\u003ewindow.hit={n}\\u003c/script\\u003e",
    '" onmouseover="window.hit={n}" autofocus onfocus="window.hit={n}',
    "' style='position:fixed;inset:0;width:{n}00vw",
    "javascript:window.hit={n}",
    "data:text/html,<script>parent.hit={n}</script>",
    "url(http://hostile.invalid/{n});}}*{{width:9999px}}",
    "{{{{ 7 * {n} }}}}{{% for x in range(9) %}}{{{{ x }}}}{{% endfor %}}",
    "${{window.hit={n}}}`",
    '{{"__proto__": {{"hit": {n}}}}}',
)
_TEXTS = (
    "\u202e{n} txet desrever",
    "\u202d\u202e\u2067\u2066{n} never closed",
    "\u202c\u2069\u2069\u202c{n} closed too often",
    "\u200b\u200c\u200d\ufeff\u2060{n}\u200b",
    "line\u2028paragraph\u2029{n}",
    "tab\tnew line\nreturn\r{n}\u0000\u0007\u001b[31m",
    "\u05e9\u05dc\u05d5\u05dd {n} \u0645\u0631\u062d\u0628\u0627",
    "\U0001f469\u200d\U0001f680 {n}",
    "e{n}" + "\u0301\u0323" * 200,
    "W" * 3000 + "{n}",
    "{n}" + "\u00a0x" * 500,
    "{n}" + "\ufdfd" * 200,
    "{n} " + "many words " * 200,
)


def synthetic_records(
    num_methods: int,
    seeds: int,
    bodies: int,
    *,
    episodes: int = 2,
    reference: bool = False,
) -> list[RunRecord]:
    """Return complete, official records of one table; equal arguments give equal records.

    Methods are named `method-01` (best on average) and so on. A run has its own effect on all of
    its bodies, because one policy drives them all, and a body is as hard for every method.

    Args:
        num_methods: methods, one row each.
        seeds: runs per method; their seeds are 0, 1, ...
        bodies: train bodies, and as many test bodies; the first test body is a train body.
        episodes: deterministic evaluation episodes per body.
        reference: add a method with separate weights per body, which has a train split only.

    Returns:
        `num_methods * seeds` records, and `seeds` more with a reference; by method, then seed.
    """
    records = [
        _record(f"method-{place + 1:02d}", 1.0 - METHOD_STEP * place, seed, seeds, bodies, episodes)
        for place in range(num_methods)
        for seed in range(seeds)
    ]
    if reference:
        records += [
            _record(REFERENCE_METHOD, 1.1, seed, seeds, bodies, episodes, single_robot=True)
            for seed in range(seeds)
        ]
    return records


def hostile_texts() -> list[str]:
    """Return 300 different texts that try to run, load or overlay something, or to break lines.

    A text that runs sets `window.hit`; one that loads asks for something of `hostile.invalid`.
    """
    forms = [prefix + form for prefix in _PREFIXES for form in _MARKUP] + list(_TEXTS) * 3
    return [form.format(n=place) for place, form in enumerate(forms)][:300]


def _record(
    method: str,
    quality: float,
    seed: int,
    seeds: int,
    bodies: int,
    episodes: int,
    single_robot: bool = False,
) -> RunRecord:
    rng = np.random.default_rng([seed, *method.encode()])
    level = BEST_SCORE * max(quality, 0.1) * (1.0 + RUN_SD * rng.standard_normal())
    splits: dict[str, dict[str, list[float]]] = {}
    for split, share in (("train", 1.0), ("test", 0.8)):
        mean = level * share * _difficulty(split, bodies)[:, None]
        values = mean * (1.0 + NOISE_SD * rng.standard_normal((bodies, episodes)))
        names = [_body_name(split, place) for place in range(bodies)]
        splits[split] = dict(zip(names, values.round(3).tolist(), strict=True))
    returns = make_returns("train", splits["train"])
    if not single_robot:
        returns += make_returns("test", splits["test"], seen={_body_name("test", 0)})
    curve = _curve(level, rng)
    parameters = 100_000 + 50_000 * (sum(method.encode()) % 7)
    config = {"model": {"name": method}, "training": {"gamma": 0.99, "num_envs": 64}}
    changes: dict[str, Any] = {
        "method": method,
        "parameters": parameters,
        "protocol_seeds": tuple(range(seeds)),
        "morphologies": {
            "id": f"synthetic-{bodies}-v1",
            "digest": digest_of(f"set of {bodies}"),
            "source": "made up for tests",
            "licence": "MIT",
            "num_train": bodies,
            "num_test": bodies,
        },
        "seed": seed,
        "env_steps": ENV_STEPS,
        "env_steps_planned": ENV_STEPS,
        "config": config,
        "returns": returns,
        "learning_curve": curve,
        "training_return": curve[-1]["mean_return"],
        "wall_clock_s": {
            "total": TRAIN_SECONDS,
            "simulation": 0.4 * TRAIN_SECONDS,
            "policy": 0.2 * TRAIN_SECONDS,
            "update": 0.3 * TRAIN_SECONDS,
            "other": 0.1 * TRAIN_SECONDS,
        },
        "env_steps_per_s": ENV_STEPS / TRAIN_SECONDS,
        "weights_digest": digest_of(f"weights {method} {seed}"),
    }
    if single_robot:
        changes["controller"] = "single_robot"
    return make_record(**changes)


def _body_name(split: str, place: int) -> str:
    # The first test body has a train body's name, and so its digest.
    return f"train-{place:03d}" if split == "train" or place == 0 else f"test-{place:03d}"


def _difficulty(split: str, bodies: int) -> DoubleArray:
    rng = np.random.default_rng([bodies, *split.encode()])
    factors: DoubleArray = np.exp(BODY_SD * rng.standard_normal(bodies))
    return factors


def _curve(level: float, rng: np.random.Generator) -> list[dict[str, Any]]:
    progress = np.arange(1, NUM_POINTS + 1) / NUM_POINTS
    rise = 1.0 - np.exp(-4.0 * progress)
    returns = level * rise * (1.0 + 0.03 * rng.standard_normal(NUM_POINTS))
    return [
        {
            "env_steps": int(share * ENV_STEPS),
            # No body has finished an episode yet at the first point.
            "mean_return": None if place == 0 else round(float(value), 3),
            "mean_length": None if place == 0 else 900.0,
            "episodes": 100 * place,
        }
        for place, (share, value) in enumerate(zip(progress, returns, strict=True))
    ]
