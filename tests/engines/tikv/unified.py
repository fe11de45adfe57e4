"""What PD and TiKV share: the unified log format, settings in TOML, durations and sizes."""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
import time
import tomllib
from pathlib import Path
from typing import Any

__all__ = ["Log", "byte_size", "lay_out", "merged", "read_settings", "seconds", "write_whole"]

UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
STEPS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhd])")
_PLAIN = re.compile(r"[A-Za-z0-9_.:/+%-]+")


class Log:
    """Lines such as `[2024/04/07 10:22:49.123 +00:00] [INFO] [server.rs:1] ["a message"] [k=v]`."""

    def __init__(self, path: str) -> None:
        self._file = Path(path).open("a", encoding="utf-8") if path else sys.stdout  # noqa: SIM115

    def line(self, level: str, place: str, message: str, **facts: object) -> None:
        """One line; a log that cannot be written keeps nobody from working."""
        now = time.time()
        zone = time.strftime("%z", time.localtime(now))
        at = time.strftime("%Y/%m/%d %H:%M:%S", time.localtime(now))
        words = "".join(f" [{name}={_quoted(value)}]" for name, value in facts.items())
        text = f"[{at}.{int(now * 1000) % 1000:03d} {zone[:3]}:{zone[3:]}] [{level}] [{place}]"
        try:
            self._file.write(f"{text} [{_quoted(message)}]{words}\n")
            self._file.flush()
        except OSError:
            return

    def info(self, place: str, message: str, **facts: object) -> None:
        """Something that happened."""
        self.line("INFO", place, message, **facts)

    def warn(self, place: str, message: str, **facts: object) -> None:
        """Something to look at."""
        self.line("WARN", place, message, **facts)

    def error(self, place: str, message: str, **facts: object) -> None:
        """Something that failed."""
        self.line("ERROR", place, message, **facts)


def _quoted(value: object) -> str:
    text = str(value)
    return text if _PLAIN.fullmatch(text) else json.dumps(text)


def read_settings(path: str) -> dict[str, Any]:
    """The settings of a file, none where no file is named."""
    if not path:
        return {}
    with Path(path).open("rb") as file:
        return tomllib.load(file)


def merged(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """Settings with others laid over them, section by section."""
    found = dict(base)
    for name, value in over.items():
        old = found.get(name)
        both = isinstance(value, dict) and isinstance(old, dict)
        found[name] = merged(old or {}, value) if both else value
    return found


def seconds(text: object) -> float:
    """What a duration such as `1m30s` or `500ms` is in seconds; plain numbers are seconds."""
    if isinstance(text, int | float):
        return float(text)
    return sum(float(number) * UNITS[unit] for number, unit in _DURATION.findall(str(text)))


def byte_size(count: float) -> str:
    """How Go writes a size, with four digits that count: `9.766GiB`."""
    step = 0
    while count >= 1024 and step < len(STEPS) - 1:
        count, step = count / 1024, step + 1
    return f"{count:.4g}{STEPS[step]}"


def lay_out(place: Path, *names: str) -> None:
    """The files by which the data of the real program is known, where they are not there yet."""
    for name in names:
        file = place / name
        with contextlib.suppress(OSError):
            file.parent.mkdir(parents=True, exist_ok=True)
            if not file.exists():
                file.write_text("stand-in\n", encoding="utf-8")


def write_whole(path: Path, value: object) -> None:
    """Write JSON so that a reader sees all of it or what was there before."""
    fresh = path.with_suffix(".new")
    with fresh.open("w", encoding="utf-8") as file:
        json.dump(value, file)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
