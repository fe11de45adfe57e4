"""A chain of approvers: who is asked, who is asked next, and whose answer counts."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from operator_protocols.domain.action import Result
from operator_protocols.domain.entry import Kind
from operator_protocols.domain.permit import ApprovalState, Approver, Permit
from operator_protocols.domain.verdict import Risk
from operator_protocols.errors import AuthorityError, ConfigError
from operator_sre.app.approvals import POLL_S, escalate_requests
from operator_sre.app.wiring import App
from operator_sre.config import load_config
from operator_sre.gate import Answering, LocalPermissions, Terms, escalation_of
from operator_sre.gate.authority import Role
from operator_sre.gate.policy.difference import differences
from operator_sre.gate.policy.load import book_of
from operator_sre.ledger.keys import KeyFile
from operator_sre.notify.channel import LEASE_S, Follower, channels_of
from operator_sre.notify.channel import Terms as Notices
from operator_sre.notify.notice import Message
from tests.gate.office import Office, crash

pytestmark = pytest.mark.asyncio

ROLES = {"ana": "approver", "bo": "approver", "cy": "admin", "di": "admin", "ed": "approver"}
POLICY = """\
version: 1
roles: {ana: approver, bo: approver, cy: admin, di: admin, ed: approver}
groups: {on-call: [ana, bo], leads: [cy]}
approvers:
  low: [on-call]
  medium: [{ask: on-call, minutes: 10}, {ask: leads, minutes: 20}, {ask: di, minutes: 30}]
  high: [{ask: ana, minutes: 0.5}, leads]
  critical: [leads]
"""


@pytest.fixture
def office(tmp_path: Path) -> Iterator[Office]:
    one = Office(tmp_path / "operator.db")
    one.policy = replace(one.policy, book=book_of(POLICY, "policy.yaml"))
    yield one
    one.store.close()


class Phone:
    """Where messages for one recipient arrive."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.rings: list[str] = []

    async def send(self, message: Message) -> str:
        self.rings.append(message.body)
        return ""


async def _ring(office: Office, phone: Phone, recipient: str) -> int:
    """Send what is due to a phone, and how often it has rung."""
    cursor = await office.store.cursors.claim(f"notify/{phone.name}", "test", lease_s=LEASE_S)
    assert cursor is not None
    follower = Follower(
        channel=phone,
        cursors=office.store.cursors,
        entries=office.store.entries,
        tickets=office.store.tickets,
        approvals=office.store.approvals,
        clock=office.clock,
        holder="test",
        terms=Notices(group_s=0.0),
        redact=lambda text: text,
        recipient=recipient,
    )
    await office.store.cursors.release(await follower.step(cursor))
    return len(phone.rings)


async def test_the_next_approver_is_asked_after_minutes(office: Office) -> None:
    phones = {name: Phone(name) for name in ("all", "on-call", "ana", "leads", "cy", "di")}
    rings: list[dict[str, int]] = []

    async def ring() -> None:
        told = {
            name: await _ring(office, phone, "" if name == "all" else name)
            for name, phone in phones.items()
        }
        rings.append({name: count for name, count in told.items() if count})

    await ring()
    waiting = await office.asking()
    assert (office.asked().expires_at - office.asked().requested_at).total_seconds() == 3600.0
    await ring()
    for minutes in (9.9, 0.2, 19.8, 0.2):
        office.clock.advance(minutes * 60)
        await office.clock.asleep()
        await office.clock.asleep()
        await ring()
    first = {"all": 1, "on-call": 1, "ana": 1}
    second = {"all": 2, "on-call": 1, "ana": 1, "leads": 1, "cy": 1}
    third = {**second, "all": 3, "di": 1}
    assert rings == [{}, first, first, second, second, third]
    escalated = office.entries(Kind.APPROVAL_ESCALATED)
    assert [(each.payload["asked"], each.payload["reason"]) for each in escalated] == [
        ("leads", "on-call did not answer within 10 minutes"),
        ("di", "leads did not answer within 20 minutes"),
    ]
    assert "asked: leads (cy)" in phones["cy"].rings[0]
    assert [each.name for each in office.asked().asked] == ["on-call", "leads", "di"]
    office.clock.advance(30 * 60)
    outcome = await waiting
    assert isinstance(outcome, Result)
    assert "expired" in outcome.stderr


