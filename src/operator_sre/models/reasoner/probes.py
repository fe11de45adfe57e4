"""Probes of a target: the action that each runs, and how its result is read. Pure."""

from __future__ import annotations

import re
import shlex
import shutil
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from operator_protocols.domain.action import SHELL, Action, Outcome, Result
from operator_protocols.domain.target import Target
from operator_protocols.kit.units import format_bytes
from operator_sre.models.reasoner.logs import LINES_READ, read_log

__all__ = ["PROBES", "Probe", "Scene", "read_outcome"]

# A process that is younger than this may not be ready yet.
YOUNG_S = 10
# A limit counts as reached from this share on.
USED_UP = 0.95
DISK_FULL_PERCENT = 99
PORTS_MAX = 5
# The process in a container is not visible here, so its engine is asked instead.
_DOCKER = "docker://"
# Established connections without unread bytes, and closed ones, in the kernel's tables.
_IDLE = " (01 [0-9A-F]{8}:0{8}|06) "
_LISTENS, _LEFT = "0A", "08"
_ROW = re.compile(
    r"\s*\d+: [0-9A-F]+:(?P<port>[0-9A-F]{4}) \S+ (?P<state>[0-9A-F]{2})"
    r" [0-9A-F]{8}:(?P<waits>[0-9A-F]{8})(?: +\S+){4} (?P<inode>\d+) "
)
_CLOSED = "No such file"
_INSPECT, _NO_CONTAINER = "docker_inspect", "No such container"


@dataclass(frozen=True, slots=True)
class Scene:
    """What is known of a target that a probe asked, from the observation and the ticket.

    `refused` means that its `port` refuses connections. `since` is when it began to fail.
    """

    port: int | None = None
    refused: bool = False
    since: datetime | None = None


NOTHING_KNOWN = Scene()


class Probe(Protocol):
    """One probe: its action for a target, which results belong to it, and how to read them."""

    @property
    def name(self) -> str:
        """Its name in the tables of outcomes."""
        ...

    @property
    def question(self) -> str:
        """The question that it answers."""
        ...

    @property
    def cost(self) -> float:
        """Its cost relative to the other probes."""
        ...

    def ask(self, target: Target) -> Action | None:
        """Its action for a target; None where it does not apply."""
        ...

    def mine(self, action: Action) -> bool:
        """Whether an action belongs to this probe."""
        ...

    def read(self, result: Result, scene: Scene = NOTHING_KNOWN) -> tuple[str, str]:
        """The outcome, and a sentence of evidence."""
        ...


class ProcessProbe:
    """Whether the process or the container of a target runs."""

    name, question, cost = "process", "is the process running?", 1.0

    def ask(self, target: Target) -> Action | None:
        """By PID, or by the engine of its container."""
        if target.runs_at.startswith(_DOCKER):
            container = target.runs_at.removeprefix(_DOCKER)
            why = f"Check whether the container of {target.name} is running."
            return Action(_INSPECT, {"container": container}, target=target.name, reasoning=why)
        if target.process is None:
            return None
        pid = target.process.pid
        with_ps = f"ps -o pid=,stat=,etimes=,args= -p {pid}"
        command = with_ps if shutil.which("ps") else f"cat /proc/{pid}/stat"
        return _shell(target, command, f"Check whether {target.name} (pid {pid}) is running.")

    def mine(self, action: Action) -> bool:
        """By the tool, or by the start of the command."""
        own = re.match(r"ps -o |cat /proc/\d+/stat\Z", action.command)
        return action.tool == _INSPECT or (action.tool == SHELL and own is not None)

    def read(self, result: Result, scene: Scene = NOTHING_KNOWN) -> tuple[str, str]:
        """The state by `ps`, /proc or the container engine."""
        if result.outcome is not Outcome.RAN:
            return "unknown", "the process could not be checked"
        if "running" in (data := result.data):
            if data.get("status") == "paused":
                return "stopped", "the container is paused"
            if not data["running"]:
                return "dead", f"the container has exited with code {data.get('exit_code')}"
            if not data.get("networks"):
                return "isolated", "the container is running but connected to no network"
            if data.get("health") == "starting" or data.get("status") == "restarting":
                return "starting", "the container has just been started"
            return "alive", "the container is running"
        if _NO_CONTAINER in result.stderr:
            return "dead", "the container does not exist"
        # `ps` prints "pid stat seconds args", /proc prints "pid (name) stat ...".
        match = re.match(r"\s*\d+\s+(\(.*\)\s+)?([A-Za-z])\S*(?:\s+(\d+)\b)?", result.stdout)
        if match is None:
            gone = not result.stderr or "No such file" in result.stderr
            if result.exit_code == 1 and not result.stdout.strip() and gone:
                return "dead", "the process does not exist"
            return "unknown", "the state of the process could not be parsed"
        in_proc, state, age_s = match.groups()
        if state in "Tt":
            return "stopped", f"the process is stopped (state {state})"
        if state in "ZX":
            return "dead", "the process has exited (zombie)"
        if age_s is not None and in_proc is None and int(age_s) < YOUNG_S:
            return "starting", f"the process was started {age_s} s ago (state {state})"
        return "alive", f"the process is running (state {state})"


