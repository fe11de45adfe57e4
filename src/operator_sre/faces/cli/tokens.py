"""`operator tokens`: who is let in by the network."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from operator_sre.faces.cli.options import EveryOption, JsonOption, ReasonOption, opened
from operator_sre.faces.cli.output import print_json, print_lines, print_list
from operator_sre.faces.cli.running import run_until_stopped

if TYPE_CHECKING:
    from collections.abc import Sequence

    from operator_protocols.domain.token import Token

__all__ = ["app"]

app = typer.Typer(help="Let programs and browsers in.", no_args_is_help=True)


@app.command()
def create(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="What it is for, such as grafana.")],
    role: Annotated[str, typer.Option(help="viewer, approver or admin.")] = "viewer",
    days: Annotated[int, typer.Option(help="How long it counts.")] = 30,
    as_json: JsonOption = False,
) -> None:
    """A new token that acts in your name; its secret is shown this once."""
    from operator_sre.app.tokens import create as create_token
    from operator_sre.app.tokens import role_named

    wanted = role_named(role)
    with opened(context) as home:
        token, secret = run_until_stopped(create_token(home, name, wanted, days))
    if as_json:
        print_json({"token": token, "secret": secret})
        return
    told = f"{token.id}: {token.name}, {token.role}, until {token.expires_at:%Y-%m-%d %H:%M} UTC"
    print_lines([told, f"secret: {secret}", "It is not shown again."])


@app.command("list")
def list_(
    context: typer.Context,
    every: EveryOption = False,
    as_json: JsonOption = False,
) -> None:
    """Tokens that let somebody in."""
    from operator_sre.app.tokens import find

    with opened(context) as home:
        _show(find(home, every=every), as_json=as_json)


@app.command()
def revoke(
    context: typer.Context,
    token: Annotated[str, typer.Argument(help="The id of a token.")],
    reason: ReasonOption = "",
    as_json: JsonOption = False,
) -> None:
    """It lets nobody in from now on."""
    from operator_sre.app.tokens import revoke as revoke_token

    with opened(context) as home:
        _show([run_until_stopped(revoke_token(home, token, reason=reason))], as_json=as_json)


def _show(tokens: Sequence[Token], *, as_json: bool) -> None:
    rows = [
        (
            one.id,
            one.name,
            one.role,
            one.created_by,
            f"{one.expires_at:%Y-%m-%d %H:%M}",
            f"{one.revoked_at:%Y-%m-%d %H:%M}" if one.revoked_at else "-",
        )
        for one in tokens
    ]
    head = ("id", "name", "role", "by", "until (utc)", "revoked")
    print_list("tokens", tokens, head, rows, none="No tokens.", as_json=as_json)
