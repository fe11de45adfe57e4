"""What is told of a run follows from its entries alone."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from operator_protocols.domain.action import Action
from operator_protocols.domain.category import ErrorCategory, NextAction
from operator_protocols.domain.entry import Actor, Entry, Kind
from operator_protocols.domain.run_record import RunRecord
from operator_sre.app.answers.texts import DEFAULT_DENY, blocking_rule, place_of, rule_at
from operator_sre.codec import to_json
from operator_sre.contract.accounts import (
    Denial,
    NotFailedError,
    RunFacts,
    Waiting,
    category_of,
    denials_of,
    failure_of,
    next_of,
    obstacle_of,
    summary_of,
    timeline_of,
)
from operator_sre.contract.evidence import of_command, of_rule
from operator_sre.contract.messages import EvidenceRef, RunStatus
from operator_sre.contract.schemas import check_document
from operator_sre.gate import Policy, judge
from operator_sre.gate.policy import built_in
from operator_sre.gate.policy.load import book_of

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
WIPE, LOOK = to_json(Action.shell("rm -rf /")), to_json(Action.shell("true"))
REFUSED: Mapping[str, Any] = {
    "outcome": "refused",
    "stderr": "Blocked: it never runs.",
    "exit_code": None,
    "data": {},
}


def _entries(*told: tuple[Kind, Mapping[str, Any]]) -> list[Entry]:
    return [
        Entry(seq, NOON, kind, payload, 1, "run-1", Actor(), "", "")
        for seq, (kind, payload) in enumerate(told, start=1)
    ]


def _facts(
    state: str, *told: tuple[Kind, Mapping[str, Any]], ticket_state: str = "", **more: Any
) -> RunFacts:
    finished = NOON.replace(second=2) if state != "running" else None
    run = RunRecord("run-1", 1, "reasoner", state, NOON, finished, "That was it.")
    return RunFacts(run, _entries(*told), ticket_state, **more)


def _rule(denial: Denial) -> EvidenceRef:
    return of_rule("blocked[0]", str(denial.why))


JUDGED = (Kind.VERDICT, {"action": WIPE})
DENIED = (Kind.REFUSED, {"action": WIPE, "permit": "", "result": REFUSED})


def test_a_denial_is_what_was_judged_not_permitted_and_refused() -> None:
    (denial,) = denials_of(_entries(JUDGED, DENIED))
    assert (denial.entry.seq, denial.action) == (2, WIPE)
    assert denials_of(_entries(DENIED)) == []
    other = (Kind.REFUSED, {"action": LOOK, "permit": "", "result": REFUSED})
    assert denials_of(_entries(JUDGED, other)) == []
    late = (Kind.REFUSED, {"action": WIPE, "result": {**REFUSED, "outcome": "cancelled"}})
    assert denials_of(_entries(JUDGED, late)) == []
    permitted = (Kind.REFUSED, {"action": WIPE, "permit": "p", "result": REFUSED})
    assert denials_of(_entries(JUDGED, (Kind.PERMIT_MINTED, {"permit": "p"}), permitted)) == []
    assert len(denials_of(_entries(JUDGED, DENIED, JUDGED, DENIED))) == 2


def test_a_failed_run_always_has_a_category() -> None:
    facts = _facts("failed", (Kind.RUN_FINISHED, {"state": "failed", "category": "nonsense"}))
    assert category_of(facts.entries[0]) is None
    summary = summary_of(facts)
    assert summary.error_category is ErrorCategory.AGENT_RUNTIME_EXCEPTION
    assert summary.duration_ms == 2000
    check_document(summary)
    check_document(failure_of(facts, _rule))


def test_a_denied_run_names_the_rule_and_what_stood_in_the_way() -> None:
    over = (Kind.RUN_FINISHED, {"state": "failed", "category": "policy_denied"})
    facts = _facts("failed", JUDGED, DENIED, over)
    failure = failure_of(facts, _rule)
    obstacle = obstacle_of(facts)
    assert obstacle is not None
    assert obstacle.seq == 2
    assert {"2", "3", "run-1", "blocked[0]"} <= {one.ref for one in failure.evidence_refs}
    assert failure.redacted_excerpts[0].content == "Blocked: it never runs."
    types = [one.event_type for one in timeline_of(facts, lambda entry: "").events]
    assert types == ["verdict", "policy_denied", "run_failed"]
    for state in ("completed", "running", "stopped"):
        with pytest.raises(NotFailedError):
            failure_of(_facts(state), _rule)


def test_every_end_of_a_run_has_one_thing_to_do_next() -> None:
    waiting = Waiting("A person has to answer.", of_command("operator approvals list", "asked"))
    handed = (Kind.TICKET_HANDED_OFF, {"to": "another team"})
    cases = {
        NextAction.EXPORT_AUDIT: _facts("completed", ticket_state="resolved"),
        NextAction.REVIEW_HANDOFF: _facts("completed", handed, ticket_state="escalated"),
        NextAction.REVIEW_POLICY_PATCH: _facts(
            "completed", JUDGED, DENIED, ticket_state="escalated"
        ),
        NextAction.ASK_USER: _facts("completed", ticket_state="escalated"),
        NextAction.RERUN: _facts("stopped"),
    }
    for action, facts in cases.items():
        found = next_of(facts)
        check_document(found)
        assert found.next_action is action
    assert next_of(_facts("running", waiting=waiting)).rationale == waiting.sentence
    assert next_of(_facts("running", halted="enough")).next_action is NextAction.RERUN
    assert _facts("running", halted="enough").status is RunStatus.STOPPED


def test_a_rule_is_found_at_its_place_and_everything_else_is_denied_by_default() -> None:
    book = built_in()
    for id in ("delete_system", "service_start"):
        place = place_of(book, id)
        found = rule_at(book, place)
        assert found is not None
        assert found.id == id
    assert place_of(book, "nobody") == ""
    assert rule_at(book, "blocked[99999]") is None
    assert rule_at(book, "blocked") is None
    own = book_of("version: 1\negress: {deny: [one.example, two.example]}\n", "policy.yaml")
    policy = Policy(book=own)
    asked = {
        "rm -rf /": "blocked[0]",
        "curl https://two.example/": f"egress[{own.egress.deny.index('two.example')}]",
        "some-program-nobody-knows --now": DEFAULT_DENY,
    }
    for command, place in asked.items():
        verdict = to_json(judge(Action.shell(command), policy))
        assert blocking_rule(own, verdict)[0] == place, command
