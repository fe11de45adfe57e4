"""The whole journey on a real rig, broken by hand as a user would: by the pids that it printed."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from operator_protocols.domain.ticket import TicketState
from tests.e2e.census import is_alive
from tests.e2e.home import Home, Json, answers
from tests.e2e.story import Story
from tests.e2e.waiting import eventually

LOOKS_OF_CONTROL = 6


@pytest.fixture(scope="module")
def watched(rigged: Home) -> Iterator[Home]:
    """The rig with `operator up --mode execute` on it."""
    running = rigged.up("execute")
    yield rigged
    assert running.end() == 128 + signal.SIGTERM


def _hurt(home: Home, target: str, number: int) -> tuple[Json, Story]:
    """Signal a target's process by hand; returns it as it was, and the story of its repair."""
    before = max([ticket.id for ticket in home.tickets()], default=0)
    victim = home.rig()[target]
    home.looked(1)  # between two looks, so that the next one sees the whole of it
    os.kill(victim["pid"], number)
    ticket = home.new_ticket(before, TicketState.RESOLVED, TicketState.ESCALATED)
    assert ticket.state is TicketState.RESOLVED, ticket.reason
    home.looked(3)
    assert [one.id for one in home.tickets() if one.id > before] == [ticket.id], "one ticket only"
    return victim, Story(home, ticket.id)


def test_a_healthy_rig_opens_no_ticket_and_starts_no_run(watched: Home) -> None:
    before = watched.tickets(), watched.store.runs.newest(limit=100)
    watched.looked(LOOKS_OF_CONTROL)
    assert (watched.tickets(), watched.store.runs.newest(limit=100)) == before


def test_a_killed_node_is_diagnosed_restarted_and_proven(watched: Home) -> None:
    victim, story = _hurt(watched, "node-1", signal.SIGKILL)
    assert [one["invariant"] for one in story.ticket["violations"]] == ["node_down"]
    diagnosis = story.check_diagnosis(cause="process_dead", target="node-1")
    assert diagnosis["choice"] == "restart_node(node-1)"
    assert story.intended[-1] == "restart_node"
    story.check_order()
    story.check_proof()
    story.check_chain()
    now = watched.rig()["node-1"]
    assert now["pid"] != victim["pid"]
    assert now["state"] == "running"
    assert answers(now)


@pytest.mark.slow
def test_a_paused_node_is_resumed_and_goes_on_as_the_same_process(watched: Home) -> None:
    victim, story = _hurt(watched, "node-2", signal.SIGSTOP)
    diagnosis = story.check_diagnosis(cause="process_paused", target="node-2")
    assert diagnosis["choice"] == "resume_node(node-2)"
    assert story.intended[-1] == "resume_node"
    assert "restart_node" not in story.intended
    story.check_order()
    story.check_proof()
    story.check_chain()
    now = watched.rig()["node-2"]
    assert (now["pid"], now["state"]) == (victim["pid"], "running")
    assert answers(now)


@pytest.mark.slow
def test_a_killed_store_is_one_ticket_that_names_the_store_as_root(watched: Home) -> None:
    victim, story = _hurt(watched, "store", signal.SIGKILL)
    assert story.ticket["target"] == "store"
    broken = {one["target"] for one in story.ticket["violations"]}
    assert broken == {"store", "node-1", "node-2", "node-3"}
    diagnosis = story.check_diagnosis(cause="process_dead", target="store")
    assert set(diagnosis["affected"]) == broken
    assert [tool for tool in story.intended if tool.endswith("_node")] == ["restart_node"]
    story.check_order()
    story.check_proof()
    story.check_chain()
    rig = watched.rig()
    assert rig["store"]["pid"] != victim["pid"]
    assert is_alive(rig["store"]["pid"])
    eventually(lambda: all(answers(rig[name]) for name in broken - {"store"}), "nodes answer")
