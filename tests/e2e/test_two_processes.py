"""Monitor and agent share nothing but the home."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from operator_protocols.domain.ticket import TicketState
from tests.e2e.census import processes_of
from tests.e2e.home import Home
from tests.e2e.story import Story
from tests.e2e.waiting import eventually
from tests.processes.runners import end_runner


@pytest.mark.slow
def test_an_agent_waits_on_an_empty_home_for_a_monitor_to_file_something(home: Home) -> None:
    agent = home.start("agent", "start", "--mode", "execute")
    eventually((home.path / "operator.db").exists, "the agent makes the store")
    assert home.ask("tickets", "list")["tickets"] == []
    rig = home.ask("lab", "up", "ratelimiter")["rig"]
    monitor = home.start("monitor", "run", "--subject", "ratelimiter")
    home.looked(2)
    assert agent.runs
    (victim,) = [one for one in rig["targets"] if one["name"] == "node-2"]
    os.kill(victim["pid"], signal.SIGKILL)
    ticket = home.new_ticket(0, TicketState.RESOLVED, TicketState.ESCALATED)
    assert ticket.state is TicketState.RESOLVED, ticket.reason
    assert [one.id for one in home.tickets()] == [ticket.id]
    story = Story(home, ticket.id)
    story.check_diagnosis(cause="process_dead", target="node-2")
    story.check_order()
    story.check_proof()
    story.check_chain()
    (claim,) = story.all("ticket_claimed")
    assert claim["payload"]["worker"].endswith(f":{agent.pid}")
    assert "ticket opened" in monitor.said
    assert "claimed" in agent.said
    assert "claimed" not in monitor.said
    assert (agent.end(), monitor.end()) == (143, 143)
    _down(home, Path(rig["directory"]))


def _down(home: Home, directory: Path) -> None:
    """Taking a rig down leaves nothing of it, and twice is fine."""
    assert directory.is_dir()
    assert home.ask("lab", "down", "ratelimiter")["down"] is True
    end_runner(home.path / "runner")
    assert processes_of(home.path) == {}
    assert not directory.exists()
    assert home.run("lab", "down", "ratelimiter").code == 0
