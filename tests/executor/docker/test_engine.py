"""What answers as an engine may be away, slow, endless or no engine at all: one sentence each."""

from __future__ import annotations

import asyncio
import socket
import tracemalloc
from pathlib import Path

import pytest

from operator_protocols.domain.category import ErrorCategory, FailureCategory, NextAction
from operator_protocols.errors import OperatorError
from operator_sre.executor.docker import Address, Answer, Engine, EngineError
from operator_sre.executor.docker.answers import Container, Network
from operator_sre.executor.docker.engine import ANSWER_BYTES_MAX
from tests.executor.docker.impostor import answer, description, endless, listening, says

pytestmark = pytest.mark.asyncio

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
DEEP = b"[" * 200_000


async def _error(path: str, *, timeout_s: float = 20.0) -> EngineError:
    with pytest.raises(EngineError) as caught:
        await Engine(Address(socket=path)).ask("GET", "/info", timeout_s=timeout_s)
    return caught.value


async def test_a_whole_answer_is_read() -> None:
    async with listening(says(answer(description()))) as path:
        found = await Engine(Address(socket=path)).ask("GET", "/containers/web/json")
    container = found.read(Container)
    assert (found.ok, container.label) == (True, "web (abababababab)")
    assert container.networks == {}


async def test_nobody_listens(tmp_path: Path) -> None:
    error = await _error(str(tmp_path / "none.sock"))
    assert isinstance(error, OperatorError)
    assert (error.sent, error.failure) == (False, FailureCategory.NETWORK)
    assert error.category is ErrorCategory.DOCKER_UNAVAILABLE
    assert error.next_action is NextAction.START_DOCKER
    assert "none.sock" in str(error)
    assert "docker info" in str(error)


async def test_a_socket_without_anybody_behind_it(tmp_path: Path) -> None:
    path = str(tmp_path / "dead.sock")
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(path)
    assert not (await _error(path)).sent


async def test_a_socket_that_may_not_be_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import anyio

    async def forbidden(path: str) -> object:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(anyio, "connect_unix", forbidden)
    error = await _error(str(tmp_path / "docker.sock"))
    assert error.failure is FailureCategory.PERMISSION
    assert "group docker" in str(error)


async def test_an_address_with_a_problem_is_told() -> None:
    with pytest.raises(EngineError, match="makes no sense"):
        await Engine(Address(problem="It makes no sense.")).ask("GET", "/info")


async def test_certificates_that_are_not_there_are_told(tmp_path: Path) -> None:
    address = Address(url="https://127.0.0.1:1", certificates=str(tmp_path))
    with pytest.raises(EngineError, match=r"ca\.pem"):
        await Engine(address).ask("GET", "/info")


async def test_one_that_never_answers_is_not_waited_for() -> None:
    async with listening(says(), hangs=True) as path:
        error = await _error(path, timeout_s=0.2)
    assert (error.sent, error.failure) == (True, FailureCategory.TIMEOUT)


async def test_one_that_never_ends_its_answer_is_not_waited_for() -> None:
    begun = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"
    async with listening(says(begun), hangs=True) as path:
        assert (await _error(path, timeout_s=0.2)).failure is FailureCategory.TIMEOUT


async def test_one_that_says_too_much_is_not_listened_to() -> None:
    tracemalloc.start()
    try:
        async with listening(endless(CHUNKED, b"10000\r\n" + b"x" * 65536 + b"\r\n")) as path:
            error = await _error(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert f"{ANSWER_BYTES_MAX // 1024**2} MB" in str(error)
    assert peak < 4 * ANSWER_BYTES_MAX


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"\x00\xff" * 1000,
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 100_000,
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\nContent-Length: -3\r\n\r\nabc",
        CHUNKED + b"zz\r\n",
    ],
    ids=["nothing", "noise", "ssh", "headers", "short", "negative", "chunk"],
)
async def test_what_is_no_http_is_a_lost_connection(said: bytes) -> None:
    async with listening(says(said)) as path:
        error = await _error(path)
    assert (error.sent, error.failure) == (True, FailureCategory.NETWORK)


@pytest.mark.parametrize(
    "content",
    [b"", b"garbage", b"[]", b"{}", b'{"Id":7,"Name":"x"}', b'"\xff"', DEEP, b"null"],
    ids=["empty", "garbage", "list", "lacking", "typed", "bytes", "deep", "null"],
)
async def test_what_is_no_answer_of_docker_is_told(content: bytes) -> None:
    with pytest.raises(EngineError, match="does not answer as Docker does"):
        Answer(200, content).read(Container)
    assert Answer(500, content).message == "status 500"


async def test_a_complaint_is_one_bounded_line() -> None:
    told = Answer(409, b'{"message":"a\\nb ' + b"x" * 5000 + b'"}')
    assert not told.ok
    assert told.message.startswith("a b x")
    assert len(told.message) == 500


async def test_a_packed_answer_is_not_unpacked() -> None:
    packed = answer(b"\x1f\x8b" + b"\0" * 100).replace(
        b"Content-Type", b"Content-Encoding: gzip\r\nContent-Type"
    )
    async with listening(says(packed)) as path:
        found = await Engine(Address(socket=path)).ask("GET", "/info")
    assert found.content.startswith(b"\x1f\x8b")


async def test_cancelled_it_lets_go_of_the_connection() -> None:
    async with listening(says(), hangs=True) as path:
        asking = asyncio.create_task(Engine(Address(socket=path)).ask("GET", "/info"))
        await asyncio.wait({asking}, timeout=0.1)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking


async def test_who_else_is_on_a_network() -> None:
    content = b'{"Id":"n","Name":"net","Containers":{"a":{"Name":"x"},"b":{"Name":"y"}}}'
    network = Answer(200, content).read(Network)
    assert (network.others("a"), network.others("c")) == (("y",), ("x", "y"))
