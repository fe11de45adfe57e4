"""Tables beside the ledger hold nothing that does not follow from it."""

from __future__ import annotations

import pytest

from operator_protocols.errors import LedgerDamagedError, StoreError
from operator_sre.store.projections import PROJECTED, project
from operator_sre.store.rebuild import Difference, Rebuilt, rebuild, walk
from operator_sre.store.schema import PROJECTIONS
from operator_sre.store.sqlite import scratch
from tests.contract.samples import violation
from tests.store.life import Estate, quietly

# What somebody may do to a table behind the store's back, and what is said of it.
MEDDLING = {
    "DELETE FROM tickets WHERE id = 1": Difference("tickets", 1, 0, 0),
    "UPDATE tickets SET state = 'open' WHERE id = 1": Difference("tickets", 0, 0, 1),
    "DELETE FROM violations": Difference("violations", 5, 0, 0),
    "UPDATE permits SET used = 0": Difference("permits", 0, 0, 1),
    "UPDATE approvals SET id = 'z' WHERE id = 'b'": Difference("approvals", 1, 1, 0),
    "INSERT INTO runs VALUES ('run-z', 1, 1, 'm', 'running', '', '', '')": Difference(
        "runs", 0, 1, 0
    ),
    "UPDATE commands SET command = 'rm -rf /'": Difference("commands", 0, 0, 1),
    "UPDATE kill_switch SET is_on = 1": Difference("kill_switch", 0, 0, 1),
    "DELETE FROM modes": Difference("modes", 1, 0, 0),
    "UPDATE sessions SET held = 1": Difference("sessions", 0, 0, 1),
    "DELETE FROM resets": Difference("resets", 1, 0, 0),
    "DELETE FROM patterns": Difference("patterns", 2, 0, 0),
    "UPDATE standing_rules SET revoked = 0": Difference("standing_rules", 0, 0, 1),
    "UPDATE confirmations SET state = 'approved'": Difference("confirmations", 0, 0, 3),
    "UPDATE silences SET until = 9": Difference("silences", 0, 0, 2),
    "UPDATE tickets SET flapping = 0": Difference("tickets", 0, 0, 1),
    "UPDATE workflows SET epoch = 9": Difference("workflows", 0, 0, 2),
    "UPDATE alerts SET firing = 1": Difference("alerts", 0, 0, 1),
    "UPDATE tokens SET fingerprint = 'mine' WHERE id = 'token-2'": Difference("tokens", 0, 0, 1),
    "UPDATE spending SET usd = 0": Difference("spending", 0, 0, 1),
    "DELETE FROM workflow_steps WHERE place = 0": Difference("workflow_steps", 2, 0, 0),
}


def test_every_row_follows_from_the_ledger(lived: Estate) -> None:
    for rows in lived.change(*(f"SELECT * FROM {table}" for table in PROJECTIONS)):  # noqa: S608
        assert rows
    assert rebuild(lived.upkeep.database, progress=quietly) == ()


@pytest.mark.parametrize("statement", MEDDLING, ids=lambda text: text.split(" WHERE")[0])
def test_a_rebuild_finds_the_difference_and_mends_it(lived: Estate, statement: str) -> None:
    tables = [f"SELECT * FROM {table} ORDER BY 1, 2" for table in PROJECTIONS]  # noqa: S608
    before = lived.change(*tables)
    lived.change(statement)
    assert lived.upkeep.rebuild(progress=quietly) == (MEDDLING[statement],)
    assert lived.change(*tables) == before
    assert lived.upkeep.rebuild(progress=quietly) == ()


def test_all_projections_can_be_thrown_away(lived: Estate) -> None:
    tables = [f"SELECT * FROM {table} ORDER BY 1, 2" for table in PROJECTIONS]  # noqa: S608
    before = lived.change(*tables)
    lived.change(*(f"DELETE FROM {table}" for table in PROJECTIONS))  # noqa: S608
    found = lived.upkeep.rebuild(progress=quietly)
    assert {one.table for one in found} == set(PROJECTIONS)
    assert sum(one.rows for one in found) == sum(one.missing for one in found)
    assert lived.change(*tables) == before


def test_a_rebuild_tells_how_far_it_is(lived: Estate) -> None:
    told: list[int] = []
    lived.upkeep.rebuild(progress=told.append)
    assert told[-1] == lived.change("SELECT max(seq) FROM entries")[0][0][0]


def test_nothing_is_made_from_an_entry_that_was_edited(lived: Estate) -> None:
    tickets = "SELECT * FROM tickets"
    before = lived.change(tickets)
    (_, body), *_ = lived.change("SELECT seq, body FROM entries WHERE seq = 2")[0]
    assert isinstance(body, bytes)
    connection = lived.upkeep.database.session()
    forged = body.replace(b"node-3", b"node-9")
    connection.execute("UPDATE entries SET body = ? WHERE seq = 2", (forged,))
    connection.close()
    with pytest.raises(LedgerDamagedError, match="Entry 2 is damaged"):
        lived.upkeep.rebuild(progress=quietly)
    assert lived.change(tickets) == before


def test_what_is_written_meanwhile_is_followed_too(lived: Estate) -> None:
    written = False

    def write_more(count: int) -> None:
        nonlocal written
        if not written:
            written = True
            lived.do(lambda store: store.tickets.open([violation("node-9")]))

    lived.think(*({"n": n} for n in range(500)))
    assert lived.upkeep.rebuild(progress=write_more) == ()
    assert written


def test_a_purge_meanwhile_means_to_begin_again(lived: Estate) -> None:
    def purge(count: int) -> None:
        statement = "UPDATE entries SET kind = 'purged' WHERE seq = (SELECT max(seq) FROM entries)"
        lived.think({"n": 0})
        lived.change(statement)

    lived.think(*({"n": n} for n in range(500)))
    with pytest.raises(StoreError, match="purged meanwhile"):
        lived.upkeep.rebuild(progress=purge)


def test_following_stops_nowhere_and_skips_nothing(lived: Estate) -> None:
    connection = lived.upkeep.database.session()
    rows = list(walk(connection))
    connection.close()
    assert [row.seq for row in rows] == list(range(1, len(rows) + 1))
    assert {row.kind for row in rows} >= {kind.value for kind in PROJECTED if kind != "refused"}
    rebuilt = Rebuilt()
    for row in rows:
        rebuilt.take(row)
    assert rebuilt.seq == len(rows)
    rebuilt.close()


def test_a_scratch_has_the_tables_and_nothing_else() -> None:
    connection = scratch("tickets", "violations")
    made = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    assert {name for (name,) in made} == {"tickets", "violations"}
    assert project.__doc__
    connection.close()
