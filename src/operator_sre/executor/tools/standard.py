"""The tools that every subject has, put together."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from operator_protocols.domain.target import Target
from operator_protocols.ports import Clock, Tool
from operator_sre.executor.programs import Programs
from operator_sre.executor.tools.files import ReadFile, RestoreFile, Rights, WriteFile
from operator_sre.executor.tools.general import LogMessage, Wait
from operator_sre.executor.tools.host import KillProcess, service_tools
from operator_sre.executor.tools.port import CheckPort
from operator_sre.executor.tools.replacement import Kept

__all__ = ["standard_tools"]


def standard_tools(
    *,
    programs: Programs,
    clock: Clock,
    targets: Callable[[], Sequence[Target]],
    manages: Callable[[str], bool],
    rights: Rights,
    home: Path,
    systemctl: str = "systemctl",
) -> tuple[Tool, ...]:
    """All of them. What is in `home` is the operator's own, which no tool writes."""
    own = f"{os.path.realpath(home)}/"
    limited = Rights(
        writable=lambda path: not path.startswith(own) and rights.writable(path),
        secret=lambda path: path.startswith(own) or rights.secret(path),
    )
    kept = Kept(home / "replaced")
    return (
        CheckPort(targets),
        *service_tools(programs, manages, systemctl=systemctl),
        KillProcess(),
        ReadFile(),
        WriteFile(limited, kept),
        RestoreFile(limited, kept),
        Wait(clock),
        LogMessage(),
    )
