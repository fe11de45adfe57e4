"""Redacting what flows through: text from outside, without its secrets."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from operator_sre.app.secret_store import KnownValues, open_secrets
from operator_sre.config import Config
from operator_sre.ledger.keys import load_key
from operator_sre.ledger.redaction import Redactor, Stream

__all__ = ["LiveOutput", "Tally", "open_redactor", "redact_stream"]

KEY_FILE = "redaction.key"
CHUNK_BYTES_MAX = 65_536


@dataclass(frozen=True, slots=True)
class Tally:
    """What was read, and how many secrets of each kind were in it."""

    lines: int
    bytes: int
    secrets: int
    kinds: Mapping[str, int]


def open_redactor(config: Config) -> Redactor:
    """The redactor of this home; its key is made at first use, so hashes stay the same here.

    What is kept as a secret here is found wherever it stands, whatever it looks like.
    """
    return Redactor(load_key(config.home / KEY_FILE), KnownValues(open_secrets(config)))


class _Flow:
    """Bytes in, the same without their secrets out; those that are not UTF-8 stay as they are."""

    def __init__(self, redactor: Redactor) -> None:
        self.stream = Stream(redactor)
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")

    def feed(self, data: bytes) -> bytes:
        return self._encoded(self.stream.feed(self._decoder.decode(data)))

    def end(self) -> bytes:
        last = self.stream.feed(self._decoder.decode(b"", final=True))
        return self._encoded(last + self.stream.end())

    @staticmethod
    def _encoded(text: str) -> bytes:
        return text.encode("utf-8", "surrogateescape")


class LiveOutput:
    """What a command says, passed on as it comes, without its secrets.

    A line is passed on when it is whole, and lines that may belong to one secret when its end is
    seen; so a part of a line, or of a key, waits for the rest. `show` says False when it wants no
    more of a stream: the rest of that costs nothing.
    """

    def __init__(self, redactor: Redactor, show: Callable[[int, bytes], bool | None]) -> None:
        self._show = show
        self._flows = {number: _Flow(redactor) for number in (1, 2)}

    def feed(self, number: int, data: bytes) -> None:
        """The next bytes of stdout (1) or stderr (2)."""
        for at in range(0, len(data), CHUNK_BYTES_MAX):
            if flow := self._flows.get(number):
                self._pass_on(number, flow.feed(data[at : at + CHUNK_BYTES_MAX]))

    def end(self) -> None:
        """Pass on what still waits: nothing more comes."""
        for number, flow in tuple(self._flows.items()):
            self._pass_on(number, flow.end())

    def _pass_on(self, number: int, data: bytes) -> None:
        if data and self._show(number, data) is False:
            del self._flows[number]


def redact_stream(
    config: Config, chunks: Iterable[bytes], write: Callable[[bytes], object]
) -> Tally:
    """Pass bytes on without their secrets, as soon as a line is whole.

    Bytes that are not UTF-8 come out as they went in.
    """
    flow = _Flow(open_redactor(config))
    lines = size = 0
    for chunk in chunks:
        lines += chunk.count(b"\n")
        size += len(chunk)
        if said := flow.feed(chunk):
            write(said)
    if last := flow.end():
        write(last)
    counts = dict(sorted(flow.stream.counts.items()))
    return Tally(lines, size, sum(counts.values()), counts)
