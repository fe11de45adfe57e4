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

__all__ = ["serve"]

CONNECTIONS_MAX = 512


async def serve(home: App, listener: Listener, *, ready: Callable[[str], None]) -> None:
    """Serve until cancelled; `ready` receives the address."""
    with bind_socket(listener) as place:
        try:
            from operator_sre.faces.web.application import application
            from operator_sre.faces.web.overview import warm

            warm(home)
            hosts = (*listener.hosts, listener.bind)
            console = application(home, hosts=hosts, rate=listener.rate, tls=listener.tls)
            server = bounded_server(console, listener, connections_max=CONNECTIONS_MAX)
        except ImportError as error:
            raise MissingExtraError("web", needed_for="The web console") from error
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
