"""Head and tail of a stream, within a limit."""

from __future__ import annotations

from pathlib import Path

import pytest

from operator_sre.processes.capture import Capture
from operator_sre.processes.files import last_line, write_atomically


@pytest.mark.parametrize("bytes_max", [0, 1, 2, 5, 191, 192, 193, 1000, 4096])
@pytest.mark.parametrize("chunk", [1, 7, 1000, 5000])
def test_never_more_than_the_limit_is_kept(bytes_max: int, chunk: int) -> None:
    stream = b"".join(b"%05d of many lines\n" % number for number in range(600))
    capture = Capture(bytes_max)
    for start in range(0, len(stream), chunk):
        capture.feed(stream[start : start + chunk])
    kept = capture.kept_bytes()
    assert len(kept) <= bytes_max
    assert capture.seen == len(stream)
    assert capture.truncated
    head, note, tail = kept.partition(b"\n[... ")
    assert stream.startswith(head)
    # Of each end whole lines, at least a quarter of the room but for the one that is cut.
    assert len(head) >= bytes_max // 4 - 20
    if note:
        last = tail.partition(b"\n")[2]
        assert stream.endswith(b"\n" + last)
        assert len(last) >= bytes_max // 4 - 68


@pytest.mark.parametrize("size", [0, 1, 999, 1000])
def test_a_stream_that_fits_is_kept_whole(size: int) -> None:
    capture = Capture(1000)
    for number in range(size):
        capture.feed(bytes([number % 256]))
    assert capture.kept_bytes() == bytes(number % 256 for number in range(size))
    assert not capture.truncated


def test_a_note_says_how_much_is_missing() -> None:
    capture = Capture(1000)
    capture.feed(b"x" * 10_000)
    kept = capture.kept_bytes()
    note = next(line for line in kept.splitlines() if b"left out" in line)
    missing = int(note.split()[1])
    assert missing + kept.count(b"x") == 10_000


def test_a_file_is_replaced_in_one_step_and_private(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    write_atomically(path, "old")
    write_atomically(path, "new")
    assert path.read_text() == "new"
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_a_failed_replacement_leaves_the_old_file_and_no_draft(tmp_path: Path) -> None:
    path = tmp_path / "taken"
    path.mkdir()
    with pytest.raises(OSError, match="directory"):
        write_atomically(path, "new")
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"", ""),
        (b"first\nlast\n", "last"),
        (b"words\n\n  \n", "words"),
        (b"x" * 4_000, "x" * 300),
        (b"password=" + b"x" * 10_000, ""),
        (b"\x1b[31mred\x00\xff\n", "[31mred\ufffd"),
    ],
)
def test_the_last_line_of_a_log_is_short_and_printable(
    tmp_path: Path, text: bytes, said: str
) -> None:
    log = tmp_path / "log"
    log.write_bytes(text)
    assert last_line(log) == said
    assert last_line(tmp_path / "missing") == ""
