"""Today's invariants over what was recorded."""

from __future__ import annotations

from datetime import datetime, timedelta

from operator_protocols.domain.observation import Observation, Seen
from operator_sre.monitor import Spell, WatchStats, findings_of, replay
from tests.contract.clock import NOON
from tests.contract.plants import Up


def _at(second: float) -> datetime:
    return NOON + timedelta(seconds=second)


def _look(second: float, up: bool | None, target: str = "n") -> Observation:
    seen = Seen(target, problem="no") if up is None else Seen(target, {"up": up})
    return Observation("shop", _at(second), (seen,))


def test_each_break_is_told_with_its_beginning_and_its_end() -> None:
    looks = [_look(0, True), _look(5, False), _look(10, False), _look(15, True), _look(20, False)]
    first, second = replay(looks, [Up()], blind_grace_s=60.0)
    assert first == Spell("up", "n", _at(5), _at(15), ticket=_at(5), detail="it is down")
    assert (second.since, second.until) == (_at(20), None)


def test_a_break_within_its_grace_would_have_opened_no_ticket() -> None:
    looks = [_look(0, False), _look(5, False), _look(9, True), _look(20, False), _look(31, False)]
    short, long = replay(looks, [Up(grace_s=10.0)], blind_grace_s=60.0)
    assert (short.ticket, long.ticket) == (None, _at(31))


def test_blindness_in_the_record_is_told_too_and_ends_no_break() -> None:
    looks = [_look(0, False), _look(5, None), _look(10, False), _look(15, True)]
    found = replay(looks, [Up()], blind_grace_s=60.0)
    assert [(one.invariant, one.since, one.until) for one in found] == [
        ("up", _at(0), _at(15)),
        ("observable", _at(5), _at(10)),
    ]


def test_a_record_without_a_break_says_nothing() -> None:
    assert replay([_look(0, True)], [Up()], blind_grace_s=0.0) == []
    assert replay([], [Up()], blind_grace_s=0.0) == []
    assert len(findings_of([Up()], _look(0, True))) == 3


def test_stats_count_what_was_looked_at_missed_and_failed() -> None:
    stats = WatchStats()
    stats.begin("shop", 5.0)
    stats.add_check("shop", _at(1), 0.5)
    stats.add_check("shop", _at(2), 0.25)
    stats.add_missed("shop", 3)
    stats.add_failure("shop")
    (one,) = stats.watches()
    assert (one.looks, one.missed, one.failed, one.last_at, one.last_s) == (2, 3, 1, _at(2), 0.25)
    stats.begin("shop", 9.0)
    assert (stats.watches()[0].interval_s, stats.watches()[0].looks) == (9.0, 2)
    stats.end("shop")
    stats.end("shop")
    assert list(stats.watches()) == []
