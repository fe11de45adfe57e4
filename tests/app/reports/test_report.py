"""Reports of what really happened: every state of a ticket, and each figure from the record."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import pytest

from operator_protocols.domain.action import Action
from operator_protocols.domain.alert import Alert
from operator_protocols.domain.diagnosis import Evidence
from operator_protocols.domain.entry import Kind
from operator_protocols.domain.health import Severity
from operator_protocols.domain.permit import ApprovalState
from operator_protocols.domain.run import Answer, Diagnose, Escalate, Finish, Spent
from operator_protocols.domain.ticket import MoveKind
from operator_protocols.errors import NotFoundError
from operator_sre.app.approvals import approve, reject
from operator_sre.app.reports import Report, as_html, as_markdown, report_of, timeline
from operator_sre.app.reports.timeline import read_actions
from operator_sre.app.silences import add_silence
from operator_sre.app.store import plan_purge, purge_store
from operator_sre.app.tickets import move_ticket
from tests.app.answering import FOUND, Shopkeeper, shopkeeper
from tests.processes.waiting import eventually

pytestmark = pytest.mark.asyncio

Open = Callable[..., AbstractContextManager[Shopkeeper]]
SECRET = "sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789"


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Open:
    """Call it with the turns of a mind."""

    def make(*turns: Answer, **settings: str) -> AbstractContextManager[Shopkeeper]:
        return shopkeeper(tmp_path, monkeypatch, *turns, **settings)

    return make


def _touch(tmp_path: Path) -> Action:
    return replace(
        Action.shell(f"touch {tmp_path}/mended", target="node-1"),
        reasoning="node-1 wants to be touched",
        expected="node-1 is up",
    )


def _found(*evidence: Evidence) -> Diagnose:
    return Diagnose(replace(FOUND.diagnosis, evidence=evidence))


async def _asked(keeper: Shopkeeper) -> str:
    """The request that a person has to answer, once there is one."""
    pending = (ApprovalState.PENDING,)
    await eventually(lambda: keeper.app.store.approvals.find(states=pending))
    (found,) = keeper.app.store.approvals.find(states=pending)
    return found.id


def _rendered(report: Report) -> str:
    """As Markdown; the page says the same."""
    told, page = as_markdown(report), as_html(report)
    assert f"Incident {report.ticket}" in told
    for heading in (
        "Summary",
        "Impact",
        "Timeline",
        "Cause",
        "Actions",
        "Proof",
        "Agents and people",
    ):
        assert f"\n## {heading}\n" in told
        assert f"<h2>{heading}</h2>" in page
    return told


async def test_what_a_person_approved_is_told_with_who_when_and_what_came_of_it(
    shop: Open, tmp_path: Path
) -> None:
    turns = (
        Answer("look", (Action.shell("uname -s"),), Spent(100, 20, 0.01)),
        Answer("found", (_found(Evidence("node-1: it is down", 4), Evidence("I feel it")),)),
        Answer("repair", (_touch(tmp_path),), Spent(200, 30, 0.02)),
        Answer("done", (Finish("node-1 is up again"),)),
    )
    with shop(*turns, mode="approve") as keeper:
        work = asyncio.ensure_future(keeper.carry())
        number = await _asked(keeper)
        waiting = report_of(keeper.app, 1)
        keeper.down.clear()
        await approve(keeper.app, number, reason="as agreed")
        await work
        report = report_of(keeper.app, 1)
        entries = {one.seq: one for one in keeper.app.store.entries.after(0, limit=500, ticket=1)}

    assert waiting.state == "claimed"
    assert [one.kind for one in waiting.follow_ups][:2] == ["open", "approval"]
    assert waiting.done[0].permission.state == "pending"
    assert "pending approval" in _rendered(waiting)

    assert report.state == "resolved"
    assert len(read_actions(list(entries.values()))) == len(report.deeds)
    (deed,) = report.done
    assert deed.command == f"touch {tmp_path}/mended"
    assert entries[deed.seq].kind is Kind.TOOL_CALL
    assert entries[deed.result_seq or 0].kind is Kind.TOOL_RESULT
    assert (deed.level, deed.outcome, deed.exit_code) == ("review", "ran", 0)
    permission = deed.permission
    assert (permission.how, permission.state, permission.approval) == ("people", "approved", number)
    assert permission.by
    assert permission.reason == "as agreed"
    assert permission.asked_at is not None
    assert permission.decided_at is not None
    assert permission.asked_at <= permission.decided_at <= deed.at
    assert [one.name for one in report.people] == list(permission.by)
    assert [one.command for one in report.questions] == ["uname -s"]
    assert report.spent == Spent(300, 50, 0.03)
    assert report.proof is not None
    assert entries[report.proof.seq].kind is Kind.PROOF
    clock = report.clock
    assert clock.began_at <= clock.detected_at
    assert clock.over_at is not None
    steps = (clock.taken_at, clock.understood_at, clock.repaired_at, clock.over_at, clock.ended_at)
    known = [one for one in steps if one is not None]
    assert len(known) == len(steps)
    assert known == sorted(known)
    assert report.impact.lasted_s == (clock.over_at - clock.began_at).total_seconds()
    assert (report.impact.affected, report.impact.targets) == (("node-1",), 2)
    assert [(one.reading, one.before, one.during) for one in report.impact.changes] == []
    cause = report.cause
    assert cause is not None
    assert [one.seq for one in cause.sources] == [4]
    kinds = {one.kind for one in report.follow_ups}
    assert kinds == {"claim", "deeper"}, kinds

    told = _rendered(report)
    assert f"approved by {permission.by[0]}" in told.replace("\\", "")
    assert "node-1: it is down (entry 4: `" in told
    assert "I feel it (**unproven claim**: no entry supports it)" in told
    assert "100 tokens" not in told
    assert "300 tokens in, 50 out, 0.0300 USD" in told
    assert "`process_hung` at `node-1`: it does not fit" in told
    seqs = [one.seq for one in report.timeline if one.seq]
    assert seqs == sorted(seqs)
    assert set(seqs) <= set(entries)


async def test_what_was_rejected_and_escalated_is_left_to_people(
    shop: Open, tmp_path: Path
) -> None:
    turns = (
        Answer("found and repair", (FOUND, _touch(tmp_path))),
        Answer("enough", (Escalate("Nobody lets me."),)),
    )
    with shop(*turns, mode="approve") as keeper:
        work = asyncio.ensure_future(keeper.carry())
        await reject(keeper.app, await _asked(keeper), reason="not on a Friday")
        await work
        report = report_of(keeper.app, 1)
    assert report.state == "escalated"
    assert report.clock.ended_at is None
    assert report.impact.breaks[0].until is None
    (deed,) = report.done
    assert (deed.outcome, deed.permission.state) == ("refused", "rejected")
    assert "Actions" in _rendered(report)
    told = {one.kind: one.text for one in report.follow_ups}
    assert "Nobody lets me." in told["escalated"]
    assert "not on a Friday" in told["refused"]
    assert report.proof is None
    assert "still broken" in as_markdown(report)


async def test_a_ticket_that_nobody_worked_on_and_one_that_a_person_closed(shop: Open) -> None:
    with shop() as keeper:
        await keeper.break_one()
        fresh = report_of(keeper.app, 1)
        await move_ticket(keeper.app, 1, MoveKind.COMMENT, reason="# mine\n| a |")
        await move_ticket(keeper.app, 1, MoveKind.CLOSE, reason="a known fault")
        await add_silence(
            keeper.app,
            subject="shop",
            target="node-1",
            invariant="*",
            reason="planned",
            for_="1h",
            until="",
        )
        closed = report_of(keeper.app, 1)
    assert (fresh.state, fresh.deeds, fresh.minds) == ("open", (), ())
    assert "No agent has worked on the ticket." in fresh.summary
    assert fresh.impact.lasted_s is not None
    assert [one.kind for one in fresh.follow_ups] == ["open"]
    assert "Nothing was changed." in _rendered(fresh)
    assert closed.state == "closed"
    assert closed.impact.lasted_s is None
    told = {one.kind: one.text for one in closed.follow_ups}
    assert "a known fault" in told["unproven"]
    assert "planned" in told["silenced"]
    (person,) = closed.people
    assert person.did == ("commented", "closed the ticket")
    assert "\n# mine" not in as_markdown(closed)


async def test_an_incident_that_comes_again_names_the_others(shop: Open) -> None:
    turns = (Answer("found", (FOUND,)), Answer("enough", (Escalate("No tool for it."),)))
    with shop(*turns) as keeper:
        await keeper.carry()
        await move_ticket(keeper.app, 1, MoveKind.CLOSE, reason="later")
        await keeper.app.engine().pipeline.watch("shop")
        second = report_of(keeper.app, 2)
        await keeper.app.engine().work_once()
        understood = report_of(keeper.app, 2)
    assert [one.tickets for one in second.follow_ups if one.kind == "repeated"] == [(1,)]
    (again,) = [one for one in understood.follow_ups if one.kind == "repeated"]
    assert again.tickets == (1,)
    assert "the same cause (process_dead)" in again.text


async def test_no_secret_is_told_whenever_it_came_to_be_known(shop: Open, tmp_path: Path) -> None:
    said = f"the key is {SECRET}"
    found = Diagnose(replace(FOUND.diagnosis, summary=said, why=said))
    turns = (
        Answer(said, (found, Action.shell(f"echo {SECRET}"))),
        Answer("enough", (Escalate(said),)),
    )
    with shop(*turns) as keeper:
        await keeper.carry()
        report = report_of(keeper.app, 1)
    for text in (as_markdown(report), as_html(report), repr(report)):
        assert SECRET not in text
        assert "REDACTED" in text


async def test_a_purged_ticket_is_named_as_such_and_one_that_never_was_too(shop: Open) -> None:
    with shop() as keeper:
        await keeper.break_one()
        await move_ticket(keeper.app, 1, MoveKind.CLOSE, reason="over")
        keeper.down.clear()
        await keeper.app.engine().pipeline.watch("shop")
        plan = plan_purge(keeper.app.config, keeper.app.clock.now().isoformat())
        assert 1 in plan.tickets
        purge_store(keeper.app.config, plan, progress=lambda seq: None)
        with pytest.raises(NotFoundError, match="Ticket 1 was purged"):
            report_of(keeper.app, 1)
        with pytest.raises(NotFoundError, match="no ticket 99"):
            report_of(keeper.app, 99)


async def test_an_alert_from_outside_is_told_with_who_reported_it(shop: Open) -> None:
    with shop(toml='[triggers.pager]\nkind = "json"\nopen = 1\n') as keeper:
        app = keeper.app
        fired = Alert(
            trigger="pager",
            fingerprint="f1",
            name="DiskAlmostFull",
            subject="pager",
            target="db-7",
            invariant="alert:DiskAlmostFull",
            severity=Severity.CRITICAL,
            summary="4 % left on /data | see [wiki](http://evil.example)",
            since=app.clock.now(),
        )
        await app.store.alerts.take([fired])
        await app.engine().pipeline.watch("pager")
        report = report_of(app, 1)
    assert report.subject == "pager"
    assert [one.name for one in report.alerts] == ["DiskAlmostFull"]
    told = _rendered(report)
    assert "Reported from outside: `DiskAlmostFull` of `pager` (still firing)" in told
    assert "see \\[wiki\\](http\\://evil.example)" in told


async def test_a_change_that_did_not_help_and_the_proof_that_failed_are_left_to_do(
    shop: Open, tmp_path: Path
) -> None:
    turns = (
        Answer("found and repair", (FOUND, _touch(tmp_path), Finish("it should be up"))),
        Answer("enough", (Escalate("It is still down."),)),
    )
    policy = "version: 1\napproval: {medium: auto, high: auto}\n"
    with shop(*turns, policy=policy) as keeper:
        await keeper.carry()
        report = report_of(keeper.app, 1)
    assert report.state == "escalated"
    assert [one.proof.held for one in report.proofs] == [False] * len(report.proofs)
    assert report.proofs
    kinds = [one.kind for one in report.follow_ups]
    assert {"escalated", "unproven", "failed_proof"} <= set(kinds)
    assert "did not hold" in _rendered(report)
    (deed,) = report.done
    assert deed.permission.how == "policy"


async def test_a_long_story_keeps_its_beginning_and_its_end(
    shop: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timeline, "MOMENTS_MAX", 6)
    with shop() as keeper:
        await keeper.break_one()
        for number in range(12):
            await move_ticket(keeper.app, 1, MoveKind.COMMENT, reason=f"remark {number}")
        await move_ticket(keeper.app, 1, MoveKind.CLOSE, reason="over")
        told = [one.text for one in report_of(keeper.app, 1).timeline]
    assert len(told) == 7
    assert "is broken" in told[0]
    assert told[3] == "9 entries left out"
    assert "CLOSED without proof" in told[-1]
