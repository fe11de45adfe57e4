"""The server of the viewer, until it is stopped."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from operator_protocols.errors import MissingExtraError
from operator_sre.faces.servers.server import bind_socket, bounded_server, serve_home

if TYPE_CHECKING:
    from operator_sre.app.listeners import Listener
    from operator_sre.app.wiring import App

__all__ = ["serve"]

CONNECTIONS_MAX = 64


async def serve(
    home: App, listener: Listener, *, database: Path, ready: Callable[[str], None]
) -> None:
    """Show a database until cancelled; `ready` receives its URL."""
    with bind_socket(listener) as place:
        try:
            from operator_evals.viewer.application import application
        except ImportError as error:
            raise MissingExtraError("web", needed_for="The viewer") from error
        from operator_evals.gallery import Gallery

        app = application(
            home,
            Gallery(database),
            hosts=(*listener.hosts, listener.bind),
            rate=listener.rate,
            private=listener.public,
        )
        server = bounded_server(app, listener, connections_max=CONNECTIONS_MAX)
        refusals = (app.state.refusals,)
        await serve_home(home, listener, place, server, refusals=refusals, ready=ready)
