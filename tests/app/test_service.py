"""What runs until it is stopped follows the policy as it changes."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from operator_protocols.domain.entry import Kind
from operator_sre.app.service import agent
from operator_sre.app.wiring import App
from tests.app.home import opened
from tests.gate.policy.writing import text_of

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
