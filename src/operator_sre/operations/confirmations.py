"""Confirmations: changes that cross a trust boundary, and people's answers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta

from operator_protocols.domain.category import NextAction
from operator_protocols.domain.confirmation import Confirmation
from operator_sre.app import confirmations
from operator_sre.app.persons import acting_role
from operator_sre.contract import SCHEMA_VERSION
from operator_sre.contract.documents import as_document
from operator_sre.contract.evidence import after_decline
from operator_sre.operations.operation import (
    TEXT_MAX,
    After,
    Most,
    Operation,
    Page,
    Reason,
    Request,
    Route,
    Table,
    Tool,
    View,
    answer_of,
    decision,
    facts,
    id_of,
)

if TYPE_CHECKING:
    from operator_sre.app.wiring import App

__all__ = ["OPERATIONS", "SUMMARY", "ConfirmationDocument", "ConfirmationPage", "Pending"]

PENDING_MAX = 100
SUMMARY = "Confirm changes to policy, modes, limits and secrets."
Id = Annotated[str, id_of("The confirmation id.", most=80)]


class ListConfirmations(Request, frozen=True):
    """Which changes."""

    every: Annotated[
        bool,
        Meta(
            description="Include decided and expired confirmations.",
            extra={"option": "--all", "mcp": False},
        ),
    ] = False
    after: After = ""
    limit: Most = None


class ShowConfirmation(Request, frozen=True):
    """Which change."""

    confirmation: Id


class Confirm(Request, frozen=True):
    """A yes to exactly the change with this digest, and why."""

    confirmation: Id
    reason: Reason = ""
    digest: Annotated[
        str, Meta(max_length=TEXT_MAX, description="Refuse if the change has another digest.")
    ] = ""


class ConfirmDigest(Request, frozen=True):
    """A yes to exactly the change with this digest, and why."""

    confirmation: Id
    digest: Annotated[
        str,
        Meta(
            max_length=100,
            description="The digest of the change.",
            extra={"api": Meta(min_length=1, max_length=100)},
        ),
    ]
    reason: Reason = ""


class Decline(Request, frozen=True):
    """Why not."""

    confirmation: Id
    reason: Reason = ""


@dataclass(frozen=True, slots=True)
class ConfirmationPage:
    """Changes that were asked for, oldest first."""

    confirmations: tuple[Confirmation, ...]
    next_cursor: str = ""
    schema_version: str = SCHEMA_VERSION


@dataclass(frozen=True, slots=True)
class ConfirmationDocument:
    """One confirmation: what approving does, in full; `left` is the part that is still to come."""

    confirmation: Confirmation
    left: str = ""
    schema_version: str = SCHEMA_VERSION


@dataclass(frozen=True, slots=True)
class Pending:
    """Nothing was done yet: a person has to approve this change first."""

    confirmation: Confirmation
    schema_version: str = SCHEMA_VERSION


@dataclass(frozen=True, slots=True)
class ConfirmationDetails:
    """One confirmation, with its requirement as other programs see it."""

    confirmation: Confirmation
    requirement: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class DeclinedDocument:
    """A declined confirmation, and the next action."""

    confirmation: Confirmation
    next_action: NextAction


async def sweep_and_list(
    app: App, *, every: bool, after: str = "", limit: int | None = None
) -> Sequence[Confirmation]:
    """Pending confirmations, or all, after expired ones are recorded."""
    await confirmations.sweep(app)
    return list_page(app, every=every, after=after, limit=limit)


def list_page(
    app: App, *, every: bool, after: str = "", limit: int | None = None
) -> Sequence[Confirmation]:
    """Pending confirmations, or all."""
    if limit is None:
        return confirmations.find(app, pending_only=not every)
    return confirmations.page(app, pending_only=not every, after=after, limit=limit)


async def show_details(app: App, confirmation: str) -> ConfirmationDetails:
    """One confirmation, after expired ones are recorded."""
    await confirmations.sweep(app)
    found = confirmations.get(app, confirmation)
    return ConfirmationDetails(found, as_document(confirmations.requirement(found)))


def show(app: App, confirmation: str) -> ConfirmationDocument:
    """Show a confirmation, with the digest that an approval has to name."""
    found = confirmations.get(app, confirmation)
    return ConfirmationDocument(found, confirmations.left_of(app, found))


async def approve(app: App, confirmation: str, *, reason: str, digest: str) -> ConfirmationDocument:
    """Confirm exactly this change, once, and apply it."""
    role = acting_role()
    decided = await confirmations.approve(
        app, confirmation, reason=reason, digest=digest, role=role
    )
    left = await asyncio.to_thread(confirmations.left_of, app, decided)
    return ConfirmationDocument(decided, left)


async def decline(app: App, confirmation: str, *, reason: str) -> Confirmation:
    """Decline; nothing is changed."""
    return await confirmations.decline(app, confirmation, reason=reason, role=acting_role())


async def decline_and_advise(app: App, confirmation: str, *, reason: str) -> DeclinedDocument:
    """Decline, and advise the next action."""
    found = await decline(app, confirmation, reason=reason)
    return DeclinedDocument(found, after_decline(found.boundary))


def _state(confirmation: Confirmation) -> str:
    if confirmation.state != "approved":
        return confirmation.state
    return confirmation.outcome or "approved, not made yet"


def _table(found: ConfirmationPage, now: datetime) -> View:
    rows = [
        (
            confirmation.id,
            _state(confirmation),
            confirmation.risk,
            confirmation.boundary,
            f"{confirmation.expires_at:%H:%M:%S}",
            _summary(confirmation),
        )
        for confirmation in found.confirmations
    ]
    head = ("id", "state", "risk", "boundary", "expires", "what")
    return [Table(head, rows, "No pending confirmations.")]


def _summary(confirmation: Confirmation) -> str:
    return " ".join(confirmation.rationale.split())[:160]


def _details(found: ConfirmationDetails, now: datetime) -> View:
    confirmation = found.confirmation
    change = {name: value for name, value in confirmation.change.items() if name != "patch"}
    origin = (
        f"{confirmation.ticket or '-'}, run {confirmation.run or '-'}"
        if confirmation.ticket or confirmation.run
        else ""
    )
    lines = facts(
        (
            ("change", f"{confirmation.id}, {_state(confirmation)}"),
            ("crosses", confirmation.boundary),
            ("risk", confirmation.risk),
            ("what", confirmation.rationale),
            ("exactly", json.dumps(change, ensure_ascii=False)),
            ("reaches", ", ".join(confirmation.destinations)),
            ("uses", ", ".join(confirmation.credentials)),
            ("ticket", origin),
            ("asked by", f"{confirmation.requested_by.id} ({confirmation.requested_by.type})"),
            (
                "expires",
                f"{confirmation.expires_at:%Y-%m-%d %H:%M:%S} UTC"
                if confirmation.state == "pending"
                else "",
            ),
            ("answer", answer_of(confirmation.decided_by, confirmation.reason)),
            ("bound to", f"{confirmation.digest}: the change"),
            ("", ", ".join(f"{name} {value}" for name, value in confirmation.bound.items())),
        )
    )
    patch = confirmation.change.get("patch")
    return [*lines, "", *patch.splitlines()] if isinstance(patch, str) else lines


def _show_decision(found: ConfirmationDocument | DeclinedDocument, now: datetime) -> View:
    confirmation = found.confirmation
    lines = [f"{_state(confirmation)}: {_summary(confirmation)}"]
    if confirmation.open:
        lines.append("The requester can make the change now, once, within five minutes.")
    if isinstance(found, ConfirmationDocument) and found.left:
        lines.append(found.left)
    return lines


_HERE = "operator_sre.operations.confirmations"
_decision = decision("confirmation", _show_decision)
OPERATIONS = (
    Operation(
        name="confirmations list",
        help="List pending confirmations, oldest first.",
        request=ListConfirmations,
        result=ConfirmationPage,
        call=f"{_HERE}.sweep_and_list",
        view=_table,
    ),
    Operation(
        name="confirmations list",
        help="List pending confirmations, or all.",
        request=ListConfirmations,
        result=ConfirmationPage,
        call=f"{_HERE}.list_page",
        view=_table,
        page=Page(key="id", place="after"),
        is_command=False,
        route=Route("GET", "/v1/confirmations", "list_all_confirmations"),
        tool=Tool(
            "pending_confirmations",
            "Pending confirmations",
            "Lists pending confirmations. Only people answer them, with: operator confirmations.",
            picks=(
                *("id", "boundary", "state", "risk", "rationale", "change", "requested_at"),
                *("expires_at", "requested_by"),
            ),
            next_step="A person answers with: operator confirmations show {id}",
            rows_max=PENDING_MAX,
        ),
    ),
    Operation(
        name="confirmations show",
        help="Show a confirmation: the exact change and the effect of approving it.",
        request=ShowConfirmation,
        result=ConfirmationDetails,
        call=f"{_HERE}.show_details",
        view=_details,
        arguments=("confirmation",),
    ),
    Operation(
        name="confirmations show",
        help="Show a confirmation, with the digest that an approval has to name.",
        request=ShowConfirmation,
        result=ConfirmationDocument,
        call=f"{_HERE}.show",
        view=_show_decision,
        slow=True,
        is_command=False,
        route=Route(
            "GET", "/v1/confirmations/{confirmation}", "show_one_confirmation", errors=(404,)
        ),
    ),
    _decision(
        name="confirmations approve",
        help="Approve a change. Operator applies it at once.",
        request=Confirm,
        result=ConfirmationDocument,
        call=f"{_HERE}.approve",
        printed_if_any=("left",),
    ),
    _decision(
        name="confirmations approve",
        help="Confirm exactly this change, once, and apply it.",
        request=ConfirmDigest,
        result=ConfirmationDocument,
        call=f"{_HERE}.approve",
        is_command=False,
        route=Route(
            "POST",
            "/v1/confirmations/{confirmation}/approve",
            "approve_confirmation",
            "ConfirmRequest",
            (404, 409),
        ),
    ),
    _decision(
        name="confirmations decline",
        help="Decline a change. Nothing is changed, and it cannot be approved later.",
        request=Decline,
        result=DeclinedDocument,
        call=f"{_HERE}.decline_and_advise",
    ),
    _decision(
        name="confirmations decline",
        help="Decline a change. Nothing is changed, and it cannot be approved later.",
        request=Decline,
        result=ConfirmationDocument,
        call=f"{_HERE}.decline",
        is_command=False,
        route=Route(
            "POST",
            "/v1/confirmations/{confirmation}/decline",
            "decline_confirmation",
            "DeclineRequest",
            (404, 409),
        ),
    ),
)
