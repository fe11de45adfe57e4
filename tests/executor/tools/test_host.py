"""Services by systemctl and processes by signals, on real processes.

Where no systemd runs, the services are those of a stand-in executable.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from operator_protocols.domain.action import Action, Result
from operator_protocols.domain.category import FailureCategory
from operator_protocols.domain.verdict import Risk
from operator_protocols.ports import Tool
from operator_sre.executor.jobs import Spool
from operator_sre.executor.programs import Programs
from operator_sre.executor.tools import host
from operator_sre.executor.tools.host import (
    PID_MIN,
    KillProcess,
    ServiceTool,
    service_tools,
    unit_of,
)
from operator_sre.executor.tools.registry import Registry
from operator_sre.gate.policy import built_in
from operator_sre.processes.identity import process_of
from tests.executor.jobs import new_job
from tests.executor.tools.stand_in_systemctl import StandIn
from tests.processes.waiting import gone

pytestmark = pytest.mark.asyncio


@pytest.fixture
def systemctl(tmp_path: Path) -> StandIn:
    return StandIn(tmp_path / "systemd")


@pytest.fixture
def services(tmp_path: Path, systemctl: StandIn) -> Registry:
    programs = Programs(Spool(tmp_path / "spool"))
    manages = built_in().services.manages
    return Registry(service_tools(programs, manages, systemctl=str(systemctl.path)))


async def _call(services: Registry, verb: str, service: str = "nginx") -> Result:
    tool = services.get_tool(f"host_service_{verb}")
    assert isinstance(tool, ServiceTool)
    return await tool.call({"service": service}, new_job(20.0))


@pytest.mark.parametrize(
    ("verb", "before", "after", "undo"),
    [
        ("start", "inactive", "active", "host_service_stop"),
        ("start", "active", "active", ""),
        ("stop", "active", "inactive", "host_service_start"),
        ("stop", "inactive", "inactive", ""),
        ("restart", "active", "active", ""),
        ("restart", "failed", "active", ""),
    ],
)
async def test_it_is_done_and_then_asked_for(
    services: Registry, systemctl: StandIn, verb: str, before: str, after: str, undo: str
) -> None:
    systemctl.set("nginx.service", before)
    result = await _call(services, verb)
    assert result.ok, result
    assert (result.data["was"], result.data["state"]) == (before, after)
    assert result.undo == (Action(undo, {"service": "nginx.service"}) if undo else None)
    look = "is-active -- nginx.service"
    assert systemctl.calls == [look, f"{verb} -- nginx.service", look]


@pytest.mark.parametrize("verb", ["start", "stop", "restart"])
@pytest.mark.parametrize("how", ["fails", "lies"])
async def test_a_zero_that_is_not_so_is_no_success(
    services: Registry, systemctl: StandIn, verb: str, how: str
) -> None:
    systemctl.set("nginx.service", "active" if verb == "stop" else "inactive")
    systemctl.behave(how)
    result = await _call(services, verb)
    assert (result.ok, result.exit_code, result.undo) == (False, 1, None)
    assert result.category is FailureCategory.RUNTIME
    assert ("Job for" if how == "fails" else "exited with 0, but") in result.stderr


@pytest.mark.parametrize(
    "service",
    [
        *("ssh", "sshd.service", "systemd", "dbus", "init", "systemd-resolved", "unheard-of"),
        *("../nginx", "/etc/nginx", "nginx/..", "-H", "--host=x", "nginx;id", "nginx ssh", "n*"),
        *("nginx.service.service", ".service", "nginx\n", "nginx\0", "ng..inx"),
    ],
)
async def test_what_the_policy_does_not_name_is_not_touched(
    services: Registry, systemctl: StandIn, service: str
) -> None:
    for verb in ("start", "stop", "restart"):
        result = await _call(services, verb, service)
        assert (result.ok, result.category) == (False, FailureCategory.PERMISSION)
    assert systemctl.calls == []


async def test_a_unit_is_its_service(services: Registry, systemctl: StandIn) -> None:
    assert (await _call(services, "start", "nginx.service")).ok
    assert systemctl.calls[1] == "start -- nginx.service"
    assert (unit_of("nginx"), unit_of("a/b"), unit_of("-x")) == ("nginx.service", "", "")


async def test_a_machine_without_systemctl_is_told(tmp_path: Path) -> None:
    programs, missing = Programs(Spool(tmp_path / "spool")), str(tmp_path / "systemctl")
    tools = service_tools(programs, lambda name: True, systemctl=missing)
    result = await tools[0].call({"service": "nginx"}, new_job(20.0))
    assert (result.exit_code, result.category) == (127, FailureCategory.NOT_FOUND)


async def test_their_risks_are_those_of_their_deeds(services: Registry) -> None:
    risks = {tool.spec.name: tool.spec.risk for tool in services}
    assert list(risks.values()) == [Risk.MEDIUM, Risk.HIGH, Risk.MEDIUM]
    assert KillProcess.spec.risk is Risk.HIGH
    assert all(tool.spec.changes for tool in services)


SLEEPER = [sys.executable, "-c", "import time; print('up', flush=True); time.sleep(120)"]
DEAF = [
    *(sys.executable, "-c"),
    "import signal, time; signal.signal(15, signal.SIG_IGN); print('up', flush=True);"
    "time.sleep(120)",
]


def _started(words: list[str]) -> subprocess.Popen[bytes]:
    popen = subprocess.Popen(words, stdout=subprocess.PIPE, start_new_session=True)
    assert popen.stdout is not None
    assert popen.stdout.readline() == b"up\n"
    return popen


@pytest.fixture
def victim() -> Iterator[subprocess.Popen[bytes]]:
    with _started(SLEEPER) as popen:
        yield popen
        popen.kill()


async def _proposed(**arguments: int | str) -> Action:
    found = await Registry((KillProcess(),)).propose(Action("kill_process", arguments))
    assert isinstance(found, Action), found
    return found


async def _kill(**arguments: int | str) -> Result:
    action = await _proposed(**arguments)
    return await KillProcess().call(action.arguments, new_job())


async def test_one_that_hears_is_ended_by_the_first_signal(
    victim: subprocess.Popen[bytes],
) -> None:
    result = await _kill(pid=victim.pid)
    assert result.ok, result
    assert result.data == {"pid": victim.pid, "signal": "TERM", "escalated": False, "gone": True}
    assert victim.wait(30) == -signal.SIGTERM


async def test_one_that_is_deaf_is_killed_and_that_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(host, "TERM_S", 0.5)
    with _started(DEAF) as popen:
        result = await _kill(pid=popen.pid)
        assert (result.ok, result.data["escalated"], result.data["gone"]) == (True, True, True)
        assert result.duration_s >= 0.5
        assert popen.wait(30) == -signal.SIGKILL


async def test_a_kill_that_was_asked_for_is_no_escalation() -> None:
    with _started(DEAF) as popen:
        result = await _kill(pid=popen.pid, signal="KILL")
        assert (result.ok, result.data["escalated"]) == (True, False)
        assert popen.wait(30) == -signal.SIGKILL


async def test_people_are_given_five_seconds() -> None:
    assert (host.POLL_S, host.TERM_S, host.SETTLE_S) == (0.1, 5.0, 0.5)


async def test_another_process_with_the_same_number_is_spared(
    victim: subprocess.Popen[bytes],
) -> None:
    action = await _proposed(pid=victim.pid)
    assert action.inferred == ("started",)
    process = process_of(victim.pid)
    assert process is not None
    assert action.arguments["started"] == process.started
    for apart_s in (-3600.0, -0.25, 0.01, 7.0):
        other = {**action.arguments, "started": process.started + apart_s}
        result = await KillProcess().call(other, new_job())
        assert (result.ok, result.stderr) == (False, f"{victim.pid} is another process by now.")
    assert victim.poll() is None
    digests = {action.digest, Action("kill_process", {**action.arguments, "started": 1.0}).digest}
    assert len(digests) == 2  # a permit for one is none for the other


async def test_one_that_is_gone_is_not_found(victim: subprocess.Popen[bytes]) -> None:
    action = await _proposed(pid=victim.pid)
    victim.kill()
    victim.wait(30)
    result = await KillProcess().call(action.arguments, new_job())
    assert (result.exit_code, result.category) == (1, FailureCategory.NOT_FOUND)
    assert gone([victim.pid])


async def test_the_operator_and_whatever_keeps_it_going_is_spared() -> None:
    keeper = [sys.executable, "-c", SLEEPER[2], "operator_sre.processes.runner.daemon"]
    with _started(keeper) as popen:
        for pid in (os.getpid(), popen.pid):
            process = process_of(pid)
            assert process is not None
            given = {"pid": pid, "started": process.started}
            result = await KillProcess().call(given, new_job())
            assert result.category is FailureCategory.PERMISSION
            assert "Operator itself" in result.stderr
        assert popen.poll() is None
        popen.kill()


@pytest.mark.parametrize("pid", [0, 1, -1, PID_MIN - 1, True, "4711", 4711.0, 2**40])
async def test_only_the_number_of_an_ordinary_process_is_taken(pid: int) -> None:
    tool: Tool = KillProcess()
    result = await tool.call({"pid": pid, "started": 1.0}, new_job())
    assert (result.exit_code, result.category) == (2, FailureCategory.SYNTAX)
