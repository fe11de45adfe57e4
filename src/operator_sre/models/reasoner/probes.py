"""Questions to a target: the action that asks, and how its result reads. Pure."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Callable
from dataclasses import dataclass

from operator_protocols.domain.action import SHELL, Action, Outcome, Result
from operator_protocols.domain.target import Target

__all__ = ["PROBES", "Probe"]

_ERRORS = re.compile(r"\b(error|fatal|panic|exception|traceback|refused|out of memory)\b", re.I)
_ENDED = re.compile(r"\b(shutting down|shutdown|stopped|exiting|bye|terminated)\b", re.I)


@dataclass(frozen=True, slots=True)
class Probe:
    """One question: `ask` makes its action for a target (None when it cannot be asked there)."""

    name: str
    question: str
    cost: float
    ask: Callable[[Target], Action | None]
    mine: Callable[[Action], bool]
    read: Callable[[Result], tuple[str, str]]


def _ask_process(target: Target) -> Action | None:
    if target.process is None:
        return None
    pid = target.process.pid
    command = f"ps -o pid=,stat=,args= -p {pid}" if shutil.which("ps") else f"cat /proc/{pid}/stat"
    why = f"Is the process of {target.name} (pid {pid}) alive?"
    return Action.shell(command, target=target.name, reasoning=why)


def _read_process(result: Result) -> tuple[str, str]:
    if result.outcome is not Outcome.RAN:
        return "unknown", "it could not be asked for its process"
    # `ps` prints "pid stat args", /proc prints "pid (name) stat ...".
    found = re.match(r"\s*\d+\s+(?:\(.*\)\s+)?([A-Za-z])", result.stdout)
    if found is None:
        gone = not result.stderr or "No such file" in result.stderr
        if result.exit_code == 1 and not result.stdout.strip() and gone:
            return "dead", "there is no such process any more"
        return "unknown", "the answer about its process makes no sense"
    if found[1] in "Tt":
        return "stopped", f"its process is there but stopped (state {found[1]})"
    if found[1] in "ZX":
        return "dead", "its process has ended and only its entry is left (zombie)"
    return "alive", f"its process is alive (state {found[1]})"


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
    why = f"What are the last words of {target.name}?"
    return Action.shell(command, target=target.name, reasoning=why)


def _read_log(result: Result) -> tuple[str, str]:
    if not result.ok:
        return "unknown", "its log could not be read"
    lines = result.stdout.splitlines()
    for state, pattern in (("ended", _ENDED), ("errors", _ERRORS)):
        telling = [line for line in lines[-5:] if pattern.search(line)]
        if telling:
            return state, f"its log says: {telling[-1].strip()[:160]!r}"
    return "quiet", "its log ends without a word about it"


PROBES: tuple[Probe, ...] = (
    Probe(
        name="process",
        question="is the process alive?",
        cost=1.0,
        ask=_ask_process,
        mine=lambda action: (
            action.tool == SHELL and action.command.startswith(("ps -o", "cat /proc/"))
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
        mine=lambda action: action.tool == SHELL and action.command.startswith("tail -n"),
        read=_read_log,
    ),
)
