"""Real servers of other makers on loopback, each in a folder of its own, ended with the test."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from operator_lab.ports import reserve_ports
from operator_sre.executor.jobs import Spool
from operator_sre.executor.programs import Programs
from operator_sre.executor.sandbox.bubblewrap import bwrap
from operator_sre.executor.transports.local import LocalShell
from tests.e2e.waiting import eventually
from tests.engines.debian import CACHE
from tests.tools.servers import WHEELS, jars

__all__ = [
    "CACHE",
    "WHEELS",
    "accepts",
    "erlang",
    "java",
    "libraries",
    "local_shell",
    "ports",
    "running",
    "sharing",
]

START_S_MAX = 120.0


def local_shell(folder: Path) -> LocalShell:
    """Commands on this machine."""
    return LocalShell(Programs(Spool(folder / "spool")))


def libraries(name: str) -> dict[str, str]:
    """The environment in which an unpacked program finds its libraries."""
    found = ":".join(str(path) for path in (CACHE / name).glob("usr/lib/*-linux-gnu"))
    return {"LD_LIBRARY_PATH": found}


@contextlib.contextmanager
def ports(*names: str) -> Iterator[Mapping[str, int]]:
    """Ports that nobody else gets while this lasts."""
    reserved = reserve_ports(list(names))
    try:
        yield reserved.ports
    finally:
        reserved.release()


def accepts(port: int) -> bool:
    """Whether somebody accepts connections there."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 2):
        return True
    return False


@contextlib.contextmanager
def running(
    folder: Path, *argv: str, port: int, env: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """A server that accepts connections at this port; skips where its program is not there."""
    if not Path(argv[0]).exists():
        pytest.skip(f"there is no {Path(argv[0]).name}; python -m tests.tools.servers fetches it")
    log = folder / f"{Path(argv[0]).name}-{port}.log"
    with log.open("wb") as output:
        server = subprocess.Popen(
            argv,
            cwd=folder,
            env={"PATH": os.environ["PATH"], "HOME": str(folder), **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:

        def is_up() -> bool | None:
            assert server.poll() is None, log.read_text(errors="replace")[-3000:]
            return accepts(port) or None

        eventually(is_up, f"{argv[0]} has started", within_s=START_S_MAX)
        yield server
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGKILL)
        server.wait(30)


def sharing(name: str, folder: str) -> tuple[str, ...]:
    """The start of a command line that sees this folder of a package in its place."""
    hidden = str(Path(folder).parent)
    view = ("--dev-bind", "/", "/", "--tmpfs", hidden)
    return (bwrap(), *view, "--ro-bind", f"{CACHE / name}{folder}", folder, "--die-with-parent")


def java(name: str, *more: str, memory_mb: int) -> tuple[str, ...]:
    """The start of a command line with the jars of a server; skips where they are not there."""
    program = next(iter(Path("/usr/bin").glob("java")), Path("/usr/bin/java"))
    found = jars(name)
    if not found or not program.exists():
        pytest.skip(f"there is no {name}; python -m tests.tools.servers fetches it")
    limits = (f"-Xmx{memory_mb}m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
    return (str(program), *limits, *more, "-cp", ":".join(map(str, found)))


def erlang(folder: Path, broker: int, distribution: int, names: int) -> dict[str, str]:
    """The environment of RabbitMQ and of its commands in this folder."""
    root = CACHE / "rabbitmq/usr/lib/erlang"
    own = folder / "bin"
    if (root / "bin/erl").exists():
        # Debian's script knows only the place where the package is installed.
        own.mkdir(exist_ok=True)
        text = (root / "bin/erl").read_text().replace("/usr/lib/erlang", str(root))
        (own / "erl").write_text(text)
        (own / "erl").chmod(0o755)
    return {
        "PATH": f"{own}:{root}/bin:{os.environ['PATH']}",
        "ESCRIPT_EMULATOR": str(own / "erl"),
        "HOME": str(folder),
        "RABBITMQ_NODENAME": f"tests-{broker}@localhost",
        "RABBITMQ_NODE_PORT": str(broker),
        "RABBITMQ_DIST_PORT": str(distribution),
        "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
        "RABBITMQ_MNESIA_BASE": str(folder / "data"),
        "RABBITMQ_LOG_BASE": str(folder / "log"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
        "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq.conf"),
        "RABBITMQ_CONF_ENV_FILE": "/dev/null",
        "RABBITMQ_PID_FILE": str(folder / "pid"),
        "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+S 1:1",
        "ERL_EPMD_PORT": str(names),
        "ERL_EPMD_ADDRESS": "127.0.0.1",
    }
