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

SUMMARY = "Manage access tokens for programs and browsers."


class CreateToken(Request, frozen=True):
    """What a token is for, and for how long."""

    name: Annotated[str, Meta(max_length=200, description="The token name, such as grafana.")]
    role: Annotated[Role, Meta(description="viewer, approver or admin.")] = Role.VIEWER
    audience: Annotated[
        Audience,
        Meta(
            description="The only interface that accepts it: api, mcp or web.",
            extra={"option": "--for"},
        ),
    ] = Audience.API
    days: Annotated[int, Meta(ge=1, le=366, description="Days until it expires.")] = 30


class ListTokens(Request, frozen=True):
    """Which tokens."""

    every: Annotated[
        bool, Meta(description="Include expired and revoked tokens.", extra={"option": "--all"})
    ] = False


class RevokeToken(Request, frozen=True):
    """Which token, and why."""

    token: Annotated[str, Meta(max_length=100, description="The token id.")]
    reason: Annotated[str, Meta(max_length=4000, description="Recorded in the audit log.")] = ""


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


def _show_created(found: NewToken, now: datetime) -> View:
    token = found.token
    until = f"{token.expires_at:%Y-%m-%d %H:%M} UTC"
    text = f"{token.id}: {token.name}, {token.role}, for {token.audience}, until {until}"
    return [text, f"secret: {found.secret}", "It is not shown again."]


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
        help="Create a token that acts in your name. Its secret is shown once.",
        request=CreateToken,
        result=NewToken,
        call="operator_sre.app.tokens.create",
        view=_show_created,
        effect=Effect.CHANGE,
        role=Role.ADMIN,
        arguments=("name",),
        examples=("operator tokens create grafana --role viewer --for api --days 90",),
    ),
    Operation(
        name="tokens list",
        help="List active tokens.",
        request=ListTokens,
        result=TokenList,
        call="operator_sre.app.tokens.find",
        view=_table,
    ),
    Operation(
        name="tokens revoke",
        help="Revoke a token.",
        request=RevokeToken,
        result=TokenList,
        call="operator_sre.app.tokens.revoke",
        view=_table,
        effect=Effect.CHANGE,
        role=Role.ADMIN,
        arguments=("token",),
    ),
)
