"""Silences and windows: when they hold, and of what they speak."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, time, timedelta

import pytest

from operator_protocols.domain.silence import DAYS, Silence, Window
from operator_protocols.domain.watcher import Watch, Watcher
from tests.contract.clock import NOON

QUIET = Silence("q", NOON, NOON + timedelta(hours=1), "ada", "disk", "shop", "node-*", "*")


@pytest.mark.parametrize(
    ("place", "covered"),
    [
        (("shop", "node-1", "up"), True),
        (("shop", "node-", "x"), True),
        (("shop", "store", "up"), False),
        (("bank", "node-1", "up"), False),
        (("SHOP", "node-1", "up"), False),
    ],
)
def test_it_covers_what_matches_all_three(place: tuple[str, str, str], covered: bool) -> None:
    assert QUIET.covers(*place) is covered


def test_it_holds_from_its_start_to_its_end_or_until_somebody_ends_it() -> None:
    at = [NOON + timedelta(minutes=minutes) for minutes in (-1, 0, 30, 59, 60)]
    assert [QUIET.holds(one) for one in at] == [False, True, True, True, False]
    early = replace(QUIET, ended_at=NOON + timedelta(minutes=30))
    assert [early.holds(one) for one in at] == [False, True, False, False, False]


def _at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


NIGHT = Window(("sat",), time(22, 0), 4 * 3600.0)  # from Saturday 22:00 to Sunday 02:00
BERLIN = Window(("sun",), time(2, 0), 3600.0, zone="Europe/Berlin")


@pytest.mark.parametrize(
    ("window", "at", "is_open"),
    [
        (NIGHT, "2026-03-07T21:59:59", False),
        (NIGHT, "2026-03-07T22:00:00", True),
        (NIGHT, "2026-03-08T01:59:59", True),
        (NIGHT, "2026-03-08T02:00:00", False),
        (NIGHT, "2026-03-08T22:30:00", False),  # Sunday is no day of it
        (BERLIN, "2026-02-01T01:30:00", True),  # winter: an hour before UTC
        (BERLIN, "2026-02-01T02:30:00", False),
        (BERLIN, "2026-07-05T00:30:00", True),  # summer: two hours
        (BERLIN, "2026-07-05T01:30:00", False),
        (Window(DAYS, time(0, 0), 3 * 86_400.0), "2026-03-04T12:00:00", True),
        (Window(("mon",), time(0, 0), 3 * 86_400.0), "2026-03-04T12:00:00", True),  # Wednesday
        (Window(("mon",), time(0, 0), 3 * 86_400.0), "2026-03-05T00:00:00", False),
    ],
)
def test_a_window_is_open_by_the_wall_clock_of_its_zone(
    window: Window, at: str, is_open: bool
) -> None:
    assert (window.span(_at(at)) is not None) is is_open


def test_a_window_silences_its_patterns_and_says_until_when() -> None:
    window = replace(NIGHT, targets=("a*", "b"), invariants=("up",))
    found = window.silences("shop", _at("2026-03-07T23:00:00"))
    assert [(one.target, one.invariant) for one in found] == [("a*", "up"), ("b", "up")]
    assert {one.until for one in found} == {_at("2026-03-08T02:00:00")}
    assert all(one.holds(_at("2026-03-07T23:00:00")) for one in found)
    assert window.silences("shop", _at("2026-03-07T12:00:00")) == ()


def test_a_watcher_says_what_it_watches() -> None:
    me = Watcher("here", NOON, NOON, (Watch("shop", 5.0),))
    assert (me.watches[0].last_at, me.watches[0].missed, me.watches[0].failed) == (None, 0, 0)
