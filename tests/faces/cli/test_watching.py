"""`operator health`, `operator subjects` and `operator silences`, as people type them."""

from __future__ import annotations

import asyncio
import signal
from datetime import timedelta

import pytest

from operator_protocols.domain.health import Health
from operator_protocols.domain.observation import Observation, Seen, Value
from operator_protocols.domain.watcher import Watch, Watcher
from operator_protocols.ports import Condition
from operator_sre.clock import SystemClock
from operator_sre.faces.cli.subjects import sparkline
from tests.app.home import SUBJECTS
from tests.e2e.home import Home
from tests.e2e.waiting import eventually
from tests.faces.cli.sentences import Bad, one_sentence

BANK = SUBJECTS.replace("subjects.shop", "subjects.bank")


@pytest.fixture
def shop(home: Home) -> Home:
    (home.cwd / "operator.toml").write_text(SUBJECTS)
    return home


def _healthy(home: Home) -> None:
    """As a monitor leaves it that has just looked."""
    now = SystemClock().now()
    well = Condition("shop", "node_down", "node-1", Health.HEALTHY, now, None)
    me = Watcher("here:1", now, now, (Watch("shop", 5.0, now),))

    async def write() -> None:
        await home.store.conditions.update([well])
        await home.store.watchers.beat(me)

    asyncio.run(write())


def test_health_is_loud_when_nobody_watches_and_quiet_when_all_is_well(shop: Home) -> None:
    assert shop.run("health").code == 1
    loud = shop.run("health")
    assert "NO MONITOR IS RUNNING" in loud.out
    assert "UNKNOWN  shop" in loud.out
    _healthy(shop)
    well = shop.run("health")
    assert (well.code, "watched by process 1 on here since " in well.out) == (0, True)
    told = shop.run("health", "--json").json["health"]
    assert (told["health"], told["fine"], told["subjects"][0]["subject"]) == (
        "healthy",
        True,
        "shop",
    )


def test_health_of_an_empty_home_says_what_to_do(home: Home) -> None:
    said = home.run("health")
    assert (said.code, "No subjects." in said.out) == (1, True)


def test_a_monitor_of_all_is_seen_in_health_until_it_stops(shop: Home) -> None:
    running = shop.fork("monitor", "run", "--all")
    eventually(lambda: shop.store.tickets.find(), "a ticket")
    eventually(lambda: "watched by" in shop.run("health").out, "somebody watches")
    following = shop.fork("health", "--watch", "--json")
    eventually(lambda: following.said.count("\n") >= 2, "two screens")
    assert following.end(signal.SIGINT) == 130
    said = shop.run("health")
    assert said.code == 1
    assert "broken node-1 node_down" in said.out
    assert "ticket 1 (open, critical)" in said.out
    assert running.end() == 128 + signal.SIGTERM
    assert "NO MONITOR IS RUNNING" in shop.run("health").out


def test_subjects_are_listed_shown_observed_and_checked(shop: Home) -> None:
    assert "shop" in shop.run("subjects", "list").out
    (one,) = shop.run("subjects", "list", "--json").json["subjects"]
    assert (one["name"], one["plugin"]) == ("shop", "ratelimiter")
    shown = shop.run("subjects", "show", "shop").out
    assert "node_down" in shown
    assert "node_kill" in shown
    assert shop.run("subjects", "show", "shop", "--json").json["subject"]["name"] == "shop"
    assert "reachable" in shop.run("subjects", "observe").out
    (seen,) = shop.run("subjects", "observe", "shop", "--json").json["observations"]
    assert seen["seen"][0]["target"] == "node-1"
    checked = shop.run("subjects", "check", "shop")
    assert (checked.code, "broken" in checked.out) == (1, True)
    told = shop.run("subjects", "check", "--json")
    assert (told.code, told.json["health"]) == (1, "broken")


def test_history_is_charted_and_replayed(shop: Home) -> None:
    now = SystemClock().now()

    async def write() -> None:
        for minute in range(10):
            readings: dict[str, Value] = {
                "kind": "node",
                "reachable": minute < 8,
                "status": "up",
                "ms": minute * 1.5,
            }
            at = now - timedelta(minutes=10 - minute)
            look = Observation("shop", at, (Seen("node-1", readings),))
            await shop.store.observations.add(look)

    asyncio.run(write())
    charted = shop.run("subjects", "history", "shop", "--reading", "ms")
    assert "▁" in charted.out
    assert "0 / 13.5 / 13.5" in charted.out
    view = shop.run("subjects", "history", "shop", "--since", "150s", "--json").json["history"]
    assert view["looks"] == 2
    replayed = shop.run("subjects", "history", "shop", "--replay").out
    assert "node_down" in replayed
    (spell,) = [
        one
        for one in shop.run("subjects", "history", "shop", "--replay", "--json").json["replay"][
            "spells"
        ]
        if one["invariant"] == "node_down"
    ]
    assert (spell["target"], spell["until"]) == ("node-1", None)


def test_silences_are_added_listed_and_ended(shop: Home) -> None:
    added = shop.run(
        "silences", "add", "--target", "node-*", "--for", "2h", "--reason", "disk", "--json"
    )
    (one,) = added.json["silences"]
    assert (one["target"], one["reason"]) == ("node-*", "disk")
    assert "node-*" in shop.run("silences", "list").out
    ended = shop.run("silences", "end", one["id"], "--reason", "done", "--json").json
    assert ended["silences"][0]["ended_because"] == "done"
    assert shop.run("silences", "list").out == "Nothing is silenced.\n"
    (told,) = shop.run("silences", "list", "--all", "--json").json["silences"]
    assert told["id"] == one["id"]


@pytest.mark.parametrize(
    "bad",
    [
        Bad("monitor run", 2, "Several subjects.*Name one with --subject: shop, bank"),
        Bad("monitor run --all --subject shop", 2, "cannot be used together"),
        Bad("monitor run --subject nosuch", 2, "no subject 'nosuch'.*shop, bank"),
        Bad("subjects show nosuch", 2, "no subject 'nosuch'"),
        Bad("subjects observe", 2, "Several subjects"),
        Bad("subjects check nosuch", 2, "no subject 'nosuch'"),
        Bad("subjects history shop --since soon", 2, "'soon' is not a valid time"),
        Bad("silences add --reason x --for 1h", 2, "silence everything"),
        Bad("silences add --reason x --subject shop", 2, "one end"),
        Bad("silences end nosuch", 2, "no silence 'nosuch'.*operator silences list"),
    ],
    ids=lambda bad: bad.line,
)
def test_bad_lines_are_answered_in_a_sentence(home: Home, bad: Bad) -> None:
    (home.cwd / "operator.toml").write_text(SUBJECTS + BANK)
    one_sentence(home.run(*bad.line.split()), bad)


def test_a_line_of_blocks_shows_what_was_seen_and_what_was_not() -> None:
    points = [(0.0, 0.0), (0.3, 5.0), (0.3, 10.0), (0.6, None)]
    assert sparkline(points, width=10) == "▁  █  ×"
    assert sparkline([(0.0, 3.0), (0.9, 3.0)], width=4) == "█  █"
    assert sparkline([], width=4) == ""
