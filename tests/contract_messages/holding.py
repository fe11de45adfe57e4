"""Every document that a test sees a verb print is held to the schema of that verb, strictly."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

__all__ = ["CLI", "HOW", "file_name", "held_to_schema", "schema_name", "strict"]

CLI = Path(__file__).parents[2] / "docs" / "schemas" / "cli"
HOW = (
    "declare it in operations/documents.py, or in cli/documents.py of its distribution; then run:"
    " python -m tests.contract_messages.schemas"
)
_VALUED = ("--home", "--store", "--mode", "--log-format", "--log-level")


def held_to_schema(words: Sequence[str], out: str) -> None:
    """See that what a command printed for programs is what its schema says, and nothing else."""
    if "--json" not in words:
        return
    for document in _documents(out):
        name = schema_name(words, document)
        if (wrong := _wrong(name, document)) is not None:
            line = f"operator {' '.join(words)}"
            raise AssertionError(f"{name}.json does not say this of {line}: {wrong}\nElse {HOW}")


def file_name(verb: str) -> str:
    """How the schema of a verb is called."""
    return verb.replace(" ", "-")


def schema_name(words: Sequence[str], document: dict[str, Any]) -> str:
    """The verb that was typed, as its schema is called; an error, and a question, are all alike."""
    if isinstance(document.get("error"), dict):
        return "error"
    if "requires_confirmation" in document:
        return "confirmation"
    typed = list(_typed(words))
    names = [file_name(" ".join(typed[:count])) for count in (3, 2, 1)]
    if typed == ["mode"]:
        names = ["mode-show"]
    known = next((name for name in names if (CLI / f"{name}.json").exists()), None)
    assert known is not None, f"no schema for: operator {' '.join(typed[:3])}; {HOW}"
    return known


def strict(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema for documents of our own: others live with unknown fields, we have none."""
    told: dict[str, Any] = {}
    for name, it in schema.items():
        if isinstance(it, dict):
            told[name] = strict(it)
        elif isinstance(it, list):
            told[name] = [strict(one) if isinstance(one, dict) else one for one in it]
        else:
            told[name] = it
    if "type" in told and "required" in told:
        told["additionalProperties"] = False
    return told


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


def _wrong(name: str, document: dict[str, Any]) -> str | None:
    """What is wrong with it; of several shapes, by the one that it comes nearest to."""
    error = next(_validator(name).iter_errors(document), None)
    while error is not None and error.context:
        shapes: dict[Any, list[Any]] = {}
        for one in error.context:
            shapes.setdefault(one.schema_path[0], []).append(one)
        error = min(shapes.values(), key=len)[0]
    return None if error is None else f"{error.json_path}: {error.message[:500]}"


@cache
def _validator(name: str) -> Any:
    import jsonschema  # type: ignore[import-untyped]

    formats = jsonschema.FormatChecker(())
    formats.checks("date-time", ValueError)(_is_moment)
    schema = strict(json.loads((CLI / f"{name}.json").read_text()))
    return jsonschema.Draft202012Validator(schema, format_checker=formats)


def _is_moment(told: object) -> bool:
    return not isinstance(told, str) or datetime.fromisoformat(told).tzinfo is not None
