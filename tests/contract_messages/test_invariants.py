"""The twelve promises of the contract, each with a lie that it has to catch."""

from __future__ import annotations

from dataclasses import fields, replace
from datetime import UTC, datetime
from typing import Any

import pytest

from operator_protocols.domain.category import ErrorCategory, NextAction
from operator_protocols.domain.confirmation import Boundary
from operator_protocols.domain.verdict import Risk
from operator_protocols.errors import OperatorError, UsageError
from operator_sre.app.answers.texts import build_redactor, without_secrets
from operator_sre.contract.documents import (
    MisfitError,
    all_error_categories,
    all_next_actions,
    as_document,
    from_document,
    inner_of,
    is_valid_error_category,
    is_valid_next_action,
    write_message,
)
from operator_sre.contract.evidence import (
    ADVICE,
    after_decline,
    command_for,
    next_after,
    risk_level,
)
from operator_sre.contract.messages import (
    ConfirmationRequirement,
    EvidenceRef,
    EvidenceType,
    ExplainPolicyDenialResponse,
    GetRunTimelineResponse,
    Message,
    NextActionResponse,
    RecommendPolicyPatchResponse,
    RunStatus,
    SummarizeRunResponse,
    TimelineEvent,
    ValidateAgentProjectResponse,
)
from operator_sre.contract.schemas import broken, check_document
from tests.contract_messages.samples import failures, requests, responses


def _response(method: str) -> Any:
    return responses()[method]


def _with(message: Any, name: str, value: object) -> Message:
    """The same message with one field that may be wrong."""
    changed: Message = replace(message, **{name: value})
    return changed


def test_messages_inside_of_messages_are_known() -> None:
    held = dict(inner_of(NextActionResponse))
    assert held == {"evidence_refs": EvidenceRef, "confirmation": ConfirmationRequirement}
    assert inner_of(EvidenceRef) == ()
    with pytest.raises(MisfitError):
        write_message(_with(EvidenceRef(type=EvidenceType.LOG, ref="command:1"), "ref", None))


def _must_break(message: Message) -> None:
    assert list(broken(message))
    with pytest.raises(OperatorError, match="contract"):
        check_document(message)


def test_1_every_message_carries_its_version() -> None:
    for message in (*requests().values(), *responses().values()):
        document = as_document(message)
        assert document["schema_version"] == "1.0.0"
        del document["schema_version"]
        with pytest.raises(UsageError, match="schema_version"):
            from_document(type(message), document)
    _must_break(replace(_response("next_action"), schema_version="1.0.1"))


def test_2_every_value_is_defined() -> None:
    assert len(all_error_categories()) == 13
    assert len(all_next_actions()) == 10
    assert all(map(is_valid_error_category, all_error_categories()))
    assert all(map(is_valid_next_action, all_next_actions()))
    for wrong in ("", "POLICY_DENIED", "policy denied", None, 3):
        assert not is_valid_error_category(wrong)
        assert not is_valid_next_action(wrong)
    liar = replace(_response("summarize_run"), status="sleeping")
    with pytest.raises(UsageError, match="completed"):
        check_document(liar)


def test_2_what_does_not_fit_its_field_is_neither_written_nor_read() -> None:
    for message in (*requests().values(), *responses().values()):
        name, document = type(message).__name__, as_document(message)
        for one in fields(message):
            if one.name == "unknown":
                continue
            for wrong in (object(), 1.5, [None], "" if one.name == "events" else b"x"):
                with pytest.raises(UsageError, match=rf"^{name}\.{one.name}"):
                    check_document(_with(message, one.name, wrong))
                with pytest.raises(UsageError, match=rf"^{name}\.{one.name}"):
                    from_document(type(message), document | {one.name: wrong})
    refs = failures()["policy_denied"].evidence_refs
    wrong_ref = _with(refs[1], "ref", 7)
    deep = _with(failures()["policy_denied"], "evidence_refs", (refs[0], wrong_ref))
    with pytest.raises(UsageError, match=r"^ExplainFailureResponse\.evidence_refs\[1\]\.ref must"):
        check_document(deep)


def test_3_every_diagnosis_has_exactly_one_next_action() -> None:
    assert set(ADVICE) == set(ErrorCategory)
    for category, failure in failures().items():
        assert failure.next_action is next_after(ErrorCategory(category))
        document = as_document(failure)
        del document["next_action"]
        with pytest.raises(UsageError, match="next_action"):
            from_document(type(failure), document)


def test_4_after_a_denial_the_policy_is_reviewed() -> None:
    denial: ExplainPolicyDenialResponse = _response("explain_policy_denial")
    assert not list(broken(denial))
    for other in set(NextAction) - {NextAction.REVIEW_POLICY_PATCH}:
        _must_break(replace(denial, next_action=other))
    assert next_after(ErrorCategory.POLICY_DENIED) is NextAction.REVIEW_POLICY_PATCH