@pytest.mark.parametrize(
    ("person", "why"),
    [
        ("ana", ""),
        ("cy", ""),
        ("di", ""),
        ("ed", "'ed' is not an approver of medium risk. They are: on-call, leads, di."),
        ("zoe", "'zoe' is not an approver of medium risk."),
    ],
)
async def test_only_the_chain_and_admins_answer(office: Office, person: str, why: str) -> None:
    waiting = await office.asking()
    permissions = LocalPermissions({name: Role(role) for name, role in ROLES.items()})
    answering = Answering(office.store.approvals, permissions, Terms())
    if why:
        with pytest.raises(AuthorityError) as refused:
            await answering.answer(office.asked(), ApprovalState.APPROVED, by=person, reason="")
        assert why in str(refused.value)
        await crash(waiting)
        return
    # A later approver in the chain need not wait to be asked.
    await answering.answer(office.asked(), ApprovalState.APPROVED, by=person, reason="")
    office.clock.advance(1.0)
    assert isinstance(await waiting, Permit)


async def test_the_chain_goes_on_while_the_run_is_parked_and_each_step_is_asked_once(
    office: Office, tmp_path: Path
) -> None:
    waiting = await office.asking()
    await crash(waiting)
    assert office.asked().parked
    config = load_config(flags={"home": str(tmp_path)}, environ={}, cwd=tmp_path)
    key = KeyFile(tmp_path / "key")
    app = App(config, office.store, office.clock, key, lambda: "id", lambda: office.policy.book)
    # Two processes of one home, and nobody else.
    loops = [asyncio.ensure_future(escalate_requests(app)) for _ in range(2)]
    await office.clock.asleep(2)
    office.clock.advance(10 * 60)
    await office.clock.asleep(2)
    assert office.asked().step == 1
    office.clock.advance(POLL_S)
    await office.clock.asleep(2)
    assert office.kinds().count(Kind.APPROVAL_ESCALATED) == 1
    for loop in loops:
        loop.cancel()
    await asyncio.gather(*loops, return_exceptions=True)


async def test_without_a_chain_nothing_is_different(office: Office) -> None:
    book = msgspec.structs.replace(office.policy.book, chains={})
    office.policy = replace(office.policy, book=book)
    waiting = await office.asking()
    asked = office.asked()
    assert (asked.chain, asked.asked, asked.parked) == ((), (), False)
    assert (asked.expires_at - asked.requested_at).total_seconds() == 60.0
    await crash(waiting)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("approvers: {high: [on-cal]}", "'on-cal' has no person whose role may approve high risk"),
        ("approvers: {critical: [ana]}", "'ana' has no person whose role may approve critical"),
        ("approvers: {high: []}", "A chain has 1 to 10 steps"),
        ("approvers: {severe: [ana]}", "severe"),
        ("approvers: {high: [{minutes: 5}]}", "The step has no 'ask'"),
        ("approvers: {high: [{ask: ana, minutes: 0}]}", "between 0.1 and 1440"),
    ],
)
async def test_a_chain_that_nobody_could_answer_is_refused(text: str, why: str) -> None:
    head = "version: 1\nroles: {ana: approver}\n"
    with pytest.raises(ConfigError, match=r"policy.yaml:3:\d+: .*") as refused:
        book_of(f"{head}{text}\n", "policy.yaml")
    assert why in str(refused.value)


async def test_every_risk_has_its_chain_and_a_change_of_it_is_shown() -> None:
    book = book_of(POLICY, "policy.yaml")
    assert set(book.chains) == set(Risk)
    other = book_of(POLICY.replace("minutes: 20", "minutes: 25"), "policy.yaml")
    assert other.digest != book.digest
    (change,) = differences(book, other)
    assert change.subject == "approvers medium"
    assert "leads (cy) for 25 minutes" in change.sentence


async def test_an_address_may_be_that_of_one_recipient() -> None:
    text = "slack://token/a=b\non-call = mailto://a@b\nleads=slack://token\n"
    channels = channels_of(text)
    assert [each.recipient for each in channels] == ["", "on-call", "leads"]
    assert channels[1].name.startswith("on-call-mailto-")
    assert "token" not in f"{channels}"


async def test_a_step_is_due_when_those_before_it_had_their_time(office: Office) -> None:
    waiting = await office.asking()
    chain = (Approver("a", ("a",), 60.0), Approver("b", ("b",), 30.0), Approver("c", ("c",), 1.0))
    asked = replace(office.asked(), chain=chain)
    at = [asked.requested_at + timedelta(seconds=second) for second in (0, 59, 60, 89, 90, 9999)]
    assert [asked.step_due(moment) for moment in at] == [0, 0, 1, 1, 2, 2]
    late = replace(asked, expires_at=at[2])
    assert escalation_of(late, Terms(), at[2]) is None, "what has expired is not asked again"
    assert escalation_of(replace(asked, state=ApprovalState.APPROVED), Terms(), at[2]) is None
    await crash(waiting)
