"""Output on disk: bounded, hashed, in order, and followed while it grows."""

from __future__ import annotations

import errno
import hashlib
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from operator_sre.processes.runner import output as outputs
from operator_sre.processes.runner.output import (
    KEPT_BYTES_MAX,
    ORDER,
    Follower,
    Output,
    parts_of,
)

PARTS = st.lists(st.tuples(st.sampled_from([1, 2]), st.binary(min_size=1, max_size=20)))


def _joined(parts: list[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
    """Neighbours of one stream as one."""
    found: list[tuple[int, bytes]] = []
    for stream, data in parts:
        if found and found[-1][0] == stream:
            found[-1] = (stream, found[-1][1] + data)
        else:
            found.append((stream, data))
    return found


@settings(max_examples=60, deadline=None)
@given(parts=PARTS)
def test_what_was_said_is_told_in_its_order(
    parts: list[tuple[int, bytes]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("output")
    output = Output(folder)
    for stream, data in parts:
        output.feed(stream, data)
    output.close()
    assert _joined(parts_of(folder)) == _joined(parts)


@settings(max_examples=60, deadline=None)
@given(parts=PARTS, looks=st.sets(st.integers(0, 30)))
def test_whoever_follows_hears_each_byte_once(
    parts: list[tuple[int, bytes]], looks: set[int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder, heard = tmp_path_factory.mktemp("output"), {1: b"", 2: b""}

    def hear(stream: int, data: bytes) -> None:
        heard[stream] += data

    output, follower = Output(folder), Follower(folder, hear)
    for place, (stream, data) in enumerate(parts):
        output.feed(stream, data)
        if place in looks:
            for _ in follower.advance():
                pass
    output.close()
    assert all(piece is None for piece in follower.advance(last=True))
    for stream in (1, 2):
        assert heard[stream] == b"".join(data for one, data in parts if one == stream)


def test_only_so_much_goes_to_disk_and_the_ends_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outputs, "SPOOL_BYTES_MAX", 1000)
    output = Output(tmp_path)
    for number in range(2000):
        output.feed(1, b"%04d" % number)
    output.close()
    stream = output.streams[1]
    assert (tmp_path / "1").stat().st_size == stream.spooled == 1000
    assert stream.sha256 == hashlib.sha256((tmp_path / "1").read_bytes()).hexdigest()
    assert stream.capture.seen == 8000
    assert stream.capture.kept_bytes().endswith(b"1999")
    assert KEPT_BYTES_MAX > 8000
    assert not stream.truncated, "all of it fits into what is shown"


def test_one_stream_needs_no_order(tmp_path: Path) -> None:
    output = Output(tmp_path)
    output.feed(2, b"a")
    output.feed(2, b"b")
    output.close()
    assert not (tmp_path / ORDER).exists()
    assert parts_of(tmp_path) == [(2, b"ab")]


def test_silence_leaves_no_file(tmp_path: Path) -> None:
    output = Output(tmp_path)
    output.close()
    assert list(tmp_path.iterdir()) == []
    assert output.streams[1].sha256 == ""


def test_a_full_disk_costs_the_file_and_not_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(fd: int, data: object) -> int:
        raise OSError(errno.ENOSPC, "no space")

    output = Output(tmp_path)
    monkeypatch.setattr(os, "write", full)
    output.feed(1, b"said")
    monkeypatch.undo()
    output.feed(1, b" more")
    output.close()
    assert output.streams[1].capture.kept_bytes() == b"said more"
    assert output.streams[1].sha256 == "", "what is on disk is not all of it"
