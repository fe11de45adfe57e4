"""YAML text as a tree that knows its lines. Bounded, and without anything that a file could run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from operator_protocols.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["DEPTH_MAX", "FILE_BYTES_MAX", "Node", "Scalar", "parse", "wrong"]

FILE_BYTES_MAX = 256 * 1024
DEPTH_MAX = 12
NODES_MAX = 20_000

Scalar = bool | int | float | str | None
_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,17})")
_NUMBER = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,17})(?:\.[0-9]{1,18})?(?:[eE][-+]?[0-9]{1,2})?")
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


def wrong(file: str, line: int, what: str, *, next_step: str = "") -> ConfigError:
    """A mistake in a file, with its line."""
    return ConfigError(f"Line {line} of {file!r}: {what}", next_step=next_step)


def parse(text: str, file: str) -> Node:
    """The one document of a file; ConfigError with the line of the first mistake."""
    import yaml

    if len(text.encode("utf-8", "surrogatepass")) > FILE_BYTES_MAX:
        raise ConfigError(f"{file!r} is longer than {FILE_BYTES_MAX} bytes.")
    try:
        events = yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        return _Builder(file).document(events)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        line = mark.line + 1 if mark else 1
        problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "no YAML"
        raise wrong(file, line, f"this is not YAML: {problem}.") from error


class _Builder:
    """Makes nodes of the parser's events, as deep and as many as the limits allow."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._count = 0

    def document(self, events: Iterator[Any]) -> Node:
        """The root of the only document."""
        import yaml

        root: Node | None = None
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent) and root is not None:
                raise self._wrong(event, "only one document is read; remove the '---'.")
            if isinstance(event, yaml.NodeEvent):
                root = self._node(event, events, 1)
        if root is None:
            raise ConfigError(f"{self._file!r} is empty.", next_step="See: operator subjects init")
        return root

    def _node(self, event: Any, events: Iterator[Any], depth: int) -> Node:
        import yaml

        self._count += 1
        if depth > DEPTH_MAX or self._count > NODES_MAX:
            raise self._wrong(event, "it is nested too deeply, or holds too much.")
        if isinstance(event, yaml.AliasEvent) or event.anchor is not None:
            raise self._wrong(event, "anchors and aliases are not read; write it out.")
        if event.tag is not None:
            raise self._wrong(event, f"the tag {event.tag[:40]!r} is not read; remove it.")
        line = _line(event)
        if isinstance(event, yaml.ScalarEvent):
            plain = event.implicit[0] and not event.style
            return Node(_scalar(event.value) if plain else event.value, line, {})
        if isinstance(event, yaml.SequenceStartEvent):
            return Node(self._items(events, depth), line, {})
        return self._table(events, line, depth)

    def _items(self, events: Iterator[Any], depth: int) -> list[Node]:
        import yaml

        found: list[Node] = []
        while not isinstance(event := next(events), yaml.SequenceEndEvent):
            found.append(self._node(event, events, depth + 1))
        return found

    def _table(self, events: Iterator[Any], line: int, depth: int) -> Node:
        import yaml

        found: dict[str, Node] = {}
        lines: dict[str, int] = {}
        while not isinstance(event := next(events), yaml.MappingEndEvent):
            if not isinstance(event, yaml.ScalarEvent):
                raise self._wrong(event, "a key has to be a word.")
            self._node(event, events, depth + 1)
            # Keys are the words that stand there: `on` and `no` are none of true and false.
            key = str(event.value)
            if key in found:
                raise self._wrong(event, f"{key[:60]!r} stands here twice.")
            lines[key] = _line(event)
            found[key] = self._node(next(events), events, depth + 1)
        return Node(found, line, lines)

    def _wrong(self, event: Any, what: str) -> ConfigError:
        return wrong(self._file, _line(event), what)


def _line(event: Any) -> int:
    return int(event.start_mark.line) + 1


def _scalar(text: str) -> Scalar:
    """What a word without quotes means: as in YAML 1.2, so that `yes` and `on` are words."""
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _NUMBER.fullmatch(text) else text
