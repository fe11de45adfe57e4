"""A server on a private port that speaks what models speak, well or badly, as a test tells it."""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

__all__ = ["HELD_S_MAX", "Heard", "Reply", "WireServer", "serving", "streamed"]

HELD_S_MAX = 60.0


@dataclass(frozen=True, slots=True)
class Heard:
    """One request as it came over the wire."""

    path: str
    headers: Mapping[str, str]
    body: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Reply:
    """What is sent back; `cut` bytes of it only, or nothing at all while it is `held`."""

    body: bytes = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    cut: int | None = None
    held: bool = False

    @classmethod
    def json(cls, value: object, *, status: int = 200, **headers: str) -> Reply:
        """A JSON body."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        told = {"content-type": "application/json", **named}
        return cls(json.dumps(value).encode(), status, told)


def streamed(reply: Reply) -> Reply:
    """A chat completion as the events of a stream; any other reply as it is."""
    try:
        whole = json.loads(reply.body) if reply.body.startswith(b"{") else {}
        (choice,) = whole["choices"]
        message = dict(choice["message"])
    except (ValueError, KeyError, TypeError):
        return reply
    calls = message.pop("tool_calls", [])
    head = {"id": whole["id"], "object": "chat.completion.chunk", "created": 1, "model": "local"}
    deltas = [message, *({"tool_calls": [{"index": at, **call}]} for at, call in enumerate(calls))]
    choices = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
    choices.append({"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]})
    events: list[dict[str, Any]] = [{**head, "choices": [each]} for each in choices]
    events.append({**head, "choices": [], "usage": whole.get("usage")})
    text = "".join(f"data: {json.dumps(event)}\n\n" for event in events) + "data: [DONE]\n\n"
    return Reply(text.encode(), headers={"content-type": "text/event-stream"})


class WireServer:
    """Gives the replies it was told, in their order, then what `answer` makes of a request."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.heard: list[Heard] = []
        self.answer: Callable[[Heard], Reply] | None = None
        self.released = threading.Event()
        self.probes: list[Mapping[str, str]] = []
        self.probed = threading.Event()
        self.is_deaf = False
        self._replies: deque[Reply] = deque()

    def say(self, *replies: Reply) -> None:
        """What the next requests get."""
        self._replies.extend(replies)

    def forget(self) -> None:
        """As it was in the beginning; whoever is held is let go."""
        self.released.set()
        self.released = threading.Event()
        self.heard.clear()
        self.probes.clear()
        self.probed.clear()
        self.is_deaf = False
        self._replies.clear()
        self.answer = None

    def reply(self, heard: Heard) -> Reply:
        """What this request gets."""
        self.heard.append(heard)
        if self._replies:
            return self._replies.popleft()
        if self.answer is not None:
            return self.answer(heard)
        return Reply.json({"error": {"message": "nothing was prepared"}}, status=418)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wire: WireServer

    def do_POST(self) -> None:
        """One question."""
        size = int(self.headers.get("content-length", 0))
        body = json.loads(self.rfile.read(size) or b"{}")
        headers = {name.lower(): value for name, value in self.headers.items()}
        reply = self.wire.reply(Heard(self.path, headers, body))
        if reply.held:
            self.wire.released.wait(HELD_S_MAX)
            self.close_connection = True
            return
        if body.get("stream") and reply.cut is None:
            reply = streamed(reply)
        self.send_response(reply.status)
        for name, value in reply.headers.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(reply.body)))
        self.end_headers()
        self.wfile.write(reply.body if reply.cut is None else reply.body[: reply.cut])
        self.close_connection = reply.cut is not None

    def do_GET(self) -> None:
        """Whether anybody is there."""
        if self.wire.is_deaf:
            self.wire.released.wait(HELD_S_MAX)
            self.close_connection = True
            return
        self.wire.probes.append(dict(self.headers))
        self.send_response(404)
        self.send_header("content-length", "0")
        self.end_headers()
        self.wire.probed.set()

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


class _Quiet(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that went away is what some tests are about."""


@contextmanager
def serving() -> Iterator[WireServer]:
    """A server for as long as it is needed."""
    handler = type("Handler", (_Handler,), {})
    with _Quiet(("127.0.0.1", 0), handler) as server:
        wire = WireServer(f"http://127.0.0.1:{server.server_address[1]}")
        handler.wire = wire  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield wire
        finally:
            wire.forget()
            server.shutdown()
            thread.join()
