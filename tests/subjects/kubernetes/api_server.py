"""A stand-in for the API server: it lists and watches objects that a test changes, over HTTP, and
changes them as it is told: create, JSON patch, apply, delete, evict.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

from operator_sre.subjects.kubernetes.resources import WATCHED, Resource

Object = dict[str, Any]
_PATHS = {resource.path(): resource.kind for resource in WATCHED}
# What is not watched and can be made.
_HOOKS = Resource(
    *("validatingwebhookconfiguration", "validatingwebhookconfigurations"),
    *("admissionregistration.k8s.io", "v1"),
    namespaced=False,
)
_PLURALS = {resource.plural: resource for resource in (*WATCHED, _HOOKS)}
_KEPT = 10_000


class Refusal(Exception):
    """The answer is an error."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class Change:
    """A request that was not GET."""

    method: str
    path: str
    query: Mapping[str, str]
    content: str
    body: Any

    @property
    def dry(self) -> bool:
        """Whether nothing was to be kept."""
        if self.method == "DELETE" and self.body:
            return bool(self.body.get("dryRun") == ["All"])  # as the server, which reads one
        return self.query.get("dryRun") == "All"


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
    hangs: bool = False
    changes: list[Change] = field(default_factory=list)
    # Those of the changes that were no dry run and were not refused.
    done: list[Change] = field(default_factory=list)
    refuses: dict[tuple[str, str], tuple[int, str]] = field(default_factory=dict)
    # `refuses_once` is for the next change that is kept, `meddle` is called before each.
    refuses_once: dict[str, tuple[int, str]] = field(default_factory=dict)
    meddle: Callable[[Change], None] | None = None
    orders: set[str] = field(default_factory=set)
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
        metadata.setdefault("uid", f"uid-{self.version}")
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
                method, target = head.split(b" ")[0].decode(), head.split(b" ")[1].decode()
                self.requests.append(target)
                url = urlsplit(target)
                query = {name: values[0] for name, values in parse_qs(url.query).items()}
                kind = _PATHS.get(url.path)
                fields = dict(
                    line.lower().split(": ", 1) for line in head.decode().splitlines()[1:] if line
                )
                body = await reader.readexactly(int(fields.get("content-length", 0)))
                if method != "GET":
                    content = fields.get("content-type", "")
                    made = Change(method, url.path, query, content, json.loads(body or b"{}"))
                    await self._answer_change(writer, made)
                elif kind is None:
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
        if path == "/readyz" and self.hangs:
            await asyncio.Event().wait()
        elif path == "/readyz":
            status = "200 OK" if self.ready else "500 Internal Server Error"
            await _send(writer, b"ok" if self.ready else b"[-]etcd failed", status=status)
        elif path.endswith("/log"):
            when = "previous" if query.get("previous") == "true" else "current"
            text = self.logs.get(f"{path.split('/')[-2]}/{when}", "")
            await _send(writer, text.encode())
        elif path == "/version":
            await _send(writer, b"{}")
        elif path.endswith("/proxy/orders"):
            is_known = query.get("key") in self.orders
            await _send(writer, b"", status="200 OK" if is_known else "404 Not Found")
        else:
            try:
                resource, key, _ = self._place(path)
                if not key[1]:
                    items = [
                        item
                        for (place, _), item in self.objects.get(resource.kind, {}).items()
                        if place == key[0]
                    ]
                    await _send(writer, json.dumps({"metadata": {}, "items": items}).encode())
                    return
                item = {**self._find(resource.kind, key), "kind": resource.kind.capitalize()}
                await _send(writer, json.dumps(item).encode())
            except Refusal as refusal:
                await _send_error(writer, refusal)

    def _place(self, path: str) -> tuple[Resource, tuple[str, str], str]:
        """The resource of a path, namespace and name, and the part of the object."""
        parts = path.strip("/").split("/")
        rest = parts[2:] if parts[0] == "api" else parts[3:]
        namespace = ""
        if rest[0] == "namespaces" and len(rest) > 2:
            namespace, rest = rest[1], rest[2:]
        resource = _PLURALS.get(rest[0])
        if resource is None:
            raise Refusal(404, "the server could not find the requested resource")
        name, part = (*rest[1:], "", "")[:2]
        return resource, (namespace, name), part

    def _find(self, kind: str, key: tuple[str, str]) -> Object:
        found = self.objects.get(kind, {}).get(key)
        if found is None:
            raise Refusal(404, f'{kind}s "{key[1]}" not found')
        return found

    async def _answer_change(self, writer: asyncio.StreamWriter, change: Change) -> None:
        self.changes.append(change)
        try:
            if refused := self.refuses.get((change.method, change.path)):
                raise Refusal(*refused)
            if not change.dry and change.path in self.refuses_once:
                raise Refusal(*self.refuses_once.pop(change.path))
            if self.meddle is not None:
                self.meddle(change)
            made = self._change(change)
            self.done += [] if change.dry else [change]
        except Refusal as refusal:
            await _send_error(writer, refusal)
        else:
            await _send(writer, json.dumps(made).encode())

    def _change(self, change: Change) -> Object:
        """Do it; with a dry run only the answer says what would have been."""
        if change.path.endswith("/proxy/orders"):
            self.orders.add(change.query["key"])
            return {}
        resource, (namespace, name), part = self._place(change.path)
        kind = resource.kind
        if change.method == "POST" and part == "eviction":
            pod = self._find(kind, (namespace, name))
            _check_preconditions(pod, change.body.get("deleteOptions") or {})
            if not change.dry:
                self.delete(kind, name, namespace)
            return {}
        if change.method == "POST":
            name = change.body["metadata"].get("name", "")
            if (namespace, name) in self.objects.get(kind, {}):
                raise Refusal(409, f'{resource.plural} "{name}" already exists')
            made = json.loads(json.dumps(change.body))
            if namespace:
                made["metadata"]["namespace"] = namespace
            if not change.dry:
                self.put(kind, made)
            return dict(made)
        if change.method == "DELETE" and not name:
            _, _, app = change.query["labelSelector"].partition("=")
            for place, own in list(self.objects.get(kind, {})):
                labels = self.objects[kind][place, own]["metadata"].get("labels") or {}
                if place == namespace and labels.get("app") == app:
                    self.delete(kind, own, place)
            return {}
        if change.method == "DELETE":
            gone = self._find(kind, (namespace, name))
            _check_preconditions(gone, change.body)
            if not change.dry and not gone["metadata"].get("finalizers"):
                self.delete(kind, name, namespace)
            return {}
        if change.content == "application/apply-patch+yaml":
            known = self.objects.get(kind, {}).get((namespace, name), {})
            made = _merge(known, change.body) if known else json.loads(json.dumps(change.body))
        elif change.content.endswith("merge-patch+json"):
            made = _merge(self._find(kind, (namespace, name)), change.body)
        elif change.method == "PUT":
            now = self._find(kind, (namespace, name))["metadata"]
            made = json.loads(json.dumps(change.body))
            if made["metadata"]["resourceVersion"] != now["resourceVersion"]:
                raise Refusal(409, "the object has been modified")
            made["metadata"]["uid"] = now["uid"]
            if made["metadata"].get("managedFields") == [{}]:
                del made["metadata"]["managedFields"]
        else:
            assert change.content == "application/json-patch+json", change.content
            made = json.loads(json.dumps(self._find(kind, (namespace, name))))
            for operation in change.body:
                _patch(made, operation)
        if not change.dry:
            self.put(kind, made)
        return dict(made)

    def _list(self, kind: str, query: Mapping[str, str]) -> bytes:
        items = list(self.objects.get(kind, {}).values())
        field, _, value = query.get("fieldSelector", "").partition("=")
        if field == "spec.nodeName":
            items = [item for item in items if item["spec"].get("nodeName") == value]
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


