"""A YAML or JSON text as plain values, with the line of everything in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import yaml

__all__ = ["FILE_BYTES_MAX", "Document", "parse_document"]

FILE_BYTES_MAX = 256 * 1024
DEPTH_MAX = 12


@dataclass(frozen=True, slots=True)
class Document:
    """The value of a text, the line of each place such as `steps[1].id`, and what is wrong."""

    value: object = None
    lines: Mapping[str, int] = field(default_factory=dict)
    trouble: str = ""
    line: int = 0

    def line_of(self, place: str) -> int:
        """The line of a place, or of what it is inside of; 0 if unknown."""
        while place and place not in self.lines:
            place = place[: max(place.rfind("."), place.rfind("["), 0)]
        return self.lines.get(place, self.lines.get("", 0))


def parse_document(text: str) -> Document:
    """Read it. Aliases are refused: a short text must not become a large value."""
    if len(text.encode("utf-8", "replace")) > FILE_BYTES_MAX:
        return Document(trouble=f"it is larger than {FILE_BYTES_MAX // 1024} kB")
    try:
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            if isinstance(event, yaml.AliasEvent):
                line = event.start_mark.line + 1 if event.start_mark else 0
                return Document(trouble="it has an alias, which is not allowed here", line=line)
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        lines: dict[str, int] = {}
        return Document(_value(node, "", lines, 0), lines)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        line = mark.line + 1 if mark else 0
        return Document(trouble=f"it cannot be read: {error.problem or error.context}", line=line)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        return Document(trouble=f"it cannot be read: {str(error).splitlines()[0]}")


def _value(node: yaml.Node | None, place: str, lines: dict[str, int], depth: int) -> object:
    if node is None:
        return None
    lines.setdefault(place, node.start_mark.line + 1)
    if depth > DEPTH_MAX:
        raise ValueError(f"it is nested deeper than {DEPTH_MAX}")
    if isinstance(node, yaml.MappingNode):
        found: dict[str, object] = {}
        for key, inner in node.value:
            name = str(key.value)
            if name in found:
                raise ValueError(f"{name[:60]!r} is given twice, in line {key.start_mark.line + 1}")
            found[name] = _value(inner, f"{place}.{name}".lstrip("."), lines, depth + 1)
        return found
    if isinstance(node, yaml.SequenceNode):
        return [
            _value(inner, f"{place}[{at}]", lines, depth + 1) for at, inner in enumerate(node.value)
        ]
    kind = node.tag.rpartition(":")[2]
    if kind not in ("null", "bool", "int", "float"):
        return str(node.value)  # a date is a text here
    loader = yaml.SafeLoader("")
    try:
        value: object = loader.construct_object(node)
        return value
    finally:
        loader.dispose()
