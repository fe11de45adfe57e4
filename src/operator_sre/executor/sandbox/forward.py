"""Runs inside of a box that may reach some hosts: carries its connections to the proxy outside.

It listens where programs look for a proxy, and knows nothing of hosts: who is refused is decided
outside. It needs nothing but Python, because it is all that a box is shown of us.
"""

from __future__ import annotations

import select
import socket
import subprocess
import sys
import threading

__all__ = ["carry", "main", "serve"]

PORT = 3128
DOOR = "/run/egress"
CONNECTIONS_MAX = 16
PIECE_BYTES = 65536
STACK_BYTES = 256 * 1024


def main(argv: list[str]) -> int:
    """Listen, run the script, and end with it."""
    listener = socket.create_server(("127.0.0.1", PORT), backlog=CONNECTIONS_MAX)
    threading.stack_size(STACK_BYTES)
    thread = threading.Thread(target=serve, args=(listener, DOOR), daemon=True)
    with listener:
        thread.start()
        code = subprocess.call(argv)
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()
    return code if code >= 0 else 128 - code


def serve(listener: socket.socket, door: str) -> None:
    """Carry each connection to the door; more than so many at a time wait."""
    free = threading.Semaphore(CONNECTIONS_MAX)
    while True:
        try:
            near, _ = listener.accept()
        except OSError:
            return
        free.acquire()
        threading.Thread(target=_carry_connection, args=(near, door, free), daemon=True).start()


def _carry_connection(near: socket.socket, door: str, free: threading.Semaphore) -> None:
    try:
        with near, socket.socket(socket.AF_UNIX) as far:
            far.connect(door)
            carry(near, far)
    except OSError:
        pass  # the client sees a closed connection
    finally:
        free.release()


def carry(near: socket.socket, far: socket.socket) -> None:
    """Bytes both ways, until both sides have closed."""
    other = {near: far, far: near}
    while other:
        for each in select.select(list(other), [], [])[0]:
            if piece := each.recv(PIECE_BYTES):
                (far if each is near else near).sendall(piece)
            else:
                (far if each is near else near).shutdown(socket.SHUT_WR)
                del other[each]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
