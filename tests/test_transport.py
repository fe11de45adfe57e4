"""A connection is closed when its request is given up, whatever it was doing then."""

from __future__ import annotations

import asyncio
import gc
import ssl

import httpx2
import pytest

from operator_sre.transport import ClosingTransport

pytestmark = pytest.mark.asyncio

WITHIN_S = 20.0


async def test_a_handshake_that_is_given_up_closes_its_connection() -> None:
    hello, gone = asyncio.Event(), asyncio.Event()

    async def never_answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        hello.set()
        await reader.read()
        gone.set()
        writer.close()

    server = await asyncio.start_server(never_answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    transport = ClosingTransport(verify=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
    gc.disable()  # what only the garbage collector closes stays open
    try:
        async with server, httpx2.AsyncClient(transport=transport, trust_env=False) as client:
            asking = asyncio.ensure_future(client.get(f"https://127.0.0.1:{port}/"))
            await asyncio.wait_for(hello.wait(), WITHIN_S)
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
            await asyncio.wait_for(gone.wait(), WITHIN_S)
    finally:
        gc.enable()
