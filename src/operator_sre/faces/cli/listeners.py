"""`operator serve`, `operator web` and `operator mcp`: commands that listen until stopped."""

from __future__ import annotations

import re
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import typer

from operator_protocols.errors import UsageError
from operator_sre.faces.cli.consent import (
    ConfirmationOption,
    ProposeOption,
    YesOption,
    cross_boundary,
)
from operator_sre.faces.cli.options import JsonOption, open_home
from operator_sre.faces.cli.output import print_json, print_lines
from operator_sre.faces.cli.signals import run_until_stopped

if TYPE_CHECKING:
    from operator_sre.app.listeners import Listener
    from operator_sre.app.wiring import App

__all__ = [
    "CertificateOption",
    "HostsOption",
    "InsecureOption",
    "KeyOption",
    "RateOption",
    "Serve",
    "listen",
    "listens",
    "mcp",
    "say_listening",
    "serve",
    "web",
]

NAME_CHARACTERS_MAX = 253
_NAME = re.compile(r"[a-z0-9]([a-z0-9._-]*[a-z0-9])?\.?", re.IGNORECASE)

CertificateOption = Annotated[
    Path | None, typer.Option("--tls-cert", help="The TLS certificate, in PEM.")
]
KeyOption = Annotated[
    Path | None, typer.Option("--tls-key", help="The private key of the certificate, in PEM.")
]
HostsOption = Annotated[
    list[str] | None,
    typer.Option("--host", help="Accept this host name in requests; may be repeated."),
]
RateOption = Annotated[
    int, typer.Option(min=1, max=100_000, help="Requests per second allowed for each token.")
]
InsecureOption = Annotated[
    bool, typer.Option("--insecure-public", help="Listen on a public address without TLS.")
]


class Serve(Protocol):
    """A server that runs until cancelled, and reports its address."""

    def __call__(
        self, home: App, listener: Listener, *, ready: Callable[[str], None]
    ) -> Coroutine[Any, Any, None]: ...


def listens(
    load: Callable[[], Serve], sentence: str, *, purpose: str, at: int
) -> Callable[..., None]:
    """A verb that listens, with this sentence as its help; `load` brings what it needs to."""

    def run(
        context: typer.Context,
        bind: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
        port: Annotated[
            int, typer.Option(min=0, max=65535, help="The port; 0 picks a free one.")
        ] = at,
        tls_cert: CertificateOption = None,
        tls_key: KeyOption = None,
        host: HostsOption = None,
        rate: RateOption = 100,
        insecure_public: InsecureOption = False,
        yes: YesOption = False,
        propose: ProposeOption = False,
        confirmation: ConfirmationOption = "",
        as_json: JsonOption = False,
    ) -> None:
        from operator_sre.app.listeners import Listener

        listener = Listener(
            bind, port, tls_cert, tls_key, tuple(host or ()), rate, insecure=insecure_public
        )
        listen(
            context,
            listener,
            load(),
            purpose=purpose,
            yes=yes,
            propose=propose,
            given=confirmation,
            as_json=as_json,
        )

    run.__doc__ = sentence
    return run


def listen(
    context: typer.Context,
    listener: Listener,
    serve: Serve,
    *,
    purpose: str,
    yes: bool,
    propose: bool,
    given: str,
    as_json: bool,
) -> None:
    """Serve until stopped; beyond this machine only after a person confirmed exactly that."""
    from operator_sre.app.listeners import exposure_of

    _must_be_names(listener.hosts)
    change = exposure_of(listener, purpose)
    with open_home(context) as home:
        cross_boundary(home, change, yes=yes, propose=propose, as_json=as_json, given=given)
        run_until_stopped(
            serve(home, listener, ready=lambda url: say_listening([url], as_json=as_json))
        )


def _must_be_names(hosts: Sequence[str]) -> None:
    """UsageError for anything but a host name: it would never match a request."""
    for host in hosts:
        if len(host) > NAME_CHARACTERS_MAX or not _NAME.fullmatch(host):
            raise UsageError(
                f"--host must be a host name, not {host[:NAME_CHARACTERS_MAX]!r}.",
                next_step="Give it without scheme, port and path: --host ops.example.com",
            )


def say_listening(urls: list[str], *, as_json: bool) -> None:
    """Print the addresses of the server."""
    if as_json:
        print_json({"listening": urls}, line=True)
    else:
        print_lines([f"listening on {url}" for url in urls])


def _load_api() -> Serve:
    from operator_sre.faces.api.listener import serve as serve_api

    return serve_api


serve = listens(
    _load_api,
    "Serve the HTTP API until stopped; see docs/api.md.",
    purpose="the API",
    at=8440,
)


def _load_web() -> Serve:
    from operator_sre.faces.web.listener import serve

    return serve


web = listens(
    _load_web,
    "Serve the web console until stopped; see docs/web.md.",
    purpose="the web console",
    at=8442,
)


def mcp(
    context: typer.Context,
    http: Annotated[
        bool, typer.Option("--http", help="Serve over HTTP instead of stdin and stdout.")
    ] = False,
    bind: Annotated[str, typer.Option(help="With --http: the address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="With --http: the port; 0 picks a free one.")
    ] = 8441,
    tls_cert: CertificateOption = None,
    tls_key: KeyOption = None,
    host: HostsOption = None,
    rate: RateOption = 50,
    insecure_public: InsecureOption = False,
    yes: YesOption = False,
    propose: ProposeOption = False,
    confirmation: ConfirmationOption = "",
    as_json: JsonOption = False,
) -> None:
    """Serve MCP to other agents until stopped. They can propose, but never approve."""
    from operator_sre.faces.mcp.listener import serve_http, serve_pipe

    if not http:
        with open_home(context) as home:
            run_until_stopped(serve_pipe(home))
        return
    from operator_sre.app.listeners import Listener

    listener = Listener(
        bind, port, tls_cert, tls_key, tuple(host or ()), rate, insecure=insecure_public
    )
    listen(
        context,
        listener,
        serve_http,
        purpose="the MCP server",
        yes=yes,
        propose=propose,
        given=confirmation,
        as_json=as_json,
    )
