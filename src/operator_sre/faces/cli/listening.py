"""What is said on the line of every command that listens, and how it begins to."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import typer

from operator_sre.faces.cli.confirming import crossed
from operator_sre.faces.cli.options import opened
from operator_sre.faces.cli.output import print_json, print_lines
from operator_sre.faces.cli.running import run_until_stopped

if TYPE_CHECKING:
    from operator_sre.app.listening import Listener
    from operator_sre.app.wiring import App

__all__ = [
    "CertificateOption",
    "HostsOption",
    "InsecureOption",
    "KeyOption",
    "RateOption",
    "listen",
    "say_listening",
]

CertificateOption = Annotated[
    Path | None, typer.Option("--tls-cert", help="A certificate, in PEM.")
]
KeyOption = Annotated[Path | None, typer.Option("--tls-key", help="Its private key, in PEM.")]
HostsOption = Annotated[
    list[str] | None, typer.Option("--host", help="A name we are reached by; may be repeated.")
]
RateOption = Annotated[
    int, typer.Option(min=1, max=100_000, help="Requests a second, for each token.")
]
InsecureOption = Annotated[
    bool, typer.Option("--insecure-public", help="Listen beyond this machine without TLS.")
]


class _Serve(Protocol):
    def __call__(
        self, home: App, listener: Listener, *, ready: Callable[[str], None]
    ) -> Coroutine[Any, Any, None]: ...


def listen(
    context: typer.Context,
    listener: Listener,
    serve: _Serve,
    *,
    what: str,
    yes: bool,
    propose: bool,
    given: str,
    as_json: bool,
) -> None:
    """Serve until stopped; beyond this machine only when a person said yes to just this."""
    from operator_sre.app.listening import exposure_of

    asked = exposure_of(listener, what)
    with opened(context) as home:
        crossed(home, asked, yes=yes, propose=propose, as_json=as_json, given=given)
        run_until_stopped(
            serve(home, listener, ready=lambda url: say_listening([url], as_json=as_json))
        )


def say_listening(urls: list[str], *, as_json: bool) -> None:
    """Where we can be reached from now on."""
    if as_json:
        print_json({"listening": urls}, line=True)
    else:
        print_lines([f"listening on {url}" for url in urls])
