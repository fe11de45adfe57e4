"""Whatever a command may print comes back byte for byte."""

from __future__ import annotations

import random

import pytest

from operator_protocols.domain.entry import Draft, Kind
from operator_sre.store import Store
from tests.contract.verified import verified
from tests.store.life import Estate, quietly

HUGE_BYTES = 5_000_000
PAYLOADS = {
    "every byte": bytes(range(256)),
    "binary": random.Random(3).randbytes(100_000),
    "nul": b"\0" * 1000 + b"a\0b",
    "invalid utf-8": b"\xff\xfe\xc3\x28\xa0\xed\xa0\x80 end",
    "huge": b"0123456789" * (HUGE_BYTES // 10),
    "huge and binary": random.Random(4).randbytes(HUGE_BYTES // 4),
    "escapes": b'"\\\x1b[31m\r\n\t\x7f\xe2\x80\xa8',
}


@pytest.mark.parametrize("name", PAYLOADS)
def test_it_comes_back_byte_for_byte(estate: Estate, name: str) -> None:
    written = PAYLOADS[name]
    text = written.decode("utf-8", "surrogateescape")

    async def write(store: Store) -> None:
        draft = Draft(Kind.REASONING, {"output": text, text[:40]: "as a key"}, run="run-1")
        entry = await store.journal.append(draft)
        assert store.entries.get(entry.seq) == entry

    estate.do(write)
    store = estate.open()
    (entry,) = store.entries.after(0, limit=10, run="run-1")
    assert entry.payload["output"].encode("utf-8", "surrogateescape") == written
    assert entry.payload[text[:40]] == "as a key"
    assert verified(store.entries).whole
    store.close()
    assert estate.upkeep.check(progress=quietly).sound


def test_it_survives_a_backup_and_a_restore(estate: Estate) -> None:
    async def write(store: Store) -> None:
        for payload in PAYLOADS.values():
            text = payload.decode("utf-8", "surrogateescape")
            await store.journal.append(Draft(Kind.REASONING, {"output": text}))

    estate.do(write)
    saved = estate.upkeep.backup(estate.folder / "saved.db", force=False, progress=quietly)
    restored = estate.upkeep.restore(saved.path, force=True, progress=quietly)
    assert restored.head == saved.head
    store = estate.open()
    kept = store.entries.after(0, limit=restored.entries)
    outputs = [entry.payload["output"] for entry in kept]
    assert [text.encode("utf-8", "surrogateescape") for text in outputs] == list(PAYLOADS.values())
    store.close()
