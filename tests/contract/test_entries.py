"""What Entries promise: the ledger as it was written, by number, ticket and run."""

from __future__ import annotations

import pytest
import pytest_asyncio

from operator_protocols.domain.entry import Draft, Entry, Kind
from tests.contract.stores import Home, Ports

pytestmark = pytest.mark.asyncio


@pytest_asyncio.fixture
async def written(ports: Ports) -> list[Entry]:
    """Six entries: tickets 1 1 2 2 - -, runs a b a b a -."""
    places = [(1, "a"), (1, "b"), (2, "a"), (2, "b"), (None, "a"), (None, "")]
    return [
        await ports.journal.append(Draft(Kind.REASONING, {"n": n}, ticket=ticket, run=run))
        for n, (ticket, run) in enumerate(places)
    ]


async def test_an_entry_is_found_by_its_number(ports: Ports, written: list[Entry]) -> None:
    assert [ports.entries.get(entry.seq) for entry in written] == written
    assert ports.entries.get(0) is None
    assert ports.entries.get(7) is None


async def test_after_is_oldest_first_and_excludes_its_start(
    ports: Ports, written: list[Entry]
) -> None:
    assert list(ports.entries.after(0, limit=100)) == written
    assert list(ports.entries.after(2, limit=2)) == written[2:4]
    assert list(ports.entries.after(6, limit=100)) == []


async def test_newest_is_newest_first(ports: Ports, written: list[Entry]) -> None:
    assert list(ports.entries.newest(limit=2)) == [written[5], written[4]]
    assert list(ports.entries.newest(limit=100)) == written[::-1]


@pytest.mark.parametrize(
    ("ticket", "run", "expected"),
    [(1, "", [0, 1]), (2, "", [2, 3]), (None, "a", [0, 2, 4]), (2, "b", [3]), (9, "", [])],
)
async def test_entries_are_chosen_by_ticket_and_run(
    ports: Ports, written: list[Entry], ticket: int | None, run: str, expected: list[int]
) -> None:
    wanted = [written[n] for n in expected]
    assert list(ports.entries.after(0, limit=100, ticket=ticket, run=run)) == wanted
    assert list(ports.entries.newest(limit=100, ticket=ticket, run=run)) == wanted[::-1]
    assert list(ports.entries.after(0, limit=1, ticket=ticket, run=run)) == wanted[:1]


async def test_raw_rows_are_pages_of_what_is_stored(ports: Ports, written: list[Entry]) -> None:
    rows = [*ports.entries.raw(0, limit=4), *ports.entries.raw(4, limit=4)]
    assert [(row[0], row[3].hex(), row[4].hex()) for row in rows] == [
        (entry.seq, entry.previous, entry.hash) for entry in written
    ]
    assert all(isinstance(row[1], bytes) for row in rows)


async def test_a_reader_sees_what_others_write(home: Home) -> None:
    reader, writer = home.open(), home.open()
    assert list(reader.entries.newest(limit=1)) == []
    entry = await writer.journal.append(Draft(Kind.REASONING))
    assert list(reader.entries.newest(limit=1)) == [entry]
