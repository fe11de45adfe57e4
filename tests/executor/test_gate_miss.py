"""A verdict that is wrong: the kernel refuses, and everybody learns of it."""

from __future__ import annotations

import secrets
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from operator_protocols.domain.action import Action
from operator_protocols.domain.confinement import Confinement
from operator_protocols.domain.entry import Actor, Kind
from operator_protocols.domain.permit import Permit
from operator_protocols.domain.verdict import Level, Mode, Risk
from operator_sre.clock import SystemClock
from operator_sre.enforcement import why_not_confined
from operator_sre.executor import Executor
from operator_sre.executor.jobs import Spool
from operator_sre.executor.programs import Programs
from operator_sre.executor.transports.local import LocalShell
from operator_sre.gate import Gate, Policy
from operator_sre.gate.policy.rule import UNENFORCED, Decision
from operator_sre.gate.restraint import classify, weigh
from operator_sre.store import open_store
from tests.gate.policy.writing import book
from tests.processes.runners import end_runner

pytestmark = [
    pytest.mark.asyncio,
    pytest.mark.skipif(bool(why_not_confined()), reason=why_not_confined() or "-"),
]
PERSON = Actor("me", "user", "me@here")
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


async def test_a_command_that_is_wrongly_safe_is_blocked_recorded_and_weighs(
    tmp_path: Path,
) -> None:
    clock = SystemClock()
    policy = Policy(mode=Mode.EXECUTE, auto=frozenset(Risk))
    target = tmp_path / "written"
    with closing(open_store(tmp_path / "operator.db", clock=clock)) as store:
        gate = Gate(lambda: policy, store.journal, store.approvals, clock, secrets.token_urlsafe)
        shell = LocalShell(Programs(Spool(tmp_path / "spool")))
        judged = gate.judge(Action.shell(f"echo x > {target}"), PERSON)
        wrong = replace(judged, level=Level.SAFE, confinement=Confinement())
        permit = await gate.permit(wrong, None, PERSON, subject="machine")
        assert isinstance(permit, Permit)
        result, _ = await Executor(store.intents, shell, ()).execute(permit)
        entries = store.entries.after(0, limit=100)
        session = weigh(store.sessions.actions("me@here", since=LONG_AGO), classify)
    end_runner(tmp_path / "runner")
    assert not target.exists()
    assert result.blocked == (f"write to {target}",)
    assert f"blocked: write to {target}" in result.stderr
    (missed,) = [entry for entry in entries if entry.kind is Kind.GATE_MISS]
    assert missed.payload["blocked"] == [f"write to {target}"]
    (intent,) = [entry for entry in entries if entry.kind is Kind.TOOL_CALL]
    assert intent.payload["confinement"]["writes"] == []
    assert any("the kernel refused" in reason for reason in session.reasons)


@pytest.mark.parametrize(
    ("decision", "runs"), [(None, True), (Decision.REQUIRE, False), (Decision.DENY, False)]
)
async def test_a_policy_decides_what_runs_where_nothing_is_enforced(
    tmp_path: Path, decision: Decision | None, runs: bool
) -> None:
    clock = SystemClock()
    rules = book(approval={UNENFORCED: decision.value}) if decision else book()
    policy = Policy(mode=Mode.EXECUTE, book=rules)
    with closing(open_store(tmp_path / "operator.db", clock=clock)) as store:
        parts = (store.journal, store.approvals, clock, secrets.token_urlsafe)
        gate = Gate(lambda: policy, *parts, enforcement=lambda target, held: "it is far away")
        verdict = gate.judge(Action.shell("uptime"), PERSON)
        assert (verdict.level, verdict.confinement) == (Level.SAFE, None)
        course = gate.foresee(verdict, PERSON)
    assert (course.way == "runs") is runs
    assert runs or course.why == "Judged, not enforced: it is far away."
