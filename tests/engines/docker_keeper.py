"""Keeps a Docker engine: `python -m tests.engines.docker_keeper FOLDER`, first in its namespaces.

With `--publishing` ports of containers are published on the loopback of its network namespace. With
`--outward` it has the network of the machine instead of one of its own, and makes none: containers
have that of the machine, or none.

It says "ready" when the engine answers, and for each line it reads: "kill" ends the engine as a
crash would and leaves its containers, "start" starts it again. When its input ends, which happens
however its parent comes to its end, it ends every process of its namespace and cleans up.
"""

from __future__ import annotations

import contextlib
import fcntl
import http.client
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path

__all__ = ["Asking", "cgroup_of"]

START_S_MAX = 30.0
POLL_S = 0.02
PUBLISHING, OUTWARD = "--publishing", "--outward"
_GET_FLAGS, _SET_FLAGS, _UP = 0x8913, 0x8914, 0x1
# What a private engine never needs; without them it starts in a fifth of a second.
DISABLED = (
    *("io.containerd.grpc.v1.cri", "io.containerd.internal.v1.opt"),
    *(f"io.containerd.snapshotter.v1.{name}" for name in ("aufs", "btrfs", "devmapper", "zfs")),
)
ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}


class Asking(http.client.HTTPConnection):
    """HTTP over the Unix socket of an engine."""

    def __init__(self, path: str, *, timeout_s: float = 60.0) -> None:
        super().__init__("localhost", timeout=timeout_s)
        self._path = path

    def connect(self) -> None:
        """Connect to the socket instead of to a host."""
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def cgroup_of(folder: Path) -> str:
    """The cgroup that holds every container of the engine in this folder, and nothing else."""
    return f"operator-tests-{folder.name}"


def _containerd(folder: Path) -> list[str]:
    settings = [
        "version = 2",
        f"root = {json.dumps(str(folder / 'kept'))}",
        f"state = {json.dumps(str(folder / 'state'))}",
        f"disabled_plugins = {json.dumps(DISABLED)}",
        "[grpc]",
        f"address = {json.dumps(str(folder / 'containerd.sock'))}",
    ]
    (folder / "containerd.toml").write_text("\n".join(settings) + "\n")
    return ["containerd", "--config", str(folder / "containerd.toml")]


def _dockerd(folder: Path) -> list[str]:
    publishing = "true" if PUBLISHING in sys.argv else "false"
    (folder / "docker.json").write_text("{}")
    return [
        *("dockerd", "--config-file", str(folder / "docker.json")),
        *("--containerd", str(folder / "containerd.sock")),
        *("--host", f"unix://{folder / 'docker.sock'}"),
        *("--data-root", str(folder / "data"), "--exec-root", str(folder / "exec")),
        *("--pidfile", str(folder / "docker.pid"), "--cgroup-parent", cgroup_of(folder)),
        *("--iptables=false", "--ip6tables=false", "--ip-masq=false"),
        f"--userland-proxy={publishing}",
        *(("--bridge", "none") if OUTWARD in sys.argv else ()),
    ]


def _start(argv: list[str], log: Path) -> subprocess.Popen[bytes]:
    with log.open("ab") as file:
        return subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=file, stderr=file, cwd="/", env=ENVIRONMENT
        )


def _answers(folder: Path) -> bool:
    asking = Asking(str(folder / "docker.sock"), timeout_s=5.0)
    try:
        asking.request("GET", "/_ping")
        return asking.getresponse().status == http.client.OK
    except OSError:
        return False
    finally:
        asking.close()


def _started(folder: Path) -> subprocess.Popen[bytes]:
    """The engine when it answers; exits with the last line of its log when it does not."""
    engine = _start(_dockerd(folder), folder / "docker.log")
    ends = time.monotonic() + START_S_MAX
    while not _answers(folder):
        with contextlib.suppress(subprocess.TimeoutExpired):
            engine.wait(POLL_S)
        if engine.returncode is not None or time.monotonic() > ends:
            lines = (folder / "docker.log").read_text(errors="replace").splitlines() or [""]
            _say(f"dockerd does not start: {lines[-1][:300]}")
            raise SystemExit(1)
    return engine


def _loopback_up() -> None:
    """A network namespace begins with a loopback that is down."""
    with socket.socket() as any_socket:
        asked = struct.pack("16sH14x", b"lo", 0)
        flags = struct.unpack("16sH14x", fcntl.ioctl(any_socket, _GET_FLAGS, asked))[1]
        fcntl.ioctl(any_socket, _SET_FLAGS, struct.pack("16sH14x", b"lo", flags | _UP))


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _keep(folder: Path) -> None:
    _start(_containerd(folder), folder / "containerd.log")
    engine = _started(folder)
    _say("ready")
    for line in sys.stdin:
        if line.strip() == "kill":
            engine.kill()
            engine.wait()
        else:
            (folder / "docker.pid").unlink(missing_ok=True)
            engine = _started(folder)
        _say("ready")


def _clean(folder: Path) -> None:
    """End all of the namespace, then remove what the kernel and the disk still hold."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(-1, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):
        while True:
            os.waitpid(-1, 0)
    mounts = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
    for place in reversed([place for place in mounts if place.startswith(f"{folder}/")]):
        subprocess.run(["umount", "--lazy", place], check=False, stderr=subprocess.DEVNULL)
    for group in Path("/sys/fs/cgroup").glob(f"**/{cgroup_of(folder)}"):
        for inner in sorted(group.glob("**/"), reverse=True):
            with contextlib.suppress(OSError):
                inner.rmdir()
    shutil.rmtree(folder, ignore_errors=True)


def _main(folder: Path) -> None:
    assert os.getpid() == 1, "only in a pid namespace of its own: it ends every process it sees"
    if Path("/etc/docker").is_dir():  # it keeps a key there
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/etc/docker"], check=False)
    if PUBLISHING in sys.argv:
        _loopback_up()
    try:
        _keep(folder)
    finally:
        _clean(folder)


if __name__ == "__main__":
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, frame: sys.exit(1))
    _main(Path(sys.argv[1]))
