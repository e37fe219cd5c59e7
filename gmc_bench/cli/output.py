"""Output of the verbs: results to stdout, everything else to stderr."""

import json
import sys
from typing import Any


def say(text: str = "") -> None:
    """Write one line of results to stdout."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def say_json(content: Any) -> None:
    """Write one JSON document to stdout."""
    say(json.dumps(content, indent=2))


def note(text: str) -> None:
    """Write one line about what is going on to stderr."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()
