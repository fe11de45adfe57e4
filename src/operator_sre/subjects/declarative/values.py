"""Values as readings can hold them, extracted from the answer of a probe. Pure."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from operator_protocols.domain.observation import Value
from operator_sre.subjects.declarative.document import NAME, Table
from operator_sre.subjects.declarative.patterns import pattern_of

__all__ = [
    "VALUE_CHARACTERS_MAX",
    "Extraction",
    "Path",
    "Readings",
    "document_of",
    "number_in",
    "path_of",
    "pick",
    "plain",
    "read_extraction",
]

Readings = dict[str, Value]
# `nodes[0].name` as steps.
Path = tuple[str | int, ...]

VALUE_CHARACTERS_MAX = 200
STEPS_MAX = 12
EXTRACTED_MAX = 50
# What probes say of themselves.
_OWN = frozenset({"bytes", "certificate_days", "endpoint", "error", "exit_code", "latency_ms"})
_OWN |= {"matched", "number", "ok", "status", "stdout", "up"}
_EXACT_MAX = 2**53
_STEP = re.compile(r'\.?([A-Za-z_$][A-Za-z0-9_$-]*)|\[([0-9]{1,6})\]|\["([^"\\]{1,100})"\]')
_NUMBER = re.compile(r"[-+]?[0-9]{1,300}(?:\.[0-9]{0,300})?(?:[eE][-+]?[0-9]{1,3})?")


def plain(value: object) -> Value:
    """A value as a reading holds it; None for what is none. What is infinite is very large."""
    if isinstance(value, str):
        return value[:VALUE_CHARACTERS_MAX]
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int) and abs(value) <= _EXACT_MAX:
        return value
    if isinstance(value, int | float):
        try:
            found = float(value)
        except OverflowError:
            found = math.inf if value > 0 else -math.inf
        if math.isnan(found):
            return None
        return max(-sys.float_info.max, min(sys.float_info.max, found))
    return None


def number_in(text: str) -> Value:
    """The number in a text; None for any other text."""
    digits = text.strip()
    if not _NUMBER.fullmatch(digits):
        return None
    return plain(int(digits) if digits.lstrip("+-").isdecimal() else float(digits))


def document_of(body: str | bytes) -> Any:
    """A JSON document; None for what is not one, however it was made."""
    try:
        return json.loads(body)
    except (RecursionError, ValueError):
        return None


def path_of(text: str) -> Path:
    """`nodes[0].name` as steps; ValueError says what is wrong with it."""
    steps: list[str | int] = []
    place = 0
    while place < len(text):
        match = _STEP.match(text, place)
        dotted = match is not None and match[0].startswith(".")
        named = match is not None and bool(match[1])
        if match is None or dotted != (named and place > 0) or len(steps) == STEPS_MAX:
            raise ValueError(f"{text[:60]!r} is not a valid path such as 'nodes[0].name'")
        steps.append(int(match[2]) if match[2] else match[1] or match[3])
        place = match.end()
    if not steps:
        raise ValueError("a path cannot be empty")
    return tuple(steps)


def pick(document: object, path: Path) -> Value:
    """The single value at a path; None where there is none."""
    for step in path:
        if isinstance(document, list) and isinstance(step, int):
            document = document[step] if step < len(document) else None
        elif isinstance(document, Mapping) and isinstance(step, str):
            document = document.get(step)
        else:
            return None
    return plain(document)


@dataclass(frozen=True, slots=True)
class Extraction:
    """Names with paths into a document, and a pattern whose named groups are values too."""

    paths: Mapping[str, Path] = field(default_factory=dict)
    pattern: str = ""
    groups: tuple[str, ...] = ()

    @property
    def fields(self) -> frozenset[str]:
        """What can be extracted."""
        return frozenset({*self.paths, *self.groups, *(("matched",) if self.pattern else ())})

    def extract(self, document: object, body: bytes | str) -> Readings:
        """What is there; what is not is left out."""
        readings: Readings = {name: pick(document, path) for name, path in self.paths.items()}
        if self.pattern:
            text = body.decode("utf-8", "replace") if isinstance(body, bytes) else body
            match = pattern_of(self.pattern).search(text)
            readings["matched"] = match is not None
            for name in self.groups if match is not None else ():
                text = match.group(name)
                if text is not None:
                    number = number_in(text)
                    readings[name] = plain(text) if number is None else number
        return {name: value for name, value in readings.items() if value is not None}


def read_extraction(table: Table, expect: Table | None = None, *, body: str = "body") -> Extraction:
    """What `read` and the pattern under `expect` extract."""
    paths: dict[str, Path] = {}
    for name, text in table.pairs("read").items():
        if not NAME.fullmatch(name) or name in _OWN:
            raise table.wrong(f"{name[:40]!r} is not a valid name for a value of its own.", "read")
        try:
            paths[name] = path_of(str(text))
        except ValueError as error:
            raise table.wrong(f"{error}.", "read") from error
    pattern = expect.regex(body) if expect is not None else ""
    groups = tuple(pattern_of(pattern).groupindex) if pattern else ()
    for name in groups:
        assert expect is not None
        if not NAME.fullmatch(name) or name in paths or name in _OWN:
            raise expect.wrong(f"the group {name[:40]!r} is not a valid name for a value.", body)
    if len(paths) + len(groups) > EXTRACTED_MAX:
        raise table.wrong(f"no more than {EXTRACTED_MAX} values are read.", "read")
    return Extraction(paths, pattern, groups)
