"""The server of metrics: one path, and no request that harms it."""

from __future__ import annotations

import asyncio

import pytest

from operator_sre.telemetry.metrics import REQUEST_BYTES_MAX, MetricsServer

pytestmark = pytest.mark.asyncio


async def _render() -> bytes:
    return b"up 1\n"


def _server() -> MetricsServer:
    return MetricsServer("127.0.0.1", 0, content_type="text/x", render=_render)


async def _ask(server: MetricsServer, request: bytes, *, then_close: bool = False) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    try:
        writer.write(request)
        if then_close:
            writer.write_eof()
        return await asyncio.wait_for(reader.read(), 20)
    except ConnectionResetError:  # it did not read all of it before it hung up
        return b""
    finally:
        writer.close()
        await asyncio.gather(writer.wait_closed(), return_exceptions=True)


async def test_the_figures_are_at_one_path() -> None:
    async with _server() as server:
        answer = await _ask(server, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
        assert b"Content-Type: text/x\r\n" in answer
        assert answer.endswith(b"\r\n\r\nup 1\n")
        assert b"200" in await _ask(server, b"GET /metrics?x=1 HTTP/1.1\r\n\r\n")


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", b"404"),
        (b"POST /metrics HTTP/1.1\r\n\r\n", b"405"),
        (b"\x00\xff\r\n\r\n", b"405"),
        (b"GET /" + b"a" * 2 * REQUEST_BYTES_MAX + b"\r\n\r\n", b"431"),
    ],
)
async def test_anything_else_is_refused_in_a_word(request_: bytes, status: bytes) -> None:
    async with _server() as server:
        answer = await _ask(server, request_)
        assert not answer or answer.startswith(b"HTTP/1.1 " + status)
        assert b"200" in await _ask(server, b"GET /metrics HTTP/1.1\r\n\r\n")


async def test_who_hangs_up_in_the_middle_does_no_harm() -> None:
    async with _server() as server:
        assert await _ask(server, b"GET /met", then_close=True) == b""
        assert b"200" in await _ask(server, b"GET /metrics HTTP/1.1\r\n\r\n")
