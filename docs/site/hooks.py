"""What the documentation's site takes from outside `docs/`: front page, contributing, results, API.

Pages stay written for a reader of the repository: a link that leaves `docs/` leads to the page made
of that file where there is one, and is the file's name otherwise.
"""

import posixpath
import re
import shutil
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
BOARD = "leaderboard"
"""Folder of the leaderboard's own site inside this one."""
_LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")
_MODULES = (
    "gmc_bench.experiments.experiment",
    "gmc_bench.experiments.spec",
    "gmc_bench.experiments.sweep",
    "gmc_bench.experiments.tuning",
    "gmc_bench.experiments.trials",
    "gmc_bench.experiments.catalogue",
    "gmc_bench.policies.policy",
    "gmc_bench.records.frames",
    "gmc_bench.records.schema",
    "gmc_bench.methods.spec",
    "gmc_bench.nn.tokens",
    "gmc_bench.tokens.spec",
    "gmc_bench.tasks.spec",
    "gmc_bench.bodies.schema",
    "gmc_bench.bodies.parts",
    "gmc_bench.envs.core",
    "gmc_bench.evaluation.evaluate",
    "gmc_bench.leaderboard.analysis",
    "gmc_bench.leaderboard.statistics",
)
"""The library's face, and what plug-ins and analyses meet."""


def outside_pages() -> dict[str, Path]:
    """Return the pages that are made of files outside `docs/`, by their place in the site."""
    found = {"index.md": ROOT / "README.md", "CONTRIBUTING.md": ROOT / "CONTRIBUTING.md"}
    found["SECURITY.md"] = ROOT / "SECURITY.md"
    found["results.md"] = ROOT / "leaderboards" / "tables" / "README.md"
    folders = [ROOT / "recmorph", *sorted((ROOT / "baselines").iterdir()), ROOT / "baselines"]
    for folder in (*folders, ROOT / "leaderboards", ROOT / "benchmarks"):
        if (folder / "README.md").is_file():
            name = folder.relative_to(ROOT).as_posix().replace("/", "-")
            found[f"more/{name}.md"] = folder / "README.md"
    for page in sorted((ROOT / "leaderboards" / "tables").rglob("*.md")):
        place = page.relative_to(ROOT / "leaderboards" / "tables").as_posix()
        if place != "README.md":
            found[f"tables/{place}"] = page
    return found


def converted(text: str, source: Path, place: str, pages: dict[str, Path]) -> str:
    """Return a page's text with its links as they are in the site.

    Args:
        text: Markdown.
        source: the file it is from.
        place: of the page in the site.
        pages: see `outside_pages`.
    """
    places = {path.resolve(): name for name, path in pages.items()}

    def link(match: re.Match[str]) -> str:
        mark, label, target = match.groups()
        path, _, heading = target.partition("#")
        if "://" in target or not path:
            return match[0]
        file = (source.parent / path).resolve()
        if (file / "README.md").resolve() in places:
            file = (file / "README.md").resolve()
        if file in places:
            name = places[file]
        elif file.is_relative_to(ROOT / "docs") and file.exists():
            name = file.relative_to(ROOT / "docs").as_posix()
        elif file.suffix == ".svg" and file.is_relative_to(ROOT / "leaderboards" / "tables"):
            name = f"tables/{file.relative_to(ROOT / 'leaderboards' / 'tables').as_posix()}"
        else:
            return f"{label} (`{posixpath.relpath(file, ROOT)}`)" if label else f"`{path}`"
        there = posixpath.relpath(name, posixpath.dirname(place) or ".")
        return f"{mark}[{label}]({there}{'#' * bool(heading)}{heading})"

    parts = re.split(r"(```.*?```)", text, flags=re.DOTALL)  # code stays as it is
    return "".join(part if part.startswith("```") else _LINK.sub(link, part) for part in parts)


def api_page() -> str:
    """Return the page that the docstrings become."""
    lines = ["# API reference", "", "From the docstrings. `import gmc_bench as gmc` gives the", ""]
    lines[2] += " names that [From Python](python-api.md) shows."
    return "\n".join([*lines, *(f"::: {name}\n" for name in _MODULES)])


def on_files(files: Any, config: Any) -> Any:
    """Add what is not in `docs/`."""
    from mkdocs.structure.files import File

    for name, path in outside_pages().items():
        text = path.read_text(encoding="utf-8")
        if name == "results.md":
            text += f'\n<p><a href="{BOARD}/index.html">The same as a site, with replays</a></p>\n'
        files.append(File.generated(config, name, content=text))
    for path in sorted((ROOT / "leaderboards" / "tables").rglob("*.svg")):
        place = path.relative_to(ROOT / "leaderboards").as_posix()
        files.append(File.generated(config, place, abs_src_path=str(path)))
    files.append(File.generated(config, "api.md", content=api_page()))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Turn links to files into links to pages."""
    pages = outside_pages()
    place = page.file.src_uri
    source = pages.get(place, ROOT / "docs" / place)
    return converted(markdown, source, place, pages)


def on_post_build(config: Any) -> None:
    """Put the leaderboard's site inside."""
    board = ROOT / "leaderboards" / "site"
    if (board / "index.html").is_file():
        shutil.copytree(board, Path(config["site_dir"]) / BOARD, dirs_exist_ok=True)
