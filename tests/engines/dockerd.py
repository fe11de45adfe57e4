"""A real Docker engine for the tests: one that answers already, or one of our own."""

from __future__ import annotations

import contextlib
import ctypes
import io
import itertools
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import quote

import pytest

from tests.engines.debian import busybox
from tests.engines.docker_keeper import Asking
from tests.engines.marks import demand_mark
from tests.leaks import outlives_test

__all__ = [
    "BUSYBOX",
    "USERS",
    "Engine",
    "EngineError",
    "PrivateEngine",
    "docker_engine",
    "private_engine",
]

ROOT = Path(__file__).resolve().parents[2]
DEFAULT_SOCKET = "/var/run/docker.sock"
# The image of every test: busybox and its applets, a shell among them, and two users.
BUSYBOX = "operator-tests/busybox"
NEEDED = ("dockerd", "containerd", "runc", "unshare")
NO_BUSYBOX = "needs busybox; tests/tools/debian.sh fetches one on Debian"
USERS = "root:x:0:0:root:/:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n"
LABEL = "operator-tests"
CLONE_NEWNET = 0x40000000
# The layers of an image are many files.
END_S_MAX = 900.0


class EngineError(AssertionError):
    """The engine refused what a test asked it for."""


class Engine:
    """An engine that answers on a Unix socket, asked here without the client that is tested."""

    _numbers: ClassVar[Iterator[int]] = itertools.count()

    def __init__(self, socket: str) -> None:
        self.socket = socket
        self.image = f"{BUSYBOX}:{os.getpid()}"
        self._mine = f"{os.getpid()}-{id(self)}"

    @property
    def url(self) -> str:
        """What `DOCKER_HOST` is for this engine."""
        return f"unix://{self.socket}"

    @property
    def labels(self) -> dict[str, str]:
        """What every container carries that is removed after a test."""
        return {LABEL: self._mine}

    def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        raw: bytes = b"",
        timeout_s: float = 60.0,
    ) -> Any:
        """What the engine answers, decoded; raises EngineError when it refuses."""
        asking = Asking(self.socket, timeout_s=timeout_s)
        try:
            sent = raw or (None if body is None else json.dumps(body).encode())
            kind = "application/x-tar" if raw else "application/json"
            asking.request(method, path, sent, {"Content-Type": kind})
            answer = asking.getresponse()
            content = answer.read()
        finally:
            asking.close()
        if answer.status >= 400:
            raise EngineError(f"{method} {path}: {answer.status} {content.decode()!r}")
        is_json = "json" in (answer.getheader("Content-Type") or "")
        return json.loads(content) if is_json and content.count(b"\n") < 2 else content

    def name(self) -> str:
        """A name that nobody else has."""
        return f"operator-tests-{os.getpid()}-{next(self._numbers)}"

    def create(self, *argv: str, name: str = "", **settings: object) -> str:
        """The id of a new container; `settings` are those of the API, like HostConfig."""
        body = {"Image": self.image, "Cmd": list(argv), "Labels": self.labels, **settings}
        made = self.ask("POST", f"/containers/create?name={quote(name or self.name())}", body)
        return str(made["Id"])

    def run(self, *argv: str, name: str = "", **settings: object) -> str:
        """The id of a new container that was started."""
        made = self.create(*argv, name=name, **settings)
        self.ask("POST", f"/containers/{made}/start")
        return made

    def inspect(self, container: str) -> Any:
        """All that the engine tells of a container."""
        return self.ask("GET", f"/containers/{quote(container)}/json")

    def is_running(self, container: str) -> bool:
        """Whether it runs now."""
        return bool(self.inspect(container)["State"]["Running"])

    def hear(self, container: str, text: str) -> None:
        """Return when the container has said this."""
        asking = Asking(self.socket, timeout_s=20.0)
        try:
            path = f"/containers/{quote(container)}/logs?stdout=true&stderr=true&follow=true"
            asking.request("GET", path)
            answer = asking.getresponse()
            said = b""
            while text.encode() not in said:
                chunk = answer.read1(4096)
                assert chunk, f"it ended and had not said {text!r}: {said!r}"
                said += chunk
        finally:
            asking.close()

    def remove(self, container: str) -> None:
        """End and remove a container, where there is one."""
        with contextlib.suppress(EngineError):
            self.ask("DELETE", f"/containers/{quote(container)}?force=true&v=true")

    def network(self, name: str = "") -> str:
        """The name of a new network that leads nowhere."""
        wanted = name or self.name()
        body = {"Name": wanted, "Internal": True, "Labels": self.labels}
        self.ask("POST", "/networks/create", body)
        return wanted

    def processes(self, container: str) -> list[str]:
        """The command lines of all processes in a container, as the engine sees them."""
        told = self.ask("GET", f"/containers/{quote(container)}/top?ps_args=-o%20pid,args")
        return [str(row[-1]) for row in told["Processes"] or []]

    def clean(self) -> None:
        """Remove every container and network that was made here."""
        chosen = quote(json.dumps({"label": [f"{LABEL}={self._mine}"]}))
        for one in self.ask("GET", f"/containers/json?all=true&filters={chosen}"):
            self.remove(one["Id"])
        for one in self.ask("GET", f"/networks?filters={chosen}"):
            with contextlib.suppress(EngineError):
                self.ask("DELETE", f"/networks/{one['Id']}")

    def load(self) -> None:
        """Import the image; nothing is pulled."""
        name, _, tag = self.image.partition(":")
        self.ask("POST", f"/images/create?fromSrc=-&repo={quote(name)}&tag={tag}", raw=_busybox())

    def end(self) -> None:
        """Leave the engine as it was."""
        self.clean()
        with contextlib.suppress(EngineError):
            self.ask("DELETE", f"/images/{self.image}?force=true")


