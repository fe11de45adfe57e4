"""YAML with the place of everything in it, and of everything that is wrong with it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from operator_protocols.errors import ConfigError

__all__ = ["FILE_BYTES_MAX", "Node", "parse_yaml"]

FILE_BYTES_MAX = 1_000_000
DEPTH_MAX = 12
_KINDS = {"text": "a text", "list": "a list", "map": "a table"}
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(slots=True)
class Node:
    """One value and where it stands. Texts are texts: nobody guesses what else they could be."""

    kind: str
    file: str
    line: int
    column: int
    text: str = ""
    quoted: bool = False
    items: Sequence[Node] = ()
    pairs: Sequence[tuple[Node, Node]] = ()

    def error(self, sentence: str, *, next_step: str = "") -> ConfigError:
        """What is wrong here, to be raised."""
        place = f"{self.file}:{self.line}:{self.column}"
        return ConfigError(f"{place}: {sentence}", next_step=next_step)

    def table(self, valid: Iterable[str] | None = None) -> dict[str, Node]:
        """The entries of a table; with `valid`, every other key is an error."""
        self._expect("map")
        found: dict[str, Node] = {}
        known = None if valid is None else [str(one) for one in valid]
        for key, value in self.pairs:
            name = key.word()
            if name in found:
                raise key.error(f"{name!r} is there twice.")
            if known is not None and name not in known:
                raise key.unknown(name, known, "a key here")
            found[name] = value
        return found

    def unknown(self, name: str, valid: Iterable[str], what: str) -> ConfigError:
        """That a name is not one of those that are valid, and which is the nearest."""
        near = difflib.get_close_matches(name, list(valid), n=1, cutoff=0.0)
        hint = f"Did you mean {near[0]!r}?" if near else ""
        return self.error(f"{name[:60]!r} is not {what}.", next_step=hint)

    def word(self) -> str:
        """A text that is not empty."""
        self._expect("text")
        if not self.text.strip():
            raise self.error("There has to be a text here.")
        return self.text

    def words(self) -> tuple[str, ...]:
        """One text or a list of them, none of them twice."""
        if self.kind == "text":
            return (self.word(),)
        found = [(one, one.word()) for one in self.list()]
        seen: set[str] = set()
        for node, text in found:
            if text in seen:
                raise node.error(f"{text[:60]!r} is there twice.")
            seen.add(text)
        return tuple(text for _, text in found)

    def list(self) -> Sequence[Node]:
        """The items of a list."""
        self._expect("list")
        return self.items

    def flag(self) -> bool:
        """True or false."""
        self._expect("text")
        if self.quoted or self.text not in ("true", "false"):
            raise self.error(f"{self.text[:60]!r} has to be true or false.")
        return self.text == "true"

    def choice(self, valid: Iterable[str]) -> str:
        """One of several words."""
        known = [str(one) for one in valid]
        if self.word() not in known:
            raise self.error(f"{self.text[:60]!r} has to be one of {', '.join(known)}.")
        return self.text

    def number(self, *, low: float, high: float) -> float:
        """A number within a range."""
        self._expect("text")
        try:
            value = float(self.text)
        except ValueError:
            raise self.error(f"{self.text[:60]!r} has to be a number.") from None
        if not low <= value <= high:
            raise self.error(f"{self.text[:60]!r} has to be between {low:g} and {high:g}.")
        return value

    def _expect(self, kind: str) -> None:
        if self.kind != kind:
            raise self.error(f"This is {_KINDS[self.kind]}, and has to be {_KINDS[kind]}.")


def parse_yaml(text: str, file: str) -> Node:
    """The one document of a text; what is wrong with it is told with line and column."""
    if len(text) > FILE_BYTES_MAX:
        raise _at(file, text, 0, f"The file is longer than {FILE_BYTES_MAX} characters.")
    bad = next((at for at, one in enumerate(text) if "\ud800" <= one <= "\udfff"), None)
    if bad is not None:
        raise _at(file, text, bad, "This is not a letter.")
    try:
        return _Tree(file).read(yaml.parse(text, Loader=_LOADER))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        told = f"This is not YAML: {error.problem or error.context}."
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        raise ConfigError(f"{file}:{line}:{column}: {told}") from None
    except yaml.reader.ReaderError as error:
        at = error.position if isinstance(error.position, int) else 0
        raise _at(file, text, at, "This character cannot be in a YAML file.") from None


def _at(file: str, text: str, at: int, sentence: str) -> ConfigError:
    before = text[:at]
    line, column = before.count("\n") + 1, at - before.rfind("\n")
    return ConfigError(f"{file}:{line}:{column}: {sentence}")


class _Tree:
    """Builds nodes from events, so that no depth of nesting is beyond it."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._open: list[tuple[Node, list[Node]]] = []
        self._root: Node | None = None

    def read(self, events: Iterable[Any]) -> Node:
        for event in events:
            self._take(event)
        return self._root or Node("map", self._file, 1, 1)

    def _take(self, event: Any) -> None:
        if isinstance(event, yaml.DocumentStartEvent):
            if self._root is not None:
                raise self._node("map", event).error("A second document begins here.")
        elif isinstance(event, yaml.ScalarEvent):
            node = self._node("text", event)
            node.text, node.quoted = event.value, bool(event.style)
            self._put(node)
        elif isinstance(event, yaml.SequenceStartEvent | yaml.MappingStartEvent):
            kind = "list" if isinstance(event, yaml.SequenceStartEvent) else "map"
            node = self._node(kind, event)
            if len(self._open) >= DEPTH_MAX:
                raise node.error("This is nested too deeply.")
            self._open.append((node, []))
        elif isinstance(event, yaml.SequenceEndEvent | yaml.MappingEndEvent):
            node, inside = self._open.pop()
            if node.kind == "list":
                node.items = inside
            else:
                node.pairs = list(zip(inside[::2], inside[1::2], strict=True))
            self._put(node)
        elif isinstance(event, yaml.AliasEvent):
            self._node("text", event)

    def _node(self, kind: str, event: Any) -> Node:
        mark = event.start_mark
        node = Node(kind, self._file, mark.line + 1, mark.column + 1)
        if isinstance(event, yaml.AliasEvent):
            raise node.error("Aliases are not understood: write it out.")
        if getattr(event, "tag", None) or getattr(event, "anchor", None):
            raise node.error("Tags and anchors are not understood: write it out.")
        return node

    def _put(self, node: Node) -> None:
        if self._open:
            self._open[-1][1].append(node)
        else:
            self._root = node
