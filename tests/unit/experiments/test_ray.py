"""What cells send that share no folder with their driver."""

from gmc_bench.experiments.launchers.ray_tasks import Post

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
