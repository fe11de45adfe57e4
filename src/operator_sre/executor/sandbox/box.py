"""What a box is asked to run, within which limits, and what every kind of box promises."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol, runtime_checkable

from operator_protocols.domain.action import Outcome, Result
from operator_protocols.domain.category import ErrorCategory, FailureCategory
from operator_protocols.domain.run import UNAVAILABLE
from operator_protocols.ports import Job
from operator_sre.executor.sandbox.egress import Egress

__all__ = [
    "INPUTS_BYTES_MAX",
    "INPUTS_MAX",
    "TIMEOUT_S",
    "TIMEOUT_S_MAX",
    "Language",
    "Limits",
    "Sandbox",
    "Script",
    "network_told",
    "refusal",
]

TIMEOUT_S = 60.0
TIMEOUT_S_MAX = 300.0
INPUTS_MAX = 64
INPUTS_BYTES_MAX = 16 * 1024 * 1024
# What programs say when there is no network; the text counts only where the exit says failure.
_NO_NETWORK = (
    "Network is unreachable",
    "Network unreachable",
    "Temporary failure in name resolution",
    "Name or service not known",
    "Could not resolve host",
    "bad address",
    "Address family not supported",
)


class Language(StrEnum):
    """What a script is written in."""

    PYTHON = "python"
    BASH = "bash"


@dataclass(frozen=True, slots=True)
class Limits:
    """How much of everything one script may take, children included."""

    timeout_s: float = TIMEOUT_S
    memory_bytes: int = 512 * 1024 * 1024  # swap included
    processes: int = 100
    temporary_bytes: int = 64 * 1024 * 1024
    file_bytes: int = 64 * 1024 * 1024
    open_files: int = 256

    def seconds(self, job: Job) -> float:
        """How long it may take: never longer than its job, nor than anything may."""
        return min(self.timeout_s, job.timeout_s, TIMEOUT_S_MAX)

    def cpu_seconds(self, job: Job) -> int:
        """How long one of its processes may compute; it has one processor."""
        return math.ceil(self.seconds(job)) + 1


@dataclass(frozen=True, slots=True)
class Script:
    """A text to run. `inputs` are read-only files beside it, `hosts` the `host:port` it reaches."""

    language: Language
    text: str = field(repr=False)
    inputs: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    hosts: tuple[str, ...] = ()

    def problem(self) -> str:
        """Why these inputs or hosts cannot be handed in, or ""."""
        if len(self.inputs) > INPUTS_MAX:
            return f"A script takes up to {INPUTS_MAX} inputs, but got {len(self.inputs)}."
        if sum(map(len, self.inputs.values())) > INPUTS_BYTES_MAX:
            return (
                f"The inputs are larger than {INPUTS_BYTES_MAX // 1024**2} MB together; pass fewer."
            )
        for name in self.inputs:
            inside = all(each.isascii() and (each.isalnum() or each in "._-") for each in name)
            is_name = inside and 0 < len(name) <= 255 and not name.startswith(".")
            if not is_name:
                return f"{name!r} is not a valid input name: use letters, digits, '.', '_' and '-'."
        try:
            Egress(self.hosts)
        except ValueError as error:
            return f"The list of hosts is not valid: {error}."
        return ""


@runtime_checkable
class Sandbox(Protocol):
    """A box in which a stranger's script can harm nothing."""

    @property
    def name(self) -> str:
        """Which kind it is, in results and settings."""
        ...

    async def run(self, script: Script, limits: Limits, job: Job) -> Result:
        """Run it boxed and leave nothing behind; REFUSED, and not run, where no box can be made."""
        ...

    async def recover(self, job: Job) -> Result:
        """What became of a script whose operator is gone; it starts nothing."""
        ...


def refusal(why: str) -> Result:
    """The answer where no box can be made: the script did not run."""
    return Result(
        Outcome.REFUSED,
        stderr=f"{why} The script was not run.",
        category=FailureCategory.PERMISSION,
        data={UNAVAILABLE: "sandbox"},
    )


def network_told(result: Result, denied: tuple[str, ...]) -> dict[str, str]:
    """What the data of a result says of the network: what was refused, and its category."""
    data = {"error_category": ErrorCategory.NETWORK_SANDBOX_FAILED.value}
    if denied:
        return {**data, "refused_hosts": ", ".join(denied)}
    if not result.ok and any(each in result.stderr for each in _NO_NETWORK):
        return data
    return {}
