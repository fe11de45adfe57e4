"""An Action is what an agent wants to do; a Result is its outcome."""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import assert_never

from operator_protocols.domain.category import FailureCategory
from operator_protocols.domain.health import Severity
from operator_protocols.domain.observation import Value
from operator_protocols.domain.target import Process

__all__ = [
    "MARK",
    "SHELL",
    "SHELL_S",
    "TIMEOUT_S",
    "TIMEOUT_S_MAX",
    "Action",
    "Argument",
    "Left",
    "Outcome",
    "Result",
    "Urgency",
    "Usage",
    "digest_of",
]

SHELL = "shell"
# The environment variable of every process that Operator starts. It identifies a process that forks
# twice and leaves its session, and tells a command that a person did not start it.
MARK = "OPERATOR_TREE"
# Default timeouts of a command line and of any other action, and the maximum.
SHELL_S = 120.0
TIMEOUT_S = 300.0
TIMEOUT_S_MAX = 600.0

# What a tool can be given.
Argument = Value | tuple[Value, ...] | Mapping[str, Value]


def digest_of(value: object) -> str:
    """The sha256 of a JSON value in canonical form."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return "sha256:" + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


class Urgency(StrEnum):
    """How soon it should be done."""

    IMMEDIATE = "immediate"
    SOON = "soon"
    WHEN_CONVENIENT = "when_convenient"

    @classmethod
    def of(cls, severity: Severity) -> Urgency:
        """The urgency of a repair, by the severity of what is broken."""
        match severity:
            case Severity.CRITICAL:
                return cls.IMMEDIATE
            case Severity.WARNING:
                return cls.SOON
            case Severity.INFO:
                return cls.WHEN_CONVENIENT
            case _:
                assert_never(severity)


@dataclass(frozen=True, slots=True)
class Action:
    """A command or a typed tool call with its reason. Not yet allowed.

    `venv` is a virtual environment of Python that the command runs inside of, `passes` are the
    names of variables of the operator's own environment that it is given. `place` is which machine
    or container its target was when it was proposed, where that is not this machine. `inferred` are
    the arguments that the caller left out and the ticket determined.
    """

    tool: str
    arguments: Mapping[str, Argument]
    target: str = ""
    reasoning: str = ""
    expected: str = ""
    cwd: str = "/"
    timeout_s: float = SHELL_S
    venv: str = ""
    passes: tuple[str, ...] = ()
    place: str = ""
    urgency: Urgency = Urgency.SOON
    inferred: tuple[str, ...] = ()

    @classmethod
    def shell(cls, command: str, *, target: str = "", reasoning: str = "") -> Action:
        """One command line."""
        return cls(SHELL, {"command": command}, target=target, reasoning=reasoning)

    @classmethod
    def program(cls, argv: Sequence[str], *, target: str = "", reasoning: str = "") -> Action:
        """One program with its arguments, run without a shell."""
        return cls(SHELL, {"argv": tuple(argv)}, target=target, reasoning=reasoning)

    @property
    def argv(self) -> tuple[str, ...]:
        """The words of a program that is run without a shell; none of a command line."""
        words = self.arguments.get("argv", ()) if self.tool == SHELL else ()
        return tuple(map(str, words)) if isinstance(words, Sequence) else ()

    @property
    def command(self) -> str:
        """The command line of a shell action, or the tool call as people write it."""
        if self.tool == SHELL:
            argv = self.argv
            return shlex.join(argv) if argv else str(self.arguments.get("command", ""))
        inside = ", ".join(f"{name}={value}" for name, value in sorted(self.arguments.items()))
        return f"{self.tool}({inside})"

    @property
    def digest(self) -> str:
        """What a Permit is bound to: everything that decides the effect, not the reasoning."""
        return digest_of(
            {
                "tool": self.tool,
                "arguments": dict(self.arguments),
                "target": self.target,
                "cwd": self.cwd,
                "timeout_s": self.timeout_s,
                "venv": self.venv,
                "passes": self.passes,
                "place": self.place,
            }
        )


class Outcome(StrEnum):
    """The outcome of an Action."""

    RAN = "ran"
    REFUSED = "refused"
    TIMED_OUT = "timed_out"
    CANCELLED = "cancelled"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Usage:
    """What a command took, with all of its children that it waited for.

    `memory_bytes` is the most it had at once, and 0 where it was too small to measure.
    """

    user_s: float = 0.0
    system_s: float = 0.0
    memory_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Left:
    """A process that a command left behind when it ended; `ended` when it was ended for that."""

    process: Process
    name: str
    ended: bool = False


@dataclass(frozen=True, slots=True)
class Result:
    """The truth about one Action. A command that fails is a Result, not an error.

    The sizes are those of the full output; the hashes name the spool files that keep it for a time.
    `undo` rolls the action back, where that is possible. `blocked` lists what the command tried
    beyond its verdict, and the kernel refused.
    """

    outcome: Outcome
    exit_code: int | None = None
    stdout: str = ""
    stderr: str = ""
    truncated: bool = False
    duration_s: float = 0.0
    category: FailureCategory | None = None
    data: Mapping[str, Value] = field(default_factory=dict)
    stdout_sha256: str = ""
    stderr_sha256: str = ""
    stdout_bytes: int = 0
    stderr_bytes: int = 0
    usage: Usage | None = None
    process: Process | None = None
    left: tuple[Left, ...] = ()
    blocked: tuple[str, ...] = ()
    undo: Action | None = None

    @property
    def timed_out(self) -> bool:
        """It was stopped at its timeout."""
        return self.outcome is Outcome.TIMED_OUT

    @property
    def ok(self) -> bool:
        """It finished with exit code 0."""
        return self.outcome is Outcome.RAN and self.exit_code == 0
