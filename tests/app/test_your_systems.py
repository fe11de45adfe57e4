"""docs/your-systems.md, step by step: from an empty folder to a true finding."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from operator_protocols.domain.ticket import TicketState
from operator_sre.clock import SystemClock
from operator_sre.store import open_store
from tests.contract.servers import unused_port
from tests.e2e.waiting import eventually
from tests.subjects.declarative.test_five_minutes import Reader, listens

DOCUMENT = Path(__file__).parents[2] / "docs" / "your-systems.md"
_BLOCK = re.compile(r"^```sh([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
STEPS = [
    "python3 -m http.server 8080 --bind 127.0.0.1",
    "operator discover",
    "operator discover --yes",
    "operator subjects check web-8080",
    "operator up --all",
    "operator tickets list",
]


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    made = Reader(tmp_path)
    made.shop.mkdir()
    made.environ["OPERATOR_INTERVAL_S"] = "1"
    yield made
    made.end()


def ended(home: Path) -> bool | None:
    """Whether the ticket of the reader was escalated."""
    store = open_store(home / "operator.db", clock=SystemClock())
    try:
        states = [ticket.state for ticket in store.tickets.find()]
    finally:
        store.close()
    return TicketState.ESCALATED in states or None


def test_a_reader_comes_from_nothing_to_a_true_finding(reader: Reader) -> None:
    found = [(words.strip(), text.strip()) for words, text in _BLOCK.findall(DOCUMENT.read_text())]
    assert [text for _, text in found] == STEPS
    with unused_port() as port:
        # One server only: what else runs on the machine of the tests is none of our business.
        steps = [
            (words, re.sub(r"^operator discover", f"operator discover --port {port}", text))
            for words, text in ((words, text.replace("8080", str(port))) for words, text in found)
        ]
    home = reader.folder / "home"
    for words, text in steps:
        if text == "operator tickets list":
            eventually(partial(reader.is_healthy, f"web-{port}"), "it was checked", within_s=90.0)
            reader.running[0].end()
            eventually(partial(ended, home), "the ticket is escalated", within_s=90.0)
        if words == "background":
            reader.running.append(reader.start(text))
            if "http.server" in text:
                eventually(lambda: listens(port) or None, "the web server listens")
        else:
            reader.said.append(reader.ask(text))
    proposed, written, checked, listed = reader.said
    assert f"web-{port}" in proposed
    assert "GET / answers 200" in proposed
    assert f"web-{port}" in written
    assert (reader.shop / f"web-{port}.yaml").exists()
    assert 'mode = "observe"' in (reader.shop / "operator.toml").read_text()
    assert "healthy" in checked
    assert "escalated" in listed
    assert f"web-{port}: the process is not running (most likely" in listed
    shown = reader.ask("operator tickets show 1")
    assert "connection refused" in shown
    again = reader.ask(f"operator discover --port {port}")
    assert "GET / answers" not in again