async def _send_error(writer: asyncio.StreamWriter, refusal: Refusal) -> None:
    body = json.dumps({"kind": "Status", "code": refusal.status, "message": str(refusal)})
    await _send(writer, body.encode(), status=f"{refusal.status} Error")


def _check_preconditions(item: Object, options: Mapping[str, Any]) -> None:
    for name, value in (options.get("preconditions") or {}).items():
        if item["metadata"].get(name) != value:
            raise Refusal(409, f"Precondition failed: {name} differs")


def _patch(item: Any, operation: Mapping[str, Any]) -> None:
    """One operation of a JSON patch, as RFC 6902 has it."""
    *way, last = (
        part.replace("~1", "/").replace("~0", "~") for part in operation["path"].split("/")[1:]
    )
    for part in way:
        try:
            item = item[int(part)] if isinstance(item, list) else item[part]
        except (KeyError, IndexError):
            raise Refusal(422, f"the path {operation['path']} does not exist") from None
    key: Any = last
    if isinstance(item, list):
        key = len(item) if last == "-" else int(last)
    there = key in item if isinstance(item, dict) else key < len(item)
    if operation["op"] != "add" and not there:
        raise Refusal(422, f"the path {operation['path']} does not exist")
    if operation["op"] == "test":
        if item[key] != operation["value"]:
            raise Refusal(422, f"testing value {operation['path']} failed")
    elif operation["op"] == "remove":
        del item[key]
    elif isinstance(item, list) and operation["op"] == "add":
        item.insert(key, operation["value"])
    else:
        item[key] = operation["value"]


def _merge(now: Any, patch: Any) -> Any:
    """A strategic merge: null removes, and lists of named things are merged by their names."""
    if isinstance(patch, dict):
        made = dict(now) if isinstance(now, dict) else {}
        for key, value in patch.items():
            if value is None:
                made.pop(key, None)
            else:
                made[key] = _merge(made.get(key), value)
        return made
    if isinstance(patch, list) and all(isinstance(each, dict) and "name" in each for each in patch):
        kept = {each["name"]: each for each in now or ()}
        return list({**kept, **{e["name"]: _merge(kept.get(e["name"]), e) for e in patch}}.values())
    return patch


def fill(server: ApiServer, objects: Iterable[tuple[str, Mapping[str, Any]]]) -> None:
    """Put many objects."""
    for kind, item in objects:
        server.put(kind, item)
