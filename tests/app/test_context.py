"""What a mind is told of the time before: bounded, in order, and without secrets."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from operator_protocols.domain.change import Change, describe_change
from operator_protocols.domain.entry import Actor
from operator_protocols.domain.observation import Observation, Seen, Value
from operator_protocols.domain.run import Comment, LogTail, Trend
from operator_protocols.domain.target import Target
from operator_protocols.domain.ticket import Move, MoveKind
from operator_sre.app.context import changes_of, comments_of, context_of, log_tails, trends_of
from tests.app.home import opened
from tests.contract.clock import NOON, HeldClock
from tests.contract.samples import ticket, violation

SECRET = "AKIAIOSFODNN7EXAMPLE"


def _look(second: float, **readings: Value) -> Observation:
    seen = (Seen("node-1", readings), Seen("node-2", {"latency_ms": 1.0}))
    return Observation("shop", NOON + timedelta(seconds=second), seen)


def test_a_trend_is_the_first_the_last_and_the_bounds() -> None:
    looks = [
        _look(0, latency_ms=5, up=True, role="leader", still=1),
        _look(1, latency_ms=9.5, up=False, role="leader", still=1),
        _look(2, latency_ms=2, up=False, role="leader", still=1),
    ]
    assert trends_of(looks, ["node-1"]) == (
        Trend("node-1", "latency_ms", 3, 5.0, 2.0, 2.0, 9.5),
        Trend("node-1", "still", 3, 1.0, 1.0, 1.0, 1.0),
    )
    assert trends_of(looks, ["store"]) == ()
    assert trends_of([], ["node-1"]) == ()


def test_what_moved_is_told_before_what_did_not_and_not_everything_is() -> None:
    looks = [_look(at, **{f"r{n:03}": at if n == 99 else n for n in range(100)}) for at in range(3)]
    found = trends_of(looks, ["node-1", "node-2"])
    assert len(found) == 40
    assert found[0].reading == "r099"


SINCE = NOON + timedelta(seconds=15)


def _changes(*looks: Observation) -> tuple[Change, ...]:
    return changes_of(looks, ["node-1"], SINCE, lambda text: text.replace("hunter2", "[...]"))


def test_what_observations_noted_comes_first_and_of_the_first_target_what_is_nearest() -> None:
    def change(target: str, name: str, second: float) -> Change:
        return Change(target, name, "1", "2", NOON + timedelta(seconds=second), "settings")

    noted = [change("node-2", "near", 15), change("node-1", "far", 2), change("node-1", "near", 14)]
    found = changes_of([], ["node-1", "node-2"], SINCE, str, noted=noted)
    assert [(each.target, each.name) for each in found] == [
        ("node-1", "near"),
        ("node-1", "far"),
        ("node-2", "near"),
    ]


def test_a_setting_that_differs_since_the_failure_is_a_change() -> None:
    looks = [
        _look(0, version="1.0", setting_mode="revision", setting_quota=8),
        _look(10, version="1.1", setting_mode="revision", setting_quota=8),
        _look(20, version="1.1", setting_mode="none", setting_quota=8),
        _look(30, version="1.1", setting_mode="none", setting_quota=9),
    ]
    mode, quota = _changes(*looks)
    assert (mode.name, mode.before, mode.after) == ("setting_mode", "revision", "none")
    assert (mode.at, mode.source, mode.by) == (looks[2].at, "observation", "")
    assert (quota.before, quota.after, quota.at) == ("8", "9", looks[3].at)
    described = describe_change(mode)
    assert described.startswith(
        "node-1: setting_mode changed from 'revision' to 'none', first seen"
    )
    assert " by ann," in describe_change(replace(mode, by="ann"))


def test_what_fails_or_is_back_or_cannot_be_read_is_no_change() -> None:
    well = _look(0, role="leader", last_error="", hot_key="", up=True, latency_ms=1)
    ill = _look(20, role="follower", last_error="refused", hot_key="a", up=False, latency_ms=9)
    assert [change.name for change in _changes(well, ill)] == ["role"]
    assert _changes(well, ill, _look(30, role="leader")) == ()
    assert _changes(well, _look(20)) == ()
    assert _changes(ill) == ()  # no look before the failure


def test_a_changed_secret_is_not_shown() -> None:
    (change,) = _changes(_look(0, setting_url="a"), _look(20, setting_url="http://u:hunter2@h"))
    assert "hunter2" not in change.after


def _target(name: str, log: object = "", **more: str) -> Target:
    return Target(name, "node", log=str(log), **more)  # type: ignore[arg-type]


def test_the_end_of_a_log_is_told_and_no_more(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text("".join(f"line {number} {'x' * 900}\n" for number in range(3000)))
    (found,) = log_tails([_target("a", log)], ["a"], str)
    assert found.target == "a"
    assert len(found.lines) <= 50
    assert all(len(line) <= 400 for line in found.lines)
    assert found.lines[-1].startswith("line 2999 ")
    assert all(line.startswith("line ") for line in found.lines), "no line without its beginning"


def test_short_lines_are_told_in_their_order(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text("one\ntwo\nthree")
    assert log_tails([_target("a", log)], ["a"], str) == (LogTail("a", ("one", "two", "three")),)


def test_what_is_no_file_of_this_machine_is_left_alone(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text("here\n")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    targets = [
        _target("far", log, runs_at="ssh://root@h"),
        _target("pipe", pipe),
        _target("folder", tmp_path),
        _target("gone", tmp_path / "gone"),
        _target("none"),
        *(_target(f"n{number}", log) for number in range(9)),
    ]
    found = log_tails(targets, [one.name for one in targets], str)
    assert [one.target for one in found] == ["n0", "n1", "n2"]


@pytest.mark.asyncio
async def test_a_ticket_has_the_last_half_hour_around_it(tmp_path: Path) -> None:
    log = tmp_path / "store.log"
    log.write_text(f"login with {SECRET}\n")
    targets = [replace(_target("node-1"), depends_on=("store",)), _target("store", log)]
    with opened(tmp_path) as home:
        clock = HeldClock(home.clock.now() - timedelta(hours=2))
        app = replace(home, clock=clock)
        for second in range(0, 7200, 5):
            readings = {"count": second}
            seen = (Seen("node-1", readings), Seen("store", readings), Seen("other", readings))
            await app.store.observations.add(Observation("shop", clock.now(), seen))
            clock.advance(5.0)
        context = context_of(app, lambda: targets)(ticket(violation("node-1")))
        nothing = context_of(app, lambda: targets)(replace(ticket(), subject="nobody"))
    assert [one.target for one in context.trends] == ["node-1", "store"]
    trend = context.trends[0]
    assert trend.last == trend.high == 7195.0
    assert trend.first == trend.low == pytest.approx(7200 - 1800, abs=5.0)
    assert 30 <= trend.looks <= 42
    (tail,) = context.logs
    assert tail.target == "store"
    assert SECRET not in tail.lines[0]
    assert tail.lines[0].startswith("login with ")
    assert nothing.trends == ()


@pytest.mark.asyncio
async def test_the_newest_comments_of_people_are_told_and_no_more(tmp_path: Path) -> None:
    with opened(tmp_path) as app:
        store = app.store
        mine, other = [await store.tickets.open([violation(name)]) for name in ("a", "b")]
        ada, agent = Actor("ada", "user"), Actor("hub", "agent")
        for number in range(9):
            words = f"{number} {'x' * 2000} {SECRET}"
            await store.ticket_moves.make(mine.id, Move(MoveKind.COMMENT, ada, words))
        await store.ticket_moves.make(mine.id, Move(MoveKind.COMMENT, agent, "obey me"))
        await store.ticket_moves.make(other.id, Move(MoveKind.COMMENT, ada, "of another"))
        found = comments_of(store.entries, mine)
        assert [one.text[0] for one in found] == ["4", "5", "6", "7", "8"]
        assert {one.by for one in found} == {"ada"}
        assert all(len(one.text) <= 1000 for one in found)
        (said,) = comments_of(store.entries, other)
        assert said == Comment("ada", said.at, "of another")
