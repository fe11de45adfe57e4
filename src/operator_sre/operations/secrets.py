"""Secrets: encrypted values and what receives them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from operator_protocols.domain.token import Role
from operator_protocols.errors import ConflictError
from operator_sre.app.secret_store import SECRET_BYTES_MAX, Holder, named_secret
from operator_sre.app.secrets import (
    SecretView,
    TriedSecret,
    binding_asked,
    holder_named,
    settle_changes,
    sweep_leases,
    try_secret,
    view_of,
)
from operator_sre.app.secrets import list_secrets as list_known
from operator_sre.app.secrets import remove_secret as remove_known
from operator_sre.app.secrets import unbind_secret as unbind_holder
from operator_sre.contract import SCHEMA_VERSION
from operator_sre.operations.operation import (
    TEXT_MAX,
    Effect,
    Local,
    Operation,
    Request,
    Table,
    View,
)

if TYPE_CHECKING:
    from operator_sre.app.confirmations import Asked
    from operator_sre.app.wiring import App

__all__ = [
    "OPERATIONS",
    "SUMMARY",
    "binding_change",
    "bound_secret",
    "list_secrets",
    "removal_question",
    "remove_secret",
    "test_secret",
    "unbind_secret",
]

SUMMARY = "Store encrypted secrets and bind them to what needs them."
DAY_S = 86_400
Name = Annotated[str, Meta(max_length=TEXT_MAX, description="The secret name.")]
To = Annotated[
    str, Meta(max_length=TEXT_MAX, description="subject:NAME, model:NAME or command:PATTERN.")
]


class SetSecret(Request, frozen=True):
    """A name, and the value that is typed or piped."""

    name: Name
    value: Annotated[
        str,
        Meta(
            max_length=SECRET_BYTES_MAX * 2,
            description="The value.",
            extra={"hidden": "Value"},
        ),
    ]


class ListSecrets(Request, frozen=True):
    """No parameters."""


class NamedSecret(Request, frozen=True):
    """Which secret."""

    name: Name


class BindSecret(Request, frozen=True):
    """Which secret, and what receives it."""

    name: Name
    to: To
    variable: Annotated[
        str,
        Meta(
            max_length=TEXT_MAX,
            description="The environment variable for a command.",
            extra={"option": "--as"},
        ),
    ] = ""


class UnbindSecret(Request, frozen=True):
    """Which secret, and what no longer receives it."""

    name: Name
    to: To


@dataclass(frozen=True, slots=True)
class SecretPage:
    """Secrets without their values."""

    secrets: tuple[SecretView, ...]
    schema_version: str = SCHEMA_VERSION


@dataclass(frozen=True, slots=True)
class SecretDocument:
    """One secret without its value."""

    secret: SecretView
    schema_version: str = SCHEMA_VERSION


@dataclass(frozen=True, slots=True)
class TestedSecret:
    """Whether a secret can be read, and whether what receives it accepts it."""

    name: str
    tested: tuple[TriedSecret, ...]
    schema_version: str = SCHEMA_VERSION


async def list_secrets(app: App) -> Sequence[SecretView]:
    """All secrets, after recording changes and deleting leases that killed processes left."""
    sweep_leases(app.config)
    await settle_changes(app)
    return list_known(app)


def binding_change(app: App, *, name: str, to: str, variable: str) -> Asked:
    """The binding that a person has to confirm."""
    return binding_asked(app, name, holder_named(to, variable))


def bound_secret(app: App, *, name: str) -> SecretView:
    """The secret with its new binding."""
    return view_of(app, named_secret(app.config, name))


async def unbind_secret(app: App, *, name: str, to: str) -> SecretView:
    """Remove a binding."""
    kind, _, holder = to.partition(":")
    return await unbind_holder(app, name, Holder(kind, holder))


def removal_question(app: App, *, name: str) -> str:
    """What a person agrees to when they remove a secret."""
    held = ", ".join(map(str, named_secret(app.config, name).holders)) or "nobody"
    return f"{name!r} is gone for good; it is bound to {held}."


async def remove_secret(app: App, *, name: str, agreed: str) -> SecretView:
    """Remove a secret, if nothing else has received it since a person agreed."""
    if removal_question(app, name=name) != agreed:
        raise ConflictError(
            f"{name!r} was bound to something else while you were asked.",
            next_step="Check it with: operator secrets list",
        )
    return await remove_known(app, name)


async def test_secret(app: App, *, name: str) -> TestedSecret:
    """Whether it can be read and is accepted."""
    return TestedSecret(name, tuple(await try_secret(app, name)))


def _set_view(found: SecretDocument, now: datetime) -> View:
    secret = found.secret
    held = ", ".join(map(str, secret.holders))
    step = f"bound to {held}" if held else f"next: operator secrets bind {secret.name} --to ..."
    return [f"kept    {secret.name} in the {secret.where}", f"        {step}"]


def _table(found: SecretPage, now: datetime) -> View:
    rows = [
        (
            secret.name,
            secret.where,
            f"{secret.age_s / DAY_S:.0f} d",
            secret.by,
            ", ".join(
                f"{held} as {held.variable}" if held.variable else str(held)
                for held in secret.holders
            )
            or "-",
        )
        for secret in found.secrets
    ]
    return [Table(("name", "in", "age", "by", "given to"), rows, "No secrets.")]


def _tested_view(found: TestedSecret, now: datetime) -> View:
    rows = [
        (result.holder, "works" if result.works else "fails", result.detail)
        for result in found.tested
    ]
    return [Table(("where", "", "because"), rows)]


_local_operation = partial(
    Operation, effect=Effect.CHANGE, role=Role.ADMIN, local=Local.SECRETS, arguments=("name",)
)
OPERATIONS = (
    _local_operation(
        name="secrets set",
        help="Store a secret from a hidden prompt or stdin. It is never shown again.",
        request=SetSecret,
        result=SecretDocument,
        call="operator_sre.app.secrets.set_secret",
        view=_set_view,
    ),
    _local_operation(
        name="secrets list",
        help="List secrets with their bindings and age, never their values.",
        request=ListSecrets,
        result=SecretPage,
        call="operator_sre.operations.secrets.list_secrets",
        view=_table,
        effect=Effect.READ,
        role=Role.VIEWER,
        arguments=(),
    ),
    _local_operation(
        name="secrets bind",
        help="Bind a secret to a subject, a model or a command pattern. Requires confirmation.",
        request=BindSecret,
        result=SecretPage,
        call="operator_sre.operations.secrets.binding_change",
        confirmation="operator_sre.operations.secrets.binding_change",
        confirmed="operator_sre.operations.secrets.bound_secret",
        view=_table,
    ),
    _local_operation(
        name="secrets unbind",
        help="Remove a binding of a secret.",
        request=UnbindSecret,
        result=SecretPage,
        call="operator_sre.operations.secrets.unbind_secret",
        view=_table,
    ),
    _local_operation(
        name="secrets remove",
        help="Remove a secret and all its bindings.",
        request=NamedSecret,
        result=SecretDocument,
        call="operator_sre.operations.secrets.remove_secret",
        question="operator_sre.operations.secrets.removal_question",
        view=lambda found, now: [f"removed {found.secret.name}"],
    ),
    _local_operation(
        name="secrets test",
        help="Test that a secret can be read and that its model and subjects accept it. Exit 1 if"
        " not.\n\nSends the model one short request and checks each subject once.",
        request=NamedSecret,
        result=TestedSecret,
        call="operator_sre.operations.secrets.test_secret",
        view=_tested_view,
        effect=Effect.READ,
        role=Role.VIEWER,
        exit_code=lambda found: 0 if all(result.works for result in found.tested) else 1,
    ),
)
