"""Serves the web console and its event stream until stopped."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from operator_protocols.errors import MissingExtraError
from operator_sre.app.tokens import record_listener
from operator_sre.faces.servers.server import address_of, bind_socket, bounded_server, follow, work

if TYPE_CHECKING:
    from operator_sre.app.listeners import Listener
    from operator_sre.app.wiring import App
    from operator_sre.faces.servers.connections import BoundedServer
    from operator_sre.faces.web.application import Console

__all__ = ["serve"]

CONNECTIONS_MAX = 512


async def serve(home: App, listener: Listener, *, ready: Callable[[str], None]) -> None:
    """Serve until cancelled; `ready` receives the address."""
    with bind_socket(listener) as place:
        console, server = _server(home, listener)
        address = address_of(place)
        await record_listener(home, address=address, tls=listener.tls, public=listener.public)
        url = f"{listener.scheme}://{address}"
        pages, api = console.pages.state, console.api.state
        following = (follow(pages.hub), follow(api.feed))
        try:
            await work(server, place, *following, ready=lambda: ready(url))
        finally:
            await pages.jobs.end()
            await asyncio.to_thread(pages.walk.close)
            await pages.refusals.flush()
            await api.refusals.flush()


def _server(home: App, listener: Listener) -> tuple[Console, BoundedServer]:
    """The application, and the server of its connections."""
    try:
        from operator_sre.faces.web.application import application
        from operator_sre.faces.web.overview import warm

        warm(home)
        hosts = (*listener.hosts, listener.bind)
        console = application(home, hosts=hosts, rate=listener.rate, tls=listener.tls)
        return console, bounded_server(console, listener, connections_max=CONNECTIONS_MAX)
    except ImportError as error:
        raise MissingExtraError("web", needed_for="The web console") from error
