"""What people do with tickets: only our own look resolves, and viewers change nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from operator_protocols.domain.entry import Kind
from operator_protocols.domain.observation import Observation
from operator_protocols.domain.ticket import MoveKind, TicketState
from operator_protocols.errors import AuthorityError, ConflictError, UsageError
from operator_sre.app.persons import signed_in
from operator_sre.app.tickets import move_ticket, resolve_ticket
from operator_sre.app.wiring import App
from operator_sre.config import load_config
from operator_sre.gate import LocalPermissions
from operator_sre.ledger import KeyFile
from tests.contract.samples import run_started, violation
from tests.contract.workshop import Script, Workshop

pytestmark = pytest.mark.asyncio


class _Desk:
    """An app on the home of a workshop whose node-1 is down, with its one ticket."""

    def __init__(self, folder: Path) -> None:
        self.shop = Workshop(folder, Script())
        config = load_config(flags={"home": str(folder)}, environ={}, cwd=folder)
        shop = self.shop

        def rules() -> SimpleNamespace:
            return SimpleNamespace()

        key = KeyFile(folder / "ledger.key")
        parts = (config, shop.store, shop.clock, key, lambda: "id", rules)
        self.app = App(*parts)  # type: ignore[arg-type]

    def state(self) -> TicketState:
        found = self.shop.store.tickets.get(1)
        assert found is not None
        return found.state


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[_Desk]:
    """With the engine of the workshop, and everybody an admin."""
    made = _Desk(tmp_path)
    pipeline = made.shop.pipeline()
    monkeypatch.setattr(App, "engine", lambda self: SimpleNamespace(pipeline=pipeline))
    monkeypatch.setattr(App, "permissions", LocalPermissions())
    yield made
    made.shop.close()


async def test_what_is_still_broken_is_not_resolved_by_anybodys_word(desk: _Desk) -> None:
    await desk.shop.pipeline().watch("shop")
    with pytest.raises(ConflictError, match=r"not resolved.*broken") as told:
        await resolve_ticket(desk.app, 1, reason="trust me")
    assert "operator tickets close 1 --reason" in told.value.next_step
    assert desk.state() is TicketState.OPEN


async def test_what_nobody_can_see_is_not_resolved_either(desk: _Desk) -> None:
    await desk.shop.pipeline().watch("shop")
    desk.shop.plant.error = ConnectionError("no route")
    with pytest.raises(ConflictError, match="unknown"):
        await resolve_ticket(desk.app, 1)
    assert desk.state() is TicketState.OPEN


async def test_what_holds_by_our_own_look_is_resolved_and_taken_from_the_agent(
    desk: _Desk,
) -> None:
    await desk.shop.pipeline().watch("shop")
    claimed = await desk.shop.claim()
    await desk.shop.store.journal.append(run_started(claimed))
    desk.shop.plant.up["node-1"] = True
    resolved = await resolve_ticket(desk.app, 1, reason="I pulled the plug")
    assert resolved.state is TicketState.RESOLVED
    assert "I pulled the plug" in resolved.reason
    (entry,) = desk.shop.entries(Kind.TICKET_RESOLVED)
    assert (entry.actor.id, entry.payload["proof"]["held"]) == (signed_in(), True)
    assert not await desk.shop.store.leases.renew(claimed, lease_s=1.0)
    run = desk.shop.store.runs.get(claimed.run)
    assert run is not None
    assert run.state == "stopped"
    assert await resolve_ticket(desk.app, 1) == resolved


@pytest.mark.parametrize("kind", [MoveKind.CLOSE, MoveKind.REOPEN, MoveKind.UNHOLD])
async def test_a_viewer_changes_nothing(
    desk: _Desk, kind: MoveKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    await desk.shop.pipeline().watch("shop")
    somebody_else: dict[str, object] = {"nobody": "admin"}
    permissions = LocalPermissions(somebody_else)  # type: ignore[arg-type]
    monkeypatch.setattr(App, "permissions", permissions)
    before = desk.shop.entries()
    with pytest.raises(AuthorityError, match="viewer"):
        await move_ticket(desk.app, 1, kind, reason="x")
    assert desk.shop.entries() == before
    held = await move_ticket(desk.app, 1, MoveKind.HOLD, reason="stop")
    assert held.pause is not None


async def test_texts_have_a_limit(desk: _Desk) -> None:
    with pytest.raises(UsageError, match="4000"):
        await move_ticket(desk.app, 1, MoveKind.COMMENT, reason="x" * 4001)


async def _well_and_watched(desk: _Desk) -> None:
    """It broke, and the monitor has seen it hold, for less than it takes to resolve it."""
    await desk.shop.pipeline().watch("shop")
    desk.shop.plant.up["node-1"] = True
    await desk.shop.pipeline().watch("shop")


async def test_what_the_monitor_has_followed_needs_one_look(desk: _Desk) -> None:
    await _well_and_watched(desk)
    claimed = await desk.shop.claim()
    for _ in range(3):
        desk.shop.clock.advance(30.0)
        await desk.shop.pipeline().watch("shop")
    desk.shop.clock.advance(59.0)
    await resolve_ticket(desk.app, claimed.id)
    (entry,) = desk.shop.entries(Kind.TICKET_RESOLVED)
    assert (entry.payload["proof"]["looks"], entry.payload["proof"]["stable_s"]) == (1, 149.0)


async def test_what_nobody_looked_at_for_hours_has_to_hold_from_now_on(desk: _Desk) -> None:
    await _well_and_watched(desk)
    desk.shop.clock.advance(3 * 3600.0)
    await resolve_ticket(desk.app, 1)
    (entry,) = desk.shop.entries(Kind.TICKET_RESOLVED)
    assert entry.payload["proof"]["looks"] > 1
    assert entry.payload["proof"]["stable_s"] < 60.0


async def test_a_look_a_moment_ago_at_which_it_was_broken_is_no_time_of_holding(
    desk: _Desk,
) -> None:
    """Whoever looks beside the monitor changes nothing of what the monitor remembers."""
    await _well_and_watched(desk)
    desk.shop.clock.advance(3 * 3600.0)
    desk.shop.plant.up["node-1"] = False
    with pytest.raises(ConflictError, match="broken"):
        await resolve_ticket(desk.app, 1)
    desk.shop.plant.up["node-1"] = True
    await resolve_ticket(desk.app, 1)
    (entry,) = desk.shop.entries(Kind.TICKET_RESOLVED)
    assert entry.payload["proof"]["looks"] > 1


async def test_what_is_added_while_we_look_is_not_resolved(
    desk: _Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    await _well_and_watched(desk)
    observe = desk.shop.plant.observe

    async def growing() -> Observation:
        seen = await observe()
        ticket = desk.shop.store.tickets.get(1)
        assert ticket is not None
        if len(ticket.violations) == 1:
            await desk.shop.store.tickets.grow(ticket, [violation("node-2", "up")])
        return seen

    monkeypatch.setattr(desk.shop.plant, "observe", growing)
    with pytest.raises(ConflictError, match="new violations"):
        await resolve_ticket(desk.app, 1)
    assert desk.state() is TicketState.OPEN
    assert (await resolve_ticket(desk.app, 1)).state is TicketState.RESOLVED
