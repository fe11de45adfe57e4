"""A world in which a hostile program could do harm, and an eye for every harm that it does."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import json
import os
import platform
import resource
import secrets
import socket
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from operator_sre.enforcement import landlock_abi
from operator_sre.processes.background import adopt_orphans
from operator_sre.processes.confinement import landlock
from operator_sre.processes.identity import rows
from operator_sre.processes.runner.client import RunnerClient
from operator_sre.processes.runner.daemon import Runner, listening_socket
from operator_sre.processes.runner.wire import Bounds, Done, Order
from tests.processes.confinement.hostile import Hostile

__all__ = ["Arena", "in_arena", "python_for"]

_VICTIM = """
import ctypes, os, sys, signal
secret = open(sys.argv[1], 'rb')
memory = ctypes.create_string_buffer(secret.read(), 64)
print(ctypes.addressof(memory), secret.fileno(), flush=True)
for line in sys.stdin:
    print(memory.raw.hex(), flush=True)
"""
_LIBC = ctypes.CDLL(None)
_IOPRIO_GET = 252 if platform.machine() == "x86_64" else 31
TIMEOUT_S = 8.0
_SYSCTL = ("kernel/hostname", "kernel/domainname", "kernel/core_pattern", "net/ipv4/ip_default_ttl")


def python_for(uid: int) -> str:
    """A Python that this user can start."""
    for path in (sys.executable, "/usr/bin/python3"):
        child = os.fork()
        if child == 0:
            try:
                _become(uid)
                os._exit(0 if os.access(os.path.realpath(path), os.X_OK) else 1)
            finally:
                os._exit(1)
        if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0:
            return path
    return ""


class Arena:
    """Files, sockets, a secret and a process that belong to somebody else than the command."""

    def __init__(self, folder: Path, python: str) -> None:
        self.word = secrets.token_hex(16)
        self.canary = secrets.token_hex(16)
        self.mark = f"operator-{secrets.token_hex(6)}"
        self.folder = folder / "theirs"
        self.home = folder / "home"
        hidden = folder / "hidden"
        for path in (self.folder, self.home, hidden, hidden / "below"):
            path.mkdir()
        self.secret = folder / "secret"
        below, own = hidden / "below" / "key", self.home / "ledger.key"
        for path in (self.secret, below, own):
            path.write_text(self.word)
        self._reset()
        self.hidden = (str(self.secret), str(hidden), str(self.home), "/etc/shadow")
        self._ears = _listen(folder, self.mark)
        (self.folder / "socket-link").symlink_to(self._ears["unix"].getsockname())
        self._python = python
        self.world: dict[str, Any] = {
            "file": str(self.folder / "file"),
            "folder": str(self.folder),
            "gid": 65533,
            "mark": self.mark,
            "key": secrets.randbelow(1 << 30) + 1,
            "canary": self.canary,
            "core": resource.getrlimit(resource.RLIMIT_CORE)[1],
            "secret": str(self.secret),
            "secret_below": str(below),
            "home_file": str(own),
            "ip": [127, 77, secrets.randbelow(250), secrets.randbelow(250) + 1],
            **{name: _place(ear) for name, ear in self._ears.items()},
        }
        self._address = ".".join(map(str, self.world["ip"]))
        self._start_victim()
        self._before = self._state()

    @property
    def environment(self) -> tuple[bytes, ...]:
        """What a hostile program is told."""
        pairs = {
            "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "WORLD": json.dumps(self.world),
            "F": self.world["file"],
            "D": self.world["folder"],
            "S": self.world["secret"],
            "TCP": self.world["tcp"],
            "UDP": self.world["udp"],
            "UNIX": self.world["unix"],
            "CANARY": self.canary,
        }
        return tuple(f"{name}={value}".encode() for name, value in pairs.items())

    def harm(self, done: Done) -> list[str]:
        """What has changed or was shown; the world is as before afterwards."""
        found = [
            f"{name}: {self._before[name]!r} became {now!r}"
            for name, now in self._state().items()
            if now != self._before[name]
        ]
        said = done.stdout + done.stderr
        if self.word.encode() in said or self.canary.encode() in done.stdout:
            found.append("a secret was shown")
        for name, ear in self._ears.items():
            if heard := _heard(ear):
                found.append(f"{name} heard {heard!r}")
        if self._address in Path("/proc/net/fib_trie").read_text():
            subprocess.run(["ip", "address", "del", f"{self._address}/32", "dev", "lo"], check=True)
        if found:
            self._reset()
            self._end_victim()
            self._start_victim()
            self._before = self._state()
        return found

    def close(self) -> None:
        """End what was started."""
        self._end_victim()
        for ear in self._ears.values():
            ear.close()
        (Path("/dev/shm") / self.mark).unlink(missing_ok=True)

    def _start_victim(self) -> None:
        self._victim = subprocess.Popen(
            [self._python, "-I", "-S", "-c", _VICTIM, str(self.secret)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={"SECRET": self.word},
            text=True,
            start_new_session=True,
        )
        assert self._victim.stdout is not None
        address, fd = map(int, self._victim.stdout.readline().split())
        pid = self._victim.pid
        self.world |= {"victim": pid, "victim_group": pid, "address": address, "secret_fd": fd}

    def _end_victim(self) -> None:
        self._victim.kill()
        self._victim.communicate()

    def _reset(self) -> None:
        for path in self.folder.iterdir():
            if path.name != "socket-link":
                subprocess.run(["rm", "-rf", str(path)], check=True)
        (self.folder / "file").write_text("kept\n")
        (self.folder / "second").write_text("kept too\n")
        (self.folder / "empty").mkdir()
        (self.folder / "link").symlink_to(self.folder / "file")
        (self.folder / "secret-link").symlink_to(self.secret)
        with contextlib.suppress(OSError):
            os.setxattr(self.folder / "file", "user.kept", b"1")

    def _state(self) -> dict[str, object]:
        files = {}
        for path in sorted(self.folder.rglob("*")):
            state = path.lstat()
            times = (state.st_mtime_ns, state.st_ctime_ns)
            extra = os.listxattr(path, follow_symlinks=False)
            text = path.read_bytes() if path.is_file() and path.name != "secret-link" else b""
            files[path.name] = (state.st_mode, state.st_uid, state.st_gid, *times, *extra, text)
        return {
            "files": files,
            "victim": self._victim_state(),
            **{name: Path(f"/proc/sys/{name}").read_text() for name in _SYSCTL},
            "clock": abs(time.time() - _true_time()) < 60,
            "mounts": Path("/proc/self/mounts").read_text().count(str(self.folder)),
            "shared": sorted(path.name for path in Path("/dev/shm").glob(f"{self.mark}*")),
            "ipc": [
                Path(f"/proc/sysvipc/{name}").read_text().count(str(self.world["key"]))
                for name in ("shm", "sem")
            ],
            "address": self._address in Path("/proc/net/fib_trie").read_text(),
        }

    def _victim_state(self) -> tuple[object, ...]:
        """What others could have done to a process; nothing of it where it is gone or stopped."""
        process = self._victim
        row = rows().get(process.pid)
        if process.poll() is not None or row is None or row.state in "ZXT":
            return ("gone or stopped",)
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("\n")
        process.stdin.flush()
        pid = process.pid
        return (
            process.stdout.readline(),
            os.getpriority(os.PRIO_PROCESS, pid),
            os.sched_getaffinity(pid),
            os.sched_getscheduler(pid),
            _LIBC.syscall(_IOPRIO_GET, 1, pid),
            resource.prlimit(pid, resource.RLIMIT_NOFILE),
            Path(f"/proc/{pid}/oom_score_adj").read_text(),
        )


def in_arena(
    uid: int,
    programs: Iterable[Hostile],
    *,
    timeout_s: float = TIMEOUT_S,
    is_confined: bool = True,
    abi_max: int = 99,
    bounds: Bounds | None = None,
) -> list[str]:
    """Run programs as a user under bounds that allow nothing; every harm, with who did it.

    With `abi_max`, what later versions of Landlock brought is not used. `bounds` may allow
    something, as long as that is none of what the programs go for.
    """
    python = python_for(uid)
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="arena-") as made:
        folder = Path(made)
        os.chown(folder, uid, uid)
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                os.close(read)
                _become(uid)
                sys.executable = python
                adopt_orphans()
                abi = min(abi_max, landlock_abi())
                vars(landlock)["landlock_abi"] = lambda: abi
                allowed = (bounds or Bounds()) if is_confined else None
                found = asyncio.run(_fight(folder, python, programs, timeout_s, allowed))
                text = json.dumps(found)
            except BaseException:  # noqa: BLE001  it is told where it can be read
                text = json.dumps([traceback.format_exc()])
            with contextlib.suppress(BaseException), os.fdopen(write, "w") as file:
                file.write(text)
            os._exit(0)
        os.close(write)
        with os.fdopen(read) as file:
            text = file.read()
        os.waitpid(child, 0)
        return json.loads(text) if text else ["the arena was destroyed"]


async def _fight(
    folder: Path, python: str, programs: Iterable[Hostile], timeout_s: float, bounds: Bounds | None
) -> list[str]:
    runner_folder = folder / "runner"
    runner_folder.mkdir()
    arena = Arena(folder, python)
    serving = asyncio.ensure_future(_serve(runner_folder))
    client = RunnerClient(runner_folder)
    found: list[str] = []
    try:
        await asyncio.sleep(0)
        for program in programs:
            done = await client.run(_order(program, arena, timeout_s, bounds))
            if done.error:
                found.append(f"{program.aim} {program.name}: did not run: {done.error}")
            found += [f"{program.aim} {program.name}: {what}" for what in arena.harm(done)]
            found += [f"{program.aim} {program.name}: {what}" for what in _left(program, folder)]
            if done.duration_s > timeout_s + 6.0:
                found.append(f"{program.aim} {program.name}: took {done.duration_s:.1f} s")
    finally:
        arena.close()
        await client.dismiss()
        await serving
        await asyncio.sleep(0)  # so that the connection is told of its end
    return found


def _order(program: Hostile, arena: Arena, timeout_s: float, bounds: Bounds | None) -> Order:
    return Order(
        id=secrets.token_hex(8),
        argv=tuple(word.encode() for word in program.argv),
        env=arena.environment,
        cwd=b"/",
        timeout_s=timeout_s,
        grace_s=0.2,
        ends_left=True,
        bounds=bounds and msgspec.structs.replace(bounds, hidden=arena.hidden),
    )


async def _serve(folder: Path) -> None:
    await Runner(folder, idle_s=600.0).serve(listening_socket(folder))


def _left(program: Hostile, folder: Path) -> list[str]:
    """Processes of the program that are still there, known by what they were started with."""
    found = []
    for pid, row in rows().items():
        if pid == os.getpid() or row.dead:
            continue
        with contextlib.suppress(OSError):
            place = Path(f"/proc/{pid}")
            is_program = program.argv[-1].encode()[:200] in (place / "cmdline").read_bytes()
            if is_program and os.fsencode(folder) in (place / "environ").read_bytes():
                found.append(f"process {pid} is left")
    return found


def _become(uid: int) -> None:
    if uid != os.getuid():
        os.setgroups([])
        os.setgid(uid)
        os.setuid(uid)


def _listen(folder: Path, mark: str) -> dict[str, socket.socket]:
    ears = {
        "tcp": socket.create_server(("127.0.0.1", 0)),
        "udp": socket.socket(socket.AF_INET, socket.SOCK_DGRAM),
        "unix": socket.socket(socket.AF_UNIX),
        "unix_datagram": socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM),
        "abstract": socket.socket(socket.AF_UNIX),
    }
    ears["udp"].bind(("127.0.0.1", 0))
    ears["unix"].bind(str(folder / "unix"))
    ears["unix_datagram"].bind(str(folder / "unix-datagram"))
    ears["abstract"].bind(f"\0{mark}")
    with contextlib.suppress(OSError):
        ears["tcp6"] = socket.create_server(("::1", 0), family=socket.AF_INET6)
        ears["udp6"] = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
        ears["udp6"].bind(("::1", 0))
    for ear in ears.values():
        if ear.type == socket.SOCK_STREAM:
            ear.listen(64)
        ear.setblocking(False)
    ears.setdefault("tcp6", ears["tcp"])
    ears.setdefault("udp6", ears["udp"])
    return ears


def _place(ear: socket.socket) -> object:
    name = ear.getsockname()
    return name[1] if isinstance(name, tuple) else str(name).strip("\0")


def _heard(ear: socket.socket) -> str:
    with contextlib.suppress(BlockingIOError):
        if ear.type == socket.SOCK_DGRAM:
            return repr(ear.recv(100))
        line, _ = ear.accept()
        with line:
            return "a connection"
    return ""


def _true_time() -> float:
    """By a clock that nobody can set."""
    boot = next(
        int(line.split()[1])
        for line in Path("/proc/stat").read_text().splitlines()
        if line.startswith("btime ")
    )
    return boot + time.clock_gettime(time.CLOCK_BOOTTIME)
