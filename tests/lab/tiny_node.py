"""A real, tiny HTTP server for rigs in tests: every request is answered with 200 and "ok".

    tiny_node.py PORT [PORT_TO_WAIT_FOR] [--also PORT]

With a second port it first waits for that one on the loopback, as a node waits for its store. Some
paths do something first, and answer 500 when that fails: `/ask/PORT` asks another server over a
connection that is kept, `/ask-anew/PORT` over a new one; `/open` opens a file, `/grow` takes
memory, `/write` writes 64 kB to `data/` in its directory.
"""

from __future__ import annotations

import argparse
import http.client
import mmap
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

__all__: list[str] = []

ASK_S_MAX = 0.6
GROW_BYTES = 512 << 20
_kept: dict[str, http.client.HTTPConnection] = {}
_alone = threading.Lock()


def _ask(port: str, *, anew: bool) -> None:
    with _alone:
        connection = None if anew else _kept.pop(port, None)
    if connection is None:
        connection = http.client.HTTPConnection("127.0.0.1", int(port), timeout=ASK_S_MAX)
    connection.request("GET", "/")
    connection.getresponse().read()
    if anew:
        connection.close()
    else:
        _kept[port] = connection


def _do(path: str) -> None:
    what, _, argument = path.strip("/").partition("/")
    if what in ("ask", "ask-anew"):
        _ask(argument, anew=what == "ask-anew")
    elif what == "open":
        Path(__file__).open().close()
    elif what == "grow":
        mmap.mmap(-1, GROW_BYTES).close()
    elif what == "write":
        with Path("data/written").open("wb") as file:
            file.write(bytes(64 << 10))
    elif what == "broken":
        raise OSError("broken")


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def _answer(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", 0)))
        body = b"ok"
        try:
            _do(self.path)
        except (OSError, MemoryError, http.client.HTTPException) as problem:
            body = repr(problem).encode()
        self.send_response(200 if body == b"ok" else 500)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        pass


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def server_bind(self) -> None:
        # The plain one asks a name server who we are.
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_name, self.server_port = "127.0.0.1", self.server_address[1]


def _main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("port", type=int)
    parser.add_argument("needs", type=int, nargs="?")
    parser.add_argument("--also", type=int)
    options = parser.parse_args()
    if options.needs:
        socket.create_connection(("127.0.0.1", options.needs)).close()
    if options.also:
        also = _Server(("127.0.0.1", options.also), _Handler)
        threading.Thread(target=also.serve_forever, daemon=True).start()
    _Server(("127.0.0.1", options.port), _Handler).serve_forever()


if __name__ == "__main__":
    _main()
