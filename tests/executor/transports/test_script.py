"""The script for another place, and what is read back from it."""

from __future__ import annotations

import subprocess

import pytest

from operator_sre.executor.transports.script import Ear, Order, Told, new_token, script_of

TOKEN = "\x1e0123456789abcdef"


def _heard(*pieces: bytes, start: int = 0) -> tuple[Ear, bytes]:
    heard: list[bytes] = []
    ear = Ear(1, TOKEN, start, lambda _, data: heard.append(data))
    for piece in pieces:
        ear.feed(piece)
    return ear, b"".join(heard)


def _all(live: bytes, report: bytes, rest: bytes = b"") -> bytes:
    token = TOKEN.encode()
    return b"noise of a login shell\n" + token + live + token + report + b"\n" + rest


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_a_stream_is_taken_apart_however_it_is_cut(size: int) -> None:
    data = _all(b"li\x1e0v" + TOKEN[:-1].encode() + b"e", b"27 0 - ran 0 1.0 2.5", b"")
    whole = b"li\x1e0v" + TOKEN[:-1].encode() + b"e"
    data = _all(whole, f"{len(whole) + 4} 2 - ran 3 1.0 2.5".encode(), whole[2:] + b"rest")
    ear, heard = _heard(*(data[at : at + size] for at in range(0, len(data), size)))
    assert heard == whole + b"rest"
    assert ear.told == Told(len(whole) + 4, 2, 0, ("ran", "3", "1.0", "2.5"))
    assert not ear.has_gap
    assert ear.position == len(whole) + 4


def test_bytes_that_came_already_are_not_passed_on_twice() -> None:
    _, heard = _heard(_all(b"abcdef", b"8 4 - ran 0", b"efgh"))
    assert heard == b"abcdefgh"


def test_a_gap_is_told_and_nothing_after_it_is_passed_on() -> None:
    ear, heard = _heard(_all(b"ab", b"9 5 - ran 0", b"fghi"))
    assert ear.has_gap
    assert (heard, ear.position) == (b"ab", 2)


def test_what_was_too_much_comes_after_what_was_kept() -> None:
    ear, heard = _heard(_all(b"", b"3 0 100 ran 0", b"abcTAIL"))
    assert heard == b"abcTAIL"
    assert ear.told is not None
    assert ear.told.more == 100


@pytest.mark.parametrize(
    "report", [b"", b"1", b"a b c d", b"-1 0 - ran", b"- 0 - ran", b"9" * 40 + b" 0 - ran"]
)
def test_a_report_that_is_none_is_no_report(report: bytes) -> None:
    assert _heard(_all(b"x", report))[0].told is None


def test_noise_without_an_end_takes_no_memory() -> None:
    ear, heard = _heard(*[b"x" * 65536] * 100, TOKEN.encode() + b"y")
    assert heard == b"y"
    assert ear.position == 1


def test_half_a_script_does_nothing() -> None:
    order = Order(
        "run", new_token()[1:], {"PATH": "/usr/bin:/bin"}, command="echo ran >&2; echo ran"
    )
    whole = script_of(order, TOKEN)
    for part in (whole[: len(whole) // 2], whole[:-2]):
        done = subprocess.run(["/bin/sh"], input=part, capture_output=True, timeout=20, check=False)
        assert TOKEN.encode() not in done.stdout
        assert done.returncode != 0


def test_a_job_of_any_name_stays_in_its_folder() -> None:
    for name in ("../../etc", "a/b", ".", "-rf", "x" * 500, "a b", "'"):
        text = script_of(Order("recover", name, {}), TOKEN).decode()
        line = next(line for line in text.splitlines() if line.startswith("job="))
        assert len(line) == len("job=") + 64
        assert line.removeprefix("job=").isalnum()
    assert "job=good-1.2\n" in script_of(Order("recover", "good-1.2", {}), TOKEN).decode()
