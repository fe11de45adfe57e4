"""A decision that is committed while its row is read: the row and the ledger still agree."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from threading import Thread
from typing import Any

import pytest

from operator_protocols.domain.confirmation import ConfirmationState
from operator_protocols.domain.entry import Actor
from operator_protocols.domain.permit import ApprovalState
from operator_protocols.domain.token import Role, Token
from operator_protocols.domain.verdict import Mode
from operator_sre.store.decisions import Decisions
from tests.contract.clock import NOON
from tests.contract.samples import approval, confirmation
from tests.contract.stores import Home, Ports

pytestmark = pytest.mark.asyncio

ADA = Actor("ada", "user")
TOKEN = Token("token-1", "grafana", Role.VIEWER, "ada", NOON, NOON + timedelta(days=30))


@dataclass(frozen=True, slots=True)
class Case:
    """What is there, what another process decides of it meanwhile, and what is read."""

    before: Callable[[Ports], Awaitable[object]]
    meanwhile: Callable[[Ports], Awaitable[object]]
    read: Callable[[Ports], Any]


CASES = {
    "approval": Case(
        lambda ports: ports.approvals.request(approval()),
        lambda ports: ports.approvals.decide(
            "a1", ApprovalState.APPROVED, by=ADA, reason="", version=1
        ),
        lambda ports: ports.approvals.get("a1"),
    ),
    "pending approvals": Case(
        lambda ports: ports.approvals.request(approval()),
        lambda ports: ports.approvals.decide(
            "a1", ApprovalState.REJECTED, by=ADA, reason="", version=1
        ),
        lambda ports: ports.approvals.find(states=[ApprovalState.PENDING]),
    ),
    "confirmation": Case(
        lambda ports: ports.confirmations.request(confirmation()),
        lambda ports: ports.confirmations.decide(
            "conf_1", ConfirmationState.APPROVED, by=ADA, reason=""
        ),
        lambda ports: ports.confirmations.find("conf_1"),
    ),
    "kill switch": Case(
        lambda ports: ports.switch.turn_on(by="ada", reason="storm"),
        lambda ports: ports.switch.turn_off(by="ada", reason="calm"),
        lambda ports: ports.switch.state(),
    ),
    "mode": Case(
        lambda ports: ports.modes.set("shop", Mode.EXECUTE, by="ada", reason="night"),
        lambda ports: ports.modes.set("shop", Mode.APPROVE, by="ada", reason="day"),
        lambda ports: ports.modes.find("shop"),
    ),
    "token": Case(
        lambda ports: ports.tokens.add(TOKEN, fingerprint="f"),
        lambda ports: ports.tokens.revoke("token-1", by=ADA, reason="lost"),
        lambda ports: ports.tokens.of("f"),
    ),
    "agent session": Case(
        lambda ports: ports.sessions.reset("host", by="ada", reason="seen"),
        lambda ports: ports.sessions.hold("host", score=60, reason="too much"),
        lambda ports: ports.sessions.find("host"),
    ),
}


@pytest.mark.parametrize("name", CASES)
async def test_what_is_read_is_how_it_was_before_or_after(
    home: Home, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    case, here, there = CASES[name], home.open(), home.open()
    await case.before(here)
    before = case.read(here)
    waiting = [case.meanwhile]

    def decide() -> None:
        while waiting:
            deciding = Thread(target=asyncio.run, args=[waiting.pop()(there)])
            deciding.start()
            deciding.join()

    for verb in ("entry", "newest"):
        look = getattr(Decisions, verb)

        def interrupted(*words: Any, look: Callable[..., Any] = look, **options: Any) -> Any:
            decide()  # behind the row, and before its entries
            return look(*words, **options)

        monkeypatch.setattr(Decisions, verb, interrupted)
    meanwhile = case.read(here)
    assert waiting == []
    after = case.read(here)
    assert after != before, "it was decided"
    assert meanwhile in (before, after)
