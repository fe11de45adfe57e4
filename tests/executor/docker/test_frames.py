"""The frames of an engine come apart wherever they are cut, and none is trusted with memory."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operator_sre.executor.docker import EngineError
from operator_sre.executor.docker.answers import Frames


def _frame(number: int, content: bytes) -> bytes:
    return struct.pack(">B3xL", number, len(content)) + content


@given(
    st.lists(st.tuples(st.sampled_from([1, 2]), st.binary(max_size=40)), max_size=8),
    st.integers(1, 9),
)
def test_they_come_out_as_they_went_in(frames: list[tuple[int, bytes]], step: int) -> None:
    stream = b"".join(_frame(number, content) for number, content in frames)
    parser = Frames(is_plain=False)
    found = [
        piece
        for start in range(0, len(stream), step)
        for piece in parser.feed(stream[start : start + step])
    ]
    for number in (1, 2):
        went = b"".join(content for one, content in frames if one == number)
        assert b"".join(content for one, content in found if one == number) == went


def test_a_frame_of_any_size_passes_in_pieces() -> None:
    parser = Frames(is_plain=False)
    assert list(parser.feed(struct.pack(">B3xL", 2, 2**32 - 1))) == []
    assert list(parser.feed(b"x" * 10)) == [(2, b"x" * 10)]


def test_plain_bytes_are_stdout() -> None:
    parser = Frames(is_plain=True)
    assert list(parser.feed(b"\x02\0\0\0")) == [(1, b"\x02\0\0\0")]
    assert list(parser.feed(b"")) == []


@pytest.mark.parametrize("header", [b"garbage!", b"\x03\0\0\0\0\0\0\1", b"\1\1\0\0\0\0\0\1"])
def test_what_is_no_frame_is_refused(header: bytes) -> None:
    with pytest.raises(EngineError, match="does not answer as Docker does"):
        list(Frames(is_plain=False).feed(header))
