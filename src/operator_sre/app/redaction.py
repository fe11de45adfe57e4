"""Redacting what flows through: text from outside, without its secrets."""

from __future__ import annotations

import base64
import codecs
import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import quote, quote_plus

from operator_protocols.errors import StoreError
from operator_sre.app.secret_store import SHOWN_CHARACTERS_MIN, SecretStore, open_secrets
from operator_sre.config import Config
from operator_sre.ledger.keys import load_key
from operator_sre.ledger.redaction import Redactor, Stream

__all__ = ["KnownValues", "LiveOutput", "Tally", "open_redactor", "redact_stream", "redacted_watch"]

KEY_FILE = "redaction.key"
CHUNK_BYTES_MAX = 65_536
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Tally:
    """What was read, and how many secrets of each kind were in it."""

    lines: int
    bytes: int
    secrets: int
    kinds: Mapping[str, int]


class KnownValues:
    """Every value that is kept, as it may stand in a text, so that redaction finds it anywhere.

    Known values stay known: a rotated secret may still be valid for a while.
    """

    def __init__(self, store: SecretStore) -> None:
        self._store = store
        self._stamp: tuple[int, ...] = ()
        self._forms: dict[bytes, bytes] = {}

    def __call__(self) -> Mapping[bytes, bytes]:
        """Each form to the value that it is a form of; the longest first."""
        try:
            status = self._store.path.stat()
        except OSError:
            return self._forms
        stamp = (status.st_ino, status.st_mtime_ns, status.st_size)
        if stamp == self._stamp:
            return self._forms
        forms = dict(self._forms)
        try:
            for secret in self._store.all().values():
                forms |= _forms(self._store.value(secret))
        except StoreError as error:  # continue with the known values
            log.warning("stored secrets cannot be redacted by value: %s", error)
        self._forms = dict(sorted(forms.items(), key=lambda pair: -len(pair[0])))
        self._stamp = stamp
        return self._forms


def _forms(value: str) -> dict[bytes, bytes]:
    """A value as it is, line by line, in JSON, in a URL, and in base64."""
    raw = value.encode("utf-8", "surrogatepass")
    whole = len(raw) // 3 * 3  # what follows may be joined with other bytes
    coded = base64.b64encode(raw[:whole])
    texts = {value, *value.splitlines(), json.dumps(value)[1:-1]}
    texts |= {json.dumps(value, ensure_ascii=False)[1:-1]}
    if value.isprintable():
        texts |= {quote(value), quote(value, safe=""), quote_plus(value)}
    forms = {text.encode("utf-8", "surrogatepass") for text in texts}
    forms |= {coded, coded.translate(bytes.maketrans(b"+/", b"-_"))}
    return {form: raw for form in forms if len(form) >= SHOWN_CHARACTERS_MIN and form.strip()}


def open_redactor(config: Config) -> Redactor:
    """The redactor of this home; its key is made at first use, so hashes stay the same here.

    What is kept as a secret here is found wherever it stands, whatever it looks like.
    """
    return Redactor(load_key(config.home / KEY_FILE), KnownValues(open_secrets(config)))


class _Flow:
    """Redacts a stream of bytes; bytes that are not UTF-8 pass unchanged."""

    def __init__(self, redactor: Redactor) -> None:
        self.stream = Stream(redactor)
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")

    def feed(self, data: bytes) -> bytes:
        return self._encode(self.stream.feed(self._decoder.decode(data)))

    def end(self) -> bytes:
        last = self.stream.feed(self._decoder.decode(b"", final=True))
        return self._encode(last + self.stream.end())

    @staticmethod
    def _encode(text: str) -> bytes:
        return text.encode("utf-8", "surrogateescape")


class LiveOutput:
    """The output of a command, passed on live without secrets.

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


@contextmanager
def redacted_watch(
    config: Config, watch: Callable[[int, bytes], bool | None] | None
) -> Iterator[Callable[[int, bytes], None] | None]:
    """What a command is watched with, so that `watch` gets its output without secrets."""
    if watch is None:
        yield None
        return
    live = LiveOutput(open_redactor(config), watch)
    try:
        yield live.feed
    finally:
        live.end()


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
        if clean := flow.feed(chunk):
            write(clean)
    if last := flow.end():
        write(last)
    counts = dict(sorted(flow.stream.counts.items()))
    return Tally(lines, size, sum(counts.values()), counts)
