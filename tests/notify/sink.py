"""A real HTTP endpoint that keeps what it is sent, and refuses as often as it is told to."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

__all__ = ["Sink", "sink"]


class Sink:
    """What came, in order."""

    def __init__(self) -> None:
        self.came: list[dict[str, Any]] = []
        self.paths: list[str] = []
        self.refuse = 0
        self.hook: Callable[[], None] = lambda: None
        self.port = 0

    def url(self, path: str = "token-s3cret") -> str:
        """The address of it, as Apprise writes it."""
        return f"json://127.0.0.1:{self.port}/{path}"

    @property
    def titles(self) -> list[str]:
        return [one["title"] for one in self.came]


@contextlib.contextmanager
def sink() -> Iterator[Sink]:
    """Listens for the length of a `with`."""
    kept = Sink()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            kept.paths.append(self.path)
            refused = kept.refuse > 0
            kept.refuse -= refused
            if not refused:
                kept.came.append(json.loads(body))
            kept.hook()
            self.send_response(500 if refused else 200)
            self.send_header("content-length", "0")
            self.end_headers()

        do_GET = do_POST

        def log_message(self, format: str, *arguments: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    kept.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield kept
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
