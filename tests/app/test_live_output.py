"""Output that is passed on while it comes has no secrets, wherever it is cut."""

from __future__ import annotations

import random

import pytest

from operator_sre.app.redaction import LiveOutput
from operator_sre.ledger.redaction import Redactor

REDACTOR = Redactor(b"k" * 32)
SECRET = "AKIA" + "Q3EGRZ7TYUPLMN4X"
BODY = "\n".join("MIIEvQIBADANBgkqhkiG9w0BAQEFAASC" for _ in range(9))
KIND = "RSA PRIVATE KEY"
TEXT = (
    "first gr\u00fc\u00df\n"
    f"aws_access_key_id = {SECRET}\n"
    f"-----BEGIN {KIND}-----\n{BODY}\n-----END {KIND}-----\n"
    "password: 'hunter2-and-more'\nlast without an end"
).encode() + b"\xff\xc3"


class _Heard:
    def __init__(self) -> None:
        self.parts: list[tuple[int, bytes]] = []

    def show(self, number: int, data: bytes) -> None:
        self.parts.append((number, data))

    def of(self, number: int) -> bytes:
        return b"".join(data for stream, data in self.parts if stream == number)


@pytest.mark.parametrize("seed", range(20))
def test_wherever_it_is_cut_the_secrets_are_gone_and_the_rest_is_whole(seed: int) -> None:
    cuts = sorted(random.Random(seed).choices(range(len(TEXT)), k=seed * 3))
    heard = _Heard()
    live = LiveOutput(REDACTOR, heard.show)
    for start, end in zip([0, *cuts], [*cuts, len(TEXT)], strict=True):
        live.feed(1, TEXT[start:end])
        live.feed(2, b"beside\n")
    live.end()
    said = heard.of(1)
    for part in (SECRET.encode(), b"MIIEvQ", b"hunter2"):
        assert part not in said
    assert said.startswith("first gr\u00fc\u00df\n".encode())
    assert said.endswith(b"last without an end\xff\xc3")
    assert said.count(b"[REDACTED:") == 3
    assert heard.of(2) == b"beside\n" * (len(cuts) + 1)


def test_a_line_is_passed_on_when_it_is_whole() -> None:
    heard = _Heard()
    live = LiveOutput(REDACTOR, heard.show)
    live.feed(1, b"half a ")
    assert heard.parts == []
    live.feed(2, b"warning\n")
    live.feed(1, b"line\nand")
    assert heard.parts == [(2, b"warning\n"), (1, b"half a line\n")]
    live.end()
    assert heard.parts[-1] == (1, b"and")


def test_whoever_wants_no_more_is_told_no_more() -> None:
    parts: list[bytes] = []

    def show(number: int, data: bytes) -> bool:
        parts.append(data)
        return number == 2

    live = LiveOutput(REDACTOR, show)
    for _ in range(3):
        live.feed(1, b"one\n")
        live.feed(2, b"two\n")
    live.feed(1, b"x" * 1_000_000)
    live.end()
    assert parts == [b"one\n", b"two\n", b"two\n", b"two\n"]
