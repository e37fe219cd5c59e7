"""Progress bars for whatever takes long and is no training."""

from types import TracebackType
from typing import Any, Self

from gmc_bench.experiments.events import Event, Progress


class Bars:
    """A listener that shows `Progress` as one bar at a time; a context that closes it."""

    def __init__(self) -> None:
        self._bar: Any = None
        self._what = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __call__(self, event: Event) -> None:
        """Show how far something is."""
        if not isinstance(event, Progress):
            return
        if self._bar is None or self._what != event.what:
            from tqdm import tqdm

            self.close()
            self._bar = tqdm(total=event.total, unit=event.unit, desc=event.what, unit_scale=False)
            self._what = event.what
        self._bar.update(event.done - self._bar.n)
        if event.done == event.total:
            self.close()

    def close(self) -> None:
        """End the bar that is shown."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None
