"""The boundary of a rig as the kernel enforces it: hostile programs stay inside."""

from __future__ import annotations

import os
import secrets
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio

from operator_protocols.domain.confinement import Confinement
from operator_sre.enforcement import why_not_confined
from operator_sre.executor.hidden import Hidden, bounds_of
from operator_sre.processes.identity import process_of
from operator_sre.processes.runner.client import RunnerClient
from operator_sre.processes.runner.wire import Done, Order
from tests.processes.runners import end_runner
from tests.processes.waiting import eventually

pytestmark = [
    pytest.mark.asyncio,
    pytest.mark.skipif(bool(why_not_confined()), reason=why_not_confined() or "-"),
]
PATH = b"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
SECRET = "the-password-of-the-rig"


class _Ear:
    """A port that remembers what it was told."""

    def __init__(self, family: int, address: object) -> None:
        self._socket = socket.socket(family, socket.SOCK_STREAM)
        self._socket.bind(address)  # type: ignore[arg-type]
        self._socket.listen()
        self.heard: list[bytes] = []
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._socket.getsockname()[1])

    def _listen(self) -> None:
        while True:
            try:
                line, _ = self._socket.accept()
            except OSError:
                return
            with line:
                line.settimeout(2)
                self.heard.append(line.recv(64))
                line.sendall(b"hello\n")

    def close(self) -> None:
        """Stop listening."""
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join(5)


@dataclass(slots=True)
class World:
    """A rig with a node, and everything around it that belongs to others."""

    folder: Path
    node: subprocess.Popen[bytes]
    worker: int
    stranger: subprocess.Popen[bytes]
    inside: _Ear
    outside: _Ear
    docker: _Ear
    client: RunnerClient

    @property
    def home(self) -> Path:
        """Operator's own directory, which holds the directory of the rig."""
        return self.folder / "home"

    @property
    def rig(self) -> Path:
        """The directory of the rig."""
        return self.home / "rigs" / "shop"

    def state(self, pid: int) -> str:
        """The state of a process as the kernel names it, such as S or T."""
        try:
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return ""

    async def wait_for_end(self, pid: int) -> None:
        """Wait until a process has ended; its parent may not have collected it."""
        await eventually(lambda: self.state(pid) in ("Z", "X", ""))

    async def run(self, *words: str) -> Done:
        """Run a program inside of the boundary; one word is a line for bash."""
        node = process_of(self.node.pid)
        assert node is not None
        boundary = Confinement(
            reads=(str(self.rig / "log"),),
            shown=(str(self.rig / "log"),),
            hosts=(f"127.0.0.1:{self.inside.port}",),
            inside="shop",
            processes=(node,),
        )
        hidden = Hidden((self.home,), tuple, shown=self.home / "rigs")
        argv = words if len(words) > 1 else ("/bin/bash", "-c", *words)
        return await self.client.run(
            Order(
                id=secrets.token_hex(8),
                argv=tuple(map(os.fsencode, argv)),
                env=(PATH,),
                cwd=b"/",
                timeout_s=30.0,
                grace_s=0.2,
                ends_left=True,
                bounds=bounds_of(boundary, hidden),
            )
        )

    async def python(self, text: str) -> Done:
        """Run a program in Python inside of the boundary."""
        return await self.run(sys.executable, "-I", "-S", "-c", text)


def _sleeper() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        ["/bin/sh", "-c", "sleep 300 & echo $!; exec sleep 301"],
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


@pytest.fixture
def node() -> Iterator[subprocess.Popen[bytes]]:
    """A node of the rig, with a process that came out of it."""
    yield from _sleeper()


@pytest.fixture
def stranger() -> Iterator[subprocess.Popen[bytes]]:
    """A process that has nothing to do with the rig."""
    yield from _sleeper()


