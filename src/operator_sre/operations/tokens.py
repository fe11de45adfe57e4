"""Tokens: what lets programs and browsers in."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from msgspec import Meta

from operator_protocols.domain.token import Audience, Role, Token
from operator_sre.contract import SCHEMA_VERSION
from operator_sre.operations.operation import Effect, Operation, Request, Table, View

__all__ = ["OPERATIONS", "SUMMARY", "NewToken", "TokenList"]

SUMMARY = "Let programs and browsers in."


class CreateToken(Request, frozen=True):
    """What a token is for, and for how long."""

    name: Annotated[str, Meta(max_length=200, description="What it is for, such as grafana.")]
    role: Annotated[Role, Meta(description="viewer, approver or admin.")] = Role.VIEWER
    audience: Annotated[
        Audience,
        Meta(
            description="api, mcp or web: the only place where it lets in.",
            extra={"option": "--for"},
        ),
    ] = Audience.API
    days: Annotated[int, Meta(ge=1, le=366, description="How long it counts.")] = 30


class ListTokens(Request, frozen=True):
    """Which tokens."""

    every: Annotated[
        bool, Meta(description="Those that are over, too.", extra={"option": "--all"})
    ] = False


class RevokeToken(Request, frozen=True):
    """Which token, and why."""

    token: Annotated[str, Meta(max_length=100, description="The id of a token.")]
    reason: Annotated[str, Meta(max_length=4000, description="Why.")] = ""


@dataclass(frozen=True, slots=True)
class NewToken:
    """A token, and its secret, which is not shown again."""

    token: Token
    secret: str
    schema_version: str = SCHEMA_VERSION


@dataclass(frozen=True, slots=True)
class TokenList:
    """Tokens, the newest first."""

    tokens: tuple[Token, ...]
    schema_version: str = SCHEMA_VERSION


def _created(found: NewToken, now: datetime) -> View:
    token = found.token
    until = f"{token.expires_at:%Y-%m-%d %H:%M} UTC"
    told = f"{token.id}: {token.name}, {token.role}, for {token.audience}, until {until}"
    return [told, f"secret: {found.secret}", "It is not shown again."]


def _table(found: TokenList, now: datetime) -> View:
    rows = [
        (
            token.id,
            token.name,
            token.role,
            token.audience,
            token.created_by,
            f"{token.expires_at:%Y-%m-%d %H:%M}",
            f"{token.revoked_at:%Y-%m-%d %H:%M}" if token.revoked_at else "-",
        )
        for token in found.tokens
    ]
    head = ("id", "name", "role", "for", "by", "until (utc)", "revoked")
    return [Table(head, rows, "No tokens.")]


# Only a person at a keyboard lets anybody in, so that no other face serves these.
OPERATIONS = (
    Operation(
        name="tokens create",
        help="A new token that acts in your name; its secret is shown this once.",
        request=CreateToken,
        result=NewToken,
        call="operator_sre.app.tokens.create",
        view=_created,
        effect=Effect.CHANGE,
        role=Role.ADMIN,
        arguments=("name",),
        examples=("operator tokens create grafana --role viewer --for api --days 90",),
    ),
    Operation(
        name="tokens list",
        help="Tokens that let somebody in.",
        request=ListTokens,
        result=TokenList,
        call="operator_sre.app.tokens.find",
        view=_table,
    ),
    Operation(
        name="tokens revoke",
        help="It lets nobody in from now on.",
        request=RevokeToken,
        result=TokenList,
        call="operator_sre.app.tokens.revoke",
        view=_table,
        effect=Effect.CHANGE,
        role=Role.ADMIN,
        arguments=("token",),
    ),
)
