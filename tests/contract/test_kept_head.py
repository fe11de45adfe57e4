"""The head that is kept outside of a store: an older or another one in its place is noticed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from operator_protocols.domain.action import Action
from operator_protocols.domain.entry import Actor, Draft, Kind
from operator_protocols.domain.permit import Permit
from operator_protocols.domain.verdict import Mode
from operator_protocols.errors import LedgerDamagedError, StoreError
from operator_sre.ledger import KeyFile
from operator_sre.store import Store, open_store_at
from operator_sre.store.entries import KeptHead, read_head
from operator_sre.store.maintenance import Maintenance
from operator_sre.store.schema import LAYOUT
from operator_sre.store.store import database_at
from operator_sre.store.transaction import Rules
from tests.contract.clock import HeldClock
from tests.contract.doing import Doer
from tests.contract.stores import URL, Home

pytestmark = pytest.mark.asyncio

ADA = Actor("ada", "user")
NOTE = Draft(Kind.OBSERVED, {"n": 1})


class Place:
    """One store with a home beside it, and copies of what it held."""

    def __init__(self, home: Home, clock: HeldClock) -> None:
        url = home.folder / URL
        self.folder = home.folder
        self.clock = clock
        self.where: Any = url.read_text() if url.exists() else home.folder / "operator.db"

    def rules(self, name: str = "ledger.key") -> Rules:
        """As a new process has them."""
        signer = KeyFile(self.folder / name)
        head = KeptHead(self.folder / "operator.head", signer, self.clock, store="this")
        return Rules(self.clock, signer=signer, head=head)

    @contextmanager
    def opened(self) -> Iterator[Store]:
        """As another process would have it."""
        store = open_store_at(self.where, self.rules())
        try:
            yield store
        finally:
            store.close()

    def copy(self) -> dict[str, list[Any]]:
        """All that is in it."""
        with closing(database_at(self.where).session()) as session:
            return {one: session.execute(LAYOUT.select(one)).fetchall() for one in LAYOUT.tables}

    def put_back(self, copied: dict[str, list[Any]]) -> None:
        """An older copy in its place, as somebody with the file or the server could do."""
        database = database_at(self.where)
        with closing(database.session()) as session:
            database.begin(session)
            for name, rows in copied.items():
                session.execute(f"DELETE FROM {name}")  # noqa: S608
                session.executemany(LAYOUT.insert(name), rows)
            session.execute("COMMIT")

    @property
    def kept(self) -> int:
        """The number in the file."""
        told = read_head(self.folder / "operator.head")
        assert told is not None
        return told[0][0]


@pytest.fixture
def place(home: Home, clock: HeldClock) -> Place:
    return Place(home, clock)


async def test_an_older_copy_is_refused_for_acting_and_can_be_read(place: Place) -> None:
    with place.opened() as store:
        await store.switch.turn_on(by="ada", reason="for the copy")
        await store.switch.turn_off(by="ada", reason="go")
        old = place.copy()
        await store.switch.turn_on(by="ada", reason="stop")
        last = (await store.journal.append(NOTE)).seq
    assert place.kept == last
    place.put_back(old)
    for ends in (2, 3):
        with place.opened() as store:
            why = f"was replaced: it ends at entry {ends}"
            with pytest.raises(LedgerDamagedError, match=why) as told:
                store.must_be_whole()
            assert "operator store restore FILE" in str(told.value)
            assert store.switch.state().on
            assert [one.seq for one in store.entries.after(0, limit=9)][:2] == [1, 2]
            await store.journal.append(NOTE)
        assert place.kept == last, "who writes to the older one does not make it the newer one"
    with place.opened() as store:
        for _ in range(3):
            await store.journal.append(NOTE)
        assert store.entries.get(last) is not None
        with pytest.raises(LedgerDamagedError, match=f"entry {last} differs"):
            store.must_be_whole()


async def test_nothing_begins_on_an_older_copy(place: Place) -> None:
    with place.opened() as store:
        doer = await Doer.hired(store, place.clock)
        permit = await doer.gate.permit(
            doer.gate.judge(Action.shell("systemctl restart db")), doer.ticket
        )
        old = place.copy()
        await store.modes.set("shop", Mode.OBSERVE, by="ada", reason="")
    place.put_back(old)
    assert isinstance(permit, Permit)
    with place.opened() as store:
        with pytest.raises(LedgerDamagedError, match="was replaced"):
            await store.intents.begin(permit)
        assert [one.kind for one in store.entries.newest(limit=1)] == [Kind.PERMIT_MINTED]


async def test_the_file_may_lag_behind_a_crash_and_is_never_ahead(place: Place) -> None:
    with place.opened() as store:
        await store.journal.append(NOTE)
        assert place.kept == 1
        for _ in range(5):
            await store.journal.append(NOTE)
            assert place.kept == 1, "not more than once in a second"
        place.clock.advance(1.0)
        await store.journal.append(NOTE)
        assert place.kept == 7
        await store.journal.append(NOTE)
        await store.switch.turn_on(by="ada", reason="")
        assert place.kept == 9, "a decision is kept at once"
        await store.journal.append(NOTE)
        with place.opened() as other:
            other.must_be_whole()  # the file is behind, as after a crash
    assert place.kept == 10, "whoever closes it keeps what is left"
    assert not list(place.folder.glob(".operator.head*"))


async def test_restoring_a_backup_is_recorded_and_counts_from_there(
    place: Place, tmp_path: Path
) -> None:
    saved = tmp_path / "saved.db"
    with place.opened() as store:
        await store.modes.set("shop", Mode.EXECUTE, by="ada", reason="meant")
    upkeep = Maintenance(database_at(place.where), place.rules(), tmp_path / "backups")
    upkeep.backup(saved, force=False, progress=lambda count: None)
    with place.opened() as store:
        for _ in range(4):
            last = await store.journal.append(NOTE)
    done = upkeep.restore(
        saved, force=True, progress=lambda count: None, by=ADA, reason="disk failed"
    )
    with place.opened() as store:
        store.must_be_whole()
        assert [one.mode for one in store.modes.find("shop")] == [Mode.EXECUTE]
        (entry,) = store.entries.newest(limit=1)
        assert (entry.kind, entry.actor.id) == (Kind.STORE_RESTORED, "ada")
        assert entry.payload["reason"] == "disk failed"
        assert entry.payload["from"] == {"seq": last.seq, "hash": last.hash}
        assert entry.payload["to"] == {"seq": done.seq, "hash": done.head}
    assert place.kept == done.seq + 1


async def test_a_file_that_this_home_did_not_sign_is_refused(place: Place) -> None:
    with place.opened() as store:
        await store.journal.append(NOTE)
    file = place.folder / "operator.head"
    good = file.read_text()
    for bad in ("", "{}", good.replace('"seq": 1', '"seq": 0'), good.replace("this", "that"), "[]"):
        file.write_text(bad)
        with place.opened() as store, pytest.raises(LedgerDamagedError, match=r"operator\.head"):
            store.must_be_whole()
    file.write_text(good)
    stranger = place.rules("another.key")
    assert stranger.head is not None
    with pytest.raises(StoreError, match="not written by this home"):
        stranger.head.read()
    file.unlink()
    with place.opened() as store:
        store.must_be_whole()
