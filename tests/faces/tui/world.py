"""A home in which an incident is under way, and the console in front of it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from operator_protocols.domain.action import Action
from operator_protocols.domain.confirmation import Confirmation
from operator_protocols.domain.diagnosis import RankedHypothesis
from operator_protocols.domain.entry import Actor, Draft, Kind
from operator_protocols.domain.health import Health
from operator_protocols.domain.permit import Approval, Permit
from operator_protocols.domain.ticket import Ticket
from operator_protocols.domain.verdict import Mode, Risk
from operator_protocols.domain.watcher import Watch, Watcher
from operator_protocols.ports import Condition
from operator_sre.app.wiring import App, open_app
from operator_sre.codec import to_json
from operator_sre.config import Config, load_config
from operator_sre.controls import MACHINE
from operator_sre.faces.tui.console.application import Console
from operator_sre.gate import Gate, Policy
from tests.app.home import SUBJECTS
from tests.contract.samples import approval, confirmation, proof, run_started, violation
from tests.contract.workshop import DIAGNOSIS

__all__ = [
    "HYPOTHESES",
    "SIZES",
    "SLOW_AND_QUICK",
    "ask",
    "config_at",
    "confirm",
    "console_on",
    "incident",
    "permit_for",
    "screen_text",
    "until",
    "world_at",
]

SIZES = {"wide": (120, 40), "narrow": (80, 24)}
# The smaller terminal is the harder one.
SLOW_AND_QUICK = (
    pytest.param(SIZES["wide"], id="wide", marks=pytest.mark.slow),
    pytest.param(SIZES["narrow"], id="narrow"),
)
WAIT_S_MAX = 30.0
HYPOTHESES = [
    RankedHypothesis("process_dead", "node-1", 0.97, 0.4),
    RankedHypothesis("process_hung", "node-1", 0.02, 0.35),
]


def config_at(folder: Path, **flags: str) -> Config:
    """The settings of a home in this folder."""
    (folder / "operator.toml").write_text(SUBJECTS)
    given = {"home": str(folder / "home"), **flags}
    return load_config(flags=given, environ={}, cwd=folder)


@contextmanager
def world_at(folder: Path, **flags: str) -> Iterator[App]:
    """The home, open, with an incident in it."""
    with open_app(config_at(folder, **flags)) as app:
        asyncio.run(incident(app))
        yield app


async def incident(app: App) -> Ticket:
    """A node is down, an agent has taken it up, thought about it, looked, and proven nothing."""
    store, now = app.store, datetime.now(UTC)
    down = violation("node-1", since=now - timedelta(minutes=3))
    opened = await store.tickets.open([down])
    await store.tickets.open([violation("node-2", "high_latency", detail="p99 is 340 ms")])
    await store.conditions.update(
        [Condition("shop", "node_down", "node-1", Health.BROKEN, now, now, detail="refused")]
    )
    await store.watchers.beat(Watcher("watch-1", now, now, (Watch("shop", 5.0, last_at=now),)))
    claimed = await store.leases.claim("agent-1", run="run-1", lease_s=600.0, attempts_max=3)
    assert claimed is not None
    assert claimed.id == opened.id
    await store.journal.append(run_started(claimed))
    words = "The port is closed, so that nobody listens there."
    thought: dict[str, Any] = {"reasoning": words, "calls": [], "hypotheses": to_json(HYPOTHESES)}
    for kind, payload in (
        (Kind.REASONING, thought),
        (Kind.DIAGNOSIS, to_json(DIAGNOSIS.diagnosis)),
        (Kind.PROOF, to_json(proof(held=False, detail="node-1 is still down"))),
    ):
        await store.journal.append(Draft(kind, payload, ticket=claimed.id, run=claimed.run))
    permit = await permit_for(app, "printf 'one\\ntwo\\n'", claimed)
    await app.controls(MACHINE).executor.execute(permit)
    return claimed


async def permit_for(app: App, command: str, ticket: Ticket | None = None) -> Permit:
    """A permit for a command, as the gate of an agent that may everything gives it."""
    policy = Policy(mode=Mode.EXECUTE, auto=frozenset(Risk))
    gate = Gate(lambda: policy, app.store.journal, app.store.approvals, app.clock, app.new_id)
    action = replace(Action.shell(command), timeout_s=60.0)
    permit = await gate.permit(gate.judge(action), ticket, subject="" if ticket else MACHINE)
    assert isinstance(permit, Permit), permit
    return permit


def ask(app: App, name: str = "ask-1", **changes: object) -> Approval:
    """A request that can be answered for ten minutes."""
    action = replace(
        Action.shell("systemctl restart shop-node-1", target="node-1", reasoning="it is down"),
        cwd="/srv/shop",
    )
    asked = approval(name, at=app.clock.now(), within_s=600.0)
    wanted = replace(
        asked,
        action=action,
        binding=replace(asked.binding, action=action.digest),
        explanation="it restarts a service",
        writes=("/srv/shop/node-1.pid",),
        **changes,  # type: ignore[arg-type]
    )
    asyncio.run(app.store.approvals.request(wanted))
    return wanted


def confirm(app: App, name: str = "conf_1") -> Confirmation:
    """A change that waits for a person."""
    wanted = replace(confirmation(name, at=app.clock.now()), requested_by=Actor("bob", "user"))
    asyncio.run(app.store.confirmations.request(wanted))
    return wanted


@asynccontextmanager
async def console_on(
    config: Config, size: tuple[int, int] = (120, 40)
) -> AsyncIterator[tuple[Console, Pilot[int]]]:
    """The console on a home, connected, without a terminal."""
    console = Console(config)
    async with console.run_test(size=size, notifications=True) as pilot:
        await until(pilot, lambda: not console.standing.problem)
        yield console, pilot


async def until(
    pilot: Pilot[int], condition: Callable[[], object], *, within_s: float = WAIT_S_MAX
) -> None:
    """Return when the condition holds; fail, and show the screen, when it does not in time."""
    ends = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < ends, "\n" + screen_text(pilot)
        await pilot.pause(0.1)


def screen_text(pilot: Pilot[int]) -> str:
    """What a person reads on the screen now."""
    width, height = pilot.app.size
    strips = pilot.app.screen._compositor.render_strips()
    return "\n".join(strip.crop(0, width).text for strip in strips[:height])
