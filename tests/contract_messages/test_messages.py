"""The contract as others rely on it: its schemas, its golden documents, and what never changes."""

from __future__ import annotations

import json
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest

from operator_protocols.domain import category
from operator_sre.contract import messages
from operator_sre.contract.documents import as_document, from_document
from operator_sre.contract.messages import Message
from operator_sre.contract.schemas import check_document, document_schema
from tests.contract_messages.frozen import ENUMS, FIELDS
from tests.contract_messages.samples import failures, requests, responses
from tests.contract_messages.schemas import METHODS, text_of
from tests.every import every

GOLDEN = Path(__file__).parent / "golden"


def _documents() -> dict[str, Message]:
    found = {f"{name}.request": one for name, one in requests().items()}
    found |= {f"{name}.response": one for name, one in responses().items()}
    return found | {f"explain_failure.{name}": one for name, one in failures().items()}


def write_golden() -> None:
    """Write every golden document anew: only ever by hand, after looking at what changes."""
    GOLDEN.mkdir(exist_ok=True)
    for name, message in _documents().items():
        (GOLDEN / f"{name}.json").write_text(text_of(as_document(message)))


@every("name", list(_documents()))
def test_every_message_reads_as_its_golden_document(name: str) -> None:
    message = _documents()[name]
    golden = json.loads((GOLDEN / f"{name}.json").read_text())
    assert check_document(message) == golden
    assert from_document(type(message), golden) == message
    jsonschema.validate(golden, document_schema(name, type(message)))


@every("name", list(FIELDS))
def test_no_field_of_1_0_0_is_renamed_or_removed(name: str) -> None:
    kind: Any = getattr(messages, name)
    known = {one.name: one for one in fields(kind)}
    wanted = FIELDS[name].split()
    assert wanted, name
    for told in wanted:
        field = told.rstrip("!")
        assert field in known, f"{name}.{field} is gone"
        always = known[field].default is MISSING or field == "schema_version"
        assert always == told.endswith("!"), f"{name}.{field} is there at other times"


@every("name", list(ENUMS))
def test_no_value_of_1_0_0_is_renamed_or_removed(name: str) -> None:
    kind: Any = getattr(messages, name, None) or getattr(category, name)
    assert set(ENUMS[name].split()) <= {one.value for one in kind}


def test_every_message_is_frozen_and_has_a_schema() -> None:
    public = {name for name in messages.__all__ if isinstance(getattr(messages, name), type)}
    known = set(FIELDS) | set(ENUMS) | {"Message"}
    assert public == known - {"ErrorCategory", "NextAction"}
    asked_and_told = {one.__name__ for pair in METHODS.values() for one in pair}
    assert asked_and_told == {name for name in public if name.endswith(("Request", "Response"))}


@every(
    ("method", "change"),
    [
        ("summarize_run", {"status": "sleeping"}),
        ("summarize_run", {"error_category": "bad_luck"}),
        ("next_action", {"next_action": "pray"}),
        ("next_action", {"evidence_refs": [{"type": "hearsay", "ref": "1"}]}),
        ("explain_failure", {"schema_version": "2.0.0"}),
        ("explain_failure", {"schema_version": None}),
        ("summarize_run", {"started_at": "yesterday"}),
        ("summarize_run", {"invocations": True}),
        ("get_run_timeline", {"events": {}}),
    ],
)
def test_what_is_not_defined_is_refused_by_reader_and_schema(
    method: str, change: dict[str, Any]
) -> None:
    message = responses()[method]
    document = as_document(message) | change
    with pytest.raises(messages_error()):
        from_document(type(message), document)


def messages_error() -> type[Exception]:
    """What a document that makes no sense raises."""
    from operator_protocols.errors import UsageError

    return UsageError