class PortProbe:
    """Whether the port of a target answers."""

    name, question, cost = "port", "does the port answer?", 1.5

    def ask(self, target: Target) -> Action | None:
        """By the tool check_port."""
        if target.port is None:
            return None
        why = f"Check whether {target.name} answers on port {target.port}."
        return Action("check_port", {"target": target.name}, target=target.name, reasoning=why)

    def mine(self, action: Action) -> bool:
        """By the tool."""
        return action.tool == "check_port"

    def read(self, result: Result, scene: Scene = NOTHING_KNOWN) -> tuple[str, str]:
        """The state that the tool names."""
        state = str(result.data.get("port", "unknown")) if result.ok else "unknown"
        return state, result.stdout or "the port could not be checked"


class LogProbe:
    """The last lines of a target's log."""

    name, question, cost = "log", "what does the log show since the failure?", 1.0

    def ask(self, target: Target) -> Action | None:
        """The end of its log."""
        if not target.log:
            return None
        command = f"tail -n {LINES_READ} {shlex.quote(target.log)}"
        return _shell(target, command, f"Read the last log lines of {target.name}.")

    def mine(self, action: Action) -> bool:
        """By the start of the command."""
        return action.tool == SHELL and action.command.startswith("tail -n")

    def read(self, result: Result, scene: Scene = NOTHING_KNOWN) -> tuple[str, str]:
        """The reason that the lines since the failure name."""
        if not result.ok:
            return "unknown", "the log could not be read"
        return read_log(result.stdout, scene.since)


class SocketsProbe:
    """Whether a process listens and accepts connections.

    The kernel's own tables are read: `ss -p` would look for the owner of every socket of the
    machine, among all its processes.
    """

    name, question, cost = "sockets", "does it accept connections?", 1.2

    def ask(self, target: Target) -> Action | None:
        """The sockets of its process, and the connections that are not idle.

        A machine may lack the table of IPv6.
        """
        if target.process is None:
            return None
        here = f"/proc/{target.process.pid}"
        sockets = f"ls -l {here}/fd | grep -o 'socket:.*'"
        command = f"{sockets}; grep -shEv '{_IDLE}' {here}/net/tcp {here}/net/tcp6"
        why = f"Check whether {target.name} listens and accepts connections."
        return _shell(target, command, why)

    def mine(self, action: Action) -> bool:
        """By the start of the command."""
        own = re.match(r"ls -l /proc/\d+/fd \|", action.command)
        return action.tool == SHELL and own is not None

    def read(self, result: Result, scene: Scene = NOTHING_KNOWN) -> tuple[str, str]:
        """The ports it listens on, and the connections that wait."""
        if result.outcome is not Outcome.RAN:
            return "unknown", "the sockets could not be listed"
        own = set(re.findall(r"^socket:\[(\d+)\]", result.stdout, re.MULTILINE))
        rows = [_ROW.match(line) for line in result.stdout.splitlines()]
        mine = [row for row in rows if row is not None and row["inode"] in own]
        # A descriptor may be closed while they are listed, and a process that is gone has none.
        is_moved = [_CLOSED in line for line in result.stderr.splitlines()]
        gone = any(is_moved) and not own
        if not all(is_moved) or not (gone or any(rows)):
            return "unknown", "the sockets could not be listed"
        waits = [(row, int(row["waits"], 16)) for row in mine]
        ports = dict.fromkeys(str(int(r["port"], 16)) for r in mine if r["state"] == _LISTENS)
        if not ports:
            return "deaf", "the process listens on no port"
        queued = sum(count for row, count in waits if row["state"] == _LISTENS)
        unread = sum(row["state"] != _LISTENS and count > 0 for row, count in waits)
        left = sum(row["state"] == _LEFT for row in mine)
        where = f"the process listens on {', '.join(list(ports)[:PORTS_MAX])}"
        if scene.refused and scene.port is not None and str(scene.port) not in ports:
            return "elsewhere", f"{where}, but not on {scene.port}, which its clients use"
        if queued or unread or left:
            waiting = f"{queued} connections wait to be accepted, {unread} to be read"
            return "waiting", f"{where}; {waiting}, {left} were given up"
        return "listening", f"{where} and no connection waits"


