"""Serves the API and its event stream until stopped."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from operator_protocols.errors import MissingExtraError
from operator_sre.faces.servers.server import bind_socket, bounded_server, serve_home

if TYPE_CHECKING:
    from operator_sre.app.listeners import Listener
    from operator_sre.app.wiring import App

__all__ = ["serve"]

CONNECTIONS_MAX = 256


async def serve(home: App, listener: Listener, *, ready: Callable[[str], None]) -> None:
    """Serve until cancelled; `ready` receives the address."""
    with bind_socket(listener) as place:
        try:
            from operator_sre.faces.api.application import application

            app = application(home, hosts=(*listener.hosts, listener.bind), rate=listener.rate)
            server = bounded_server(app, listener, connections_max=CONNECTIONS_MAX)
        except ImportError as error:
            raise MissingExtraError("web", needed_for="The API") from error
        refusals, feed = app.state.refusals, app.state.feed
        await serve_home(
            home, listener, place, server, refusals=(refusals,), followers=(feed,), ready=ready
        )
