"""Values as readings can hold them, picked out of what a probe was told. Pure."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Mapping
from typing import Any

from operator_protocols.domain.observation import Value

__all__ = ["VALUE_CHARACTERS_MAX", "document_of", "number_in", "path_of", "pick", "plain"]

VALUE_CHARACTERS_MAX = 200
STEPS_MAX = 12
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
    """The number that a text is; None for one that is something else."""
    told = text.strip()
    if not _NUMBER.fullmatch(told):
        return None
    return plain(int(told) if told.lstrip("+-").isdecimal() else float(told))


def document_of(body: str | bytes) -> Any:
    """A JSON document; None for what is not one, however it was made."""
    try:
        return json.loads(body)
    except (RecursionError, ValueError):
        return None


def path_of(text: str) -> tuple[str | int, ...]:
    """`nodes[0].name` as steps; ValueError says what is wrong with it."""
    steps: list[str | int] = []
    place = 0
    while place < len(text):
        match = _STEP.match(text, place)
        dotted = match is not None and match[0].startswith(".")
        named = match is not None and bool(match[1])
        if match is None or dotted != (named and place > 0) or len(steps) == STEPS_MAX:
            raise ValueError(f"{text[:60]!r} is no path, such as 'nodes[0].name'")
        steps.append(int(match[2]) if match[2] else match[1] or match[3])
        place = match.end()
    if not steps:
        raise ValueError("a path cannot be empty")
    return tuple(steps)


def pick(document: object, path: tuple[str | int, ...]) -> Value:
    """The single value at a path; None where there is none."""
    for step in path:
        if isinstance(document, list) and isinstance(step, int):
            document = document[step] if step < len(document) else None
        elif isinstance(document, Mapping) and isinstance(step, str):
            document = document.get(step)
        else:
            return None
    return plain(document)
