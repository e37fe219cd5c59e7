import numpy as np

from gmc_bench.sim.idle import IdlePool


def test_what_was_used_last_is_taken_first():
    pool = IdlePool[str](4)
    assert pool.take(3) is None
    for item in ("a", "b"):
        pool.give_back(3, item)
    pool.give_back(5, "c")
    assert len(pool) == 3
    assert [pool.take(3), pool.take(3), pool.take(3)] == ["b", "a", None]
    assert pool.take(5) == "c"
    assert len(pool) == 0


def test_a_full_pool_drops_the_body_that_was_idle_longest():
    pool = IdlePool[str](2)
    pool.give_back(0, "a")
    pool.give_back(1, "b")
    assert pool.take(0) == "a"
    pool.give_back(0, "a")  # used again: body 1 is now idle longer
    pool.give_back(2, "c")
    assert len(pool) == 2
    assert pool.take(1) is None
    assert pool.take(0) == "a"
    assert pool.take(2) == "c"


def test_of_one_body_the_oldest_is_dropped():
    pool = IdlePool[str](2)
    for item in ("a", "b", "c"):
        pool.give_back(0, item)
    assert [pool.take(0), pool.take(0), pool.take(0)] == ["c", "b", None]


def test_it_never_holds_more_than_its_capacity():
    rng = np.random.default_rng(0)
    for capacity in (0, 1, 5):
        pool = IdlePool[int](capacity)
        held = 0
        for step in range(500):
            body = int(rng.integers(8))
            if rng.random() < 0.4:
                held -= pool.take(body) is not None
            else:
                pool.give_back(body, step)
                held = min(held + 1, capacity)
            assert len(pool) == held
