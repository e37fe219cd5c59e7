"""Studies: questions that several runs answer, with what is measured on them.

```python
from gmc_bench import studies

result = studies.run("siblings", "recmorph", protocol="smoke", seeds=(1, 2), out="studies/a")
print(result.tables["table"].to_text())
```
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gmc_bench.experiments.events import Listener
    from gmc_bench.studies.study_run import StudyResult


def run(
    study: str,
    *methods: str,
    tasks: Sequence[str] = (),
    seeds: Sequence[int] = (),
    out: Path | str | None = None,
    on_event: "Listener | None" = None,
    reuse: Path | str | None = None,
    **fields: Any,
) -> "StudyResult":
    """Run all experiments of a study, measure, and write tables and pictures.

    Args:
        study: id, see `gmc_bench.studies.catalogue`; `scaling`, which trains nothing, is
            `gmc_bench.studies.scaling_study.run`.
        *methods: registered ids, or where to find them; by default the study's.
        tasks: by default the study's.
        seeds: by default the protocol's.
        out: the folder; by default a new one under `studies/`.
        on_event: called with each event, see `gmc_bench.experiments.events`.
        reuse: a leaderboard's folder; runs that it has are taken from there and not repeated.
        **fields: of `ExperimentSpec`, for all runs, but for its method, task and seed; options of
            the study, see `Request.make`; and `launch`, what `Sweep.run` takes, e.g.
            `{"launcher": "local", "jobs": 4}`, which gives each run one thread unless `threads`
            says otherwise.

    Raises:
        GmcBenchError: an option does not fit, nothing can be run, or a policy cannot be measured.
    """
    from gmc_bench.core.config import coerce
    from gmc_bench.core.errors import ConfigError
    from gmc_bench.experiments.grid import listed
    from gmc_bench.experiments.spec import ExperimentSpec
    from gmc_bench.experiments.sweep_launch import Launch
    from gmc_bench.studies.request import OPTIONS, Request
    from gmc_bench.studies.study_run import StudyRun

    for name, instead in (("method", "methods after the study's name"), ("task", "tasks=[...]")):
        if name in fields:
            raise ConfigError(f"a study has no {name!r}, got {fields[name]!r}; give {instead}")
    tasks = coerce(listed(tasks), tuple[str, ...], "tasks")
    seeds = coerce(listed(seeds), tuple[int, ...], "seeds")
    request = Request.make(
        study, methods, **{name: fields.pop(name) for name in OPTIONS if name in fields}
    )
    launch = fields.pop("launch", {})
    places: dict[str, Any] = {"out": out, "reuse": reuse}
    places["elsewhere"] = Launch.from_dict(launch).elsewhere
    shared = {"method": request.methods[0], "suite": request.study.suite}
    if launch:  # one thread each, as in a sweep: several runs share the cores
        fields.setdefault("threads", 1)
    base = ExperimentSpec.from_dict({**shared, **fields})
    planned = StudyRun.plan(request, base, tasks=tasks, seeds=seeds, **places)
    if on_event is not None:
        planned.subscribe(on_event)
    return planned.run(**launch)


def resume(path: Path | str, *, on_event: "Listener | None" = None, **launch: Any) -> "StudyResult":
    """Continue the study of a folder: what is finished or measured is kept.

    Args:
        path: the folder.
        on_event: called with each event.
        **launch: what `Sweep.resume` takes, e.g. `launcher="local", jobs=4`.

    Raises:
        GmcBenchError: it is not the folder of a study, or the study cannot go on.
    """
    from gmc_bench.studies.study_run import StudyRun

    study = StudyRun.open(path)
    if on_event is not None:
        study.subscribe(on_event)
    return study.resume(**launch)