def test_5_a_patch_always_requires_confirmation() -> None:
    patch: RecommendPolicyPatchResponse = _response("recommend_policy_patch")
    assert not list(broken(patch))
    none = ConfirmationRequirement(requires_confirmation=False)
    _must_break(replace(patch, confirmation=none))
    _must_break(replace(patch, next_action=NextAction.RERUN))


def test_6_an_id_is_there_exactly_when_a_confirmation_is_required() -> None:
    answer: NextActionResponse = _response("next_action")
    assert not list(broken(answer))
    for needed, id in ((True, ""), (False, "c0ffee")):
        wrong = ConfirmationRequirement(requires_confirmation=needed, confirmation_id=id)
        _must_break(replace(answer, confirmation=wrong))


def test_7_what_is_ready_has_no_issues() -> None:
    found: ValidateAgentProjectResponse = _response("validate_agent_project")
    assert not list(broken(found))
    _must_break(replace(found, ready=True))
    _must_break(replace(found, issues=()))
    assert "issues" not in as_document(replace(found, ready=True, issues=()))


def test_8_a_failed_run_has_its_category() -> None:
    found: SummarizeRunResponse = _response("summarize_run")
    assert not list(broken(found))
    _must_break(replace(found, error_category=None))
    _must_break(replace(found, status=RunStatus.COMPLETED))


def test_9_a_secret_is_taken_out_and_its_sentence_is_left() -> None:
    token = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"
    said = f"2 tests passed, 1 failed with token {token} and password=hunter2 on node-1"
    failure = replace(
        failures()["budget_exceeded"],
        root_cause=said,
        evidence_refs=(EvidenceRef(type=EvidenceType.RUN_ID, ref="run-1", detail=said),),
    )
    told = without_secrets(failure, build_redactor())
    for text in (told.root_cause, told.evidence_refs[0].detail):
        assert token not in text
        assert "hunter2" not in text
        assert "2 tests passed, 1 failed" in text
        assert text.endswith("on node-1")
        assert text.count("[REDACTED]") == 2
        assert "[REDACTED:" not in text


def test_11_after_a_decline_code_is_mended_or_a_person_is_asked() -> None:
    policy = {Boundary.POLICY_PATCH, Boundary.RULE_LOOSENED, Boundary.EGRESS}
    mended = {*policy, Boundary.CREDENTIAL_BINDING}
    told = {boundary: after_decline(boundary) for boundary in Boundary}
    assert {one for one, action in told.items() if action is NextAction.FIX_CODE} == mended
    assert {told[one] for one in set(Boundary) - mended} == {NextAction.ASK_USER}


def test_12_what_a_later_version_adds_is_not_lost() -> None:
    for message in (*requests().values(), *responses().values()):
        document = _with_more(as_document(message))
        if "schema_version" in document:
            document["schema_version"] = "1.7.0"
        assert as_document(from_document(type(message), document)) == document


def _with_more(value: Any) -> Any:
    """The same with a field in every object that nobody knows yet."""
    if isinstance(value, dict):
        return {name: _with_more(one) for name, one in value.items()} | {"later": {"a": [1, None]}}
    return [_with_more(one) for one in value] if isinstance(value, list) else value


def test_a_time_that_is_not_set_is_read_and_never_written() -> None:
    document = as_document(_response("summarize_run"))
    found = from_document(SummarizeRunResponse, document | {"finished_at": "0001-01-01T00:00:00Z"})
    assert found.finished_at is None
    unset = "0001-01-01T00:00:00+00:00"
    began = from_document(SummarizeRunResponse, document | {"started_at": unset})
    assert "0001" not in str(as_document(began))
    event = TimelineEvent(timestamp=datetime(1, 1, 1, tzinfo=UTC), event_type="invoke", detail="")
    assert "timestamp" not in as_document(event)


def test_an_empty_timeline_is_a_list() -> None:
    document = as_document(GetRunTimelineResponse(run_id="r", events=()))
    assert document["events"] == []
    assert from_document(GetRunTimelineResponse, document | {"events": None}).events == ()


def test_what_is_critical_shows_as_high() -> None:
    assert [risk_level(one).value for one in Risk] == ["low", "medium", "high", "high"]


def test_every_ref_that_points_somewhere_names_its_command() -> None:
    assert command_for(EvidenceType.AUDIT_SEQ, "7") == "operator audit show --seq 7"
    assert command_for(EvidenceType.POLICY_RULE, "default_deny") == "operator policy show"
    assert (
        command_for(EvidenceType.POLICY_RULE, "review[2]") == "operator policy explain 'review[2]'"
    )
    assert command_for(EvidenceType.REDACTED_EXCERPT, "audit:7") == "operator audit show --seq 7"
    assert command_for(EvidenceType.VERIFICATION, "operator health") == "operator health"
    assert command_for(EvidenceType.SPAN, "a1") == "operator audit show --span a1"
    assert command_for(EvidenceType.LOG, "command:7") == "operator history show 7"
    assert command_for(EvidenceType.RUN_ID, "a b") == "operator audit show 'a b'"
    for kind in (EvidenceType.LOG, EvidenceType.REDACTED_EXCERPT):
        assert command_for(kind, "7; reboot") == ""
