"""Two processes that write as fast as they can make one chain."""

from __future__ import annotations

import pytest

from operator_sre.ledger import KeyFile, verify
from tests.crash.victim import Victim
from tests.store.life import Estate


def _race(estate: Estate, count: int) -> None:
    names = ("left", "right")
    writers = [Victim(estate, "append", name, str(count)) for name in names]
    for writer in writers:
        assert [writer.line(), writer.line()] == ["opening\n", "ready\n"]
    for writer in writers:
        writer.go()
    said = [writer.rest() for writer in writers]
    store = estate.open()
    key = KeyFile(estate.folder / "ledger.key").key
    report = verify(store.entries, store.checkpoints, trusted_key=key)
    assert (report.entries, report.damages) == (2 * count, ())
    for name, (code, lines) in zip(names, said, strict=True):
        assert code == 0
        mine = store.entries.after(0, limit=2 * count, run=name)
        assert [entry.seq for entry in mine] == [int(line) for line in lines]
        assert [entry.payload["number"] for entry in mine] == list(range(count))
    store.close()


def test_two_writers_make_one_chain(estate: Estate) -> None:
    _race(estate, 1_000)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_two_writers_of_ten_thousand_entries_make_one_chain(estate: Estate) -> None:
    _race(estate, 10_000)
