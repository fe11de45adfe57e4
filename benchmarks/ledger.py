"""How fast the ledger appends and verifies, beside the bare driver doing the same durable work.

    .venv/bin/python benchmarks/ledger.py [--seconds 1] [--rounds 9] [--verify 200000]

The bare driver inserts the same rows into the same table with the same indexes, in groups of as
many as there are producers, each group one durable transaction; it chains, signs and indexes
nothing. Both take turns, on fresh files each time; the figures are medians of their rounds.

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

from operator_protocols.domain.entry import Draft, Kind
from operator_sre.chain import body_of
from operator_sre.clock import SystemClock
from operator_sre.ledger import KeyFile, verify
from operator_sre.store import Store, open_store
from operator_sre.store.sqlite import SqliteDatabase

PAYLOAD = {
    "reasoning": "Hypotheses: process_dead at node-2 57%, process_paused at node-2 17%.",
    "calls": [{"call": "act", "with": {"tool": "shell", "target": "node-2"}}],
}


def bare(folder: Path, producers: int, seconds: float) -> float:
    """Entries a second of the bare driver, in groups."""
    SqliteDatabase(folder / "bare.db").prepare()
    connection = sqlite3.connect(folder / "bare.db", isolation_level=None)
    connection.execute("PRAGMA synchronous = FULL")
    draft = Draft(Kind.REASONING, PAYLOAD, ticket=1, run="run-1")
    body = body_of(seq=10_000, at=SystemClock().now(), draft=draft)
    seq, until = 0, time.perf_counter() + seconds
    started = time.perf_counter()
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
    rate = seq / (time.perf_counter() - started)
    connection.close()
    return rate


async def ours(store: Store, producers: int, seconds: float) -> float:
    """Entries a second of the ledger, each producer waiting for its entry to be durable."""
    until = time.perf_counter() + seconds
    counts = [0] * producers

    async def produce(number: int) -> None:
        while time.perf_counter() < until:
            await store.journal.append(
                Draft(Kind.REASONING, PAYLOAD, ticket=number, run=f"run-{number}")
            )
            counts[number] += 1

    started = time.perf_counter()
    await asyncio.gather(*(produce(number) for number in range(producers)))
    return sum(counts) / (time.perf_counter() - started)


def caught_up(store: Store) -> float:
    """Seconds until the index has all that was written."""
    started = time.perf_counter()
    while store.search.behind():
        time.sleep(0.005)
    return time.perf_counter() - started


def append_table(seconds: float, rounds: int) -> None:
    """Bare and ours in turns, so that a change of the machine's mood hits both."""
    say(f"{'producers':>10}{'bare/s':>12}{'ledger/s':>12}{'ratio':>8}{'index behind':>16}")
    for producers in (1, 16):
        bares, ledgers, behinds = [], [], []
        for _ in range(rounds):
            with tempfile.TemporaryDirectory() as folder:
                bares.append(bare(Path(folder), producers, seconds))
                key = KeyFile(Path(folder) / "ledger.key")
                store = open_store(Path(folder) / "ours.db", clock=SystemClock(), signer=key)
                ledgers.append(asyncio.run(ours(store, producers, seconds)))
                behinds.append(caught_up(store))
                store.close()
        one, other = statistics.median(bares), statistics.median(ledgers)
        worst = f"{max(behinds):.2f} s at most"
        say(f"{producers:10}{one:12.0f}{other:12.0f}{other / one:8.2f}{worst:>16}")


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
