"""Every verb has a schema for what it prints with --json, and the schemas are worth something."""

from __future__ import annotations

import json
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest

from tests.contract_messages.recording import (
    CLI,
    CONFIRMATION,
    ERROR,
    LINE,
    MADE,
    RUNNING,
    held_to_schema,
    merged,
    schema_from,
    schema_name,
)
from tests.every import every
from tests.faces.cli.test_verbs import VERBS

NAMES = [LINE, *(verb.replace(" ", "-") for verb in VERBS if verb not in RUNNING)]


# They need a repaired target, a channel or a running agent: their documents are not learned.
UNSEEN = {"tickets-resolve", "notify-test", "hub-approve"}


def test_what_is_not_learned_is_not_there() -> None:
    assert [name for name in UNSEEN if (CLI / f"{name}.json").exists()] == []


@every("name", sorted({*NAMES} - UNSEEN))
def test_every_verb_has_a_schema_for_what_it_prints(name: str) -> None:
    """Learn the missing ones as tests/contract_messages/recording.py says."""
    schema: dict[str, Any] = json.loads((CLI / f"{name}.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    assert "schema_version" in schema["required"], "it does not say its version"


def test_no_schema_is_of_a_verb_that_is_gone() -> None:
    assert {file.stem for file in CLI.glob("*.json")} <= {*NAMES, CONFIRMATION, ERROR}
    assert set(MADE) <= set(NAMES)


def test_a_document_that_does_not_fit_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RECORD_SCHEMAS", raising=False)
    words = ("next-action", "--json")
    right = {"schema_version": "1.0.0", "next_action": "rerun", "rationale": "x"}
    held_to_schema(words, json.dumps(right))
    for wrong in ({**right, "next_action": "pray"}, {"schema_version": "1.0.0"}):
        with pytest.raises(jsonschema.ValidationError):
            held_to_schema(words, json.dumps(wrong))
    held_to_schema(("next-action",), "for people")
    assert schema_name(words, {"error": {}}) == ERROR
    assert schema_name(("--home", "x", *words), right) == "next-action"


def test_a_schema_is_widened_by_what_comes() -> None:
    one, other = {"a": 1, "b": ["x"]}, {"a": None, "c": {"Node 1": 2}}
    schema = merged(schema_from(one), schema_from(other))
    assert schema["required"] == ["a"]
    for document in (one, other):
        jsonschema.validate(document, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"a": "text"}, schema)
