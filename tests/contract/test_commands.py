"""What Commands promise: every command, run or refused, with all that the ledger knows of it."""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import replace
from datetime import timedelta

import pytest
import pytest_asyncio

from operator_protocols.domain.action import Action, Outcome, Result, digest_of
from operator_protocols.domain.category import FailureCategory
from operator_protocols.domain.command import CommandFilter
from operator_protocols.domain.entry import Actor, Draft, Kind
from operator_protocols.domain.permit import ApprovalState, Permit
from operator_protocols.domain.verdict import Mode
from operator_sre.codec import to_json
from tests.contract.clock import NOON, HeldClock
from tests.contract.doing import DONE, Doer
from tests.contract.stores import Home, Ports

pytestmark = pytest.mark.asyncio

EVERY = CommandFilter()
RESTART = Action(
    "shell",
    {"command": "systemctl restart nginx"},
    target="node-1",
    reasoning="The port is silent.",
    cwd="/srv",
)


@pytest_asyncio.fixture
async def doer(ports: Ports, clock: HeldClock) -> Doer:
    return await Doer.hired(ports, clock)


async def test_a_command_that_ran_is_told_whole(ports: Ports, doer: Doer) -> None:
    said = Result(
        *(Outcome.RAN, 3, "out", "err"),
        duration_s=1.5,
        category=FailureCategory.RUNTIME,
        stdout_sha256="aa",
        stderr_sha256="bb",
    )
    seq = await doer.run(RESTART, said)
    one = ports.commands.get(seq)
    assert one is not None
    assert (one.seq, one.at, one.tool, one.target, one.cwd) == (
        seq,
        NOON,
        "shell",
        "node-1",
        "/srv",
    )
    assert (one.command, one.context) == ("systemctl restart nginx", "The port is silent.")
    assert one.command_hash == digest_of(one.command)
    assert (one.level, one.risk, one.approver) == ("review", "medium", "")
    assert (one.agent, one.agent_type, one.workflow) == ("by-run-1", "reasoner", "")
    assert (one.outcome, one.exit_code, one.duration_s) == ("ran", 3, 1.5)
    assert (one.category, one.venv) == ("runtime", "")
    assert (one.head, one.tail) == ("out\nerr", "")
    assert one.output_hash == "sha256:" + hashlib.sha256(b"out\nerr").hexdigest()
    assert (one.stdout_sha256, one.stderr_sha256) == ("aa", "bb")
    assert (one.ticket, one.run) == (doer.ticket.id, "run-1")
    assert one.failed
    assert not one.succeeded


async def test_a_command_is_there_from_its_beginning(ports: Ports, doer: Doer) -> None:
    intent, seq = await doer.begin(RESTART)
    (one,) = ports.commands.newest(EVERY, limit=9)
    assert (one.seq, one.outcome, one.exit_code, one.head) == (seq, "", None, "")
    assert not one.succeeded
    assert not one.failed
    await ports.intents.end(intent, Result(Outcome.UNKNOWN, stderr="interrupted"))
    (one,) = ports.commands.newest(EVERY, limit=9)
    assert (one.seq, one.outcome, one.head) == (seq, "unknown", "interrupted")


async def test_a_refused_command_is_there_too(ports: Ports, doer: Doer) -> None:
    seq = await doer.refuse(Action.shell("mkfs /dev/sda", reasoning="to be sure"))
    (one,) = ports.commands.newest(EVERY, limit=9)
    assert (one.seq, one.command, one.context) == (seq, "mkfs /dev/sda", "to be sure")
    assert (one.level, one.risk) == ("blocked", "critical")
    assert (one.outcome, one.exit_code, one.approver) == ("refused", None, "")
    assert one.head.startswith("Not now.")
    assert not one.failed


@pytest.mark.parametrize("state", [ApprovalState.APPROVED, ApprovalState.REJECTED])
async def test_the_approver_is_who_answered(
    ports: Ports, clock: HeldClock, state: ApprovalState
) -> None:
    doer = await Doer.hired(ports, clock, mode=Mode.APPROVE)
    asking = asyncio.ensure_future(doer.gate.permit(doer.gate.judge(RESTART), doer.ticket))
    await clock.asleep()
    await doer.answer(state, by="ada")
    clock.advance(1.0)
    answer = await asking
    if isinstance(answer, Permit):
        await ports.intents.end(await ports.intents.begin(answer), DONE)
    else:
        await doer.refuse(RESTART, answer)
    (one,) = ports.commands.newest(EVERY, limit=9)
    assert (one.approver, one.level) == ("ada", "review")
    assert one.outcome == ("ran" if state is ApprovalState.APPROVED else "refused")


async def test_a_permit_that_came_too_late_is_a_refusal_with_its_level(
    ports: Ports, doer: Doer, clock: HeldClock
) -> None:
    permit = await doer.gate.permit(doer.gate.judge(RESTART), doer.ticket)
    assert isinstance(permit, Permit)
    await doer.refuse(RESTART, Result(Outcome.REFUSED, stderr="expired"), permit=permit.fingerprint)
    (one,) = ports.commands.newest(EVERY, limit=9)
    assert (one.outcome, one.level, one.risk) == ("refused", "review", "medium")