@pytest_asyncio.fixture
async def world(
    tmp_path: Path, node: subprocess.Popen[bytes], stranger: subprocess.Popen[bytes]
) -> AsyncIterator[World]:
    assert node.stdout is not None
    worker = int(node.stdout.readline())
    rig = tmp_path / "home" / "rigs" / "shop"
    rig.mkdir(parents=True)
    (rig / "log").write_text("ERROR the store is gone\n")
    (rig / "password").write_text(SECRET)
    (tmp_path / "home" / "ledger.key").write_text(SECRET)
    (tmp_path / "theirs").write_text("theirs")
    any_port = ("127.0.0.1", 0)
    inside, outside = _Ear(socket.AF_INET, any_port), _Ear(socket.AF_INET, any_port)
    docker = _Ear(socket.AF_UNIX, str(tmp_path / "docker.sock"))
    client = RunnerClient(tmp_path / "runner")
    yield World(tmp_path, node, worker, stranger, inside, outside, docker, client)
    await client.dismiss()
    end_runner(tmp_path / "runner", signal.SIGKILL)
    for ear in (inside, outside, docker):
        ear.close()


async def test_inside_it_signals_connects_computes_and_reads_the_logs(world: World) -> None:
    pid = world.node.pid
    done = await world.run(f"kill -STOP {pid} && grep -c ERROR {world.rig}/log && echo $((6 * 7))")
    assert (done.exit_code, done.stdout) == (0, b"1\n42\n"), done.stderr
    assert world.state(pid) == "T"
    done = await world.run(f"kill -CONT {pid}; kill -9 {world.worker}")
    assert done.exit_code == 0, done.stderr
    assert world.state(pid) in ("S", "R", "Z", "")
    await world.wait_for_end(world.worker)
    line = f"exec 3<>/dev/tcp/127.0.0.1/{world.inside.port}; echo hi >&3; cat <&3"
    done = await world.run(line)
    assert done.stdout == b"hello\n", done.stderr
    assert world.inside.heard == [b"hi\n"]
    done = await world.run('echo kept > "$TMPDIR/x" && sort "$TMPDIR/x"')
    assert done.stdout == b"kept\n", done.stderr


async def test_a_line_beside_a_free_shell_sees_no_password_of_the_rig(world: World) -> None:
    hidden = Hidden((world.home,), tuple, shown=world.home / "rigs")
    line = f"base64 {world.rig}/password; cat {world.rig}/log"
    shown = b"ERROR the store is gone\n"
    for confinement, is_seen in (
        (Confinement(), True),
        (Confinement(shown=(str(world.rig / "log"),)), False),
    ):
        order = Order(
            id=secrets.token_hex(8),
            argv=(b"/bin/bash", b"-c", line.encode()),
            env=(PATH,),
            cwd=b"/",
            timeout_s=30.0,
            grace_s=0.2,
            bounds=bounds_of(confinement, hidden),
        )
        done = await world.client.run(order)
        assert done.stdout.endswith(shown)
        assert (done.stdout == shown) is not is_seen, done.stderr


