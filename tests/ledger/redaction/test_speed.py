"""Quick on what is usual, linear on what is hostile. What it takes in seconds is a benchmark."""

from __future__ import annotations

from operator_sre.ledger.redaction import Redactor
from tests.every import every
from tests.ledger.redaction.naive import naive
from tests.ledger.redaction.ordinary import ordinary_lines
from tests.measuring import GROWTH_MAX, growth, times_as_long

# Seven patterns, where the redactor knows hundreds of names, shapes and places.
NAIVE_TIMES_MAX = 8.0

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


def test_typical_text_costs_a_few_times_what_a_short_list_of_patterns_does(
    redactor: Redactor,
) -> None:
    text = "\n".join(ordinary_lines(88, 700))[:20_000]
    assert len(text) == 20_000
    times = times_as_long(lambda: redactor.text(text), lambda: naive(text), enough=NAIVE_TIMES_MAX)
    assert times <= NAIVE_TIMES_MAX


@every("piece", HOSTILE)
def test_hostile_text_takes_linear_time(redactor: Redactor, piece: str) -> None:
    assert growth(lambda n: redactor.text((piece * n)[:n]), 6_000) <= GROWTH_MAX


def test_a_megabyte_on_one_line_is_taken(redactor: Redactor) -> None:
    text = "x" * 500_000 + " password=hunter2 " + "y" * 500_000
    assert redactor.text(text).count("[REDACTED:") == 1
