"""Serves the web console and its event stream until stopped."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from operator_protocols.errors import MissingExtraError
from operator_sre.faces.servers.server import bind_socket, bounded_server, serve_home

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
        pages, api = console.pages.state, console.api.state
        try:
            await serve_home(
                home,
                listener,
                place,
                server,
                refusals=(pages.refusals, api.refusals),
                followers=(pages.hub, api.feed),
                ready=ready,
            )
        finally:
            await pages.jobs.end()
            await asyncio.to_thread(pages.walk.close)
