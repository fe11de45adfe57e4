"""Serving the receiver by itself, until somebody says stop."""

from __future__ import annotations

from collections.abc import Callable

from operator_protocols.errors import MissingExtraError, UsageError
from operator_sre.app.alerts import Receiver
from operator_sre.app.listening import Listener
from operator_sre.faces.listening.serving import address_of, bound, bounded_server, work
from operator_sre.faces.receiver.application import application

__all__ = ["listener_of", "serve"]

CONNECTIONS_MAX = 256


def listener_of(text: str) -> Listener:
    """The host and the port of `127.0.0.1:9094` or `[::1]:9094`."""
    host, _, port = text.rpartition(":")
    if not host or not (port.isascii() and port.isdigit() and int(port) < 65536):
        raise UsageError(f"{text!r} is not an address.", next_step="Write it as 127.0.0.1:9094.")
    return Listener(host.strip("[]"), int(port))


async def serve(receiver: Receiver, listen: str, *, ready: Callable[[str], None]) -> None:
    """Take notifications until cancelled; `ready` is told where."""
    listener = listener_of(listen)
    receiver.check(listener.bind)
    door = application(receiver)
    try:
        server = bounded_server(door, listener, connections_max=CONNECTIONS_MAX)
    except ImportError as error:
        raise MissingExtraError("alerts", needed_for="Receiving alerts") from error
    with bound(listener, options="--listen") as place:
        await work(server, place, receiver.run(), ready=lambda: ready(address_of(place)))
