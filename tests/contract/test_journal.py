"""What a Journal promises: one chain, durable, and each key once."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from operator_protocols.domain.entry import Actor, Draft, Kind
from operator_sre.chain import GENESIS, chain_hash, digest_of_body
from tests.contract.clock import NOON, HeldClock
from tests.contract.stores import Home, Ports
from tests.contract.verified import verified

pytestmark = pytest.mark.asyncio

_ANY_TEXT = st.text(st.characters(), max_size=20)  # lone surrogates and control characters too
_ANY_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | _ANY_TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_ANY_TEXT, inner, max_size=3),
    max_leaves=8,
)


async def test_entries_are_numbered_from_one_and_chained(ports: Ports, clock: HeldClock) -> None:
    first = await ports.journal.append(Draft(Kind.REASONING, {"a": 1}))
    clock.advance(2.5)
    second = await ports.journal.append(Draft(Kind.PROOF, {"b": [2]}, ticket=7, run="r"))
    assert (first.seq, first.previous, first.at) == (1, GENESIS.hex(), NOON)
    assert (second.seq, second.previous, second.at) == (2, first.hash, clock.now())
    assert (second.kind, second.payload, second.ticket, second.run) == (
        Kind.PROOF,
        {"b": [2]},
        7,
        "r",
    )


async def test_the_hash_covers_the_stored_bytes_and_the_entry_before(ports: Ports) -> None:
    for number in range(3):
        await ports.journal.append(Draft(Kind.REASONING, {"number": number}))
    previous = GENESIS
    raw = list(ports.entries.raw(0, limit=10))
    assert len(raw) == 3
    for _, body, digest, claimed_previous, linked in raw:
        assert body is not None
        assert claimed_previous == previous
        assert digest == digest_of_body(body)
        assert linked == chain_hash(previous, digest)
        previous = linked


async def test_the_actor_is_remembered(ports: Ports) -> None:
    actor = Actor(id="ada", type="user", agent="reasoner")
    written = await ports.journal.append(Draft(Kind.REASONING, actor=actor))
    read = ports.entries.get(written.seq)
    assert read is not None
    assert read.actor == actor


async def test_a_key_is_written_once_and_returns_the_first_entry(ports: Ports) -> None:
    first = await ports.journal.append(Draft(Kind.REASONING, {"a": 1}, key="k"))
    await ports.journal.append(Draft(Kind.REASONING, {"a": 2}))
    again = await ports.journal.append(Draft(Kind.REASONING, {"a": 3}, key="k"))
    assert again == first
    assert [entry.payload["a"] for entry in ports.entries.after(0, limit=10)] == [1, 2]


async def test_a_key_is_written_once_when_many_ask_at_once(home: Home) -> None:
    handles = [home.open(), home.open()]
    draft = Draft(Kind.REASONING, {}, key="k")
    written = await asyncio.gather(*(handles[n % 2].journal.append(draft) for n in range(40)))
    assert {entry.seq for entry in written} == {1}
    assert len(handles[0].entries.after(0, limit=10)) == 1


async def test_no_key_means_that_nothing_is_taken_for_the_same(ports: Ports) -> None:
    drafts = [Draft(Kind.REASONING, {"same": True})] * 2
    assert [(await ports.journal.append(draft)).seq for draft in drafts] == [1, 2]


async def test_an_entry_is_there_for_others_when_append_returns(home: Home) -> None:
    one, other = home.open(), home.open()
    written = await one.journal.append(Draft(Kind.REASONING, {"a": "ü"}))
    assert other.entries.get(written.seq) == written


async def test_an_entry_survives_a_reopened_database(home: Home) -> None:
    written = await home.open().journal.append(Draft(Kind.REASONING, {"a": 1}))
    home.close()
    assert home.open().entries.get(written.seq) == written


async def test_appends_that_wait_together_keep_their_order(ports: Ports) -> None:
    drafts = [Draft(Kind.REASONING, {"number": number}) for number in range(300)]
    entries = await asyncio.gather(*map(ports.journal.append, drafts))
    assert [entry.seq for entry in entries] == list(range(1, 301))
    assert [entry.payload["number"] for entry in entries] == list(range(300))
    assert verified(ports.entries).whole


async def test_whoever_stops_waiting_does_not_undo_an_append(ports: Ports) -> None:
    waiting = asyncio.ensure_future(ports.journal.append(Draft(Kind.REASONING, {"a": 1})))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    later = await ports.journal.append(Draft(Kind.REASONING, {"a": 2}))
    kept = [entry.payload["a"] for entry in ports.entries.after(0, limit=10)]
    assert kept in ([1, 2], [2])
    assert later.seq == len(kept)
    assert verified(ports.entries).whole


async def test_any_payload_comes_back_as_it_was(home: Home) -> None:
    ports = home.open()

    @settings(max_examples=60, deadline=None)
    @given(payload=st.dictionaries(_ANY_TEXT, _ANY_JSON, max_size=4))
    def comes_back(payload: dict[str, object]) -> None:
        draft = Draft(Kind.REASONING, payload)
        written = asyncio.run(ports.journal.append(draft))
        read = ports.entries.get(written.seq)
        assert read == written
        assert read.payload == payload

    await asyncio.to_thread(comes_back)
    assert verified(ports.entries).whole
