"""What is asked for before a trust boundary is crossed, and how each is crossed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any

from operator_protocols.domain.confirmation import Boundary, Confirmation
from operator_protocols.domain.entry import Actor, Draft
from operator_protocols.domain.ticket import Move
from operator_protocols.domain.verdict import Risk

if TYPE_CHECKING:
    from operator_sre.app.wiring import App

__all__ = ["Asked", "Crossing", "Effect", "crossing_of"]


@dataclass(frozen=True, slots=True)
class Asked:
    """A change that somebody wants: exactly what, on which ground, and what it could cost."""

    boundary: Boundary
    change: Mapping[str, Any]
    risk: Risk
    rationale: str
    bound: Mapping[str, str] = field(default_factory=dict)
    destinations: tuple[str, ...] = ()
    credentials: tuple[str, ...] = ()
    evidence: tuple[int, ...] = ()
    run: str = ""
    ticket: int | None = None


@dataclass(frozen=True, slots=True)
class Effect:
    """What follows from a yes in the ledger itself, in one transaction with it."""

    drafts: Sequence[Draft] = ()
    move: tuple[int, Move] | None = None


def _unchanged(app: App, confirmation: Confirmation) -> str:
    return ""


def _nothing(confirmation: Confirmation) -> str:
    return ""


def _nobody_knows(app: App, confirmation: Confirmation) -> bool | None:
    return None


@dataclass(frozen=True, slots=True)
class Crossing:
    """How a change is made once a person has said yes. Without a way, whoever asked makes it.

    `deed` is what only an admin may say yes to, or "". `changed` says why the ground is another by
    now. `effect` is for what the ledger holds; `apply` for what lies elsewhere, and returns entries
    that record it, or raises before anything was done. `made` says after a crash whether it was;
    that is asked no sooner than `patience_s` after the yes. `left` says what of a change that was
    made is still to come, or "".
    """

    deed: Callable[[Confirmation], str] = _nothing
    changed: Callable[[App, Confirmation], str] = _unchanged
    effect: Callable[[App, Confirmation, Actor], Effect] | None = None
    apply: Callable[[App, Confirmation, Actor], Awaitable[Sequence[Draft]]] | None = None
    made: Callable[[App, Confirmation], bool | None] = _nobody_knows
    patience_s: float = 30.0
    left: Callable[[App, Confirmation], str] = _unchanged


# Where the `CROSSING` of a boundary is; loaded when it is asked for. Those that are not here, and a
# listener and a lease, are crossed by whoever asked, with the confirmation in hand.
CROSSINGS: Mapping[Boundary, str] = {
    Boundary.POLICY_PATCH: "operator_sre.app.patches",
    Boundary.EGRESS: "operator_sre.app.patches",
    Boundary.CREDENTIAL_BINDING: "operator_sre.app.secret_bindings",
    Boundary.HANDOFF: "operator_sre.app.handoffs",
    Boundary.RETENTION_PURGE: "operator_sre.app.store",
    Boundary.EXPOSED_LISTENER: "operator_sre.app.exposing",
    Boundary.DIRECT_LEASE: "operator_sre.app.exposing",
    Boundary.MODE_EXECUTE: "operator_sre.app.modes",
    Boundary.RULE_LOOSENED: "operator_sre.app.loosening",
}


def crossing_of(boundary: Boundary) -> Crossing:
    """How a boundary is crossed."""
    where = CROSSINGS.get(boundary)
    found = import_module(where).CROSSING if where else Crossing()
    assert isinstance(found, Crossing)
    return found
