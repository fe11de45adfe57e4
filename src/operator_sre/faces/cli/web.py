"""`operator web`: the console in a browser."""

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
from operator_sre.faces.cli.options import JsonOption

__all__ = ["web"]


def web(
    context: typer.Context,
    bind: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 chooses a free one.")] = 8442,
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
    """Show everything in a browser, and let people answer there; see docs/web.md."""
    from operator_sre.app.listening import Listener
    from operator_sre.faces.web.serving import serve as serve_web

    listener = Listener(
        bind, port, tls_cert, tls_key, tuple(host or ()), rate, insecure=insecure_public
    )
    listen(
        context,
        listener,
        serve_web,
        what="the web console",
        yes=yes,
        propose=propose,
        given=confirmation,
        as_json=as_json,
    )
