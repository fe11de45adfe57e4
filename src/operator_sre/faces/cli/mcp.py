"""`operator mcp`: other minds ask here, by a pipe or by HTTP."""

from __future__ import annotations

from typing import Annotated

import typer

from operator_sre.faces.cli.confirming import ConfirmationOption, ProposeOption, YesOption
from operator_sre.faces.cli.listening import (
    CertificateOption,
    HostsOption,
    InsecureOption,
    KeyOption,
    RateOption,
    listen,
)
from operator_sre.faces.cli.options import JsonOption, opened
from operator_sre.faces.cli.running import run_until_stopped

__all__ = ["mcp"]


def mcp(
    context: typer.Context,
    http: Annotated[bool, typer.Option("--http", help="By HTTP instead of a pipe.")] = False,
    bind: Annotated[str, typer.Option(help="With --http: the address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="With --http: 0 chooses a free one.")
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
    """Answer other minds by MCP until stopped; they can propose, never approve or confirm."""
    from operator_sre.faces.mcp.serving import serve_http, serve_pipe

    if not http:
        with opened(context) as home:
            run_until_stopped(serve_pipe(home))
        return
    from operator_sre.app.listening import Listener

    listener = Listener(
        bind, port, tls_cert, tls_key, tuple(host or ()), rate, insecure=insecure_public
    )
    listen(
        context,
        listener,
        serve_http,
        what="the MCP server",
        yes=yes,
        propose=propose,
        given=confirmation,
        as_json=as_json,
    )
