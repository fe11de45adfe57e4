"""Homes for the commands: an empty one, and one in which a whole story has happened."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from operator_protocols.domain.permit import ApprovalState
from operator_protocols.domain.ticket import TicketState
from tests.e2e.home import Home
from tests.e2e.waiting import eventually
from tests.e2e.warm import Warm, shared_warm

__all__ = ["home", "lived", "warm"]

SECRET = "sk-ant-never-show-me"


@pytest.fixture(scope="session")
def warm(pytestconfig: pytest.Config) -> Warm:
    """The command in a process that is warm."""
    return shared_warm(pytestconfig)


@pytest.fixture
def home(tmp_path: Path, warm: Warm) -> Iterator[Home]:
    """An empty home; whatever runs on it ends with the test."""
    home = Home(tmp_path, warm)
    yield home
    home.close()


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory, warm: Warm) -> Iterator[Home]:
    """A home with a running rig, on which one ticket was approved, repaired and resolved."""
    home = Home(tmp_path_factory.mktemp("lived"), warm)
    try:
        assert home.run("lab", "up", "ratelimiter", ANTHROPIC_API_KEY=SECRET).code == 0
        running = home.up("approve")
        os.kill(home.rig()["node-1"]["pid"], signal.SIGKILL)
        pending = (ApprovalState.PENDING,)
        (asked,) = eventually(lambda: home.store.approvals.find(states=pending), "a request")
        assert home.run("approvals", "approve", asked.id, "--reason", "as agreed").code == 0
        ticket = home.new_ticket(0, TicketState.RESOLVED, TicketState.ESCALATED)
        assert ticket.state is TicketState.RESOLVED, ticket.reason
        assert running.end() == 128 + signal.SIGTERM
        yield home
    finally:
        home.close()
