"""A porter before an engine, and what asks it: byte by byte, so that nothing is made right."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import re
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from operator_sre.executor.porter import Porter
from tests.engines.dockerd import Engine

__all__ = ["LAB", "LABEL", "Heard", "asked", "labels", "request", "standing", "warnings"]

LAB = "lab"
LABEL = "com.docker.compose.project"


@dataclass(slots=True)
class Heard:
    """An engine that answers from a table, and keeps every byte that reached it."""

    answers: Mapping[str, bytes | list[bytes]]
    connections: list[bytes] = field(default_factory=list)

    async def meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the first request, and keep whatever else comes until the other side is gone."""
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            place = len(self.connections)
            self.connections.append(head)
            length = re.search(rb"content-length: (\d+)", head.lower())
            if length is not None:
                self.connections[place] += await reader.readexactly(int(length[1]))
            writer.write(self._answer(head.split(b" ")[1].partition(b"?")[0].decode()))
            if b" 101 " not in head and b"upgrade: tcp" not in head.lower():
                writer.write_eof()
            while piece := await reader.read(65536):
                self.connections[place] += piece
        writer.close()

    def _answer(self, path: str) -> bytes:
        found = self.answers.get(path, b'HTTP/1.1 404 Not Found\r\n\r\n{"message":"No such"}')
        return found.pop(0) if isinstance(found, list) else found

    @property
    def lines(self) -> list[str]:
        """The first line of every request, in the order in which they came."""
        return [one.split(b"\r\n")[0].decode() for one in self.connections]


def request(method: str, target: str, body: object = None, *headers: str) -> bytes:
    """A request as clients write it."""
    content = b"" if body is None else json.dumps(body).encode()
    lines = [f"{method} {target} HTTP/1.1", "Host: docker", f"Content-Length: {len(content)}"]
    return "\r\n".join([*lines, *headers, "", ""]).encode() + content


def labels(engine: Engine, **more: str) -> dict[str, str]:
    """Those of a container of the lab, which the engine of the tests removes."""
    return {**engine.labels, LABEL: LAB, **more}


async def asked(place: Path, raw: bytes) -> tuple[int, Any]:
    """The status and the answer to these bytes, when all of it has come."""
    reader, writer = await asyncio.open_unix_connection(str(place))
    try:
        writer.write(raw)
        with contextlib.suppress(ConnectionError):
            await writer.drain()
        async with asyncio.timeout(30.0):
            head, _, content = (await reader.read()).partition(b"\r\n\r\n")
    finally:
        writer.close()
    is_json = content.startswith((b"{", b"["))
    return int(head.split(b" ")[1]), json.loads(content) if is_json else content


@asynccontextmanager
async def standing(engine: str | Heard, **more: int) -> AsyncIterator[Path]:
    """Where the porter listens."""
    with tempfile.TemporaryDirectory(prefix="operator-") as folder:
        place, behind = Path(folder) / "porter.sock", str(engine)
        async with contextlib.AsyncExitStack() as stack:
            if isinstance(engine, Heard):
                behind = str(Path(folder) / "engine.sock")
                server = await asyncio.start_unix_server(engine.meet, behind)
                stack.callback(server.close)
            await stack.enter_async_context(Porter(behind, LAB, **more).serve(place))
            yield place
        assert not place.exists(), "nothing is left of it"


@contextmanager
def warnings() -> Iterator[list[str]]:
    """What the porter logs for people, whatever other tests did to logging."""
    said: list[str] = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: said.append(record.getMessage())  # type: ignore[method-assign]
    ours = logging.getLogger("operator_sre.executor.porter.porter")
    ours.addHandler(handler)
    try:
        yield said
    finally:
        ours.removeHandler(handler)
