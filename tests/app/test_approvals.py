"""What people may do about requests and rules, in the name of whoever is signed in."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from operator_protocols.domain.action import Action
from operator_protocols.domain.entry import Actor
from operator_protocols.domain.permit import Approval, ApprovalState, Binding, fingerprint_of
from operator_protocols.domain.verdict import Risk
from operator_protocols.errors import AuthorityError, ConflictError, NotFoundError, UsageError
from operator_sre.app.approvals import (
    Always,
    Answered,
    ApprovalView,
    approve,
    list_rules,
    page_of_approvals,
    reject,
    revoke_rule,
    show_approval,
    show_rule,
    withdraw,
)
from operator_sre.app.persons import signed_in
from operator_sre.app.wiring import App
from operator_sre.gate.authority import Role
from operator_sre.gate.policy.policy import built_in
from tests.app.home import opened
from tests.contract.samples import approval

pytestmark = pytest.mark.asyncio

EXACTLY = Always("exact", "everywhere")


@pytest.fixture
def app(tmp_path: Path) -> Iterator[App]:
    with opened(tmp_path) as one:
        yield one


def _with_role(app: App, role: Role | None) -> App:
    """The same home, where I am this; somebody else is the admin."""
    roles = {"root-of-all": "admin", **({signed_in(): role.value} if role else {})}
    book = msgspec.structs.replace(built_in(), roles=roles)
    return replace(app, rules=lambda: book)


async def _asked(app: App, name: str = "a1", risk: Risk = Risk.MEDIUM) -> Approval:
    action = Action.shell("mkdir zz", target="node-1")
    asked = replace(
        approval(name, at=app.clock.now()), action=action, binding=Binding(action.digest), risk=risk
    )
    return await app.store.approvals.request(asked)


async def test_a_view_tells_how_much_time_is_left(app: App) -> None:
    asked = await _asked(app)
    view = show_approval(app, "a1")
    assert (view.approval, view.binding, view.state) == (asked, asked.binding.digest, "pending")
    assert 0 < view.left_s <= 60
    assert ApprovalView(asked, "", 0.0, view.outlook).state == "expired"
    with pytest.raises(NotFoundError):
        show_approval(app, "a2")


@pytest.mark.parametrize(
    ("role", "risk", "may"),
    [
        (None, Risk.LOW, False),
        (Role.VIEWER, Risk.LOW, False),
        (Role.APPROVER, Risk.HIGH, True),
        (Role.APPROVER, Risk.CRITICAL, False),
        (Role.ADMIN, Risk.CRITICAL, True),
    ],
)
async def test_roles_of_the_policy_count(
    app: App, role: Role | None, risk: Risk, may: bool
) -> None:
    one = _with_role(app, role)
    for name, answer in (("a", approve), ("b", reject), ("c", withdraw)):
        asked = await _asked(one, name, risk)
        if may:
            await answer(one, name, reason="")
            continue
        with pytest.raises(AuthorityError, match=signed_in()):
            await answer(one, name, reason="")
        assert one.store.approvals.get(name) == asked


async def test_whoever_asked_may_take_it_back(app: App) -> None:
    mine = replace(approval(at=app.clock.now()), requester=Actor(signed_in(), "user"))
    await app.store.approvals.request(mine)
    taken_back = await withdraw(_with_role(app, Role.VIEWER), mine.id, reason="a mistake")
    assert (taken_back.state, taken_back.reason) == (ApprovalState.WITHDRAWN, "a mistake")


async def test_an_answer_that_does_not_count_makes_no_rule(app: App) -> None:
    await _asked(app)
    with pytest.raises(ConflictError, match="has changed"):
        await approve(app, "a1", reason="", always=EXACTLY, seen=7)
    with pytest.raises(AuthorityError):
        await approve(_with_role(app, Role.VIEWER), "a1", reason="", always=EXACTLY)
    assert list_rules(app, revoked=True) == []


async def test_a_rule_is_revoked_by_who_made_it_or_by_an_admin(app: App) -> None:
    await _asked(app)
    rule = (await approve(app, "a1", reason="go on", always=EXACTLY)).rule
    assert rule is not None
    assert show_rule(app, rule.id) == rule
    other = await app.store.standing.add(replace(rule, id="other", made_by="somebody"))
    approver = _with_role(app, Role.APPROVER)
    with pytest.raises(AuthorityError, match="not an admin"):
        await revoke_rule(approver, other.id, reason="")
    assert not (await revoke_rule(approver, rule.id, reason="")).stands
    assert not (await revoke_rule(_with_role(app, Role.ADMIN), other.id, reason="")).stands
    assert list_rules(app, revoked=False) == []
    with pytest.raises(NotFoundError):
        show_rule(app, "nothing")


async def test_a_fingerprint_is_all_that_is_told_of_a_token() -> None:
    assert fingerprint_of("token") == hashlib.sha256(b"token").hexdigest()


async def test_a_page_has_what_can_still_be_answered_or_all(app: App) -> None:
    for name in ("a3", "a1", "a2"):
        await _asked(app, name)
    assert isinstance(await approve(app, "a1", reason=""), Answered)
    pending = page_of_approvals(app, pending_only=True, limit=9)
    assert [one.id for one in pending] == ["a3", "a2"]
    rest = page_of_approvals(app, pending_only=False, after="a3", limit=1)
    assert [one.id for one in rest] == ["a1"]
    with pytest.raises(UsageError):
        page_of_approvals(app, pending_only=True, after="nosuch", limit=1)
