"""How fast the ledger appends and verifies, beside the bare driver doing the same durable work.

    .venv/bin/python benchmarks/ledger.py [--seconds 1] [--rounds 9] [--verify 200000]

The bare driver inserts the same rows into the same table with the same indexes, in groups of as
many as there are producers, each group one durable transaction; it chains, signs and indexes
nothing. Both take turns, on fresh files each time; the rates are medians of their rounds, and the
ratio is the median of what each pair of rounds gave, so that the machine's moods hit both. "us" is
processor time for an entry, in the least disturbed round, of the process that appends: with 16
producers the index is filled by a process beside it, on another core where there is one.

Promises: 16 producers at least 0.5 of the bare driver and above 20,000 entries/s, with the search
index at most a second behind; one producer within 1.5 times of a bare durable insert; verify at
least 200,000 entries/s.
"""

from __future__ import annotations

import argparse
import asyncio
import sqlite3
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from operator_protocols.domain.entry import Draft, Kind
from operator_sre.chain import body_of
from operator_sre.clock import SystemClock
from operator_sre.ledger import KeyFile, verify
from operator_sre.store import Store, open_store
from operator_sre.store.sqlite import SqliteDatabase

BEHIND_S_MAX = 60.0
WIDTH = 13
PAYLOAD = {
    "reasoning": "Hypotheses: process_dead at node-2 57%, process_paused at node-2 17%.",
    "calls": [{"call": "act", "with": {"tool": "shell", "target": "node-2"}}],
}


class Round(NamedTuple):
    """What one round gave: entries in a second, and processor time for each of them."""

    rate: float
    cpu_us: float


def bare(folder: Path, producers: int, seconds: float) -> Round:
    """The bare driver, in groups."""
    SqliteDatabase(folder / "bare.db").prepare()
    connection = sqlite3.connect(folder / "bare.db", isolation_level=None)
    connection.execute("PRAGMA synchronous = FULL")
    draft = Draft(Kind.REASONING, PAYLOAD, ticket=1, run="run-1")
    body = body_of(seq=10_000, at=SystemClock().now(), draft=draft)
    seq, until = 0, time.perf_counter() + seconds
    started, cpu = time.perf_counter(), time.process_time()
    while time.perf_counter() < until:
        rows = [
            (seq + n, body, body[:32], body[:32], body[:32], "reasoning", 0.0, n, f"run-{n}", "o")
            for n in range(1, producers + 1)
        ]
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany(
            "INSERT INTO entries (seq, body, digest, previous, hash, kind, at, ticket, run, actor)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            rows,
        )
        connection.execute("COMMIT")
        seq += producers
    found = _round(seq, started, cpu)
    connection.close()
    return found


def _round(entries: int, started: float, cpu: float) -> Round:
    spent = time.process_time() - cpu
    return Round(entries / (time.perf_counter() - started), spent / entries * 1e6)


async def ours(store: Store, producers: int, seconds: float) -> Round:
    """The ledger, each producer waiting for its entry to be durable."""
    until = time.perf_counter() + seconds
    counts = [0] * producers

    async def produce(number: int) -> None:
        while time.perf_counter() < until:
            await store.journal.append(
                Draft(Kind.REASONING, PAYLOAD, ticket=number, run=f"run-{number}")
            )
            counts[number] += 1

    started, cpu = time.perf_counter(), time.process_time()
    await asyncio.gather(*(produce(number) for number in range(producers)))
    return _round(sum(counts), started, cpu)


def caught_up(store: Store) -> float:
    """Seconds until the index has all that was written."""
    started = time.perf_counter()
    while left := store.search.behind():
        if time.perf_counter() - started > BEHIND_S_MAX:
            raise SystemExit(f"The index is {left} entries behind, {BEHIND_S_MAX:.0f} s later.")
        time.sleep(0.005)
    return time.perf_counter() - started


def append_table(seconds: float, rounds: int) -> None:
    """Bare and ours in turns, in another order each time."""
    names = ("producers", "bare/s", "ledger/s", "ratio", "bare us", "ledger us", "index behind")
    say("".join(f"{name:>{WIDTH}}" for name in names))
    for producers in (1, 16):
        bares: list[Round] = []
        ledgers: list[Round] = []
        behinds: list[float] = []
        for number in range(rounds):
            for turn in (number % 2, 1 - number % 2):
                with tempfile.TemporaryDirectory() as folder:
                    if turn:
                        bares.append(bare(Path(folder), producers, seconds))
                        continue
                    round_, behind = _ledger_round(Path(folder), producers, seconds)
                    ledgers.append(round_)
                    behinds.append(behind)
        pairs = zip(bares, ledgers, strict=True)
        ratio = statistics.median(one.rate / other.rate for other, one in pairs)
        rates = [statistics.median(one.rate for one in side) for side in (bares, ledgers)]
        times = [min(one.cpu_us for one in side) for side in (bares, ledgers)]
        figures = [f"{producers}", *(f"{rate:.0f}" for rate in rates), f"{ratio:.2f}"]
        figures += [*(f"{cpu:.1f}" for cpu in times), f"{max(behinds):.2f} s"]
        say("".join(f"{figure:>{WIDTH}}" for figure in figures))


def _ledger_round(folder: Path, producers: int, seconds: float) -> tuple[Round, float]:
    key = KeyFile(folder / "ledger.key")
    store = open_store(folder / "ours.db", clock=SystemClock(), signer=key)
    try:
        return asyncio.run(ours(store, producers, seconds)), caught_up(store)
    finally:
        store.close()


def verify_row(entries: int) -> None:
    """Fill a signed ledger and walk it."""
    with tempfile.TemporaryDirectory() as folder:
        key = KeyFile(Path(folder) / "ledger.key")
        store = open_store(Path(folder) / "ours.db", clock=SystemClock(), signer=key)

        async def fill() -> None:
            draft = Draft(Kind.REASONING, PAYLOAD, run="run-1")
            for _ in range(0, entries, 500):
                await asyncio.gather(*(store.journal.append(draft) for _ in range(500)))

        asyncio.run(fill())
        caught_up(store)
        started = time.perf_counter()
        report = verify(store.entries, store.checkpoints, trusted_key=key.key)
        spent = time.perf_counter() - started
        store.close()
        assert report.whole
        say(f"verify: {report.entries} entries, {report.entries / spent:.0f}/s")


def say(line: str) -> None:
    """One line."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=1.0, help="of each round")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--verify", type=int, default=200_000)
    given = parser.parse_args()
    append_table(given.seconds, given.rounds)
    verify_row(given.verify)


if __name__ == "__main__":
    main()
