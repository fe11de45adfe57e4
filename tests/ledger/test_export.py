"""Entries for people, in their format, as chosen, and harmless to open."""

from __future__ import annotations

import csv
import json
from datetime import timedelta

import pytest

from operator_protocols.domain.entry import Actor, Entry, Kind
from operator_sre.ledger.bundle import FORMATS, Filter, export_lines
from tests.contract.clock import NOON


def _entry(seq: int = 1, **changes: object) -> Entry:
    fields: dict[str, object] = {
        "seq": seq,
        "at": NOON + timedelta(minutes=seq),
        "kind": Kind.REASONING,
        "payload": {"text": "<script>alert(1)</script>"},
        "ticket": 3,
        "run": "run-a",
        "actor": Actor("ada", "user", "reasoner"),
        "previous": "00",
        "hash": "ff",
    }
    return Entry(**(fields | changes))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("wanted", "kept"),
    [
        (Filter(), True),
        (Filter(run="run-a", ticket=3, actor="ada", kind="reasoning"), True),
        (Filter(actor="reasoner"), True),
        (Filter(actor="bob"), False),
        (Filter(run="run-b"), False),
        (Filter(ticket=4), False),
        (Filter(kind="proof"), False),
        (Filter(since=NOON), True),
        (Filter(since=NOON + timedelta(hours=1)), False),
        (Filter(until=NOON), False),
        (Filter(until=NOON + timedelta(hours=1)), True),
    ],
)
def test_entries_are_chosen(wanted: Filter, kept: bool) -> None:
    assert wanted.keeps(_entry()) is kept


def test_json_lines_hold_every_field() -> None:
    (line,) = export_lines([_entry()], "jsonl")
    record = json.loads(line)
    assert (record["seq"], record["kind"], record["actor"]["id"]) == (1, "reasoning", "ada")
    assert record["payload"] == {"text": "<script>alert(1)</script>"}


def test_a_table_has_one_row_for_each_entry() -> None:
    rows = list(csv.reader(export_lines([_entry(1), _entry(2)], "csv")))
    assert [row[0] for row in rows] == ["seq", "1", "2"]


@pytest.mark.parametrize("start", list("=+-@"))
def test_a_cell_is_never_a_formula(start: str) -> None:
    rows = list(csv.reader(export_lines([_entry(run=f"{start}cmd()")], "csv")))
    assert rows[1][4] == f"'{start}cmd()"


def test_a_page_shows_text_from_outside_as_text() -> None:
    page = "\n".join(export_lines([_entry()], "html"))
    assert "<script>" not in page
    assert "&lt;script&gt;" in page


@pytest.mark.parametrize("style", sorted(FORMATS))
def test_any_text_can_be_written(style: str) -> None:
    hostile = _entry(payload={"text": "\ud800 \x00 \n \" '"})
    text = "\n".join(export_lines([hostile], style))
    assert text.encode("utf-8").decode("utf-8") == text
    assert "\x00" not in text
