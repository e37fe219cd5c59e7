"""Engine data that no environment uses at the moment."""

from typing import Generic, TypeVar

T = TypeVar("T")


class IdlePool(Generic[T]):
    """Keeps a bounded number of idle objects, each made for one body.

    What was given back longest ago is dropped first, body by body; all calls take constant time
    whatever the number of bodies.

    Args:
        capacity: idle objects kept.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._free: dict[int, list[T]] = {}
        """By body; the body that got an object back last comes last, and no list is empty."""
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def take(self, body: int) -> T | None:
        """Remove and return an object made for a body, the one used last; `None` without one."""
        free = self._free.get(body)
        if free is None:
            return None
        self._count -= 1
        found = free.pop()
        if not free:
            del self._free[body]
        return found

    def give_back(self, body: int, item: T) -> None:
        """Add an object, and drop another where that is one too many."""
        free = self._free.pop(body, [])
        free.append(item)
        self._free[body] = free
        self._count += 1
        if self._count > self.capacity:
            oldest = next(iter(self._free))
            self._free[oldest].pop(0)
            self._count -= 1
            if not self._free[oldest]:
                del self._free[oldest]
