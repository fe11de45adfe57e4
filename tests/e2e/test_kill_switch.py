"""The kill switch ends what really runs, in another process, at once; and it stays on."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from operator_protocols.domain.entry import Kind
from operator_protocols.domain.permit import ApprovalState
from operator_protocols.domain.ticket import TicketState
from operator_sre.processes.identity import process_of
from tests.e2e.home import Home, Running
from tests.e2e.waiting import eventually

ROOT = Path(__file__).resolve().parents[2]
# Far below the end that the command would come to by itself.
GONE_S_MAX = 30.0


@pytest.fixture
def busy(home: Home) -> Iterator[tuple[Running, list[int]]]:
    """A process of this home whose executor runs `sleep 300`, and the pids of that."""
    pids = home.cwd / "pids"
    words = [sys.executable, "-m", "tests.e2e.long_command", str(home.path), str(pids)]
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    running = home.start_process(words, PYTHONPATH=path)
    eventually(lambda: pids.exists() and len(pids.read_text().split()) == 2, running.said)
    started = [int(word) for word in pids.read_text().split()]
    yield running, started
    for pid in filter(_runs, started):
        os.kill(pid, signal.SIGKILL)


def _runs(pid: int) -> bool:
    return process_of(pid) is not None


def _switch_on(home: Home, pids: list[int]) -> None:
    """Turn it on as a person does; the command is gone long before its own end."""
    switching = home.fork("kill-switch", "on", "--reason", "it must stop", "--json")
    eventually(lambda: not any(map(_runs, pids)), f"{pids} are gone", within_s=GONE_S_MAX)
    eventually(lambda: not switching.runs, "the command ends")
    assert switching.end() == 0, switching.said


def test_a_command_of_another_process_is_gone_long_before_its_end(
    home: Home, busy: tuple[Running, list[int]]
) -> None:
    running, pids = busy
    _switch_on(home, pids)
    eventually(lambda: not running.runs, "the executor's process goes on to its end")
    assert "cancelled:" in running.said
    assert "The kill switch stopped this action" in running.said
    (result,) = home.entries(Kind.TOOL_RESULT)
    assert result.payload["result"]["outcome"] == "cancelled"
    assert home.ask("kill-switch", "status")["switch"]["reason"] == "it must stop"


def test_it_reports_what_it_stopped_and_twice_is_harmless(
    home: Home, busy: tuple[Running, list[int]]
) -> None:
    _, pids = busy
    report = home.ask("kill-switch", "on")["stopped"]
    assert report["switch"]["on"] is True
    assert (report["pending_proposals"], report["tasks"]) == ([], [1])
    (partly,) = report["partly_run"]
    assert "sleep 300" in partly["command"]
    assert report["processes"] in ([pids[0]], []), "ended here, or by its own process before"
    eventually(lambda: not any(map(_runs, pids)), "all of it is gone")
    again = home.run("kill-switch", "on")
    assert again.code == 0
    assert again.out.startswith("The kill switch is on, after ")
    assert "processes stopped: none" in again.out
    assert len(home.entries(Kind.KILL_SWITCH_ON)) == 1


def test_even_when_the_process_that_runs_it_is_stuck(
    home: Home, busy: tuple[Running, list[int]]
) -> None:
    running, pids = busy
    os.kill(running.pid, signal.SIGSTOP)
    try:
        _switch_on(home, pids)
    finally:
        os.kill(running.pid, signal.SIGCONT)


@pytest.mark.slow
def test_an_agent_stops_working_and_goes_on_when_it_is_off(rigged: Home) -> None:
    running = rigged.up("approve")
    os.kill(rigged.rig()["node-1"]["pid"], signal.SIGKILL)
    pending = (ApprovalState.PENDING,)
    (asked,) = eventually(lambda: rigged.store.approvals.find(states=pending), "a request")
    report = rigged.ask("kill-switch", "on", "--reason", "stop")["stopped"]
    assert report["pending_proposals"] == [asked.id]
    kept = rigged.store.approvals.get(asked.id)
    assert kept is not None
    assert kept.state is ApprovalState.CANCELLED
    eventually(lambda: not rigged.tickets(TicketState.CLAIMED), "nobody works on it")
    modes = rigged.ask("mode")["modes"]
    assert [(one["mode"], one["source"]) for one in modes] == [("observe", "kill switch")]
    rigged.looked(3)
    assert rigged.tickets(TicketState.CLAIMED) == []
    assert rigged.store.approvals.find(states=pending) == []
    assert rigged.rig()["node-1"]["state"] == "exited"
    assert running.runs, "the monitor still watches"

    assert rigged.run("kill-switch", "off").code == 4
    assert rigged.ask("kill-switch", "off", "--yes")["switch"]["on"] is False
    if rigged.tickets(TicketState.OPEN):
        (again,) = eventually(lambda: rigged.store.approvals.find(states=pending), "a request")
        assert again.id != asked.id
        assert rigged.run("approvals", "approve", again.id).code == 0
        eventually(lambda: rigged.tickets(TicketState.RESOLVED), "it is repaired and proven")
    assert running.end() == 128 + signal.SIGTERM
