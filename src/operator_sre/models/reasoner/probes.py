"""Questions to a target: the action that asks, and how its result reads. Pure."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Callable
from dataclasses import dataclass

from operator_protocols.domain.action import SHELL, Action, Outcome, Result
from operator_protocols.domain.target import Target
from operator_sre.models.reasoner.outcomes import KINDS_OF, meaning

__all__ = ["PROBES", "Probe"]

_ERRORS = re.compile(r"\b(error|fatal|panic|exception|traceback|refused|out of memory)\b", re.I)
_ENDED = re.compile(
    r"\b(shutting down|shutdown|stopped|exiting|bye|terminated(?! with success))\b", re.I
)
# Where a program was when it broke off: many lines that say nothing of why it did.
_FRAME = re.compile(r"\s|goroutine \d|created by |[\w.*/()-]+\(.*\)$|runtime stack:|\[signal |$")
_BEGUN = re.compile(r"\b(started|starting|serving|listening|ready|accepting)\b", re.I)
LAST_LINES = 5
# A process that is younger than this may not be ready yet.
YOUNG_S = 10
# What is used to so much of a limit is used up.
USED_UP = 0.95
DISK_FULL_PERCENT = 99
PORTS_MAX = 5
# What runs in a container has no process that we could see: its engine is asked instead.
_DOCKER = "docker://"
_INSPECT, _NO_CONTAINER = "docker_inspect", "No such container"


@dataclass(frozen=True, slots=True)
class Probe:
    """One question: `ask` makes its action for a target (None when it cannot be asked there)."""

    name: str
    question: str
    cost: float
    ask: Callable[[Target], Action | None]
    mine: Callable[[Action], bool]
    read: Callable[[Result], tuple[str, str]]


def _shell(target: Target, command: str, why: str) -> Action:
    return Action.shell(command, target=target.name, reasoning=why)


def _ask_process(target: Target) -> Action | None:
    if target.runs_at.startswith(_DOCKER):
        container = target.runs_at.removeprefix(_DOCKER)
        why = f"Does the container of {target.name} run?"
        return Action(_INSPECT, {"container": container}, target=target.name, reasoning=why)
    if target.process is None:
        return None
    pid = target.process.pid
    with_ps = f"ps -o pid=,stat=,etimes=,args= -p {pid}"
    command = with_ps if shutil.which("ps") else f"cat /proc/{pid}/stat"
    return _shell(target, command, f"Is the process of {target.name} (pid {pid}) alive?")


def _read_process(result: Result) -> tuple[str, str]:
    if result.outcome is not Outcome.RAN:
        return "unknown", "it could not be asked for its process"
    if "running" in result.data:
        return _read_container(result)
    if _NO_CONTAINER in result.stderr:
        return "dead", "there is no such container any more"
    # `ps` prints "pid stat seconds args", /proc prints "pid (name) stat ...".
    found = re.match(r"\s*\d+\s+(\(.*\)\s+)?([A-Za-z])\S*(?:\s+(\d+)\b)?", result.stdout)
    if found is None:
        gone = not result.stderr or "No such file" in result.stderr
        if result.exit_code == 1 and not result.stdout.strip() and gone:
            return "dead", "there is no such process any more"
        return "unknown", "the answer about its process makes no sense"
    in_proc, state, age_s = found.groups()
    if state in "Tt":
        return "stopped", f"its process is there but stopped (state {state})"
    if state in "ZX":
        return "dead", "its process has ended and only its entry is left (zombie)"
    if age_s is not None and in_proc is None and int(age_s) < YOUNG_S:
        return "starting", f"its process is only {age_s} s old (state {state})"
    return "alive", f"its process is alive (state {state})"


def _read_container(result: Result) -> tuple[str, str]:
    """What the engine says of the container, in which its process is the first."""
    told = result.data
    if told.get("status") == "paused":
        return "stopped", "its container is there but paused"
    if not told["running"]:
        return "dead", f"its container has ended, with exit code {told.get('exit_code')}"
    if not told.get("networks"):
        return "isolated", "its container runs and is on no network, so that nobody reaches it"
    if told.get("health") == "starting" or told.get("status") == "restarting":
        return "starting", "its container was started a moment ago"
    return "alive", "its container runs"


def _ask_port(target: Target) -> Action | None:
    if target.port is None:
        return None
    why = f"Does {target.name} answer on port {target.port}?"
    return Action("check_port", {"target": target.name}, target=target.name, reasoning=why)


def _read_port(result: Result) -> tuple[str, str]:
    state = str(result.data.get("port", "unknown")) if result.ok else "unknown"
    return state, result.stdout or "its port could not be tried"


def _ask_log(target: Target) -> Action | None:
    if not target.log:
        return None
    command = f"tail -n 20 {shlex.quote(target.log)}"
    return _shell(target, command, f"What are the last words of {target.name}?")


def _read_log(result: Result) -> tuple[str, str]:
    if not result.ok:
        return "unknown", "its log could not be read"
    every = result.stdout.splitlines()
    said = [line for line in every if not _FRAME.match(line)] or every
    lines = _since_it_began(said[-LAST_LINES:])
    for line in reversed(lines):
        if trouble := meaning(line, among=KINDS_OF["log"]["errors"]):
            return trouble, _quoted(line)
    for state, pattern in (("ended", _ENDED), ("errors", _ERRORS)):
        telling = [line for line in lines if pattern.search(line)]
        if telling:
            return state, _quoted(telling[-1])
    return "quiet", "its log ends without a word about it"


def _since_it_began(lines: list[str]) -> list[str]:
    """What it said before it was started anew is of another life, if that one was ended."""
    begun = [at for at, line in enumerate(lines) if _BEGUN.search(line)]
    before = lines[: begun[-1]] if begun else []
    return lines[begun[-1] :] if any(_ENDED.search(line) for line in before) else lines


def _quoted(line: str) -> str:
    return f"its log says: {line.strip()[:160]!r}"


def _ask_sockets(target: Target) -> Action | None:
    if target.process is None or not shutil.which("ss"):
        return None
    command = f"ss -Htanp | grep -w pid={target.process.pid}"
    why = f"Does the process of {target.name} listen, and does it take what comes in?"
    return _shell(target, command, why)


def _read_sockets(result: Result) -> tuple[str, str]:
    if result.outcome is not Outcome.RAN or result.exit_code not in (0, 1):
        return "unknown", "its connections could not be listed"
    rows = [line.split() for line in result.stdout.splitlines()]
    rows = [row for row in rows if len(row) >= 5 and row[1].isdigit()]
    if (result.exit_code == 0) != bool(rows) or result.stderr:
        return "unknown", "the list of its connections makes no sense"
    ports = [row[3].rpartition(":")[2] for row in rows if row[0] == "LISTEN"][:PORTS_MAX]
    if not ports:
        return "deaf", "it listens on no port"
    queued = sum(int(row[1]) for row in rows if row[0] == "LISTEN")
    unread = sum(row[0] != "LISTEN" and int(row[1]) > 0 for row in rows)
    left = sum(row[0] == "CLOSE-WAIT" for row in rows)
    where = f"it listens on {', '.join(ports)}"
    if queued or unread or left:
        waiting = f"{queued} callers wait to be let in, {unread} wait to be read, {left} gave up"
        return "waiting", f"{where}, and {waiting}"
    return "listening", f"{where} itself, and nobody who reached it is kept waiting"


def _ask_limits(target: Target) -> Action | None:
    if target.process is None:
        return None
    here = f"/proc/{target.process.pid}"
    command = f"cat {here}/limits {here}/status; ls {here}/fd | wc -l"
    return _shell(target, command, f"Has {target.name} used up the files or memory it may have?")


def _read_limits(result: Result) -> tuple[str, str]:
    text = result.stdout if result.outcome is Outcome.RAN else ""
    files_max = _figure(r"^Max open files\s+(\d+)", text)
    bytes_max = _figure(r"^Max address space\s+(\d+)", text)
    held_kb = _figure(r"^VmSize:\s+(\d+) kB", text)
    files = _figure(r"^(\d+)\s*\Z", text)
    if files is None or (files_max is None and "Max open files" not in text):
        return "unknown", "what it may have could not be read"
    if files_max is not None and files >= USED_UP * files_max:
        return "files", f"it has {files} files open and may have {files_max}"
    if bytes_max is not None and held_kb is not None and held_kb * 1024 >= USED_UP * bytes_max:
        return "memory", f"it holds {held_kb >> 10} MB of memory and may have {bytes_max >> 20} MB"
    return "room", "it may have more files and memory than it has"


def _figure(pattern: str, text: str) -> int | None:
    found = re.search(pattern, text, re.MULTILINE)
    return int(found[1][:18]) if found else None


def _ask_disk(target: Target) -> Action | None:
    if not target.data_dir:
        return None
    command = f"df -Pk {shlex.quote(target.data_dir)}"
    return _shell(target, command, f"Is there room on the disk of {target.name}?")


def _read_disk(result: Result) -> tuple[str, str]:
    found = re.search(r"\s(\d+)\s+(\d+)\s+(-?\d+)\s+(\d{1,3})%\s", result.stdout)
    if not result.ok or found is None:
        return "unknown", "its disk could not be asked for"
    free_kb, percent = found[3], int(found[4])
    state = "full" if percent >= DISK_FULL_PERCENT else "room"
    return state, f"its disk is {percent} % full, with {free_kb} kB left"


def _by_shell(*beginnings: str) -> Callable[[Action], bool]:
    return lambda action: action.tool == SHELL and action.command.startswith(beginnings)


PROBES: tuple[Probe, ...] = (
    Probe(
        name="process",
        question="is the process alive?",
        cost=1.0,
        ask=_ask_process,
        mine=lambda action: (
            action.tool == _INSPECT
            or (
                action.tool == SHELL
                and re.match(r"ps -o |cat /proc/\d+/stat\Z", action.command) is not None
            )
        ),
        read=_read_process,
    ),
    Probe(
        name="port",
        question="does the port answer?",
        cost=1.5,
        ask=_ask_port,
        mine=lambda action: action.tool == "check_port",
        read=_read_port,
    ),
    Probe(
        name="log",
        question="what does the log say?",
        cost=1.0,
        ask=_ask_log,
        mine=_by_shell("tail -n"),
        read=_read_log,
    ),
    Probe(
        name="sockets",
        question="does it take in what reaches it?",
        cost=1.2,
        ask=_ask_sockets,
        mine=_by_shell("ss -Htanp"),
        read=_read_sockets,
    ),
    Probe(
        name="limits",
        question="has it used up what it may have?",
        cost=1.2,
        ask=_ask_limits,
        mine=lambda action: (
            action.tool == SHELL and re.match(r"cat /proc/\d+/limits ", action.command) is not None
        ),
        read=_read_limits,
    ),
    Probe(
        name="disk",
        question="is there room on its disk?",
        cost=1.2,
        ask=_ask_disk,
        mine=_by_shell("df -Pk"),
        read=_read_disk,
    ),
)
