"""A real sshd on a private loopback port, with keys of its own, ended with the test."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from operator_lab.ports import reserve_ports
from tests.engines.debian import CACHE

__all__ = ["Sshd", "serving_ssh"]

START_S_MAX = 20.0
# Root's sshd wants a user and a folder that only an installed one has: it gets them in a private
# view of the file system.
_AS_ROOT = """
cp /etc/passwd "$1/passwd"
grep -q ^sshd: "$1/passwd" || echo sshd:x:65533:65534::/:/usr/sbin/nologin >> "$1/passwd"
mount --bind "$1/passwd" /etc/passwd || exit 1
[ -d /run/sshd ] || { mount -t tmpfs -o mode=755 tmpfs /run && mkdir /run/sshd; } || exit 1
shift
exec "$@"
"""


@dataclass(frozen=True, slots=True)
class Sshd:
    """Where it listens, whom it lets in, and how it is known."""

    port: int
    user: str
    folder: Path
    pid: int

    @property
    def address(self) -> str:
        """As a target says it."""
        return f"ssh://{self.user}@127.0.0.1:{self.port}"

    @property
    def known_hosts(self) -> Path:
        """The file that holds its key."""
        return self.folder / "known_hosts"

    @property
    def key(self) -> Path:
        """The private key that it lets in."""
        return self.folder / "user_key"


@contextlib.contextmanager
def serving_ssh(folder: Path, *extra: str) -> Iterator[Sshd]:
    """Start one; skips, saying why, where there is none to start. `extra` are lines of config."""
    folder.mkdir(parents=True, exist_ok=True)
    program, environment = _program()
    _keys(folder)
    reserved = reserve_ports(["sshd"])
    port = reserved.ports["sshd"]
    user = pwd.getpwuid(os.getuid()).pw_name
    (folder / "config").write_text(_config(folder, port, program, extra))
    (folder / "authorized_keys").write_text((folder / "user_key.pub").read_text())
    host_key = " ".join((folder / "host_key.pub").read_text().split()[:2])
    (folder / "known_hosts").write_text(f"[127.0.0.1]:{port} {host_key}\n")
    command = [str(program), "-D", "-e", "-f", str(folder / "config")]
    if os.getuid() == 0:
        command = ["unshare", "--mount", "sh", "-c", _AS_ROOT, "sh", str(folder), *command]
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
    try:
        _await_banner(server, port, folder)
        yield Sshd(port, user, folder, server.pid)
    finally:
        server.terminate()
        server.wait(10)
        reserved.release()


def _program() -> tuple[Path, dict[str, str]]:
    """The server and the environment that it starts in."""
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "ANTHROPIC_API_KEY": "of-the-server"}
    installed = Path("/usr/sbin/sshd")
    if installed.exists():
        return installed, environment
    root = CACHE / "sshd"
    fetched = root / "usr/sbin/sshd"
    if not fetched.exists():
        pytest.skip("there is no sshd; tests/tools/debian.sh fetches one on Debian")
    libraries = ":".join(str(path) for path in (root / "usr/lib").glob("*-linux-gnu"))
    return fetched, environment | {"LD_LIBRARY_PATH": libraries}


def _keys(folder: Path) -> None:
    if shutil.which("ssh-keygen") is None:
        pytest.skip("there is no ssh-keygen to make keys for a test with")
    for name in ("host_key", "user_key"):
        path = str(folder / name)
        words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", path]
        subprocess.run(words, check=True, stdin=subprocess.DEVNULL)


def _config(folder: Path, port: int, program: Path, extra: tuple[str, ...]) -> str:
    lines = [
        f"Port {port}",
        "ListenAddress 127.0.0.1",
        f"HostKey {folder / 'host_key'}",
        f"AuthorizedKeysFile {folder / 'authorized_keys'}",
        "PidFile none",
        "UsePAM no",
        "StrictModes no",
        "PasswordAuthentication no",
        "KbdInteractiveAuthentication no",
        "PermitRootLogin yes",
        "MaxStartups 100",
        # The start-up files of whoever runs the tests must not decide one.
        f"SetEnv HOME={folder}",
        *extra,
    ]
    # Newer servers hand a session to a program beside them.
    for setting, name in (("SshdSessionPath", "sshd-session"), ("SshdAuthPath", "sshd-auth")):
        path = program.parents[1] / "lib/openssh" / name
        lines += [f"{setting} {path}"] if path.exists() else []
    return "\n".join(lines) + "\n"


def _await_banner(server: subprocess.Popen[bytes], port: int, folder: Path) -> None:
    ends = time.monotonic() + START_S_MAX
    while time.monotonic() < ends:
        if server.poll() is not None:
            break
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)) as one:
            one.settimeout(START_S_MAX)
            if one.recv(4) == b"SSH-":
                return
        time.sleep(0.02)
    server.kill()
    server.wait()
    said = (folder / "log").read_text(errors="replace").strip().splitlines()
    pytest.skip(f"no sshd can be started here: {said[-1] if said else 'it says nothing'}")
