"""What an engineer on call sees first of a ticket."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import Any

import pytest

from operator_protocols.domain.action import Action
from operator_protocols.domain.entry import Actor, Entry, Kind
from operator_protocols.domain.health import Health
from operator_protocols.domain.observation import CheckResult, Finding, Observation
from operator_protocols.domain.ticket import TicketState
from operator_sre.app.ticket_brief import ProposedAction, TicketBrief, brief_ticket
from operator_sre.codec import to_json
from tests.contract.clock import NOON
from tests.contract.samples import ticket, violation
from tests.contract.workshop import DIAGNOSIS
from tests.faces.cli.tree import parse_line

RESTART = {"tool": "restart_node", "arguments": {"target": "node-1"}}


def _entries(*payloads: tuple[Kind, dict[str, Any]]) -> list[Entry]:
    return [
        Entry(seq, NOON, kind, payload, 1, "run-1", Actor("agent", "agent"), "previous", "hash")
        for seq, (kind, payload) in enumerate(payloads, start=1)
    ]


def _verdict(level: str = "review") -> tuple[Kind, dict[str, Any]]:
    return Kind.VERDICT, {"action": RESTART, "level": level, "risk": "medium", "reversible": False}


def _result(stdout: str = "restarted") -> tuple[Kind, dict[str, Any]]:
    result = {"stdout": stdout, "stderr": "", "outcome": "ran", "exit_code": 0, "duration_s": 3.22}
    return Kind.TOOL_RESULT, {"result": result}


ASKED = (Kind.APPROVAL_REQUESTED, {"approval": {"id": "ap-1"}})
APPROVED = (Kind.APPROVAL_DECIDED, {"state": "approved", "decided_by": "ada", "reason": "go"})


def test_a_ticket_without_entries_has_no_cause() -> None:
    brief: TicketBrief = brief_ticket(ticket(state=TicketState.OPEN), ())
    assert brief.headline == "Cause not identified"
    assert (brief.action, brief.recommendation, brief.proof) == (None, "", "")


def test_findings_that_are_over_say_so() -> None:
    down, other = violation("node-1"), violation("node-2")
    check = CheckResult(
        Observation("shop", NOON),
        (
            Finding(down.invariant, "node-1", Health.BROKEN, "refused"),
            Finding(other.invariant, "node-2", Health.HEALTHY),
        ),
    )
    brief = brief_ticket(ticket(down, other), _entries((Kind.OBSERVED, to_json(check))))
    assert [brief.describe(each) for each in (down, other)] == [
        "node-1 node_down: connection refused",
        "over: node-2 node_down: connection refused",
    ]
    done = brief_ticket(ticket(down, other, state=TicketState.RESOLVED), ())
    assert done.over == {down.key, other.key}


def test_the_diagnosis_is_the_headline_and_recommends_until_a_change_is_proposed() -> None:
    diagnosis = DIAGNOSIS.diagnosis
    found = (Kind.DIAGNOSIS, to_json(diagnosis))
    brief = brief_ticket(ticket(), _entries(found))
    assert brief.headline == diagnosis.summary
    assert brief.recommendation == f"{diagnosis.choice}. {diagnosis.why}"
    assert brief_ticket(ticket(), _entries(found, _verdict())).recommendation == ""


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ((), {}),
        ((ASKED,), {"approval": "pending approval", "approval_id": "ap-1"}),
        ((ASKED, APPROVED), {"approval": "approved by ada: go"}),
        (
            (ASKED, (APPROVED[0], {**APPROVED[1], "state": "pending", "answer": "approved"})),
            {
                "approval": "pending a second approval; approved by ada: go",
                "approval_id": "ap-1",
            },
        ),
        (((Kind.PERMIT_MINTED, {"rule": ""}),), {"approval": "approved by the policy"}),
        (((Kind.PERMIT_MINTED, {"rule": "r1"}),), {"approval": "approved by standing rule r1"}),
        ((_result(),), {"result": "exit 0 after 3.2 s: restarted"}),
        (
            ((Kind.REFUSED, {"result": {"stderr": "the kill switch is on"}}),),
            {"result": "not run: the kill switch is on"},
        ),
    ],
)
def test_a_change_is_followed_from_its_verdict_to_its_result(
    entries: tuple[tuple[Kind, dict[str, Any]], ...], expected: dict[str, Any]
) -> None:
    proposed = ProposedAction("restart_node(target=node-1)", "review", "medium", reversible=False)
    brief = brief_ticket(ticket(), _entries(_verdict(), *entries))
    assert brief.action == replace(proposed, **expected)


@pytest.mark.parametrize(
    ("action", "line"),
    [
        (
            Action("scale", {"target": "a b", "count": 3, "force": True, "tags": ("x", "y z")}),
            "operator tools run scale --subject shop --mode approve --target 'a b' --arg count=3"
            " --arg force=true --arg tags=x --arg 'tags=y z'",
        ),
        (
            Action.shell("kill -9 7; echo it's over", target="node-1"),
            "operator exec --subject shop --mode approve --target node-1 --"
            " 'kill -9 7; echo it'\"'\"'s over'",
        ),
    ],
    ids=["tool", "shell"],
)
def test_a_change_that_observe_only_proposed_can_be_run_with_everything_filled_in(
    action: Action, line: str
) -> None:
    verdict = (Kind.VERDICT, {**_verdict()[1], "action": to_json(action)})
    why = "Proposed only: the mode is observe. (it makes changes)"
    refused = (Kind.REFUSED, {"result": {"stderr": why}})
    found = brief_ticket(ticket(), _entries(verdict, refused)).action
    assert found is not None
    assert found.by_hand == line
    parse_line(shlex.split(line)[1:])
    waiting = brief_ticket(ticket(), _entries(verdict, ASKED)).action
    assert waiting is not None
    assert waiting.by_hand == ""


def test_a_check_is_not_taken_for_the_change() -> None:
    brief = brief_ticket(ticket(), _entries(_verdict(), ASKED, _verdict("safe"), _result("alive")))
    assert brief.action is not None
    assert (brief.action.approval_id, brief.action.result) == ("ap-1", "")


def test_an_action_that_is_judged_again_keeps_its_approval() -> None:
    pending = brief_ticket(ticket(), _entries(_verdict(), ASKED, _verdict())).action
    assert pending is not None
    assert (pending.approval, pending.approval_id) == ("pending approval", "ap-1")
    minted = (Kind.PERMIT_MINTED, {"rule": "", "approval": "ap-1"})
    resumed = _entries(_verdict(), ASKED, APPROVED, _verdict(), minted, _result())
    approved = brief_ticket(ticket(), resumed).action
    assert approved is not None
    assert approved.approval == "approved by ada: go"
    assert approved.result == "exit 0 after 3.2 s: restarted"


def test_an_action_that_is_proposed_again_after_its_result_needs_a_new_approval() -> None:
    entries = _entries(_verdict(), ASKED, APPROVED, _result(), _verdict())
    action = brief_ticket(ticket(), entries).action
    assert action is not None
    assert (action.approval, action.result) == ("", "")


def test_the_refusal_of_another_action_is_not_its_result() -> None:
    other = {"tool": "restart_node", "arguments": {}}
    refused = (Kind.REFUSED, {"action": other, "result": {"stderr": "'target' is missing"}})
    action = brief_ticket(ticket(), _entries(_verdict(), _result(), refused)).action
    assert action is not None
    assert action.result == "exit 0 after 3.2 s: restarted"


def test_findings_that_follow_from_a_failed_target_fold() -> None:
    broken = replace(ticket(), violations=(violation("node-1"), violation("node-1", "observable")))
    findings = brief_ticket(broken, ()).findings
    assert [one.invariant for one in findings.shown] == ["node_down"]
    assert [one.text for one in findings.folds] == [
        "1 more check unavailable because node-1 is down"
    ]
