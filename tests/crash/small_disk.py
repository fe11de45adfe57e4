"""Writes until there is no room: `python -m tests.crash.small_disk limit|ballast FOLDER`.

Prints what was acknowledged, what the error said, and what was there when there was room again.
"""

from __future__ import annotations

import asyncio
import json
import resource
import sys
from pathlib import Path

from operator_protocols.domain.entry import Draft, Kind
from operator_protocols.errors import StoreError
from operator_sre.clock import SystemClock
from operator_sre.ledger import KeyFile, verify
from operator_sre.store import Store
from tests.store.life import Estate

BALLAST_BYTES = 1_500_000
GROUP = 4
BEHIND = 20


def _draft(number: int) -> Draft:
    return Draft(Kind.REASONING, {"number": number, "text": "x" * 5000})


async def _fill(store: Store) -> tuple[list[int], str]:
    acknowledged: list[int] = []
    while True:
        start = len(acknowledged)
        drafts = [_draft(number) for number in range(start, start + GROUP)]
        done = await asyncio.gather(*map(store.journal.append, drafts), return_exceptions=True)
        for one in done:
            if isinstance(one, StoreError):
                return acknowledged, str(one)
            assert not isinstance(one, BaseException), one
            acknowledged.append(one.seq)


async def _go_on(store: Store) -> int:
    for number in range(BEHIND):
        await store.journal.append(Draft(Kind.REASONING, {"behind": number}))
    return BEHIND


def _grow_only_to(size_bytes: int) -> None:
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, most))


def _main(how: str, folder: Path) -> None:
    ballast = folder / "ballast"
    if how == "ballast":
        ballast.write_bytes(b"x" * BALLAST_BYTES)
    estate = Estate(str(folder / "operator.db"), folder, SystemClock())
    store = estate.open()
    if how == "limit":
        _grow_only_to(BALLAST_BYTES)
    acknowledged, error = asyncio.run(_fill(store))
    if how == "limit":
        _grow_only_to(resource.RLIM_INFINITY)
    else:
        ballast.unlink()
    behind = asyncio.run(_go_on(store))
    store.close()
    store = estate.open()
    report = verify(
        store.entries, store.checkpoints, trusted_key=KeyFile(folder / "ledger.key").key
    )
    lost = [
        seq
        for number, seq in enumerate(acknowledged)
        if (entry := store.entries.get(seq)) is None or entry.payload["number"] != number
    ]
    store.close()
    told = {"acknowledged": len(acknowledged), "error": error, "behind": behind, "lost": lost}
    sys.stdout.write(json.dumps(told | {"whole": report.whole}))


if __name__ == "__main__":
    _main(sys.argv[1], Path(sys.argv[2]))
