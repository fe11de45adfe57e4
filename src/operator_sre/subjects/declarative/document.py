"""YAML text as tables that know their lines. Bounded, and without anything that a file could run.

Every key of a table is read once, and an unread key is an error.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from operator_protocols.errors import ConfigError
from operator_sre.subjects.declarative.patterns import PatternError, pattern_of

__all__ = [
    "DEPTH_MAX",
    "FILE_BYTES_MAX",
    "NAME",
    "SECONDS_MAX",
    "Node",
    "Table",
    "nearest",
    "parse",
    "wrong",
]

T = TypeVar("T")
TEXT_CHARACTERS_MAX = 4000
SECONDS_MAX = 24 * 3600.0
# What probes, their values, invariants and levers are called: words of an expression.
NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")

FILE_BYTES_MAX = 256 * 1024
DEPTH_MAX = 12
NODES_MAX = 20_000

Scalar = bool | int | float | str | None
_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,17})")
_NUMBER = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,17})(?:\.[0-9]{1,18})?(?:[eE][-+]?[0-9]{1,2})?")
_DURATION = re.compile(r"([0-9]{1,6}(?:\.[0-9]{1,3})?)\s*(ms|s|m|h)")
_UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_WORDS: dict[str, Scalar] = {"": None, "~": None, "null": None, "true": True, "false": False}


@dataclass(frozen=True, slots=True)
class Node:
    """One value of a file with the line that it begins on; `lines` are those of its keys."""

    value: Scalar | Sequence[Node] | Mapping[str, Node]
    line: int
    lines: Mapping[str, int]

    @property
    def kind(self) -> str:
        """What it is, in words."""
        match self.value:
            case dict():
                return "a table"
            case list():
                return "a list"
            case None:
                return "nothing"
            case bool():
                return "true or false"
            case int() | float():
                return "a number"
            case _:
                return "a text"


def wrong(file: str, line: int, problem: str, *, next_step: str = "") -> ConfigError:
    """A mistake in a file, with its line."""
    return ConfigError(f"Line {line} of {file!r}: {problem}", next_step=next_step)


def parse(text: str, file: str) -> Node:
    """The one document of a file; ConfigError with the line of the first mistake."""
    import yaml

    if len(text.encode("utf-8", "surrogatepass")) > FILE_BYTES_MAX:
        raise ConfigError(f"{file!r} is longer than {FILE_BYTES_MAX} bytes.")
    builder = _Builder(file)
    root: Node | None = None
    try:
        events = yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent) and root is not None:
                raise builder.wrong(event, "the file has a second document; remove the '---'.")
            if isinstance(event, yaml.NodeEvent):
                root = builder.build(event, events, 1)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        line = mark.line + 1 if mark else 1
        problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "no YAML"
        raise wrong(file, line, f"this is not YAML: {problem}.") from error
    if root is None:
        raise ConfigError(f"{file!r} is empty.", next_step="See: operator subjects init")
    return root


class _Builder:
    """Makes nodes of the parser's events, as deep and as many as the limits allow."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._count = 0

    def build(self, event: Any, events: Iterator[Any], depth: int) -> Node:
        """The node that begins with this event."""
        import yaml

        self._count += 1
        if depth > DEPTH_MAX or self._count > NODES_MAX:
            raise self.wrong(event, "the file is nested too deeply or has too many items.")
        if isinstance(event, yaml.AliasEvent) or event.anchor is not None:
            raise self.wrong(event, "anchors and aliases are not supported; write the value out.")
        if event.tag is not None:
            raise self.wrong(event, f"the tag {event.tag[:40]!r} is not supported; remove it.")
        line = _line(event)
        if isinstance(event, yaml.ScalarEvent):
            value: Scalar = event.value
            if event.implicit[0] and not event.style:
                # As in YAML 1.2, so that `yes` and `on` are words.
                if event.value in _WORDS:
                    value = _WORDS[event.value]
                elif _INTEGER.fullmatch(event.value):
                    value = int(event.value)
                elif _NUMBER.fullmatch(event.value):
                    value = float(event.value)
            return Node(value, line, {})
        if isinstance(event, yaml.SequenceStartEvent):
            items: list[Node] = []
            while not isinstance(inner := next(events), yaml.SequenceEndEvent):
                items.append(self.build(inner, events, depth + 1))
            return Node(items, line, {})
        entries: dict[str, Node] = {}
        lines: dict[str, int] = {}
        while not isinstance(inner := next(events), yaml.MappingEndEvent):
            if not isinstance(inner, yaml.ScalarEvent):
                raise self.wrong(inner, "a key must be a word.")
            self.build(inner, events, depth + 1)
            # Keys are the words that stand there: `on` and `no` are none of true and false.
            key = str(inner.value)
            if key in entries:
                raise self.wrong(inner, f"{key[:60]!r} is a duplicate key.")
            lines[key] = _line(inner)
            entries[key] = self.build(next(events), events, depth + 1)
        return Node(entries, line, lines)

    def wrong(self, event: Any, problem: str) -> ConfigError:
        """A mistake where an event stands."""
        return wrong(self._file, _line(event), problem)


