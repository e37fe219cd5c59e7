"""Text streams that never fail: progress is shown to whoever reads it, if anybody does."""

import contextlib
from typing import Any, TextIO, cast


def forgiving(stream: TextIO | None) -> TextIO:
    """Return a stream that ignores failed writes, so that no progress bar ends a run.

    Args:
        stream: where the text goes, as long as somebody reads it; none if that was closed.
    """
    return cast(TextIO, _Forgiving(stream))


class _Forgiving:
    def __init__(self, stream: TextIO | None) -> None:
        self._stream: Any = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError, ValueError, AttributeError):  # closed in one of two ways
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError, ValueError, AttributeError):
            self._stream.flush()

    def isatty(self) -> bool:
        with contextlib.suppress(OSError, ValueError, AttributeError):
            return bool(self._stream.isatty())
        return False
