"""An answer that comes at the last moment counts, and one that is late does not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from operator_protocols.domain.action import Action
from operator_protocols.domain.entry import Actor
from operator_protocols.domain.permit import ApprovalState, Permit
from operator_protocols.domain.verdict import Level
from operator_sre.gate import Way
from operator_sre.gate.approvals import PERMIT_S, Asking
from tests.gate.office import ACTION, TICKET, Office, crash
from tests.gate.policy.writing import book

pytestmark = pytest.mark.asyncio

ADA = Actor("ada", "user")


def _asking(office: Office) -> Asking:
    store = office.store
    return Asking(store.approvals, store.journal, office.clock, office.terms)


@pytest.mark.parametrize("answer", [ApprovalState.APPROVED, ApprovalState.REJECTED])
async def test_an_answer_from_a_moment_before_counts_instead_of_the_end(
    office: Office, answer: ApprovalState
) -> None:
    waiting = await office.asking()
    seen = office.asked()
    await office.answer(answer, "so be it")
    ended = await _asking(office).end(seen, ApprovalState.EXPIRED, "no approver answered in time")
    assert (ended.state, ended.reason) == (answer, "so be it")
    assert office.store.approvals.get(seen.id) == ended
    await crash(waiting)


async def test_a_yes_counts_for_exactly_its_action_and_its_run_and_not_for_long(
    office: Office,
) -> None:
    waiting = await office.asking()
    asked = office.asked()
    asking = _asking(office)
    assert not asking.allows(asked.binding, TICKET.run), "nobody has answered yet"
    await office.answer(ApprovalState.APPROVED)
    assert asking.allows(asked.binding, TICKET.run)
    assert not asking.allows(asked.binding, "run-of-another")
    assert not asking.allows(asked.binding, "")
    assert not asking.allows(replace(asked.binding, environment="other"), TICKET.run)
    office.clock.advance(PERMIT_S)
    assert not asking.allows(asked.binding, TICKET.run), "it has expired"
    await crash(waiting)


async def test_a_yes_that_gave_its_permit_allows_nothing_more(office: Office) -> None:
    permit = await office.approved()
    assert isinstance(permit, Permit)
    binding = office.store.approvals.find()[0].binding
    assert binding.action == ACTION.digest
    assert not _asking(office).allows(binding, TICKET.run)


@pytest.mark.parametrize(
    ("word", "way"), [("auto", Way.RUNS), ("require", Way.ASKS), ("deny", Way.NEVER)]
)
async def test_what_no_kernel_holds_to_its_verdict_goes_the_way_that_the_policy_says(
    office: Office, word: str, way: Way
) -> None:
    office.policy = replace(office.policy, book=book(approval={"unenforced": word}))
    gate = replace(office.gate(), enforcement=lambda target, held: "this kernel has no Landlock")
    verdict = gate.judge(Action.shell("uptime"))
    assert (verdict.level, verdict.unenforced) == (Level.SAFE, "this kernel has no Landlock")
    course = gate.foresee(verdict, ADA)
    assert course.way is way
    assert ("this kernel has no Landlock" in course.why) is (way is not Way.RUNS)
