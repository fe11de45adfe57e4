"""A diagnostic gives the same answer confined as unconfined: SAFE stays useful."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from operator_protocols.domain.action import Action, Outcome, Result
from operator_protocols.domain.verdict import Level
from operator_sre.enforcement import why_not_confined
from operator_sre.executor.hidden import Hidden
from operator_sre.executor.jobs import Spool
from operator_sre.executor.programs import Programs
from operator_sre.executor.transports.local import ENVIRONMENT, LocalShell
from operator_sre.gate import Policy
from operator_sre.gate.judge import judge
from tests.cases.corpora import commands_in
from tests.executor.answers import BY_DESIGN, NOT_COMPARED, Machine, crowd, difference
from tests.processes.runners import end_runner

pytestmark = pytest.mark.skipif(bool(why_not_confined()), reason=why_not_confined() or "-")
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
# Counts of the machine, which differ from run to run.
COUNTS = [
    "ps -e | wc -l",
    "ps -eLf | awk '{print $1}' | sort | uniq -c | sort -rn | head -5",
    "ls /proc | grep -c '^[0-9]'",
    "cat /proc/sys/fs/file-nr",
    "cat /proc/net/sockstat",
]
SOCKET_COUNTS = ["ss -s", "ss -tan | awk 'NR>1 {print $1}' | sort | uniq -c", "ss -tln | wc -l"]


def _compare(
    commands: list[str], folder: Path, hide: Callable[[str], str] | None = None
) -> dict[str, str]:
    policy = Policy()
    hidden = Hidden((folder,), lambda: policy.secrets.patterns)
    machine = Machine(LocalShell(Programs(Spool(folder / "spool")), hidden=hidden), policy, hide)

    async def all_of_them() -> dict[str, str]:
        return {command: await machine.compare(command) for command in commands}

    nowhere = Path(ENVIRONMENT["HOME"])
    was_there = nowhere.exists()
    try:
        return asyncio.run(all_of_them())
    finally:
        end_runner(folder / "runner")
        if not was_there:  # as root, programs that are not confined make their home
            shutil.rmtree(nowhere, ignore_errors=True)


def test_everyday_diagnostics_answer_the_same(tmp_path: Path) -> None:
    found = _compare([*EVERYDAY, *COUNTS, *SOCKET_COUNTS], tmp_path)
    assert {command: why for command, why in found.items() if why not in ("", "-")} == {}
    assert sum(why == "" for why in found.values()) >= len(EVERYDAY) - 4


def _result(text: str) -> Result:
    return Result(Outcome.RAN, 0, text)


@pytest.mark.parametrize(
    ("free", "again", "confined", "is_same"),
    [
        ("a 1\n", "a 1\n", "a 1\n", True),
        ("a 1\n", "a 1\n", "a 2\n", False),
        ("total 100 of 500\n", "total 120 of 500\n", "total 95 of 500\n", True),
        ("total 100 of 500\n", "total 120 of 500\n", "total 40 of 500\n", False),
        ("total 100 of 500\n", "total 120 of 500\n", "total 101 of 400\n", False),
        ("tcp 100\nudp 9\n", "tcp 120\nudp 19\n", "tcp 101\n", False),
        ("one\ntwo\n", "one\ntwo\nthree\n", "one\n", False),
        ("uuu\n" * 40, "uuu\n" * 45 + "vvv\n", "uuu\n" * 12, False),
    ],
)
def test_only_what_moves_by_itself_may_differ(
    free: str, again: str, confined: str, is_same: bool
) -> None:
    found = difference([_result(free), _result(again)], [_result(confined)])
    assert (found == "") is is_same


def test_a_machine_moves_up_and_down_and_what_is_hidden_is_missing_every_time() -> None:
    frees = [_result(f"tcp {number}\n") for number in (436, 438, 374, 326, 386)]
    moved = [_result(f"tcp {number}\n") for number in (200, 379, 328, 299, 390)]
    assert difference(frees, moved) == ""
    hidden = [_result(f"tcp {number}\n") for number in (200, 90, 100, 110, 420)]
    assert difference(frees, hidden) != ""


def test_a_confinement_that_hides_the_machine_is_noticed(tmp_path: Path) -> None:
    """Processes and sockets in namespaces of their own, and answers that lack their end."""
    hiding = {
        "unshare --pid --fork --mount-proc": COUNTS[:3],
        "unshare --net": SOCKET_COUNTS,
    }
    user = [] if os.getuid() == 0 else ["--map-root-user"]
    for start, commands in hiding.items():
        words = [*start.split(), *user]
        if subprocess.run([*words, "true"], capture_output=True).returncode != 0:
            pytest.skip("there are no namespaces to hide in")

        def hide(command: str, words: list[str] = words) -> str:
            inner = command.replace("'", "'\\''")
            return f"{' '.join(words)} bash -c '{inner}'"

        with crowd(60):
            found = _compare(commands, tmp_path / start.split()[1], hide)
        assert all(why not in ("", NOT_COMPARED) for why in found.values()), found
    found = _compare(EVERYDAY[:6], tmp_path / "short", lambda command: f"({command}) | sed 1d")
    assert all(found.values()), found


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_nearly_all_diagnostics_answer_the_same(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    policy = Policy()
    safe = [
        command
        for command in commands_in("diagnostics")
        if judge(Action.shell(command), policy, person=True).level is Level.SAFE
    ]
    found = _compare(safe, tmp_path)
    ran = {command: why for command, why in found.items() if why != NOT_COMPARED}
    by_design = {command for command in ran if command.split()[0] in BY_DESIGN}
    assert all(ran[command] for command in by_design)  # or the list says too much
    different = {command: why for command, why in ran.items() if why and command not in by_design}
    record_property("compared", len(ran))
    record_property("different", sorted(different))
    assert len(ran) >= 100
    assert len(different) <= (1 - SAME_MIN) * len(ran), different
