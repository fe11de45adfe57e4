"""Reading a table of a description: every key is asked for once, and what nobody asks for fails."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from operator_protocols.errors import ConfigError
from operator_sre.subjects.declarative.document import Node, Scalar, wrong
from operator_sre.subjects.declarative.patterns import PatternError, pattern_of

__all__ = ["NAME", "SECONDS_MAX", "Table", "nearest"]

T = TypeVar("T")
TEXT_CHARACTERS_MAX = 4000
SECONDS_MAX = 24 * 3600.0
# What probes, their values, invariants and levers are called: words of an expression.
NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
_DURATION = re.compile(r"([0-9]{1,6}(?:\.[0-9]{1,3})?)\s*(ms|s|m|h)")
_UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def nearest(name: str, valid: Iterable[str]) -> str:
    """What was probably meant, as a sentence; "" where there is nothing to mean."""
    found = difflib.get_close_matches(name, list(valid), n=1, cutoff=0.0)
    return f"Did you mean {found[0]!r}?" if found else ""


class Table:
    """One table of a file, with its place in words for whoever made a mistake in it."""

    def __init__(self, node: Node, file: str, place: str, valid: Sequence[str] = ()) -> None:
        self.file = file
        self.place = place
        self.line = node.line
        if not isinstance(node.value, dict):
            raise wrong(file, node.line, f"{place} has to be a table, and is {node.kind}.")
        self._nodes: Mapping[str, Node] = node.value
        self._lines = node.lines
        for key in self._nodes if valid else ():
            if key not in valid:
                raise self.wrong(
                    f"{key[:60]!r} is not known in {place}.", key, next_step=nearest(key, valid)
                )

    def __contains__(self, key: str) -> bool:
        return key in self._nodes

    def __iter__(self) -> Iterator[str]:
        return iter(self._nodes)

    def __len__(self) -> int:
        return len(self._nodes)

    def node(self, key: str) -> Node | None:
        """What stands under a key."""
        return self._nodes.get(key)

    def wrong(self, what: str, key: str = "", *, next_step: str = "") -> ConfigError:
        """A mistake at a key, or in all of it."""
        return wrong(self.file, self._lines.get(key, self.line), what, next_step=next_step)

    def table(self, key: str, *valid: str) -> Table | None:
        """The table under a key; None where it is not given."""
        node = self._nodes.get(key)
        if node is None or node.value is None:
            return None
        return Table(node, self.file, f"{key!r} of {self.place}", valid)

    def tables(self, key: str, what: str) -> dict[str, Node]:
        """The entries of a section by name: what stands under each is a table of its own."""
        section = self.table(key)
        if section is None:
            return {}
        for name in section:
            if not NAME.fullmatch(name):
                why = "small letters, digits and '_', at most 40 of them"
                raise section.wrong(f"{name[:60]!r} is no name for {what}: {why}.", name)
        return {name: section._nodes[name] for name in section}

    def scalar(self, key: str) -> Scalar:
        """A single value; None where it is not given."""
        node = self._nodes.get(key)
        if node is None:
            return None
        if isinstance(node.value, dict | list):
            raise self._unlike(key, "a single value")
        assert node.value is None or isinstance(node.value, bool | int | float | str)
        return node.value

    def text(self, key: str, default: str = "") -> str:
        """A text; a number is not one, because nobody knows how it was written."""
        value = self.scalar(key)
        if value is None:
            return default
        if not isinstance(value, str):
            raise self._unlike(key, "a text")
        if len(value) > TEXT_CHARACTERS_MAX or "\0" in value:
            raise self.wrong(f"{key!r} of {self.place} is too long.", key)
        return value

    def needed(self, key: str) -> str:
        """A text that has to be there."""
        found = self.text(key)
        if not found:
            raise self.wrong(f"{self.place} needs {key!r}.", key)
        return found

    def flag(self, key: str, *, default: bool = False) -> bool:
        """True or false."""
        value = self.scalar(key)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self._unlike(key, "true or false")
        return value

    def number(self, key: str, default: T, *, low: float, high: float) -> float | T:
        """A number within its range."""
        value = self.scalar(key)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self._unlike(key, "a number")
        if not low <= value <= high:
            raise self.wrong(f"{key!r} of {self.place} has to be {low:g} to {high:g}.", key)
        return value

    def port(self, key: str = "port") -> int | None:
        """The number of a port."""
        value = self.scalar(key)
        if value is None:
            return None
        if type(value) is not int or not 0 < value < 65536:
            raise self._unlike(key, "the number of a port")
        return value

    def seconds(self, key: str, default: T, *, high: float = SECONDS_MAX) -> float | T:
        """A duration such as `30s`, `5m`, `200ms`; a number alone is in seconds."""
        value = self.scalar(key)
        if value is None:
            return default
        found: float | None = None
        if isinstance(value, int | float) and not isinstance(value, bool):
            found = float(value)
        elif isinstance(value, str) and (match := _DURATION.fullmatch(value)):
            found = float(match[1]) * _UNITS_S[match[2]]
        if found is None:
            raise self._unlike(key, "a duration such as 30s, 5m or 1h")
        if not 0 <= found <= high:
            raise self.wrong(f"{key!r} of {self.place} has to be 0 to {high:g} seconds.", key)
        return found

    def choice(self, key: str, valid: Sequence[str], default: str) -> str:
        """One of these words."""
        value = self.text(key, default)
        if value not in valid:
            hint = f"It is one of: {', '.join(valid)}."
            raise self.wrong(f"{value[:60]!r} is no {key} of {self.place}.", key, next_step=hint)
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of texts; a single one stands for a list of one."""
        node = self._nodes.get(key)
        if node is None or node.value is None:
            return ()
        if isinstance(node.value, str):
            return (self.text(key),)
        if not isinstance(node.value, list):
            raise self._unlike(key, "a list of texts")
        found = []
        for one in node.value:
            # A number in a list of words, such as a port, is taken as it is written.
            if isinstance(one.value, bool) or not isinstance(one.value, str | int):
                raise self._unlike(key, "a list of texts")
            found.append(str(one.value))
        if any("\0" in one or len(one) > TEXT_CHARACTERS_MAX for one in found):
            raise self.wrong(f"{key!r} of {self.place} is too long.", key)
        return tuple(found)

    def pairs(self, key: str) -> dict[str, Scalar]:
        """A table of single values."""
        inner = self.table(key)
        return {} if inner is None else {name: inner.scalar(name) for name in inner}

    def regex(self, key: str) -> str:
        """A pattern that RE2 takes, so that no text can make it slow."""
        pattern = self.text(key)
        if not pattern:
            return ""
        try:
            pattern_of(pattern)
        except PatternError as error:
            raise self.wrong(f"{key!r} of {self.place} is no pattern: {error}.", key) from error
        return pattern

    def _unlike(self, key: str, what: str) -> ConfigError:
        return self.wrong(f"{key!r} of {self.place} has to be {what}.", key)
