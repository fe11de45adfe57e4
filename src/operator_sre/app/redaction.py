"""Redacting what flows through: text from outside, without its secrets."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from operator_sre.config import Config
from operator_sre.ledger.keys import load_key
from operator_sre.ledger.redaction import Redactor, Stream

__all__ = ["Tally", "open_redactor", "redact_stream"]

KEY_FILE = "redaction.key"


@dataclass(frozen=True, slots=True)
class Tally:
    """What was read, and how many secrets of each kind were in it."""

    lines: int
    bytes: int
    secrets: int
    kinds: Mapping[str, int]


def open_redactor(config: Config) -> Redactor:
    """The redactor of this home; its key is made at first use, so hashes stay the same here."""
    return Redactor(load_key(config.home / KEY_FILE))


def redact_stream(
    config: Config, chunks: Iterable[bytes], write: Callable[[bytes], object]
) -> Tally:
    """Pass bytes on without their secrets, as soon as a line is whole.

    Bytes that are not UTF-8 come out as they went in.
    """
    stream = Stream(open_redactor(config))
    decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
    lines = size = 0

    def pass_on(text: str) -> None:
        if text:
            write(text.encode("utf-8", "surrogateescape"))

    for chunk in chunks:
        lines += chunk.count(b"\n")
        size += len(chunk)
        pass_on(stream.feed(decoder.decode(chunk)))
    pass_on(stream.feed(decoder.decode(b"", final=True)))
    pass_on(stream.end())
    counts = dict(sorted(stream.counts.items()))
    return Tally(lines, size, sum(counts.values()), counts)
