"""Questions to a target, and how real answers read."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operator_protocols.domain.action import Action, Outcome, Result
from operator_protocols.domain.target import Process, Target
from operator_protocols.domain.verdict import Level
from operator_sre.executor.jobs import Spool
from operator_sre.executor.programs import Programs
from operator_sre.executor.tools.host import CheckPort
from operator_sre.executor.transports.local import LocalShell
from operator_sre.gate import Policy, judge
from operator_sre.models.reasoner.outcomes import HEALTHY
from operator_sre.models.reasoner.probes import PROBES, Probe
from tests.contract.servers import says, serving, unused_port
from tests.executor.jobs import new_job, run_in

BY_NAME = {probe.name: probe for probe in PROBES}
PROCESS, PORT, LOG = BY_NAME["process"], BY_NAME["port"], BY_NAME["log"]
SOCKETS, LIMITS, DISK = BY_NAME["sockets"], BY_NAME["limits"], BY_NAME["disk"]
TARGET = Target(
    "node-1",
    "node",
    port=8001,
    process=Process(4711, 1.0),
    log="/var/log/a file's log",
    data_dir="/var/lib/a file's data",
)


def _ran(stdout: str = "", code: int = 0, stderr: str = "") -> Result:
    return Result(Outcome.RAN, code, stdout, stderr)


@contextlib.contextmanager
def _sleeper() -> Iterator[int]:
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        yield process.pid
    finally:
        process.kill()
        process.wait()


def _ask(probe: Probe, target: Target) -> Action:
    action = probe.ask(target)
    assert action is not None
    return action


def _process(pid: int, folder: Path) -> tuple[str, str]:
    """Ask for a real process, with the real command."""
    action = _ask(PROCESS, replace(TARGET, process=Process(pid, 1.0)))
    result = asyncio.run(run_in(LocalShell(Programs(Spool(folder))), action))
    return PROCESS.read(result)


@pytest.fixture(params=["ps", "proc"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """With `ps`, and on a machine without it."""
    which = shutil.which
    missing = "ps" if request.param == "proc" else ""
    monkeypatch.setattr(shutil, "which", lambda name: None if name == missing else which(name))
    return str(request.param)


def test_a_sleeping_process_is_alive(way: str, tmp_path: Path) -> None:
    with _sleeper() as pid:
        # Whether it is young is known to `ps` only.
        assert _process(pid, tmp_path)[0] == ("starting" if way == "ps" else "alive")


def test_a_stopped_process_is_stopped(way: str, tmp_path: Path) -> None:
    with _sleeper() as pid:
        os.kill(pid, signal.SIGSTOP)
        while f"{pid} (" in (stat := Path(f"/proc/{pid}/stat").read_text()) and " T " not in stat:
            continue
        assert _process(pid, tmp_path)[0] == "stopped"


def test_a_process_that_is_gone_is_dead(way: str, tmp_path: Path) -> None:
    with _sleeper() as pid:
        pass
    assert _process(pid, tmp_path)[0] == "dead"


def test_a_zombie_is_dead(way: str, tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert _process(process.pid, tmp_path)[0] == "dead"
    process.wait()


def test_both_ways_to_ask_are_there(way: str) -> None:
    command = _ask(PROCESS, TARGET).command
    assert command.startswith("ps -o" if way == "ps" else "cat /proc/4711/")


READINGS = [
    ("   4711 Ss   python -m node (stopped) T\n", 0, "", "alive"),
    ("   4711 Ssl   5000 python -m node\n", 0, "", "alive"),
    ("   4711 Rs       2 python -m node\n", 0, "", "starting"),
    ("   4711 Ts       2 python -m node\n", 0, "", "stopped"),
    ("4711 R+   x\n", 0, "", "alive"),
    ("4711 D    x\n", 0, "", "alive"),
    ("4711 Tl   x\n", 0, "", "stopped"),
    ("4711 t    traced by a debugger\n", 0, "", "stopped"),
    ("4711 Z    [x] <defunct>\n", 0, "", "dead"),
    ("4711 (a) T (b) S 1 4711\n", 0, "", "alive"),
    ("4711 (my prog) T 1 4711\n", 0, "", "stopped"),
    ("", 1, "", "dead"),
    ("", 1, "cat: /proc/4711/stat: No such file or directory\n", "dead"),
    ("", 1, "error: unknown user-defined format specifier\n", "unknown"),
    ("", 127, "sh: 1: ps: not found\n", "unknown"),
    ("", 126, "sh: 1: ps: Permission denied\n", "unknown"),
    ("", 0, "", "unknown"),
    ("nonsense\n", 0, "", "unknown"),
]


@pytest.mark.parametrize(("stdout", "code", "stderr", "outcome"), READINGS)
def test_a_process_is_dead_only_when_that_was_really_said(
    stdout: str, code: int, stderr: str, outcome: str
) -> None:
    assert PROCESS.read(_ran(stdout, code, stderr))[0] == outcome


CONTAINERS = [
    ({"status": "running", "running": True, "networks": "lab", "health": "healthy"}, "alive"),
    ({"status": "running", "running": True, "networks": "lab", "health": ""}, "alive"),
    ({"status": "running", "running": True, "networks": "lab", "health": "starting"}, "starting"),
    ({"status": "restarting", "running": True, "networks": "lab", "health": ""}, "starting"),
    ({"status": "running", "running": True, "networks": "", "health": "healthy"}, "isolated"),
    ({"status": "paused", "running": True, "networks": "lab", "health": "healthy"}, "stopped"),
    ({"status": "exited", "running": False, "networks": "lab", "exit_code": 137}, "dead"),
]


@pytest.mark.parametrize(("told", "outcome"), CONTAINERS)
def test_an_engine_is_asked_for_what_runs_in_a_container(
    told: dict[str, str | bool | int], outcome: str
) -> None:
    action = _ask(PROCESS, Target("store-1", "store", runs_at="docker://lab-store-1"))
    assert (action.tool, action.arguments) == ("docker_inspect", {"container": "lab-store-1"})
    assert PROCESS.mine(action)
    assert PROCESS.read(Result(Outcome.RAN, 0, "{}", data=told))[0] == outcome
    gone = _ran(code=1, stderr="Docker refused: No such container: lab-store-1")
    assert PROCESS.read(gone)[0] == "dead"
    assert PROCESS.read(_ran(code=1, stderr="No Docker engine answers."))[0] == "unknown"


@pytest.mark.parametrize("outcome", [one for one in Outcome if one is not Outcome.RAN])
@pytest.mark.parametrize("probe", PROBES, ids=lambda probe: probe.name)
def test_what_could_not_be_asked_is_unknown(probe: Probe, outcome: Outcome) -> None:
    assert probe.read(Result(outcome, stderr="refused"))[0] == "unknown"


@pytest.mark.asyncio
async def test_real_ports_are_read() -> None:
    async with serving(says(b"x")) as lively:
        with unused_port() as dead:
            targets = [Target("a", "node", port=lively), Target("b", "node", port=dead)]
            tool = CheckPort(lambda: targets)
            read = [
                PORT.read(await tool.call(_ask(PORT, one).arguments, new_job())) for one in targets
            ]
    assert [state for state, _ in read] == ["answers", "refused"]
    assert all(sentence for _, sentence in read)


LOGS = [
    ("", "quiet"),
    ("started\nserving\n", "quiet"),
    ("ERROR: something is odd\n", "errors"),
    ("ERROR: cannot reach store\n", "dependency"),
    ("write failed: No space left on device\n", "no_space"),
    ("accept: Too many open files\n", "files"),
    ("bind: Address already in use\nShutting down\n", "address"),
    ("FATAL: password authentication failed\n", "credential"),
    ("Cannot allocate 4096 bytes\n", "memory"),
    ("Traceback (most recent call last):\n", "errors"),
    ("INFO shutting down\n", "ended"),
    ("error once\n" + "fine\n" * 10, "quiet"),
    ("error\nShutting down\n", "ended"),
    ("node stopped\nnode started on 8001\nstore answers\n", "quiet"),
    ("Too many open files\nnode stopped\nnode started on 8001\n", "quiet"),
    ("node started on 8001\nToo many open files\nnode stopped\n", "files"),
    ("terrors and byelaws\n", "quiet"),
    (
        "panic: out of memory\n\ngoroutine 1 [running]:\n" + "main.run(0x1)\n\t/a.go:7\n" * 9,
        "memory",
    ),
    (" error: all lines of this log begin with a blank\n", "errors"),
]


@pytest.mark.parametrize(("text", "outcome"), LOGS)
def test_the_last_words_of_a_log_are_read(text: str, outcome: str) -> None:
    assert LOG.read(_ran(text))[0] == outcome


def _run(action: Action, folder: Path) -> Result:
    return asyncio.run(run_in(LocalShell(Programs(Spool(folder))), action))


def _of_ourselves(probe: Probe, folder: Path) -> tuple[str, str]:
    target = replace(TARGET, process=Process(os.getpid(), 1.0), data_dir=str(folder))
    return probe.read(_run(_ask(probe, target), folder))


def test_whoever_takes_nobody_in_lets_callers_wait(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert _of_ourselves(SOCKETS, tmp_path)[0] == "listening"
        with socket.create_connection(server.getsockname()):
            state, sentence = _of_ourselves(SOCKETS, tmp_path)
    assert state == "waiting"
    assert sentence


def test_a_process_without_ports_is_deaf(tmp_path: Path) -> None:
    with _sleeper() as pid:
        target = replace(TARGET, process=Process(pid, 1.0))
        assert SOCKETS.read(_run(_ask(SOCKETS, target), tmp_path))[0] == "deaf"


HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid inode\n"
ROW = "   0: 0100007F:1F41 00000000:0000 0A 00000000:00000000 00:00000000 00000000  0  0 77 1 0 1\n"
DENIED = "ls: cannot open directory '/proc/4711/fd': Permission denied\n"
CLOSED = "ls: cannot read symbolic link '/proc/4711/fd/9': No such file or directory\n"


@pytest.mark.parametrize(
    ("stdout", "stderr", "outcome"),
    [
        (f"socket:[77]\n{HEAD}{ROW}", "", "listening"),
        (f"socket:[77]\n{HEAD}{ROW}", CLOSED, "listening"),
        (f"{HEAD}{ROW}", "", "deaf"),
        (f"{HEAD}{ROW}", DENIED, "unknown"),
        (f"{HEAD}{ROW}", f"{DENIED}{CLOSED}", "unknown"),
        ("", "ls: cannot access '/proc/4711/fd': No such file or directory\n", "deaf"),
        ("socket:[77]\n", CLOSED, "unknown"),
    ],
)
def test_sockets_that_cannot_all_be_listed_are_unknown(
    stdout: str, stderr: str, outcome: str
) -> None:
    assert SOCKETS.read(_ran(stdout, 0 if outcome == "listening" else 2, stderr))[0] == outcome


def test_a_machine_without_a_table_of_ipv6_is_read(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)):
        target = replace(TARGET, process=Process(os.getpid(), 1.0))
        line = _ask(SOCKETS, target).command.replace("tcp6", "tcp6-of-no-machine")
        assert SOCKETS.read(_run(Action.shell(line), tmp_path))[0] == "listening"


def test_room_and_limits_of_a_real_process_are_read(tmp_path: Path) -> None:
    assert _of_ourselves(LIMITS, tmp_path)[0] == "room"
    assert _of_ourselves(DISK, tmp_path)[0] in ("room", "full")


def test_a_process_that_is_gone_has_no_limits(tmp_path: Path) -> None:
    with _sleeper() as pid:
        pass
    target = replace(TARGET, process=Process(pid, 1.0))
    assert LIMITS.read(_run(_ask(LIMITS, target), tmp_path))[0] == "unknown"


def _limits(files: object, memory: object, held_kb: int, opened: int) -> str:
    return (
        "Limit                     Soft Limit           Hard Limit           Units\n"
        f"Max open files            {files}                 4096                 files\n"
        f"Max address space         {memory}            unlimited            bytes\n"
        f"Name:\tnode\nVmSize:\t  {held_kb} kB\nThreads:\t1\n{opened}\n"
    )


LIMITED = [
    (_limits(1024, "unlimited", 99_999, 12), "room"),
    (_limits(1024, "unlimited", 99_999, 1024), "files"),
    (_limits(8, "unlimited", 99_999, 14), "files"),
    (_limits("unlimited", 1 << 20, 1024, 14), "memory"),
    (_limits("unlimited", 1 << 30, 1024, 14), "room"),
    ("0\n", "unknown"),
    ("", "unknown"),
]


@pytest.mark.parametrize(("text", "outcome"), LIMITED)
def test_what_a_process_may_have_is_read(text: str, outcome: str) -> None:
    assert LIMITS.read(_ran(text))[0] == outcome


DISKS = [
    ("tmpfs 65536 65520 16 100% /data\n", "full"),
    ("/dev/sda 65536 600 64000 1% /\n", "room"),
    ("/dev/sda - - - - /\n", "unknown"),
]


@pytest.mark.parametrize(("line", "outcome"), DISKS)
def test_a_disk_is_full_when_next_to_nothing_is_left(line: str, outcome: str) -> None:
    head = "Filesystem 1024-blocks Used Available Capacity Mounted on\n"
    assert DISK.read(_ran(head + line))[0] == outcome


def test_a_log_that_cannot_be_read_is_unknown() -> None:
    assert LOG.read(_ran("", 1, "tail: cannot open"))[0] == "unknown"


def test_a_sentence_about_a_log_is_short_whatever_the_log_says() -> None:
    _, sentence = LOG.read(_ran("error " + "x" * 100_000))
    assert len(sentence) < 600


@pytest.mark.parametrize("probe", PROBES, ids=lambda probe: probe.name)
def test_every_question_is_safe_to_ask(probe: Probe, way: str) -> None:
    policy = Policy(tools=(CheckPort.spec,))
    target = replace(TARGET, log="/var/log/node 1.log")
    assert judge(_ask(probe, target), policy).level is Level.SAFE


@pytest.mark.parametrize("probe", PROBES, ids=lambda probe: probe.name)
def test_a_question_is_known_again_by_its_own_probe_only(probe: Probe, way: str) -> None:
    action = _ask(probe, TARGET)
    assert [other.name for other in PROBES if other.mine(action)] == [probe.name]
    assert action.target == "node-1"
    assert action.reasoning


def test_what_a_target_does_not_have_is_not_asked_for() -> None:
    assert [probe.ask(Target("bare", "node")) for probe in PROBES] == [None] * len(PROBES)


def test_no_other_action_is_taken_for_a_question() -> None:
    others = [Action("restart_node", {"target": "a"}), Action.shell("uptime"), Action.shell("")]
    assert not any(probe.mine(action) for probe in PROBES for action in others)


@given(st.text(), st.text(), st.integers(-1, 255), st.sampled_from(Outcome))
def test_any_answer_is_read_as_something_that_the_tables_know(
    stdout: str, stderr: str, code: int, outcome: Outcome
) -> None:
    for probe in PROBES:
        state, sentence = probe.read(Result(outcome, code, stdout, stderr))
        assert state in HEALTHY[probe.name]
        assert sentence