class LimitsProbe:
    """Whether a process has reached its limit of open files or memory."""

    name, question, cost = "limits", "has it reached a resource limit?", 1.2

    def ask(self, target: Target) -> Action | None:
        """The limits and usage by the kernel."""
        if target.process is None:
            return None
        here = f"/proc/{target.process.pid}"
        command = f"cat {here}/limits {here}/status; ls {here}/fd | wc -l"
        why = f"Check whether {target.name} has reached its limit of files or memory."
        return _shell(target, command, why)

    def mine(self, action: Action) -> bool:
        """By the start of the command."""
        own = re.match(r"cat /proc/\d+/limits ", action.command)
        return action.tool == SHELL and own is not None

    def read(self, result: Result, scene: Scene = NOTHING_KNOWN) -> tuple[str, str]:
        """Usage compared with the limits."""
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
            return "unknown", "the resource limits could not be read"
        if files_max is not None and files >= USED_UP * files_max:
            return "files", f"{files} of {files_max} allowed files are open"
        if bytes_max is not None and held_kb is not None and held_kb * 1024 >= USED_UP * bytes_max:
            held, most = format_bytes(held_kb * 1024), format_bytes(bytes_max)
            return "memory", f"{held} of {most} allowed memory is in use"
        return "room", "files and memory are below their limits"


class DiskProbe:
    """Whether the disk of a target has free space."""

    name, question, cost = "disk", "does its disk have free space?", 1.0

    def ask(self, target: Target) -> Action | None:
        """The disk of its data directory."""
        if not target.data_dir:
            return None
        command = f"df -Pk {shlex.quote(target.data_dir)}"
        return _shell(target, command, f"Check the free space on the disk of {target.name}.")

    def mine(self, action: Action) -> bool:
        """By the start of the command."""
        return action.tool == SHELL and action.command.startswith("df -Pk")

    def read(self, result: Result, scene: Scene = NOTHING_KNOWN) -> tuple[str, str]:
        """How full it is."""
        match = re.search(r"\s(\d+)\s+(\d+)\s+(-?\d+)\s+(\d{1,3})%\s", result.stdout)
        if not result.ok or match is None:
            return "unknown", "the disk could not be checked"
        free, percent = format_bytes(int(match[3]) * 1024), int(match[4])
        state = "full" if percent >= DISK_FULL_PERCENT else "room"
        return state, f"the disk is {percent} % full, {free} free"


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


def read_outcome(action: Action, result: Result, since: datetime | None) -> str:
    """What an action of a probe showed, such as `process=dead`; "" for any other action."""
    for probe in PROBES:
        if probe.mine(action):
            return f"{probe.name}={probe.read(result, Scene(since=since))[0]}"
    return ""
