"""What runs until it is stopped follows the policy as it changes."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from pathlib import Path

import pytest

from operator_lab.app.rigs import rig_down
from operator_protocols.domain.entry import Kind
from operator_protocols.domain.ticket import TicketState
from operator_sre.app.service import agent, monitor
from operator_sre.app.wiring import App
from tests.app.home import SUBJECTS, opened
from tests.contract.samples import violation
from tests.gate.policy.writing import text_of
from tests.processes.waiting import eventually

WAIT_S_MAX = 20.0


def _override(rule: str) -> str:
    return text_of(overrides=[{"rule": rule, "reason": "It is tested here.", "by": "alice"}])


def _overridden(app: App) -> list[str]:
    entries = reversed(app.store.entries.newest(limit=100))
    found = [entry.payload for entry in entries if entry.kind is Kind.POLICY_OVERRIDDEN]
    return [payload["overrides"][0]["rule"] for payload in found]


async def _until(app: App, rules: list[str]) -> None:
    ends = time.monotonic() + WAIT_S_MAX
    while _overridden(app) != rules:
        assert time.monotonic() < ends, _overridden(app)
        await app.clock.sleep(0.05)


@pytest.mark.asyncio
async def test_an_agent_records_the_overrides_of_every_policy_that_comes_in_force(
    tmp_path: Path,
) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(_override("dd"))
    with opened(tmp_path) as app:
        working = asyncio.create_task(agent(app))
        await _until(app, ["dd"])
        file.write_text(_override("dd").replace("version: 1", "version: 2"))
        file.write_text(_override("drop_database"))
        await _until(app, ["dd", "drop_database"])
        assert app.rules().rule("drop_database") is None
        assert app.rules().rule("dd") is not None
        working.cancel()
        with pytest.raises(asyncio.CancelledError):
            await working


@pytest.mark.asyncio
async def test_tickets_of_a_subject_that_is_removed_are_closed_with_the_reason(
    tmp_path: Path,
) -> None:
    with opened(tmp_path, SUBJECTS) as app:
        gone, other = [
            await app.store.tickets.open([replace(violation("node-1"), subject=name)])
            for name in ("shop", "elsewhere")
        ]
        watching = asyncio.create_task(monitor(app, [], every=True))
        await eventually(lambda: app.store.observations.newest("shop", limit=1))
        (tmp_path / "operator.toml").write_text("")

        def closed() -> bool:
            found = app.store.tickets.get(gone.id)
            return found is not None and found.state is TicketState.CLOSED

        await eventually(closed)
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        (entry,) = [
            one for one in app.store.entries.newest(limit=100) if one.kind is Kind.TICKET_CLOSED
        ]
        assert entry.actor.type == "system"
        assert "'shop' was removed" in entry.payload["reason"]
        left = app.store.tickets.get(other.id)
        assert left is not None
        assert left.state is TicketState.OPEN, "others may watch what we never knew"


@pytest.mark.asyncio
async def test_a_rig_that_is_taken_down_takes_its_tickets_with_it(tmp_path: Path) -> None:
    with opened(tmp_path, SUBJECTS) as app:
        for name in ("ratelimiter", "shop"):
            await app.store.tickets.open([replace(violation("node-1"), subject=name)])
        await rig_down(app, "ratelimiter")
        assert [one.state for one in app.store.tickets.find()] == ["closed", "open"]
        assert app.why_gone("shop") == ""