async def test_an_agent_that_says_its_name_is_named(ports: Ports) -> None:
    payload = {"action": to_json(RESTART), "result": to_json(Result(Outcome.REFUSED))}
    actor = Actor("ada", "user", agent="felix-7")
    await ports.journal.append(Draft(Kind.REFUSED, payload, actor=actor))
    (one,) = ports.commands.newest(EVERY, limit=9)
    assert (one.agent, one.agent_type, one.level) == ("felix-7", "user", "")


async def test_the_ends_of_a_long_output_are_kept_and_all_of_it_is_hashed(
    ports: Ports, doer: Doer
) -> None:
    output = "".join(f"line {number}\n" for number in range(5000))
    seq = await doer.run("journalctl", replace(DONE, stdout=output))
    one = ports.commands.get(seq)
    assert one is not None
    assert one.head == output[:4096]
    assert one.tail == output[-4096:]
    assert one.output_hash == "sha256:" + hashlib.sha256(output.encode()).hexdigest()


async def test_head_and_tail_do_not_overlap(ports: Ports, doer: Doer) -> None:
    output = "x" * 4096 + "the end"
    one = ports.commands.get(await doer.run("cat", replace(DONE, stdout=output)))
    assert one is not None
    assert (one.head, one.tail) == ("x" * 4096, "the end")


async def test_what_is_no_text_does_no_harm(ports: Ports, doer: Doer) -> None:
    strange = Action.shell("echo \ud800\0 \x1b[31m 🔥", target="n\0de", reasoning="\udfff")
    one = ports.commands.get(await doer.run(strange, replace(DONE, stdout="\0\ud800")))
    assert one is not None
    assert one.command == "echo ?? \x1b[31m 🔥"
    assert (one.target, one.context, one.head) == ("n?de", "?", "??")


async def test_a_target_of_any_length_can_be_recorded(ports: Ports, doer: Doer) -> None:
    one = ports.commands.get(await doer.run(Action.shell("true", target="x" * 9000)))
    assert one is not None
    assert one.target == "x" * 256


async def test_commands_are_filtered_by_everything(
    ports: Ports, doer: Doer, clock: HeldClock
) -> None:
    first = await doer.run(Action.shell("uptime", target="a"))
    second = await doer.fail(Action.shell("systemctl stop x", target="b"))
    clock.advance(60.0)
    other = await Doer.hired(ports, clock, run="run-2")
    third = await other.refuse(Action.shell("mkfs x", target="a"))
    _, fourth = await other.begin("uptime")
    fifth = await other.run("true", Result(Outcome.TIMED_OUT, 124))

    def found(**where: object) -> list[int]:
        wanted = CommandFilter(**where)  # type: ignore[arg-type]
        seqs = [one.seq for one in ports.commands.newest(wanted, limit=99)]
        assert seqs == [one.seq for one in ports.commands.attempts(wanted, limit=99)]
        return seqs

    assert found() == [fifth, fourth, third, second, first]
    assert found(ticket=doer.ticket.id) == [second, first]
    assert found(run="run-2") == [fifth, fourth, third]
    assert found(target="a") == [third, first]
    assert found(level="blocked") == [third]
    assert found(level="safe") == [fifth, fourth, first]
    assert found(outcome="succeeded") == [first]
    assert found(outcome="failed") == [fifth, second]
    assert found(outcome="refused") == [third]
    assert found(outcome="running") == [fourth]
    assert found(outcome="timed_out") == [fifth]
    assert found(outcome="ran") == [second, first]
    assert found(since=NOON + timedelta(seconds=30)) == [fifth, fourth, third]
    assert found(target="a", outcome="refused", run="run-2", level="blocked") == [third]
    assert found(target="nowhere") == []


async def test_commands_come_in_pages(ports: Ports, doer: Doer) -> None:
    seqs = [await doer.run("uptime") for _ in range(5)][::-1]
    first = [one.seq for one in ports.commands.newest(EVERY, limit=2)]
    second = [one.seq for one in ports.commands.newest(EVERY, limit=2, before=first[-1])]
    last = [one.seq for one in ports.commands.newest(EVERY, limit=9, before=second[-1])]
    assert first + second + last == seqs
    assert ports.commands.newest(EVERY, limit=9, before=seqs[-1]) == []


async def test_a_command_that_never_was_is_none(ports: Ports, doer: Doer) -> None:
    assert ports.commands.get(1) is None
    assert ports.commands.get(10**15) is None


async def test_attempts_are_commands_without_their_output(ports: Ports, doer: Doer) -> None:
    seq = await doer.run(RESTART)
    (attempt,) = ports.commands.attempts(EVERY, limit=9)
    command = ports.commands.get(seq)
    assert command is not None
    for name in ("seq", "at", "command", "level", "outcome", "exit_code", "context", "run"):
        assert getattr(attempt, name) == getattr(command, name)
    assert not hasattr(attempt, "head")


async def test_a_reopened_database_has_the_same_history(home: Home, clock: HeldClock) -> None:
    ports = home.open()
    doer = await Doer.hired(ports, clock)
    await doer.run(RESTART, replace(DONE, stdout="fine"))
    before = list(ports.commands.newest(EVERY, limit=9))
    home.close()
    assert list(home.open().commands.newest(EVERY, limit=9)) == before
