"""Questions to a target: the action that asks, and how its result reads. Pure."""

from __future__ import annotations

import re
import shlex
import shutil
from typing import Protocol

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


class Probe(Protocol):
    """One question: its action for a target, whose results are its own, and how they read."""

    @property
    def name(self) -> str:
        """What it is called in tables of outcomes."""
        ...

    @property
    def question(self) -> str:
        """What it asks, in words."""
        ...

    @property
    def cost(self) -> float:
        """How dear it is, compared with the others."""
        ...

    def ask(self, target: Target) -> Action | None:
        """Its action for a target; None when it cannot be asked there."""
        ...

    def mine(self, action: Action) -> bool:
        """Whether an action asks just this."""
        ...

    def read(self, result: Result) -> tuple[str, str]:
        """The outcome, and a sentence on what was seen."""
        ...


class ProcessProbe:
    """Whether the process or the container of a target runs."""

    name, question, cost = "process", "is the process alive?", 1.0

    def ask(self, target: Target) -> Action | None:
        """By its pid, or by the engine of its container."""
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

    def mine(self, action: Action) -> bool:
        """By the tool, or by how the command begins."""
        own = re.match(r"ps -o |cat /proc/\d+/stat\Z", action.command)
        return action.tool == _INSPECT or (action.tool == SHELL and own is not None)

    def read(self, result: Result) -> tuple[str, str]:
        """What `ps`, /proc or the engine of containers says of it."""
        if result.outcome is not Outcome.RAN:
            return "unknown", "it could not be asked for its process"
        if "running" in (data := result.data):
            if data.get("status") == "paused":
                return "stopped", "its container is there but paused"
            if not data["running"]:
                return "dead", f"its container has ended, with exit code {data.get('exit_code')}"
            if not data.get("networks"):
                alone = "its container runs and is on no network, so that nobody reaches it"
                return "isolated", alone
            if data.get("health") == "starting" or data.get("status") == "restarting":
                return "starting", "its container was started a moment ago"
            return "alive", "its container runs"
        if _NO_CONTAINER in result.stderr:
            return "dead", "there is no such container any more"
        # `ps` prints "pid stat seconds args", /proc prints "pid (name) stat ...".
        match = re.match(r"\s*\d+\s+(\(.*\)\s+)?([A-Za-z])\S*(?:\s+(\d+)\b)?", result.stdout)
        if match is None:
            gone = not result.stderr or "No such file" in result.stderr
            if result.exit_code == 1 and not result.stdout.strip() and gone:
                return "dead", "there is no such process any more"
            return "unknown", "the answer about its process makes no sense"
        in_proc, state, age_s = match.groups()
        if state in "Tt":
            return "stopped", f"its process is there but stopped (state {state})"
        if state in "ZX":
            return "dead", "its process has ended and only its entry is left (zombie)"
        if age_s is not None and in_proc is None and int(age_s) < YOUNG_S:
            return "starting", f"its process is only {age_s} s old (state {state})"
        return "alive", f"its process is alive (state {state})"


class PortProbe:
    """Whether anybody answers at the port of a target."""

    name, question, cost = "port", "does the port answer?", 1.5

    def ask(self, target: Target) -> Action | None:
        """By the typed tool for it."""
        if target.port is None:
            return None
        why = f"Does {target.name} answer on port {target.port}?"
        return Action("check_port", {"target": target.name}, target=target.name, reasoning=why)

    def mine(self, action: Action) -> bool:
        """By the tool."""
        return action.tool == "check_port"

    def read(self, result: Result) -> tuple[str, str]:
        """The state that the tool names."""
        state = str(result.data.get("port", "unknown")) if result.ok else "unknown"
        return state, result.stdout or "its port could not be tried"


class LogProbe:
    """The last words of a target."""

    name, question, cost = "log", "what does the log say?", 1.0

    def ask(self, target: Target) -> Action | None:
        """The end of its log."""
        if not target.log:
            return None
        command = f"tail -n 20 {shlex.quote(target.log)}"
        return _shell(target, command, f"What are the last words of {target.name}?")

    def mine(self, action: Action) -> bool:
        """By how the command begins."""
        return action.tool == SHELL and action.command.startswith("tail -n")

    def read(self, result: Result) -> tuple[str, str]:
        """The trouble that its last lines name, since it was started."""
        if not result.ok:
            return "unknown", "its log could not be read"
        every = result.stdout.splitlines()
        lines = ([line for line in every if not _FRAME.match(line)] or every)[-LAST_LINES:]
        # What it said before it was started anew is of another life, if that one was ended.
        begun = [at for at, line in enumerate(lines) if _BEGUN.search(line)]
        if begun and any(_ENDED.search(line) for line in lines[: begun[-1]]):
            lines = lines[begun[-1] :]
        for line in reversed(lines):
            if trouble := meaning(line, among=KINDS_OF["log"]["errors"]):
                return trouble, f"its log says: {line.strip()[:160]!r}"
        for state, pattern in (("ended", _ENDED), ("errors", _ERRORS)):
            telling = [line for line in lines if pattern.search(line)]
            if telling:
                return state, f"its log says: {telling[-1].strip()[:160]!r}"
        return "quiet", "its log ends without a word about it"


