"""Listeners to experiments."""

from gmc_bench.experiments.events import Listeners, Progress, counter


def test_listeners_are_told_in_order_until_they_leave():
    told = []
    listeners = Listeners(lambda event: told.append(("first", event.done)), None)
    leave = listeners.subscribe(lambda event: told.append(("second", event.done)))
    listeners(Progress("score", 1, 2, "episode"))
    leave()
    leave()  # once more does no harm
    listeners(Progress("score", 2, 2, "episode"))
    assert told == [("first", 1), ("second", 1), ("first", 2)]


def test_a_listener_may_leave_while_it_is_told():
    told = []
    listeners = Listeners()
    leave = listeners.subscribe(lambda event: (told.append(event), leave()))
    listeners.subscribe(told.append)
    listeners(Progress("score", 1, 2, "episode"))
    listeners(Progress("score", 2, 2, "episode"))
    assert [event.done for event in told] == [1, 1, 2]


def test_a_counter_tells_of_all_that_is_done():
    told = []
    advance = counter(told.append, "score", "episode", 5)
    advance()
    advance(3)
    assert told == [Progress("score", 1, 5, "episode"), Progress("score", 4, 5, "episode")]
