"""A home whose clock is held, people who answer, and what was refused to them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from operator_protocols.domain.confirmation import Boundary, ConfirmationState
from operator_protocols.domain.entry import Actor, Entry, Kind
from operator_protocols.domain.verdict import Risk
from operator_sre.app.confirmations import Asked
from operator_sre.app.wiring import App
from tests.app.home import opened
from tests.contract.clock import HeldClock

__all__ = ["ADA", "APPROVED", "BOB", "LISTENER", "entries", "refusals", "timed"]

APPROVED = ConfirmationState.APPROVED
ADA, BOB = Actor("ada", "user"), Actor("bob", "user")
LISTENER = Asked(
    Boundary.EXPOSED_LISTENER, {"bind": "203.0.113.7", "port": 8440}, Risk.HIGH, "Others reach it."
)


@contextmanager
def timed(folder: Path, toml: str = "", **flags: str) -> Iterator[tuple[App, HeldClock]]:
    """A home whose clock only the test moves, for all that the use cases read."""
    with opened(folder, toml, **flags) as app:
        clock = HeldClock()
        clock.advance((app.clock.now() - clock.now()).total_seconds())
        yield replace(app, clock=clock), clock


def entries(app: App, *kinds: Kind) -> list[Entry]:
    """Those of these kinds, oldest first."""
    return [one for one in app.store.entries.after(0, limit=500) if one.kind in kinds]


def refusals(app: App) -> list[str]:
    """Why somebody was turned away, as the ledger tells it."""
    return [next(iter(one.payload["reasons"])) for one in entries(app, Kind.ACCESS_REFUSED)]
