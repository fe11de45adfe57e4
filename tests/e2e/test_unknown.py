"""What cannot be seen is UNKNOWN: it closes no ticket, and opens one of its own."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from operator_protocols.domain.ticket import Ticket, TicketState
from tests.e2e.home import Home
from tests.e2e.stand_in import stand_in
from tests.e2e.waiting import eventually

WELL = json.dumps({"status": "up", "store_connected": True})
NONSENSE = {
    "failing": ("gone fishing", "500 Internal Server Error"),
    "homepage": ("<html>Welcome</html>", "200 OK"),
    "list": ("[1, 2]", "200 OK"),
    "empty": ("{}", "200 OK"),
    "silent": ('{"store_connected": true}', "200 OK"),
    "endless": ('"' + "x" * 1_000_000, "200 OK"),
}
LIVE = (TicketState.OPEN, TicketState.CLAIMED, TicketState.ESCALATED)


def _configure(home: Home, **ports: int) -> None:
    """A subject `shop` with these nodes, as a user would describe it."""
    targets = [f'{{name = "{name}", kind = "node", port = {port}}}' for name, port in ports.items()]
    text = f'[subjects.shop]\nplugin = "ratelimiter"\ntargets = [{", ".join(targets)}]\n'
    (home.cwd / "operator.toml").write_text(text)


def _live(home: Home, invariant: str, target: str) -> Ticket | None:
    """The live ticket about this, if there is one."""
    for ticket in home.tickets(*LIVE):
        if any((v.invariant, v.target) == (invariant, target) for v in ticket.violations):
            return ticket
    return None


def _opened(home: Home, invariant: str, target: str) -> int:
    """The number of the live ticket about this, as soon as there is one."""
    found = eventually(lambda: _live(home, invariant, target), f"a ticket: {invariant} {target}")
    return found.id


def test_nonsense_in_place_of_a_node_closes_nothing_and_is_a_break_itself(
    home: Home, free_port: Callable[[], int]
) -> None:
    ports = {name: free_port() for name in NONSENSE}
    _configure(home, **ports)
    monitor = home.fork("monitor", "run", "--subject", "shop", "--interval-s", "0.2")
    down = {_opened(home, "node_down", name) for name in NONSENSE}
    with ExitStack() as stack:
        servers = {name: stack.enter_context(stand_in(port)) for name, port in ports.items()}
        for name, (body, status) in NONSENSE.items():
            servers[name].say(body, status=status)
        blind = {_opened(home, "observable", name) for name in NONSENSE}
        # Longer than it would have to hold for being taken as recovered.
        home.looked(12, subject="shop")
        assert {one.id for one in home.tickets(*LIVE)} == down | blind
        assert blind == down, "what is broken about one node is one ticket"
        assert len(down) == len(NONSENSE)
        for server in servers.values():
            server.say(WELL)
        eventually(lambda: not home.tickets(*LIVE), "all are over when they are seen well")
    assert {one.id for one in home.tickets(TicketState.RESOLVED)} == down | blind
    assert monitor.runs


@pytest.mark.slow
def test_a_node_that_never_finishes_its_answer_does_not_hide_the_others(
    home: Home, free_port: Callable[[], int]
) -> None:
    slow, dead = free_port(), free_port()
    _configure(home, slow=slow, dead=dead)
    with stand_in(slow) as server, stand_in(dead) as other:
        server.say(WELL)
        other.say(WELL)
        line = ("monitor", "run", "--subject", "shop", "--interval-s", "0.2")
        monitor = home.start(*line, "--log-format", "json")
        home.looked(2, subject="shop")
        assert home.tickets() == []
        server.drips = True
        _opened(home, "node_down", "slow")
        other.close()
        _opened(home, "node_down", "dead")
        assert _live(home, "observable", "shop") is None
    logged = [json.loads(line) for line in monitor.said.splitlines()]
    opened = [one for one in logged if one["message"] == "ticket opened"]
    assert [(one["ticket"], one["target"]) for one in opened] == [(1, "slow"), (2, "dead")]


@pytest.mark.slow
def test_an_unreadable_rig_keeps_its_ticket_open_and_its_monitor_alive(home: Home) -> None:
    home.ask("lab", "up", "ratelimiter")
    running = home.up("observe")
    os.kill(home.rig()["node-1"]["pid"], signal.SIGKILL)
    ticket = home.new_ticket(0, TicketState.ESCALATED)
    manifest = home.path / "lab" / "ratelimiter" / "rig.json"
    whole = manifest.read_text()
    _replace(manifest, "{")
    blind = eventually(
        lambda: _live(home, "observable", "ratelimiter") or not running.runs, "a ticket for that"
    )
    assert running.runs, running.said
    assert isinstance(blind, Ticket)
    home.looked(6)
    now = home.store.tickets.get(ticket.id)
    assert now is not None
    assert now.state is TicketState.ESCALATED
    _replace(manifest, whole)
    home.ask("lab", "restart", "ratelimiter", "--target", "node-1")
    eventually(lambda: not home.tickets(*LIVE), "both are over when it is seen well")
    assert len(home.tickets(TicketState.RESOLVED)) == 2
    assert running.end() == 128 + signal.SIGTERM


def _replace(file: Path, text: str) -> None:
    """Change a file in one step, as the product does."""
    draft = file.with_name("draft")
    draft.write_text(text)
    draft.rename(file)
