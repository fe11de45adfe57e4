"""Somebody who collects spans, by OTLP over HTTP, and keeps what came."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

__all__ = ["Collected", "Inbox", "collecting"]


@dataclass(frozen=True)
class Collected:
    """A span as it came."""

    name: str
    trace: str
    id: str
    parent: str
    kind: int
    status: int
    took_ns: int
    attributes: Mapping[str, Any]
    service: str


@dataclass
class Inbox:
    """What came, and how it is answered."""

    url: str = ""
    status: int = 200
    bodies: list[bytes] = field(default_factory=list)
    headers: list[Mapping[str, str]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)

    @property
    def spans(self) -> list[Collected]:
        """All that were taken, in their order."""
        return [one for body in self.bodies for one in _spans(body)]


@contextmanager
def collecting() -> Iterator[Inbox]:
    """A collector on loopback, for the length of a `with`."""
    inbox = Inbox()

    class Door(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            inbox.headers.append({name.lower(): it for name, it in self.headers.items()})
            inbox.paths.append(self.path)
            if inbox.status == 200:
                inbox.bodies.append(body)
            told = ExportTraceServiceResponse().SerializeToString()
            self.send_response(inbox.status)
            self.send_header("content-type", "application/x-protobuf")
            self.send_header("content-length", str(len(told)))
            self.end_headers()
            self.wfile.write(told)

        def log_message(self, format: str, *arguments: object) -> None:
            """Nobody reads it."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Door) as server:
        inbox.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield inbox
        finally:
            server.shutdown()
            thread.join()


def _spans(body: bytes) -> Iterator[Collected]:
    request = ExportTraceServiceRequest.FromString(body)
    for resource in request.resource_spans:
        about = _values(resource.resource.attributes)
        for scope in resource.scope_spans:
            for one in scope.spans:
                yield Collected(
                    one.name,
                    one.trace_id.hex(),
                    one.span_id.hex(),
                    one.parent_span_id.hex(),
                    one.kind,
                    one.status.code,
                    one.end_time_unix_nano - one.start_time_unix_nano,
                    _values(one.attributes),
                    str(about.get("service.name")),
                )


def _values(pairs: Any) -> dict[str, Any]:
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in pairs}