def _line(event: Any) -> int:
    return int(event.start_mark.line) + 1


def nearest(name: str, valid: Iterable[str]) -> str:
    """What was probably meant, as a sentence; "" where there is nothing to mean."""
    found = difflib.get_close_matches(name, list(valid), n=1, cutoff=0.0)
    return f"Did you mean {found[0]!r}?" if found else ""


class Table:
    """One table of a file, with its location for error messages."""

    def __init__(self, node: Node, file: str, place: str, valid: Sequence[str] = ()) -> None:
        self.file = file
        self.place = place
        self.line = node.line
        if not isinstance(node.value, dict):
            raise wrong(file, node.line, f"{place} must be a table, not {node.kind}.")
        self._nodes: Mapping[str, Node] = node.value
        self._lines = node.lines
        for key in self._nodes if valid else ():
            if key not in valid:
                raise self.wrong(
                    f"{key[:60]!r} is not a valid key of {place}.",
                    key,
                    next_step=nearest(key, valid),
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

    def wrong(self, problem: str, key: str = "", *, next_step: str = "") -> ConfigError:
        """A mistake at a key, or in all of it."""
        return wrong(self.file, self._lines.get(key, self.line), problem, next_step=next_step)

    def table(self, key: str, *valid: str) -> Table | None:
        """The table under a key; None where it is not given."""
        node = self._nodes.get(key)
        if node is None or node.value is None:
            return None
        return Table(node, self.file, f"{key!r} of {self.place}", valid)

    def tables(self, key: str, noun: str) -> dict[str, Node]:
        """The entries of a section by name: what stands under each is a table of its own."""
        section = self.table(key)
        if section is None:
            return {}
        for name in section:
            if not NAME.fullmatch(name):
                why = "use at most 40 lowercase letters, digits and '_'"
                raise section.wrong(f"{name[:60]!r} is not a valid name for {noun}: {why}.", name)
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
        """A text; a number is an error, because its original spelling is lost."""
        value = self.scalar(key)
        if value is None:
            return default
        if not isinstance(value, str):
            raise self._unlike(key, "a text")
        if len(value) > TEXT_CHARACTERS_MAX or "\0" in value:
            raise self.wrong(f"{key!r} of {self.place} is too long.", key)
        return value

    def require_text(self, key: str) -> str:
        """A text that must be there."""
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
            raise self.wrong(f"{key!r} of {self.place} must be {low:g} to {high:g}.", key)
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
            raise self.wrong(f"{key!r} of {self.place} must be 0 to {high:g} seconds.", key)
        return found

    def choice(self, key: str, valid: Sequence[str], default: str) -> str:
        """One of these words."""
        value = self.text(key, default)
        if value not in valid:
            hint = f"It is one of: {', '.join(valid)}."
            raise self.wrong(
                f"{value[:60]!r} is not a valid {key} of {self.place}.", key, next_step=hint
            )
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of texts; a single one stands for a list of one."""
        node = self._nodes.get(key)
        if node is None or node.value is None:
            return ()
        if isinstance(node.value, str):
            return (self.text(key),)
        if not isinstance(node.value, list):
            raise self._unlike(key, "a list of strings")
        values = [item.value for item in node.value]
        # A number in a list of words, such as a port, is taken as it is written.
        if not all(
            isinstance(value, str | int) and value.__class__ is not bool for value in values
        ):
            raise self._unlike(key, "a list of strings")
        texts = tuple(map(str, values))
        if any("\0" in text or len(text) > TEXT_CHARACTERS_MAX for text in texts):
            raise self.wrong(f"{key!r} of {self.place} is too long.", key)
        return texts

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
            raise self.wrong(
                f"{key!r} of {self.place} is not a valid pattern: {error}.", key
            ) from error
        return pattern

    def _unlike(self, key: str, kind: str) -> ConfigError:
        return self.wrong(f"{key!r} of {self.place} must be {kind}.", key)
