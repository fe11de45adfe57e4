"""A change of one object as a JSON patch that is bound to the object as it was read. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["Edit", "Fields", "owners_of_path", "short"]

Object = Mapping[str, Any]
Fields = dict[tuple[str, ...], Any]

VALUE_CHARS_MAX = 120
DIFF_LINES_MAX = 40
_MISSING = object()


@dataclass(frozen=True, slots=True)
class Edit:
    """New values of some fields of an object; None removes a field.

    A field is a path of names, without lists in it, such as `("spec", "template")`.
    """

    item: Object
    fields: Mapping[tuple[str, ...], Any]

    @property
    def changed(self) -> Mapping[tuple[str, ...], Any]:
        """The fields whose values differ from the object's."""
        return {
            path: value
            for path, value in self.fields.items()
            if _get(self.item, path) != (_MISSING if value is None else value)
        }

    def patch(self) -> list[dict[str, Any]]:
        """The operations. The API refuses all of them for an object that changed meanwhile."""
        metadata = self.item["metadata"]
        operations = [
            {"op": "test", "path": f"/metadata/{name}", "value": metadata[name]}
            for name in ("uid", "resourceVersion")
        ]
        for path, value in self.changed.items():
            pointer = "".join(f"/{_escape(part)}" for part in path)
            if value is None:
                operations.append({"op": "remove", "path": pointer})
                continue
            for length in range(1, len(path)):
                if _get(self.item, path[:length]) is _MISSING:
                    above = "".join(f"/{_escape(part)}" for part in path[:length])
                    operations.append({"op": "add", "path": above, "value": {}})
            # Of an object `add` replaces what is there.
            operations.append({"op": "add", "path": pointer, "value": value})
        return operations

    def diff(self) -> str:
        """The changed values, a line for each, as people read them."""
        lines: list[str] = []
        for path, value in self.changed.items():
            before = _get(self.item, path)
            old = None if before is _MISSING else before
            lines += _compare(".".join(path), old, value)
        if len(lines) > DIFF_LINES_MAX:
            lines = [*lines[:DIFF_LINES_MAX], f"... and {len(lines) - DIFF_LINES_MAX} more"]
        return "\n".join(lines)


def short(value: object) -> str:
    """A value in one short line."""
    text = json.dumps(value, separators=(", ", ": "), ensure_ascii=False)
    return text if len(text) <= VALUE_CHARS_MAX else f"{text[:VALUE_CHARS_MAX]}..."


def owners_of_path(item: Object, path: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Who set a field or anything below it: the manager, and `Apply` or `Update`."""
    for entry in item["metadata"].get("managedFields") or ():
        if entry.get("subresource"):
            continue
        fields = entry.get("fieldsV1") or {}
        for part in path:
            fields = fields.get(f"f:{part}")
            if fields is None:
                break
        else:
            yield str(entry.get("manager", "")), str(entry.get("operation", ""))


def _get(item: Any, path: Sequence[str]) -> Any:
    for part in path:
        if not isinstance(item, Mapping) or part not in item:
            return _MISSING
        item = item[part]
    return item


def _escape(part: str) -> str:
    return part.replace("~", "~0").replace("/", "~1")


def _compare(path: str, before: Any, after: Any) -> Iterator[str]:
    """The lines of a diff; lists of named things are compared by name."""
    if before == after:
        return
    keyed = [_by_name(each) for each in (before, after)]
    if all(each is not None for each in keyed):
        before, after = keyed
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for name in sorted({*before, *after}):
            yield from _compare(f"{path}.{name}", before.get(name), after.get(name))
        return
    if before is not None:
        yield f"- {path}: {short(before)}"
    if after is not None:
        yield f"+ {path}: {short(after)}"


def _by_name(value: Any) -> Mapping[str, Any] | None:
    if not isinstance(value, list) or not value:
        return None
    if not all(isinstance(each, Mapping) and "name" in each for each in value):
        return None
    found = {str(each["name"]): each for each in value}
    return found if len(found) == len(value) else None
