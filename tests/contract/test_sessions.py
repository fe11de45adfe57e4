"""What Sessions promise: what an agent did is counted for it, in every process and after any."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from operator_protocols.domain.action import Action
from operator_protocols.domain.entry import Actor, Kind
from operator_protocols.domain.permit import Permit
from operator_protocols.domain.session import SessionAction, SessionRecord, session_of
from tests.contract.clock import NOON, HeldClock
from tests.contract.doing import Doer
from tests.contract.stores import Home, Ports

pytestmark = pytest.mark.asyncio


async def _do(doer: Doer, agent: str, command: str, **touched: tuple[str, ...]) -> None:
    verdict = replace(doer.gate.judge(Action.shell(command)), **touched)  # type: ignore[arg-type]
    permit = await doer.gate.permit(verdict, doer.ticket, Actor("ada", "user", agent))
    assert isinstance(permit, Permit)
    await doer.ports.intents.begin(permit)


async def test_deeds_are_told_oldest_first_by_all_processes_of_an_agent(
    home: Home, clock: HeldClock
) -> None:
    ports = home.open()
    doer = await Doer.hired(ports, clock)
    await _do(doer, "host:1", "uptime")
    clock.advance(10.0)
    await _do(doer, "host:2", "systemctl restart x", sensitive=("/k",), network=("10.0.0.1",))
    await _do(doer, "other:1", "df -h")
    home.close()
    again = home.open()
    later = NOON + timedelta(seconds=10)
    assert list(again.sessions.actions("host", since=NOON)) == [
        SessionAction(NOON, "shell", "uptime", "safe"),
        SessionAction(later, "shell", "systemctl restart x", "review", secret=True, network=True),
    ]
    assert [one.command for one in again.sessions.actions("host", since=later)] == [
        "systemctl restart x"
    ]
    assert list(again.sessions.actions("nobody", since=NOON)) == []


async def test_what_was_refused_is_no_deed(ports: Ports, clock: HeldClock) -> None:
    doer = await Doer.hired(ports, clock)
    await doer.refuse(Action.shell("systemctl restart x"))
    assert list(ports.sessions.actions(session_of(doer.ticket.worker), since=NOON)) == []


async def test_an_agent_is_held_once_until_a_person_lets_it_go(
    home: Home, clock: HeldClock
) -> None:
    ports = home.open()
    assert list(ports.sessions.find("host")) == []
    for _ in range(2):
        await ports.sessions.hold("host", score=51, reason="too much")
    held = SessionRecord("host", True, 51, "too much", "operator", clock.now())
    assert list(ports.sessions.find()) == [held]
    home.close()
    again = home.open()
    await again.sessions.reset("host", by="ada", reason="seen")
    free = SessionRecord("host", False, 0, "seen", "ada", clock.now())
    assert list(again.sessions.find("host")) == [free]
    kinds = [one.kind for one in again.entries.after(0, limit=9)]
    assert kinds == [Kind.SESSION_HELD, Kind.SESSION_RESET]


async def test_deeds_from_before_a_reset_do_not_count(ports: Ports, clock: HeldClock) -> None:
    doer = await Doer.hired(ports, clock)
    await _do(doer, "host:1", "uptime")
    await ports.sessions.reset("host", by="ada", reason="")
    await _do(doer, "host:1", "df -h")
    assert [one.command for one in ports.sessions.actions("host", since=NOON)] == ["df -h"]
    await ports.sessions.hold("host", score=60, reason="")
    assert [one.command for one in ports.sessions.actions("host", since=NOON)] == ["df -h"]


@pytest.mark.parametrize(
    ("worker", "agent"), [("host:17", "host"), ("host", "host"), ("node-1", "node-1"), ("", "")]
)
async def test_the_processes_of_an_agent_have_one_name(worker: str, agent: str) -> None:
    assert session_of(worker) == agent
    assert session_of(agent) == agent
