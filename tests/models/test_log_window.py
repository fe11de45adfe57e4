"""A briefing holds the logs of half an hour, by the time of their lines, bounded in size."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from operator_protocols.domain.target import Target
from operator_sre.app.context import LINE_CHARS_MAX, LINES_MAX, LOG_CHARS_MAX, WINDOW_S, log_tails
from operator_sre.models.reasoner.logs import read_time

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
SINCE = NOON - timedelta(seconds=WINDOW_S)


def _lines(folder: Path, text: str) -> tuple[str, ...]:
    log = folder / "a.log"
    log.write_text(text)
    found = log_tails([Target("a", "node", log=str(log))], ["a"], str, SINCE)
    return found[0].lines if found else ()


def _line(minutes: float, words: str) -> str:
    return f"{(NOON + timedelta(minutes=minutes)).isoformat()} {words}\n"


def test_a_briefing_holds_half_an_hour_of_logs(tmp_path: Path) -> None:
    assert WINDOW_S == 30 * 60
    text = "".join(_line(minute / 4, f"line {minute}") for minute in range(-400, 20))
    lines = _lines(tmp_path, text)
    assert lines[0].endswith(" line -120")
    assert lines[-1].endswith(" line 19")
    assert len(lines) == 140 > LINES_MAX


def test_a_time_without_a_zone_is_of_this_machine() -> None:
    assert read_time("2026-01-02T12:00:00Z up", None) == NOON
    assert read_time("nothing of a time", NOON) is None


def test_lines_without_a_time_belong_to_the_one_before(tmp_path: Path) -> None:
    text = _line(-40, "old") + "  old trace\n" + _line(-10, "new") + "  new trace\n  more\n"
    assert [line.split()[-1] for line in _lines(tmp_path, text)] == ["new", "trace", "more"]


def test_a_large_log_is_bounded_and_keeps_the_newest(tmp_path: Path) -> None:
    text = "".join(_line(-20 + number / 1000, f"{number} {'x' * 900}") for number in range(9000))
    lines = _lines(tmp_path, text)
    assert all(len(line) <= LINE_CHARS_MAX for line in lines)
    assert LOG_CHARS_MAX // 2 < sum(map(len, lines)) <= LOG_CHARS_MAX
    assert " 8999 " in lines[-1]


def test_a_silent_log_shows_its_last_words_and_one_without_times_its_last_lines(
    tmp_path: Path,
) -> None:
    old = "".join(_line(-90 + number, f"line {number}") for number in range(20))
    assert [line.split()[-1] for line in _lines(tmp_path, old)] == ["15", "16", "17", "18", "19"]
    plain = "".join(f"line {number}\n" for number in range(200))
    assert len(_lines(tmp_path, plain)) == LINES_MAX
    assert _lines(tmp_path, "") == ()
