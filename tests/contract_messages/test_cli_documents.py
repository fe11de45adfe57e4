"""Every verb has a schema for what it prints with --json, and each says what is really there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest

from operator_sre.contract.schemas import VERSION, Maybe, OneOf, document_schema, fields_of
from operator_sre.operations.documents import ALIKE
from tests.contract_messages.holding import (
    CLI,
    HOW,
    file_name,
    held_to_schema,
    schema_name,
    strict,
)
from tests.contract_messages.schemas import (
    DOCUMENTS,
    FOLDER,
    all_schemas,
    broken,
    promises,
    text_of,
)
from tests.every import every, expect_each
from tests.faces.cli.test_verbs import VERBS

# What these hold depends on what happened: an entry of each kind has a payload of its own, and so
# has a change of each boundary.
OPEN = {"Confirmation.change.*", "Entry.payload.*", "demo.payload.*", "docs.schema.*"}


@every("verb", VERBS)
def test_every_verb_has_a_schema_for_what_it_prints(verb: str) -> None:
    assert verb in DOCUMENTS, f"operator {verb} has no schema: {HOW}"


def test_no_schema_is_of_a_verb_that_is_gone() -> None:
    assert set(DOCUMENTS) == set(VERBS)
    known = {file_name(name) for name in DOCUMENTS | ALIKE}
    assert {file.stem for file in CLI.glob("*.json")} == known, HOW


@every("file", sorted(FOLDER.rglob("*.json")))
def test_every_schema_is_fresh(file: Path) -> None:
    schema = all_schemas()[str(file.relative_to(FOLDER))]
    if (told := file.read_text()) != text_of(schema):
        lost = broken(json.loads(told), schema)
        assert not lost, f"programs rely on it: {'; '.join(lost)}"
        pytest.fail("write it with: python -m tests.contract_messages.schemas")


def test_every_document_says_its_version_in_all_its_shapes() -> None:
    def check(name: str, schema: dict[str, Any]) -> None:
        for one in schema.get("anyOf", [schema]):
            assert one["type"] == "object"
            assert one["properties"]["schema_version"] == VERSION
            assert "schema_version" in one["required"]

    expect_each(_of_verbs().items(), check)
    for name in ("tickets-show", "demo", "policy-show", "error"):
        jsonschema.Draft202012Validator.check_schema(_of_verbs()[name])


def _of_verbs() -> dict[str, dict[str, Any]]:
    found = all_schemas().items()
    return {Path(name).stem: schema for name, schema in found if name.startswith("cli/")}


def test_nothing_may_be_anything_but_what_is_said_to_be() -> None:
    found = set()
    for name, schema in _of_verbs().items():
        found |= set(_open(schema, name))
        for kind, one in schema.get("$defs", {}).items():
            found |= set(_open(one, kind))
    assert found == OPEN


def _open(schema: dict[str, Any], path: str) -> Iterator[str]:
    """Where a schema says nothing of what is there."""
    if not {"type", "anyOf", "enum", "$ref"} & set(schema):
        yield path
    inside = {"properties", "additionalProperties", "anyOf"}
    if schema.get("type") == "object" and not inside & set(schema):
        yield path
    for name, one in schema.get("properties", {}).items():
        yield from _open(one, f"{path}.{name}")
    for key, mark in (("items", "[]"), ("additionalProperties", ".*")):
        if isinstance(schema.get(key), dict):
            yield from _open(schema[key], path + mark)
    for one in schema.get("anyOf", ()):
        yield from _open(one, path)


TICKET = {
    "assignee": "",
    "diagnosis": "",
    "attempts": 0,
    "changed_at": "2026-01-01T00:00:00Z",
    "epoch": 0,
    "flapping": False,
    "id": 1,
    "opened_at": "2026-01-01T00:00:00Z",
    "pause": None,
    "reason": "",
    "run": "",
    "severity": "critical",
    "state": "open",
    "subject": "shop",
    "summary": "node-1 is gone",
    "target": "node-1",
    "violations": [],
    "worker": "",
}
PAUSE = {"by": "ada", "reason": "", "snoozed": False, "until": None}
MOVE = ("tickets", "resolve", "1", "--json")


@every(
    "wrong",
    [
        {"state": "asleep"},
        {"opened_at": "yesterday"},
        {"opened_at": "2026-01-01T00:00:00"},
        {"attempts": 1.5},
        {"flapping": "no"},
        {"pause": {**PAUSE, "snoozed": None}},
        {"pause": {**PAUSE, "because": ""}},
        {"pause": {"by": "ada"}},
        {"violations": [{}]},
        {"nickname": ""},
    ],
)
def test_a_document_that_does_not_fit_is_seen_at_every_level(wrong: dict[str, Any]) -> None:
    right = {"schema_version": "1.0.0", "ticket": TICKET}
    held_to_schema(MOVE, json.dumps(right))
    held_to_schema(MOVE, json.dumps({**right, "ticket": {**TICKET, "pause": PAUSE}}))
    for document in (
        {**right, "ticket": {**TICKET, **wrong}},
        {**right, "ticket": {name: it for name, it in TICKET.items() if name not in wrong}},
    ):
        if document != right:
            with pytest.raises(AssertionError, match=r"tickets-resolve\.json does not say"):
                held_to_schema(MOVE, json.dumps(document))


def test_documents_are_known_by_what_was_typed_and_by_what_they_are() -> None:
    words = ("next-action", "--json")
    assert schema_name(words, {"error": {}}) == "error"
    assert schema_name(words, {"requires_confirmation": True}) == "confirmation"
    assert schema_name(("--home", "x", *words), {}) == "next-action"
    assert schema_name(("mode", "--json"), {}) == "mode-show"
    assert schema_name(("gate", "check", "--stdin", "--json"), {"error": "no"}) == "gate-check"
    with pytest.raises(AssertionError, match=r"no schema for: operator sing; .*documents"):
        schema_name(("sing", "--json"), {})
    held_to_schema(("next-action",), "for people")
    lines = [{"entry": {}}, {"schema_version": "1.0.0", "error": "no", "line": "7"}]
    with pytest.raises(AssertionError, match=r"\$\.line: '7' is not of type 'integer'"):
        held_to_schema(("gate", "check", "--json"), f"log\n{json.dumps(lines[1])}\n")
    with pytest.raises(AssertionError, match=r"up\.json does not say"):
        held_to_schema(("up", "--json"), "\n".join(map(json.dumps, lines)))


def test_what_programs_rely_on_cannot_be_taken_away_unseen() -> None:
    inner = {"id": int, "name": Maybe(str)}
    old = document_schema("x", OneOf(({"one": inner, "many": [inner]}, {"error": str})))
    assert broken(old, old) == []
    more = document_schema(
        "x", OneOf(({"one": inner, "many": [inner], "new": int}, {"error": str}))
    )
    assert broken(old, more) == []
    renamed = {"number": int, "name": Maybe(str)}
    new = document_schema("x", OneOf(({"one": renamed, "many": [inner]}, {"error": str})))
    assert broken(old, new) == ["|0.one.id is gone"]
    other = {"id": Maybe(int), "name": Maybe(bool)}
    new = document_schema("x", OneOf(({"one": inner, "many": [other]}, {"error": str})))
    assert broken(old, new) == [
        "|0.many[].id was always integer, and is maybe integer",
        "|0.many[].name was maybe string, and is maybe boolean",
    ]
    assert promises(old)["|1.error"] == "always string"
    assert strict(old)["anyOf"][1]["additionalProperties"] is False
    assert list(fields_of(Maybe)) == ["shape"]
