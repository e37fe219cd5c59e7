"""What cells send that share no folder with their driver."""

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from gmc_bench.experiments.launchers import ray_tasks
from gmc_bench.experiments.launchers.ray_tasks import Post, run_alone

STATE = ".states/a.json"


def whole(number):
    return {
        STATE: b"%d" % number,
        "a/config.yaml": b"c",
        f"a/checkpoints/{number:08d}/checkpoint.json": b"p",
    }


def test_only_what_is_new_is_fetched_and_everything_goes_to_the_next_node():
    post = Post()
    post.send("a", whole(1))
    assert post.fetch() == {"a": whole(1)}
    assert post.fetch() == {}
    post.send("a", {STATE: b"2"})
    assert post.fetch() == {"a": {STATE: b"2"}}
    assert post.last("a") == {**whole(1), STATE: b"2"}
    post.send("a", whole(3))
    post.send("b", {".states/b.json": b"1"})
    post.send("a", whole(4))
    post.send("a", {STATE: b"5"})
    latest = {**whole(4), STATE: b"5"}  # without the older checkpoint
    assert post.fetch() == {"a": latest, "b": {".states/b.json": b"1"}}
    assert post.last("a") == latest
    post.forget("a")
    assert post.last("a") == {}


class Remote:
    """A `Post` called as Ray calls actors: `post.send.remote(...)`."""

    def __init__(self, post):
        self.last, self.send = (SimpleNamespace(remote=f) for f in (post.last, post.send))


@pytest.mark.parametrize(
    ("sent", "goes_on_from"),
    [([], 1), ([{STATE: b"2"}], 1), ([{STATE: b"2"}, whole(3)], 3)],
)
def test_a_node_goes_on_from_the_newest_checkpoint_there_is(monkeypatch, sent, goes_on_from):
    """The driver's own, unless a node that is lost has sent a newer one, not just its state."""
    post, found = Post(), []
    for files in sent:
        post.send("a", files)

    def start_worker(folder, name, *, threads):
        found.extend(path.name for path in Path(folder, name, "checkpoints").iterdir())
        return SimpleNamespace(poll=lambda: 0)

    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(get=lambda reference: reference))
    monkeypatch.setattr(ray_tasks, "start_worker", start_worker)
    monkeypatch.setattr(ray_tasks, "end", lambda process: None)
    assert run_alone(b"plan", whole(1), "a", 1, Remote(post), 30.0) == 0
    assert max(found) == f"{goes_on_from:08d}"
    assert post.last("a")["a/config.yaml"] == b"c"  # what it left has been sent
