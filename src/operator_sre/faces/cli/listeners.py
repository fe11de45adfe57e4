"""`operator serve`, `operator web` and `operator mcp`: commands that listen until stopped."""

from __future__ import annotations

import inspect
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

__all__ = ["Serve", "listens", "mcp", "option", "say_listening", "serve", "web"]

NAME_CHARACTERS_MAX = 253
_NAME = re.compile(r"[a-z0-9]([a-z0-9._-]*[a-z0-9])?\.?", re.IGNORECASE)


class Serve(Protocol):
    """A server that runs until cancelled, and reports its address."""

    def __call__(
        self, home: App, listener: Listener, *, ready: Callable[[str], None]
    ) -> Coroutine[Any, Any, None]: ...


def option(
    name: str, kind: Any, default: object, help_text: str, *words: str, **limits: int
) -> inspect.Parameter:
    """An option of a command whose signature is made at run time."""
    declared = Annotated[kind, typer.Option(*words, help=help_text, **limits)]
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, annotation=declared, default=default
    )


def _signature(
    at: int, rate: int, when: str, more: Sequence[inspect.Parameter]
) -> inspect.Signature:
    """The options of every listener, after the options of this one."""
    address, port = f"{when}the address to listen on.", f"{when}the port; 0 picks a free one."
    address, port = address[0].upper() + address[1:], port[0].upper() + port[1:]
    secure = "The private key of the certificate, in PEM."
    names = "Accept this host name in requests; may be repeated."
    return inspect.Signature(
        [
            inspect.Parameter(
                "context", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context
            ),
            *more,
            option("bind", str, "127.0.0.1", address),
            option("port", int, at, port, min=0, max=65535),
            option("tls_cert", Path | None, None, "The TLS certificate, in PEM."),
            option("tls_key", Path | None, None, secure),
            option("host", list[str] | None, None, names),
            option(
                "rate", int, rate, "Requests per second allowed for each token.", min=1, max=100_000
            ),
            option(
                "insecure_public",
                bool,
                False,
                "Listen on a public address without TLS.",
                "--insecure-public",
            ),
            *(
                inspect.Parameter(
                    name, inspect.Parameter.KEYWORD_ONLY, annotation=kind, default=default
                )
                for name, kind, default in (
                    ("yes", YesOption, False),
                    ("propose", ProposeOption, False),
                    ("confirmation", ConfirmationOption, ""),
                    ("as_json", JsonOption, False),
                )
            ),
        ]
    )


def listens(
    load: Callable[..., Serve | None],
    sentence: str,
    *,
    purpose: str,
    at: int,
    rate: int = 100,
    when: str = "",
    more: Sequence[inspect.Parameter] = (),
) -> Callable[..., None]:
    """A verb that listens, with this sentence as its help.

    `load` gets the context and the values of `more` options, and returns the server; None if there
    is nothing to listen to. `when` precedes the help of the address.
    """
    signature = _signature(at, rate, when, more)

    def run(*words: Any, **options: Any) -> None:
        bound = signature.bind(*words, **options)
        bound.apply_defaults()
        given = bound.arguments
        context, as_json, hosts = given["context"], given["as_json"], tuple(given["host"] or ())
        for host in hosts:
            # Anything but a host name would never match a request.
            if len(host) > NAME_CHARACTERS_MAX or not _NAME.fullmatch(host):
                raise UsageError(
                    f"--host must be a host name, not {host[:NAME_CHARACTERS_MAX]!r}.",
                    next_step="Give it without scheme, port and path: --host ops.example.com",
                )
        server = load(context, **{extra.name: given[extra.name] for extra in more})
        if server is None:
            return
        from operator_sre.app.listeners import Listener, exposure_of

        listener = Listener(
            *(given["bind"], given["port"], given["tls_cert"], given["tls_key"], hosts),
            given["rate"],
            insecure=given["insecure_public"],
        )
        change = exposure_of(listener, purpose)
        with open_home(context) as home:
            answers = {name: given[name] for name in ("yes", "propose", "as_json")}
            cross_boundary(home, change, **answers, given=given["confirmation"])
            run_until_stopped(
                server(home, listener, ready=lambda url: say_listening([url], as_json=as_json))
            )

    run.__signature__ = signature  # type: ignore[attr-defined]
    run.__annotations__ = {}
    run.__doc__ = sentence
    return run


def say_listening(urls: list[str], *, as_json: bool) -> None:
    """Print the addresses of the server."""
    if as_json:
        print_json({"listening": urls}, line=True)
    else:
        print_lines([f"listening on {url}" for url in urls])


def _load_api(context: typer.Context) -> Serve:
    from operator_sre.faces.api.listener import serve as serve_api

    return serve_api


def _load_web(context: typer.Context) -> Serve:
    from operator_sre.faces.web.listener import serve as serve_web

    return serve_web


def _load_mcp(context: typer.Context, *, http: bool) -> Serve | None:
    from operator_sre.faces.mcp.listener import serve_http, serve_pipe

    if http:
        return serve_http
    with open_home(context) as home:
        run_until_stopped(serve_pipe(home))
    return None


serve = listens(
    _load_api, "Serve the HTTP API until stopped; see docs/api.md.", purpose="the API", at=8440
)
web = listens(
    _load_web,
    "Serve the web console until stopped; see docs/web.md.",
    purpose="the web console",
    at=8442,
)
mcp = listens(
    _load_mcp,
    "Serve MCP to other agents until stopped. They can propose, but never approve.",
    purpose="the MCP server",
    at=8441,
    rate=50,
    when="with --http: ",
    more=(option("http", bool, False, "Serve over HTTP instead of stdin and stdout.", "--http"),),
)
