"""A real, tiny HTTP server for rigs in tests: every request is answered with 200 and "ok".

With a second argument it first waits for that port on the loopback, as a node waits for its store.
"""

from __future__ import annotations

import socket
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

__all__: list[str] = []


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def _answer(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", 0)))
        self.send_response(500 if self.path == "/broken" else 200)
        self.send_header("content-length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, *arguments: object) -> None:
        pass


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def server_bind(self) -> None:
        # The plain one asks a name server who we are.
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_name, self.server_port = "127.0.0.1", self.server_address[1]


if __name__ == "__main__":
    if len(sys.argv) > 2:
        socket.create_connection(("127.0.0.1", int(sys.argv[2]))).close()
    _Server(("127.0.0.1", int(sys.argv[1])), _Handler).serve_forever()
