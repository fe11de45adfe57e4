"""Quick on what is usual, linear on what is hostile. By processor time: neighbours do not count."""

from __future__ import annotations

import pytest

from operator_sre.ledger.redaction import Redactor
from tests.every import every
from tests.ledger.redaction.ordinary import ordinary_lines
from tests.measuring import cpu_s

TYPICAL_MS_MAX = 5.0
# Of four times the text, at most this many times the work: linear is 4, quadratic 16. A busy
# machine can spoil one measurement, not several.
GROWTH_MAX = 8.0
TRIES_MAX = 4
# Below this a measurement says nothing about growth.
NOISE_S = 0.002

HOSTILE = [
    *("password=", "password= ", "password=a&", "password=<", 'password="', 'password=\\"'),
    *('"', "\\", "://a:b", "://a:b@", "http://u:p/", "@", "-----BEGIN PRIVATE KEY-----"),
    *("kind: Secret\ndata:\n  a: b\n", '{"kind":"Secret","data":{"a":"b"}}', '"data":{'),
    *("--password ", "mysql -p ", "mysql ", "echo a | sudo -S ", "docker login ", "password is "),
    *("password for a b c ", "glpat-", "eyJ", "eyJabcdefgh.", "AKIAABCDEFGHIJKLMNOP ", "$6$a$"),
    *("Cookie: a=b; ", "Authorization: ", "a,password\n", "a|password|b\n1|2|3\n", "password=a)"),
    *("[REDACTED:password:00000000]", '"passwords": ["a","b",', "password: |\n", "<password>"),
    *("name: PASSWORD\nvalue: ", "😀password=é", "creds: a / ", "your_a_", "password=your_a_a_"),
    *("1", "a", "=", " ", "\n", "\0", "deadbeef", "key: ", "a.b.c@d.e"),
]


def test_20_kb_of_typical_text_take_less_than_5_ms(redactor: Redactor) -> None:
    text = "\n".join(ordinary_lines(88, 700))[:20_000]
    assert len(text) == 20_000
    redactor.text(text)
    best = min(cpu_s(lambda: redactor.text(text), 5) for _ in range(8))
    assert best * 1000 < TYPICAL_MS_MAX


@every("piece", HOSTILE)
def test_hostile_text_takes_linear_time(redactor: Redactor, piece: str) -> None:
    small = (piece * 6_000)[:6_000]
    large = (piece * 24_000)[:24_000]
    growth = []
    for _ in range(TRIES_MAX):
        first = max(cpu_s(lambda: redactor.text(small), 3), NOISE_S)
        growth.append(cpu_s(lambda: redactor.text(large), 2) / first)
        if growth[-1] < GROWTH_MAX:
            return
    pytest.fail(f"four times the text took {growth} times the work")


def test_a_megabyte_on_one_line_is_taken(redactor: Redactor) -> None:
    text = "x" * 500_000 + " password=hunter2 " + "y" * 500_000
    assert redactor.text(text).count("[REDACTED:") == 1