class PrivateEngine(Engine):
    """An engine in namespaces and a folder of its own, which end with whoever started it."""

    def __init__(self, *, publishing: bool = False, outward: bool = False) -> None:
        # A short path, because that of a Unix socket may have 107 bytes.
        self._folder = Path(tempfile.mkdtemp(prefix="operator-docker-"))
        super().__init__(str(self._folder / "docker.sock"))
        self._keeper = subprocess.Popen(
            [
                *("unshare", "--mount", "--pid", "--fork", "--kill-child"),
                *(() if outward else ("--net",)),
                *("--propagation", "slave", "--mount-proc"),
                *(sys.executable, "-m", "tests.engines.docker_keeper", str(self._folder)),
                *(("--publishing",) if publishing else ()),
                *(("--outward",) if outward else ()),
            ],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.problem = self._problem()
        if self.problem:
            self.end()
        else:
            self.load()

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """Be in the network of the engine, where its published ports are; this thread only."""
        with (
            open("/proc/thread-self/ns/net", "rb") as before,  # noqa: PTH123 - handles are needed
            open(f"/proc/{self._keeper.pid}/ns/net", "rb") as there,  # noqa: PTH123
        ):
            _enter(there.fileno())
            try:
                yield
            finally:
                _enter(before.fileno())

    def kill(self) -> None:
        """End the engine as a crash would."""
        self._tell("kill")

    def start(self) -> None:
        """Start it again after it was killed."""
        self._tell("start")

    def end(self) -> None:
        """End it, its containers and its folder."""
        assert self._keeper.stdin is not None
        assert self._keeper.stdout is not None
        self._keeper.stdin.close()
        self._keeper.wait(END_S_MAX)
        self._keeper.stdout.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _tell(self, word: str) -> None:
        assert self._keeper.stdin is not None
        self._keeper.stdin.write(f"{word}\n")
        self._keeper.stdin.flush()
        problem = self._problem()
        assert not problem, problem

    def _problem(self) -> str:
        assert self._keeper.stdout is not None
        line = self._keeper.stdout.readline().strip()
        return "" if line == "ready" else line or "no namespaces can be made for a Docker engine"


def _enter(namespace: int) -> None:
    if ctypes.CDLL(None, use_errno=True).setns(namespace, CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")


def _busybox() -> bytes:
    """A tar of a root file system with nothing but busybox."""
    path = busybox()
    assert path is not None
    names = subprocess.run([str(path), "--list"], check=True, capture_output=True, text=True).stdout
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as tar:
        for folder, mode in (("bin", 0o755), ("etc", 0o755), ("tmp", 0o1777)):
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, mode
            tar.addfile(entry)
        for name, data, mode in (
            ("bin/busybox", path.read_bytes(), 0o755),
            ("etc/passwd", USERS.encode(), 0o644),
        ):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(data), mode
            tar.addfile(entry, io.BytesIO(data))
        for applet in set(names.split()) - {"busybox"}:
            entry = tarfile.TarInfo(f"bin/{applet}")
            entry.type, entry.linkname = tarfile.SYMTYPE, "busybox"
            tar.addfile(entry)
    return content.getvalue()


def _answering() -> Engine | None:
    """An engine of this machine that answers already."""
    told = os.environ.get("DOCKER_HOST", f"unix://{DEFAULT_SOCKET}")
    if not told.startswith("unix://") or busybox() is None:
        return None
    engine = Engine(told.removeprefix("unix://"))
    try:
        engine.ask("GET", "/_ping")
        engine.load()
    except (OSError, EngineError):
        return None
    return engine


def _lacking() -> str:
    """Why no engine of our own can be started, or ""."""
    missing = [name for name in NEEDED if shutil.which(name) is None]
    if missing:
        return f"needs a Docker engine (Debian, as root: apt install docker.io): no {missing[0]}"
    if os.geteuid() != 0:
        return "needs a Docker engine, and only root can start one"
    return "" if busybox() else NO_BUSYBOX


@cache
def _started() -> Engine | str:
    """The one engine of this process, or why there is none."""
    return _answering() or _lacking() or _private()


def _private() -> Engine | str:
    with outlives_test():
        engine = PrivateEngine()
    return engine.problem or engine


def docker_engine(config: pytest.Config) -> Engine:
    """The one engine of this process, started when it is first needed; skips where none can be."""
    demand_mark(config)
    first = not _started.cache_info().currsize
    engine = _started()
    if isinstance(engine, str):
        pytest.skip(engine)
    if first:
        config.add_cleanup(engine.end)
    return engine


def private_engine(
    config: pytest.Config, *, publishing: bool = False, outward: bool = False
) -> PrivateEngine:
    """An engine of one test, which may kill it and has to end it; skips where none can be."""
    demand_mark(config)
    lacking = _lacking()
    engine = None if lacking else PrivateEngine(publishing=publishing, outward=outward)
    if engine is None or engine.problem:
        pytest.skip(lacking or (engine.problem if engine else ""))
    return engine
