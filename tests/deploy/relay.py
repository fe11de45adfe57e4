"""A TCP port that leads to a Unix socket, for pods that use a server of this machine.

python -m tests.deploy.relay ADDRESS PORT SOCKET      prints a line once it listens
"""

from __future__ import annotations

import asyncio
import contextlib
import sys

__all__ = ["main"]

CHUNK_BYTES = 1 << 16


async def _pass(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while chunk := await source.read(CHUNK_BYTES):
            sink.write(chunk)
            await sink.drain()
    sink.close()


async def _serve(address: str, port: int, place: str) -> None:
    async def connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        behind, ahead = await asyncio.open_unix_connection(place)
        await asyncio.gather(_pass(reader, ahead), _pass(behind, writer))

    async with await asyncio.start_server(connect, address, port) as server:
        sys.stdout.write("listening\n")
        sys.stdout.flush()
        await server.serve_forever()


def main(words: list[str]) -> None:
    """Serve until ended."""
    address, port, place = words
    asyncio.run(_serve(address, int(port), place))


if __name__ == "__main__":
    main(sys.argv[1:])
