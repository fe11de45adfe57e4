"""Log lines on stderr, always with ticket, run and target."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime

__all__ = ["JsonLines", "TextLines", "set_up_logging"]

PLACES = ("ticket", "run", "target")


def _places(record: logging.LogRecord) -> dict[str, object]:
    return {name: getattr(record, name, None) or "-" for name in PLACES}


class TextLines(logging.Formatter):
    """`12:00:01 INFO ticket=1 run=run-3f target=node-2 claimed`."""

    def format(self, record: logging.LogRecord) -> str:
        """One line; what came from outside cannot break it or colour it."""
        at = datetime.fromtimestamp(record.created, UTC)
        places = " ".join(f"{name}={value}" for name, value in _places(record).items())
        text = f"{at:%H:%M:%S} {record.levelname} {places} {record.getMessage()}"
        return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)


class JsonLines(logging.Formatter):
    """One JSON object on each line."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as JSON."""
        at = datetime.fromtimestamp(record.created, UTC)
        return json.dumps(
            {
                "at": at.isoformat(),
                "level": record.levelname.lower(),
                "logger": record.name,
                **_places(record),
                "message": record.getMessage(),
            }
        )


def set_up_logging(*, style: str, level: str) -> None:
    """Send our log lines to stderr in this style; stdout stays for answers."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if style == "json" else TextLines())
    ours = logging.getLogger("operator_sre")
    ours.handlers = [handler]
    ours.setLevel(level.upper())
    ours.propagate = False
