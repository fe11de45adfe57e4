"""How much runs without a person: observe proposes, approve waits, and a person has the last word.

All tests of this file share a rig, and each hurts a node of its own. That nothing runs before the
answer is seen by `test_crash.py` too, whenever the quick tests run.
"""

from __future__ import annotations

import os
import signal

import pytest

from operator_protocols.domain.permit import ApprovalState
from operator_protocols.domain.ticket import Ticket, TicketState
from tests.e2e.census import is_alive
from tests.e2e.home import Home, Json, answers
from tests.e2e.story import Story
from tests.e2e.waiting import eventually

pytestmark = pytest.mark.slow


def _kill(home: Home, target: str, *states: TicketState) -> tuple[Json, Ticket]:
    """Kill a target by hand; returns it as it was, and its ticket once it is in such a state."""
    before = max([ticket.id for ticket in home.tickets()], default=0)
    victim = home.rig()[target]
    os.kill(victim["pid"], signal.SIGKILL)
    return victim, home.new_ticket(before, *states)


def _pending(home: Home) -> Json:
    """The one request that waits for a person, as the command lists it."""
    eventually(
        lambda: home.store.approvals.find(states=(ApprovalState.PENDING,)), "a request is pending"
    )
    (approval,) = home.ask("approvals", "list")["approvals"]
    found: Json = approval
    return found


def test_observe_proposes_changes_nothing_and_sees_a_person_heal_it(rigged: Home) -> None:
    running = rigged.start("up", "--subject", "ratelimiter")  # observe is the default
    rigged.looked(1)
    victim, ticket = _kill(rigged, "node-1", TicketState.ESCALATED)
    rigged.looked(4)
    story = Story(rigged, ticket.id)
    assert story.ticket["state"] == "escalated"
    assert "restart_node(target=node-1) was refused" in story.ticket["reason"]
    assert story.check_diagnosis(cause="process_dead", target="node-1")["choice"] == (
        "restart_node(node-1)"
    )
    assert "restart_node" not in story.intended
    assert story.one("refused")["action"]["tool"] == "restart_node"
    assert story.all("permit_minted")  # reading is allowed, or there would be no diagnosis
    story.check_order()
    down = rigged.rig()["node-1"]
    assert (down["pid"], down["state"]) == (victim["pid"], "exited")
    assert not answers(down)
    assert not is_alive(victim["pid"])
    assert [one.id for one in rigged.tickets() if one.id > ticket.id] == [], "no second ticket"

    healed = rigged.ask("lab", "restart", "ratelimiter", "--target", "node-1")
    assert healed["restarted"] == ["node-1"]
    eventually(lambda: _resolved(rigged, ticket.id), "the monitor sees that it recovered")
    after = Story(rigged, ticket.id)
    proof = after.one("ticket_resolved")["proof"]
    assert proof["held"] is True
    assert proof["stable_s"] >= 1
    assert "recovered by itself" in after.ticket["reason"]
    assert len(after.all("run_started")) == 1, "nobody worked on it again"
    assert after.all("ticket_resolved")[0]["seq"] > after.all("ticket_escalated")[0]["seq"]
    assert running.end() == 128 + signal.SIGTERM


def test_approve_mode_needs_an_approval_and_then_repairs_once(rigged: Home) -> None:
    running = rigged.up("approve")
    victim, ticket = _kill(rigged, "node-2", TicketState.CLAIMED)
    approval = _pending(rigged)
    assert approval["ticket"] == ticket.id
    assert approval["action"]["tool"] == "restart_node"
    assert approval["action"]["target"] == "node-2"
    assert (approval["risk"], approval["state"]) == ("medium", "pending")
    rigged.looked(3)
    assert rigged.rig()["node-2"]["state"] == "exited", "nothing runs before the answer"
    said = rigged.run("approvals", "approve", approval["id"], "--reason", "go on")
    assert (said.code, said.out) == (0, "approved: restart_node(target=node-2)\n")
    again = rigged.run("approvals", "approve", approval["id"])
    assert again.code == 1
    assert again.err == f"operator: Approval {approval['id']!r} is already approved.\n"
    late = rigged.run("approvals", "reject", approval["id"], "--json")
    assert late.code == 1
    assert "is already approved" in late.json["error"]["message"]

    eventually(lambda: _resolved(rigged, ticket.id), "it is repaired and proven")
    story = Story(rigged, ticket.id)
    story.check_order()
    story.check_proof()
    assert story.intended.count("restart_node") == 1
    decided = story.one("approval_decided")
    assert (decided["state"], decided["reason"]) == ("approved", "go on")
    assert rigged.ask("approvals", "list")["approvals"] == []
    assert rigged.rig()["node-2"]["pid"] != victim["pid"]
    assert running.end() == 128 + signal.SIGTERM


def test_a_rejection_is_final_and_its_reason_is_told(rigged: Home) -> None:
    running = rigged.up("approve")
    victim, ticket = _kill(rigged, "node-3", TicketState.CLAIMED)
    approval = _pending(rigged)
    said = rigged.ask("approvals", "reject", approval["id"], "--reason", "it is being replaced")
    assert said["approval"]["state"] == "rejected"
    ended = rigged.new_ticket(ticket.id - 1, TicketState.ESCALATED)
    assert ended.id == ticket.id
    assert "it is being replaced" in ended.reason
    rigged.looked(3)
    story = Story(rigged, ticket.id)
    assert "restart_node" not in story.intended
    assert story.one("refused")["result"]["outcome"] == "refused"
    story.check_order()
    down = rigged.rig()["node-3"]
    assert (down["pid"], down["state"]) == (victim["pid"], "exited")
    assert rigged.ask("approvals", "list")["approvals"] == []
    rigged.ask("lab", "restart", "ratelimiter", "--target", "node-3")
    eventually(lambda: _resolved(rigged, ticket.id), "the monitor sees that it recovered")
    assert running.end() == 128 + signal.SIGTERM


def _resolved(home: Home, number: int) -> bool:
    ticket = home.store.tickets.get(number)
    return ticket is not None and ticket.state is TicketState.RESOLVED