def _hostile_programs(world: World) -> dict[str, str]:
    """Programs that try the ways out, and print what they reached."""
    stranger, theirs = world.stranger.pid, world.folder / "theirs"
    signals = f"""
import ctypes, os, signal
def attempt(call):
    try: call(); print("reached", call)
    except OSError: pass
attempt(lambda: os.kill({stranger}, signal.SIGKILL))
attempt(lambda: os.killpg({stranger}, signal.SIGKILL))
attempt(lambda: os.kill(-1, signal.SIGTERM))
for pid in ({os.getpid()}, os.getppid()): attempt(lambda: os.kill(pid, signal.SIGUSR1))
attempt(lambda: signal.pidfd_send_signal(os.pidfd_open({stranger}), signal.SIGKILL))
libc = ctypes.CDLL(None, use_errno=True)
for number in (200, 234):
    if libc.syscall(number, {stranger}, {stranger}, 9) == 0: print("reached", number)
if libc.ptrace(16, {world.node.pid}, 0, 0) == 0: print("reached ptrace")
"""
    network = f"""
import socket
for family, address in (
    (socket.AF_INET, ("127.0.0.1", {world.outside.port})),
    (socket.AF_INET, ("127.0.0.2", {world.inside.port})),
    (socket.AF_INET, ("192.0.2.1", 80)),
    (socket.AF_UNIX, {str(world.folder / "docker.sock")!r}),
    (socket.AF_UNIX, "/run/docker.sock"),
    (socket.AF_UNIX, "/run/systemd/private"),
    (socket.AF_UNIX, {str(world.folder / "runner" / "runner.sock")!r}),
):
    with socket.socket(family) as line:
        line.settimeout(2)
        try: line.connect(address); print("reached", address)
        except OSError: pass
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as line:
    try: line.sendto(b"x", ("127.0.0.1", {world.outside.port})); print("reached by UDP")
    except OSError: pass
"""
    files = f"""
import os, shutil
own = os.environ["TMPDIR"]
def attempt(name, call):
    try: call(); print("reached", name)
    except OSError: pass
for path in ({str(world.rig / "password")!r}, {str(world.home / "ledger.key")!r}):
    attempt(path, lambda: open(path).read())
    attempt(path, lambda: os.symlink(path, own + "/link") or open(own + "/link").read())
    attempt(path, lambda: os.link(path, own + "/hard") or open(own + "/hard").read())
for path in ({str(theirs)!r}, {str(world.rig / "log")!r}):
    attempt(path, lambda: open(path, "w"))
    attempt(path, lambda: open(path, "a"))
    attempt(path, lambda: os.unlink(path))
    attempt(path, lambda: os.rename(path, own + "/taken"))
    attempt(path, lambda: os.truncate(path, 0))
    attempt(path, lambda: os.chmod(path, 0o777))
for folder in ({str(world.rig)!r}, {str(world.home)!r}, "/tmp", "/etc", "/srv"):
    attempt(folder, lambda: open(folder + "/made-by-a-hostile-program", "w"))
    attempt(folder, lambda: os.mkdir(folder + "/made-by-a-hostile-program.d"))
attempt("node", lambda: open("/proc/{world.node.pid}/mem", "r+b"))
attempt("environment", lambda: open("/proc/{stranger}/environ").read())
"""
    escapes = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
if libc.unshare(0x10000000) == 0: print("reached a user namespace")
if libc.mount(b"none", b"/mnt", b"tmpfs", 0, None) == 0: print("reached a mount")
try:
    if libc.setns(os.open("/proc/1/ns/mnt", os.O_RDONLY), 0) == 0: print("reached a namespace")
except OSError: pass
"""
    return {"signals": signals, "network": network, "files": files, "escapes": escapes}


async def test_no_hostile_program_leaves_the_boundary(world: World) -> None:
    """Each program reports what it reached; the world says whether it did."""
    stranger, theirs = world.stranger.pid, world.folder / "theirs"
    before = theirs.read_text(), (world.rig / "log").read_text(), sorted(world.rig.iterdir())
    for text in _hostile_programs(world).values():
        done = await world.python(f"{text}\nprint('tried it all')")
        assert done.stdout == b"tried it all\n", (done.stdout, done.stderr)
        assert SECRET.encode() not in done.stdout + done.stderr
    assert world.state(stranger) in ("S", "R")
    assert world.stranger.poll() is None
    assert world.outside.heard == world.docker.heard == world.inside.heard == []
    after = theirs.read_text(), (world.rig / "log").read_text(), sorted(world.rig.iterdir())
    assert after == before


async def test_what_is_left_behind_ends_with_the_command(world: World) -> None:
    line = "setsid nohup sleep 287 > /dev/null 2>&1 & echo $!"
    done = await world.run(line)
    left = int(done.stdout)
    await world.wait_for_end(left)


async def test_a_later_process_with_the_number_of_a_node_is_not_signalled(world: World) -> None:
    real = process_of(world.stranger.pid)
    assert real is not None
    # A node that had this number a minute before.
    stale = type(real)(real.pid, real.started - 60.25)
    boundary = Confinement(inside="shop", processes=(stale,))
    hidden = Hidden((world.home,), tuple)
    order = Order(
        id=secrets.token_hex(8),
        argv=(b"/bin/bash", b"-c", b"kill -9 %d" % real.pid),
        env=(PATH,),
        cwd=b"/",
        timeout_s=30.0,
        grace_s=0.2,
        bounds=bounds_of(boundary, hidden),
    )
    done = await world.client.run(order)
    assert done.exit_code != 0
    assert any("SIGKILL" in text for text in done.blocked)
    assert world.state(real.pid) in ("S", "R")
