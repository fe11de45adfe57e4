"""Version 1.1.0 of the contract: for those who ask, and nothing changes for the others."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from operator_protocols.domain.category import ControlCategory, ErrorCategory, NextAction, Recovery
from operator_protocols.domain.entry import Actor, Entry, Kind
from operator_protocols.domain.run_record import RunRecord
from operator_protocols.errors import (
    AuthorityError,
    MissingExtraError,
    PermitError,
    UsageError,
)
from operator_sre.contract.accounts import NotFailedError, RunFacts, next_of, summary_of
from operator_sre.contract.documents import as_document
from operator_sre.contract.editions import (
    amend_document,
    edition_of,
    error_document,
    problem_document,
    recovery_of,
)
from tests.contract_messages.frozen import ENUMS

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)


def _facts(state: str, *entries: tuple[Kind, dict[str, Any]], **more: Any) -> RunFacts:
    finished = NOON.replace(second=9) if state != "running" else None
    run = RunRecord("run-1", 1, "reasoner", state, NOON, finished, "That was it.")
    told = [
        Entry(seq, NOON.replace(second=seq), kind, payload, 1, "run-1", Actor(), "", "")
        for seq, (kind, payload) in enumerate(entries, start=1)
    ]
    return RunFacts(run, told, **more)


def test_an_edition_is_negotiated() -> None:
    asked = {"1.0.0": "1.0.0", "1.0.7": "1.0.0", "1.1.0": "1.1.0", "1.12.3": "1.1.0"}
    assert {version: edition_of(version) for version in asked} == asked
    for senseless in ("", "1", "1.1", "2.0.0", "0.9.9", "one", "1.1.x", "1.1.0.0", "-1.1.0"):
        with pytest.raises(UsageError, match=r"1\.0\.0, 1\.1\.0"):
            edition_of(senseless)


def test_the_first_edition_stays_as_it_is() -> None:
    facts = _facts("failed", (Kind.RUN_FINISHED, {"category": "budget_exceeded", "limit": "turns"}))
    for answer in (summary_of(facts), next_of(facts)):
        assert amend_document(answer, facts, edition="1.0.0") == as_document(answer)
    added = {word.value for enum in (ControlCategory, Recovery) for word in enum}
    assert len(added) == 13
    assert added.isdisjoint(f"{ENUMS['ErrorCategory']} {ENUMS['NextAction']}".split())


@pytest.mark.parametrize(
    ("limit", "action"),
    [
        ("turns", "split_task"),
        ("commands", "split_task"),
        ("tokens", "larger_context"),
        ("seconds", "more_time"),
        ("usd", "increase_budget"),
        ("", "increase_budget"),
    ],
)
def test_a_used_up_budget_names_what_helps(limit: str, action: str) -> None:
    end = {"state": "failed", "category": ErrorCategory.BUDGET_EXCEEDED.value, "limit": limit}
    facts = _facts("failed", (Kind.RUN_FINISHED, end))
    answer = next_of(facts)
    assert answer.next_action is NextAction.INCREASE_BUDGET
    assert amend_document(answer, facts, edition="1.1.0")["next_action"] == action


def test_an_agent_without_a_diagnosis_is_not_capable_enough() -> None:
    bare = _facts("completed", ticket_state="escalated")
    assert recovery_of(bare) is Recovery.CAPABILITY_UP
    assert recovery_of(_facts("completed", (Kind.DIAGNOSIS, {}), ticket_state="escalated")) is None
    assert recovery_of(_facts("completed", ticket_state="resolved")) is None
    assert recovery_of(_facts("running", halted="enough")) is Recovery.STOP


def test_the_newest_attempt_is_reported() -> None:
    spent = {"tokens_in": 100, "tokens_out": 20, "usd": 0.25}
    facts = _facts(
        "completed",
        (Kind.TICKET_CLAIMED, {}),
        (Kind.REASONING, {"spent": spent}),
        (Kind.TICKET_CLAIMED, {}),
        (Kind.REASONING, {"spent": spent}),
        (Kind.TOOL_RESULT, {}),
        (Kind.PROOF, {}),
        ticket_state="resolved",
    )
    document = amend_document(summary_of(facts), facts, edition="1.1.0")
    assert document["schema_version"] == "1.1.0"
    report = document["attempt_report"]
    assert (report["attempt_id"], report["status"]) == ("run-1/2", "completed")
    assert report["progress"] == {"model_calls_completed": 1, "tool_calls_completed": 1}
    assert report["llm_budget"]["total_tokens"] == 120
    assert report["llm_budget"]["total_cost_decimal"] == "0.250000"
    assert report["time"] == {"attempt_duration_ms": 6000, "run_active_time_ms": 9000}
    assert report["recommended_actions"] == ["export_audit"]
    assert report["evidence_refs"] == ["audit_seq:6"]


def test_an_error_is_flat_and_more_precise() -> None:
    errors = {
        "missing_scope": AuthorityError("no."),
        "feature_not_enabled": MissingExtraError("web", needed_for="This"),
        "concurrency_unavailable": PermitError("no.", busy=True),
        "policy_denied": PermitError("no."),
        "policy_validation_failed": UsageError("no."),
        "run_terminal": NotFailedError(_facts("completed", ticket_state="resolved")),
    }
    for category, error in errors.items():
        document = problem_document(error)
        assert list(document) == ["schema_version", "category", "message", "next_action"]
        assert (document["schema_version"], document["category"]) == ("1.1.0", category)
    stopped = ErrorCategory.AGENT_RUNTIME_EXCEPTION, "Stopped.", NextAction.RERUN
    assert error_document(*stopped)["category"] == "agent_runtime_exception"
