"""A diagnostic gives the same answer confined as unconfined: SAFE stays useful."""

from __future__ import annotations

import asyncio
import re
import secrets
import shutil
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from operator_protocols.domain.action import Action, Result
from operator_protocols.domain.verdict import Level
from operator_protocols.ports import Job
from operator_sre.enforcement import why_not_confined
from operator_sre.executor.hidden import Hidden
from operator_sre.executor.jobs import Spool
from operator_sre.executor.programs import Programs
from operator_sre.executor.transports.local import ENVIRONMENT, LocalShell
from operator_sre.gate import Policy
from operator_sre.gate.judge import judge
from tests.cases.corpora import commands_in
from tests.processes.runners import end_runner

pytestmark = pytest.mark.skipif(bool(why_not_confined()), reason=why_not_confined() or "-")
TIMEOUT_S = 6.0
ALIKE_MIN = 0.9
SAME_MIN = 0.99
# One for each thing that a wall could be in the way of. Their answers do not change by themselves:
# the kernel's log and the space that is used do, so only their shape is asked for.
EVERYDAY = [
    "uptime",
    "df --output=target /",
    "ps -o comm= -p 1",
    "ss -tln | head -1",
    "cat /etc/os-release",
    "find /etc -maxdepth 1 -name 'host*' | sort",
    "ls -l /proc/1/exe",
    "if [ -d /etc ]; then wc -l < /etc/hosts; fi",
    "git --version",
    "id",
    "echo a 2>/dev/null | tr a b",
    "timeout 1 sleep 5",
    "grep -c . /no/such/file",
    "dmesg | head -1 | wc -l",
    "du -s /etc/hostname",
    "ip addr show lo",
]
_CANNOT_RUN = 127
_TIMED_OUT = 124


@dataclass(frozen=True, slots=True)
class Machine:
    """Runs a command in both ways."""

    shell: LocalShell
    policy: Policy

    async def differs(self, command: str) -> str:
        """How the confined answer differs: not at all, or "-" where it cannot be compared."""
        action = replace(Action.shell(command), timeout_s=TIMEOUT_S)
        verdict = judge(action, self.policy, person=True)
        assert verdict.level is Level.SAFE, command
        free = await self.shell.run(action, self._job())
        if free.timed_out or free.exit_code == _CANNOT_RUN:
            return "-"
        held = replace(self._job(), confinement=verdict.confinement)
        confined = await self.shell.run(action, held)
        again = await self.shell.run(action, self._job())
        if confined.exit_code != free.exit_code and again.exit_code == free.exit_code:
            return f"exit {free.exit_code} became {confined.exit_code}: {confined.stderr[-200:]}"
        if free.stdout == again.stdout and free.stdout != confined.stdout:
            return f"{free.stdout[:200]!r} became {confined.stdout[:200]!r}"
        if _alike(free, confined) < min(ALIKE_MIN, _alike(free, again)):
            return f"{free.stdout[-200:]!r} became {confined.stdout[-200:]!r}"
        return ""

    def _job(self) -> Job:
        return Job(secrets.token_hex(8), TIMEOUT_S)


def _alike(one: Result, other: Result) -> float:
    """How many of the words of both are words of each; numbers change by themselves."""
    found = [set(re.findall(r"[A-Za-z_./]{3,}", result.stdout)) for result in (one, other)]
    return len(found[0] & found[1]) / max(1, len(found[0] | found[1]))


def _compare(commands: list[str], folder: Path) -> dict[str, str]:
    policy = Policy()
    hidden = Hidden((folder,), lambda: policy.secrets.patterns)
    machine = Machine(LocalShell(Programs(Spool(folder / "spool")), hidden=hidden), policy)

    async def all_of_them() -> dict[str, str]:
        return {command: await machine.differs(command) for command in commands}

    nowhere = Path(ENVIRONMENT["HOME"])
    was_there = nowhere.exists()
    try:
        return asyncio.run(all_of_them())
    finally:
        end_runner(folder / "runner")
        if not was_there:  # as root, programs that are not confined make their home
            shutil.rmtree(nowhere, ignore_errors=True)


def test_everyday_diagnostics_answer_the_same(tmp_path: Path) -> None:
    found = _compare(EVERYDAY, tmp_path)
    assert {command: why for command, why in found.items() if why not in ("", "-")} == {}
    assert sum(why == "" for why in found.values()) >= len(EVERYDAY) - 4


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_nearly_all_diagnostics_answer_the_same(tmp_path: Path) -> None:
    policy = Policy()
    safe = [
        command
        for command in commands_in("diagnostics")
        if judge(Action.shell(command), policy, person=True).level is Level.SAFE
    ]
    found = _compare(safe, tmp_path)
    ran = {command: why for command, why in found.items() if why != "-"}
    different = {command: why for command, why in ran.items() if why}
    assert len(ran) >= 100
    assert len(different) <= (1 - SAME_MIN) * len(ran), different
