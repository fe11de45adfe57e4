"""What became different is listed once, with the value before, and not when it is as it was."""

from __future__ import annotations

from datetime import timedelta

from operator_protocols.domain.change import describe_change
from operator_protocols.kit.changes import ChangeLog, hide_secret
from tests.contract.clock import NOON


def _log(*states: dict[str, str]) -> ChangeLog:
    log = ChangeLog()
    for second, state in enumerate(states):
        log.note("store", "server", state, NOON + timedelta(seconds=second))
    return log


def test_the_first_state_is_no_change_and_the_next_is_compared_with_it() -> None:
    assert not _log({"maxmemory": "0"}).recent(NOON)
    (change,) = _log({"maxmemory": "0"}, {"maxmemory": "64mb"}).recent(NOON)
    assert (change.target, change.name, change.before, change.after) == (
        *("store", "maxmemory"),
        *("0", "64mb"),
    )


def test_what_is_again_as_it_was_is_no_change() -> None:
    assert not _log({"a": "1"}, {"a": "2"}, {"a": "1"}).recent(NOON)


def test_several_changes_of_a_name_are_told_from_the_first_value() -> None:
    (change,) = _log({"a": "1"}, {"a": "2"}, {"a": "3"}).recent(NOON)
    assert (change.before, change.after) == ("1", "3")


def test_what_changes_all_the_time_is_left_out() -> None:
    assert not _log(*({"cursor": str(at)} for at in range(6))).recent(NOON)


def test_what_was_added_or_removed_is_told_as_such() -> None:
    changes = _log({"gone": "1"}, {"new": "2"}).recent(NOON)
    assert [describe_change(change) for change in changes] == [
        "store: gone was removed; it was '1', first seen at 12:00:01 UTC (server)",
        "store: new was added with the value '2', first seen at 12:00:01 UTC (server)",
    ]


def test_a_change_is_forgotten_after_an_hour() -> None:
    log = _log({"a": "1"}, {"a": "2"})
    assert log.recent(NOON + timedelta(minutes=50))
    assert not log.recent(NOON + timedelta(minutes=70))


def test_a_secret_shows_only_that_it_differs() -> None:
    first, second = hide_secret("requirepass", "hunter2"), hide_secret("requirepass", "hunter3")
    assert first != second
    assert "hunter" not in first + second
    assert hide_secret("maxmemory", "64mb") == "64mb"