class SocketsProbe:
    """Whether a process listens, and takes what comes in."""

    name, question, cost = "sockets", "does it take in what reaches it?", 1.2

    def ask(self, target: Target) -> Action | None:
        """The connections of its process."""
        if target.process is None or not shutil.which("ss"):
            return None
        command = f"ss -Htanp | grep -w pid={target.process.pid}"
        why = f"Does the process of {target.name} listen, and does it take what comes in?"
        return _shell(target, command, why)

    def mine(self, action: Action) -> bool:
        """By how the command begins."""
        return action.tool == SHELL and action.command.startswith("ss -Htanp")

    def read(self, result: Result) -> tuple[str, str]:
        """On which ports it listens, and how many wait there."""
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
            waiting = f"{queued} callers wait to be let in, {unread} wait to be read"
            return "waiting", f"{where}, and {waiting}, {left} gave up"
        return "listening", f"{where} itself, and nobody who reached it is kept waiting"


class LimitsProbe:
    """Whether a process has used up the files or the memory that it may have."""

    name, question, cost = "limits", "has it used up what it may have?", 1.2

    def ask(self, target: Target) -> Action | None:
        """What the kernel tells of its process."""
        if target.process is None:
            return None
        here = f"/proc/{target.process.pid}"
        command = f"cat {here}/limits {here}/status; ls {here}/fd | wc -l"
        why = f"Has {target.name} used up the files or memory it may have?"
        return _shell(target, command, why)

    def mine(self, action: Action) -> bool:
        """By how the command begins."""
        own = re.match(r"cat /proc/\d+/limits ", action.command)
        return action.tool == SHELL and own is not None

    def read(self, result: Result) -> tuple[str, str]:
        """Limits against what is used of them."""
        text = result.stdout if result.outcome is Outcome.RAN else ""
        files_max, bytes_max, held_kb, files = (
            int(match[1][:18]) if (match := re.search(pattern, text, re.MULTILINE)) else None
            for pattern in (
                r"^Max open files\s+(\d+)",
                r"^Max address space\s+(\d+)",
                r"^VmSize:\s+(\d+) kB",
                r"^(\d+)\s*\Z",
            )
        )
        if files is None or (files_max is None and "Max open files" not in text):
            return "unknown", "what it may have could not be read"
        if files_max is not None and files >= USED_UP * files_max:
            return "files", f"it has {files} files open and may have {files_max}"
        if bytes_max is not None and held_kb is not None and held_kb * 1024 >= USED_UP * bytes_max:
            held_mb, most_mb = held_kb >> 10, bytes_max >> 20
            return "memory", f"it holds {held_mb} MB of memory and may have {most_mb} MB"
        return "room", "it may have more files and memory than it has"


class DiskProbe:
    """Whether there is room on the disk of a target."""

    name, question, cost = "disk", "is there room on its disk?", 1.2

    def ask(self, target: Target) -> Action | None:
        """The disk under its data."""
        if not target.data_dir:
            return None
        command = f"df -Pk {shlex.quote(target.data_dir)}"
        return _shell(target, command, f"Is there room on the disk of {target.name}?")

    def mine(self, action: Action) -> bool:
        """By how the command begins."""
        return action.tool == SHELL and action.command.startswith("df -Pk")

    def read(self, result: Result) -> tuple[str, str]:
        """How full it is."""
        match = re.search(r"\s(\d+)\s+(\d+)\s+(-?\d+)\s+(\d{1,3})%\s", result.stdout)
        if not result.ok or match is None:
            return "unknown", "its disk could not be asked for"
        free_kb, percent = match[3], int(match[4])
        state = "full" if percent >= DISK_FULL_PERCENT else "room"
        return state, f"its disk is {percent} % full, with {free_kb} kB left"


def _shell(target: Target, command: str, why: str) -> Action:
    return Action.shell(command, target=target.name, reasoning=why)


PROBES: tuple[Probe, ...] = (
    ProcessProbe(),
    PortProbe(),
    LogProbe(),
    SocketsProbe(),
    LimitsProbe(),
    DiskProbe(),
)
