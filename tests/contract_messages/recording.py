"""Schemas of what every verb prints with --json, learned from the documents that tests see.

Every document that a test sees is held to the schema of its verb in docs/schemas/cli. With
RECORD_SCHEMAS=1 in the environment it is learned instead, and the schema widened to fit:

    RECORD_SCHEMAS=1 python -m pytest -n0 tests/faces/cli tests/e2e
"""

from __future__ import annotations

import fcntl
import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

__all__ = [
    "CLI",
    "CONFIRMATION",
    "ERROR",
    "LINE",
    "MADE",
    "RUNNING",
    "held_to_schema",
    "merged",
    "schema_from",
    "schema_name",
]

CLI = Path(__file__).parents[2] / "docs" / "schemas" / "cli"
ERROR = "error"
# What goes on until it is stopped prints a document on every line, of whatever happened.
LINE = "line"
RUNNING = (
    *("demo", "up", "serve", "monitor run", "agent start", "workers run", "alerts serve"),
    *("notify run", "hub listen", "mcp"),
)
CONFIRMATION = "confirmation"
DIALECT = "https://json-schema.org/draft/2020-12/schema"
# Below this depth is data: what a tool said, what was seen, what a rule is called.
DEPTH_MAX = 3
_FIELD = re.compile(r"[a-z][a-z0-9_]*")
Change = Callable[[dict[str, Any]], dict[str, Any]]
_EMPTY = {"description": "Empty, or a value of any kind."}
_TYPES = {bool: "boolean", int: "number", float: "number", str: "string", type(None): "null"}
# These have a schema of their own, made from the messages that they print.
MADE = (
    *("validate", "summarize", "explain-failure", "explain-denial", "recommend-patch"),
    *("timeline", "next-action"),
)
_VALUED = ("--home", "--store", "--mode", "--log-format", "--log-level")


def held_to_schema(words: Sequence[str], out: str) -> None:
    """See that what a command printed is what its schema says, where it has one."""
    if "--json" not in words:
        return
    for document in _documents(out):
        name = schema_name(words, document)
        if os.environ.get("RECORD_SCHEMAS") and name not in MADE:
            _learn(name, document)
        elif (schema := _schema(name)) is not None:
            import jsonschema  # type: ignore[import-untyped]

            jsonschema.validate(document, schema)


def schema_name(words: Sequence[str], document: dict[str, Any]) -> str:
    """The verb that was typed, as its schema is called; an error, and a question, are all alike."""
    if "error" in document and isinstance(document["error"], dict):
        return ERROR
    if "requires_confirmation" in document:
        return CONFIRMATION
    typed = list(_typed(words))
    if " ".join(typed[:2]) in RUNNING or typed[0] in RUNNING:
        return LINE
    for count in (3, 2, 1):
        if "-".join(typed[:count]) in _verbs():
            return "-".join(typed[:count])
    return "-".join(typed[:1])


def schema_from(value: object, depth: int = 0) -> dict[str, Any]:
    """The schema of one value."""
    if isinstance(value, dict):
        if depth >= DEPTH_MAX or not all(_FIELD.fullmatch(name) for name in value):
            return {"type": ["object"]}
        shapes = {name: schema_from(one, depth + 1) for name, one in sorted(value.items())}
        return {"type": ["object"], "properties": shapes, "required": sorted(value)}
    if isinstance(value, list):
        found: dict[str, Any] = {}
        for one in value:
            found = merged(found, schema_from(one, depth + 1))
        return {"type": ["array"], "items": found}
    return {"type": [_TYPES[type(value)]]}


def merged(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """A schema for whatever fits one of two."""
    if not one or not other:
        return one or other
    found: dict[str, Any] = {"type": sorted({*one["type"], *other["type"]})}
    objects = [each for each in (one, other) if "object" in each["type"]]
    if objects and all("properties" in each for each in objects):
        names = sorted({name for each in objects for name in each["properties"]})
        found["properties"] = {name: _both(objects, "properties", name) for name in names}
        required = [set(each["required"]) for each in objects]
        found["required"] = sorted(set.intersection(*required))
    arrays = [each for each in (one, other) if "array" in each["type"]]
    if arrays:
        found["items"] = merged(arrays[0].get("items", {}), arrays[-1].get("items", {}))
    return found


def _both(objects: Sequence[dict[str, Any]], key: str, name: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for each in objects:
        found = merged(found, each[key].get(name, {}))
    return found


def _documents(out: str) -> Iterator[dict[str, Any]]:
    """The one document, or one for each line."""
    for text in (out,) if _is_json(out) else out.splitlines():
        if _is_json(text) and isinstance(found := json.loads(text), dict):
            yield found


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _typed(words: Sequence[str]) -> Iterator[str]:
    rest = iter(words)
    for word in rest:
        if word in _VALUED:
            next(rest, None)
        elif not word.startswith("-"):
            yield word


@cache
def _verbs() -> frozenset[str]:
    return frozenset(file.stem for file in CLI.glob("*.json")) | _tree()


def _tree() -> frozenset[str]:
    """All verbs there are; asked only when one is learned, because all of them are loaded."""
    if not os.environ.get("RECORD_SCHEMAS"):
        return frozenset()
    from tests.faces.cli.test_verbs import VERBS

    return frozenset(verb.replace(" ", "-") for verb in VERBS)


@cache
def _schema(name: str) -> dict[str, Any] | None:
    file = CLI / f"{name}.json"
    return json.loads(file.read_text()) if file.exists() else None


def _learn(name: str, document: dict[str, Any]) -> None:
    CLI.mkdir(parents=True, exist_ok=True)
    file = CLI / f"{name}.json"
    with file.open("a+") as opened:
        fcntl.flock(opened, fcntl.LOCK_EX)
        opened.seek(0)
        text = opened.read()
        known = {key: it for key, it in _kept(json.loads(text or "{}")).items() if key[0] != "$"}
        known.pop("title", None)
        head = {"$schema": DIALECT, "title": f"operator {name.replace('-', ' ')} --json"}
        found = _published(merged(known, schema_from(document)))
        body = json.dumps({**head, **found}, indent=1)
        opened.seek(0)
        opened.truncate()
        opened.write(f"{body}\n")


def _published(schema: dict[str, Any]) -> dict[str, Any]:
    """As others read it: what was only ever seen empty may be anything."""
    return _each(schema, lambda one: dict(_EMPTY) if one == {"type": ["null"]} else one)


def _kept(schema: dict[str, Any]) -> dict[str, Any]:
    """As it was learned."""
    return _each(schema, lambda one: {"type": ["null"]} if one == _EMPTY else one)


def _each(schema: dict[str, Any], change: Change) -> dict[str, Any]:
    found = dict(schema)
    if "properties" in found:
        shapes = found["properties"].items()
        found["properties"] = {name: _each(one, change) for name, one in shapes}
    if found.get("items"):
        found["items"] = _each(found["items"], change)
    return change(found)
