"""An Action is what a mind wants to do; a Result is what became of it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from operator_protocols.domain.category import FailureCategory
from operator_protocols.domain.observation import Value

__all__ = ["SHELL", "Action", "Outcome", "Result", "digest_of"]

SHELL = "shell"


def digest_of(value: object) -> str:
    """The sha256 of a JSON value in canonical form."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return "sha256:" + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True, slots=True)
class Action:
    """A command or a typed tool call with its reason. Not yet allowed.

    `venv` is a virtual environment of Python that the command runs inside of.
    """

    tool: str
    arguments: Mapping[str, Value]
    target: str = ""
    reasoning: str = ""
    expected: str = ""
    cwd: str = "/"
    timeout_s: float = 120.0
    venv: str = ""

    @classmethod
    def shell(cls, command: str, *, target: str = "", reasoning: str = "") -> Action:
        """One command line."""
        return cls(SHELL, {"command": command}, target=target, reasoning=reasoning)

    @property
    def command(self) -> str:
        """The command line of a shell action, or the tool call as people write it."""
        if self.tool == SHELL:
            return str(self.arguments.get("command", ""))
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
            }
        )


class Outcome(StrEnum):
    """What became of an Action."""

    RAN = "ran"
    REFUSED = "refused"
    TIMED_OUT = "timed_out"
    CANCELLED = "cancelled"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Result:
    """The truth about one Action. A command that fails is a Result, not an error."""

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

    @property
    def ok(self) -> bool:
        """It ran to its end and said so."""
        return self.outcome is Outcome.RAN and self.exit_code == 0
