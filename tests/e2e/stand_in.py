"""A real server in place of a node, which answers whatever a test wants, also nonsense."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

__all__ = ["StandIn", "stand_in"]


class StandIn(threading.Thread):
    """Answers every request on one port with the same bytes, until it is closed."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self.answer = b""
        self.drips = False
        self._over = threading.Event()
        self._listening = socket.create_server(("127.0.0.1", port), reuse_port=False)

    def say(self, body: str, *, status: str = "200 OK") -> None:
        """Answer with this body from now on."""
        head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nConnection: close\r\n"
        self.answer = f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode()

    def run(self) -> None:
        """Serve one caller after another."""
        while not self._over.is_set():
            try:
                caller, _ = self._listening.accept()
            except OSError:
                return
            with caller, suppress(OSError):
                caller.settimeout(2.0)
                caller.recv(65536)
                self._speak(caller)

    def _speak(self, caller: socket.socket) -> None:
        if not self.drips:
            caller.sendall(self.answer)
            return
        # One byte now and then: each read is quick, and the whole never ends.
        caller.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
        while not self._over.wait(0.2) and self.drips:
            caller.sendall(b" ")

    def close(self) -> None:
        """Stop serving; the port is free again."""
        self._over.set()
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self.join(10)


@contextmanager
def stand_in(port: int) -> Iterator[StandIn]:
    """A stand-in that answers on a port for the length of a `with`."""
    server = StandIn(port)
    server.start()
    try:
        yield server
    finally:
        server.close()
