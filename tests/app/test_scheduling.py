"""When a scheduled action runs, and who is there to run it."""

from __future__ import annotations

import os
import socket
from datetime import timedelta

import pytest

from operator_protocols.errors import UsageError
from operator_sre.app.listeners import is_gone, this_worker
from operator_sre.app.workflows import moment_of
from tests.contract.clock import NOON

DEAD = f"{socket.gethostname()}:4194304:{this_worker().rpartition(':')[2]}"


def test_moments_are_told_in_two_ways() -> None:
    assert moment_of("+10m", NOON) == NOON + timedelta(minutes=10)
    assert moment_of("+0s", NOON) == NOON
    assert moment_of("2026-03-04T18:00Z", NOON) == NOON + timedelta(hours=6)
    assert moment_of("2026-03-04T18:00+02:00", NOON) == NOON + timedelta(hours=4)
    for text, says in (
        ("tomorrow", "not a valid time"),
        ("2026-03-04T18:00", "time zone"),
        ("2026-03-04T11:59Z", "has passed"),
        ("2028-01-01T00:00Z", "days ahead"),
        ("+367d", "days ahead"),
        ("-5m", "not a valid time"),
    ):
        with pytest.raises(UsageError, match=says):
            moment_of(text, NOON)


def test_a_worker_is_gone_only_where_that_can_be_seen() -> None:
    assert not is_gone(this_worker())
    assert is_gone(DEAD)
    assert not is_gone(f"elsewhere:4194304:{DEAD.rpartition(':')[2]}")
    assert not is_gone(f"{socket.gethostname()}:{os.getpid()}")
    assert not is_gone("")
