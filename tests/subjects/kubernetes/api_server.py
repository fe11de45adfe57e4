"""A stand-in for the API server: it lists and watches objects that a test changes, over HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import deque
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

from operator_sre.subjects.kubernetes.resources import WATCHED

Object = dict[str, Any]
_PATHS = {resource.path(): resource.kind for resource in WATCHED}
_KEPT = 10_000


@dataclass(eq=False)
class ApiServer:
    """Objects by kind, and the events since the start. `forgets` makes every watch too old."""

    objects: dict[str, dict[tuple[str, str], Object]] = field(default_factory=dict)
    version: int = 1
    requests: list[str] = field(default_factory=list)
    forbidden: set[str] = field(default_factory=set)
    logs: dict[str, str] = field(default_factory=dict)
    forgets: bool = False
    ready: bool = True
    _watchers: list[tuple[str, asyncio.Queue[bytes]]] = field(default_factory=list)
    _history: deque[tuple[int, str, bytes]] = field(default_factory=lambda: deque(maxlen=_KEPT))

    def put(self, kind: str, item: Mapping[str, Any]) -> None:
        """Create or change an object, and tell who watches."""
        made = json.loads(json.dumps(item))
        metadata = made.setdefault("metadata", {})
        key = (metadata.get("namespace", ""), metadata["name"])
        table = self.objects.setdefault(kind, {})
        self.version += 1
        metadata["resourceVersion"] = str(self.version)
        word = "MODIFIED" if key in table else "ADDED"
        table[key] = made
        self._tell(kind, word, made)

    def delete(self, kind: str, name: str, namespace: str = "") -> None:
        """Delete an object."""
        gone = self.objects[kind].pop((namespace, name))
        self.version += 1
        gone["metadata"]["resourceVersion"] = str(self.version)
        self._tell(kind, "DELETED", gone)

    def drop_watches(self) -> None:
        """End every watch, as a server does that is restarted."""
        for _, queue in self._watchers:
            queue.put_nowait(b"")

    def _tell(self, kind: str, word: str, item: Object) -> None:
        line = json.dumps({"type": word, "object": item}).encode() + b"\n"
        self._history.append((self.version, kind, line))
        for watched, queue in self._watchers:
            if watched == kind:
                queue.put_nowait(line)

    @contextlib.asynccontextmanager
    async def serve(self) -> AsyncIterator[str]:
        """Serve on a private port; yields the address."""
        answering: set[asyncio.Task[None]] = set()

        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            answering.add(asyncio.create_task(self._answer(reader, writer)))

        server = await asyncio.start_server(accept, "127.0.0.1", 0)
        try:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        finally:
            server.close()
            for task in answering:
                task.cancel()
            await asyncio.gather(*answering, return_exceptions=True)
            await server.wait_closed()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                target = head.split(b" ")[1].decode()
                self.requests.append(target)
                url = urlsplit(target)
                query = {name: values[0] for name, values in parse_qs(url.query).items()}
                kind = _PATHS.get(url.path)
                if kind is None:
                    await self._answer_other(writer, url.path, query)
                elif kind in self.forbidden:
                    await _send(writer, b"{}", status="403 Forbidden")
                elif query.get("watch") == "true":
                    await self._follow(writer, kind, int(query["resourceVersion"]))
                else:
                    await _send(writer, self._list(kind, query))
        except (OSError, asyncio.IncompleteReadError):
            pass  # the client has hung up
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def _answer_other(
        self, writer: asyncio.StreamWriter, path: str, query: Mapping[str, str]
    ) -> None:
        if path == "/readyz":
            status = "200 OK" if self.ready else "500 Internal Server Error"
            await _send(writer, b"ok" if self.ready else b"[-]etcd failed", status=status)
        elif path.endswith("/log"):
            when = "previous" if query.get("previous") == "true" else "current"
            text = self.logs.get(f"{path.split('/')[-2]}/{when}", "")
            await _send(writer, text.encode())
        else:
            await _send(writer, b"{}", status="404 Not Found")

    def _list(self, kind: str, query: Mapping[str, str]) -> bytes:
        items = list(self.objects.get(kind, {}).values())
        at, limit = int(query.get("continue") or 0), int(query.get("limit") or 500)
        metadata = {"resourceVersion": str(self.version)}
        if at + limit < len(items):
            metadata["continue"] = str(at + limit)
        return json.dumps({"metadata": metadata, "items": items[at : at + limit]}).encode()

    async def _follow(self, writer: asyncio.StreamWriter, kind: str, since: int) -> None:
        queue: asyncio.Queue[bytes] = asyncio.Queue()
        entry = (kind, queue)
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        if self.forgets:
            gone = {"type": "ERROR", "object": {"code": 410, "message": "too old"}}
            queue.put_nowait(json.dumps(gone).encode() + b"\n")
            queue.put_nowait(b"")
        for version, watched, line in self._history:
            if watched == kind and version > since:
                queue.put_nowait(line)
        self._watchers.append(entry)
        try:
            while True:
                line = await queue.get()
                writer.write(f"{len(line):x}\r\n".encode() + line + b"\r\n")
                await writer.drain()
                if not line:
                    return
        finally:
            self._watchers.remove(entry)


async def _send(writer: asyncio.StreamWriter, body: bytes, *, status: str = "200 OK") -> None:
    head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\n"
    writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    await writer.drain()


def fill(server: ApiServer, objects: Iterable[tuple[str, Mapping[str, Any]]]) -> None:
    """Put many objects."""
    for kind, item in objects:
        server.put(kind, item)
