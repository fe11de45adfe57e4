"""How fast a large ledger is searched and listed, beside bare FTS5 and a LIKE scan.

    .venv/bin/python benchmarks/search.py [--entries 1000000] [--times 30] [--store URL]

The ledger is filled once into a file under the temporary directory and kept there: real entries,
chained, with their projections and their index, only not one durable commit for each.

Promises, newest first over 1,000,000 entries: a rare term under 10 ms, a common one under 50 ms;
listing the newest 50, or one run's entries, does not grow with the log.
"""

from __future__ import annotations

import argparse
import math
import random
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from functools import partial
from pathlib import Path

from operator_protocols.domain.action import Action, Outcome, Result
from operator_protocols.domain.command import CommandFilter, Query
from operator_protocols.domain.entry import Draft, Kind
from operator_sre.clock import SystemClock
from operator_sre.codec import to_json
from operator_sre.ledger.history.statistics import parse_query
from operator_sre.store import Store, store_on
from operator_sre.store.database import Connection, Maintained
from operator_sre.store.store import database_at
from operator_sre.store.transaction import Rules, Transaction

RUN_ENTRIES = 20
COMMANDS_PER_RUN = 4
GROUP_RUNS = 500
SMALL = 1000
PAGE = 50
STEPS_MAX = 10_000
RARE_EVERY = 20_000
_LETTERS = random.Random(7)
VOCABULARY = [
    "".join(_LETTERS.choices("abcdefghijklmnopqrstuvwxyz", k=_LETTERS.randint(3, 9)))
    for _ in range(20_000)
]


def story(number: int) -> Iterator[Draft]:
    """The entries of one run, with words that are everywhere and words that are nowhere else."""
    rng = random.Random(number)
    run, ticket = f"run-{number:08x}", number
    yield Draft(Kind.RUN_STARTED, {"model": "reasoner", "worker": "w"}, ticket, run)
    for place in range(COMMANDS_PER_RUN):
        action = Action.shell(
            f"systemctl restart {rng.choice(VOCABULARY)}-{rng.randint(1, 50)}",
            target=f"node-{number % 50}",
            reasoning=f"The node answers no more: {words(rng, 10)}.",
        )
        yield from command(action, f"{run}/{place}", ticket, run, words(rng, 30))
    rare = f"needle{number // RARE_EVERY}" if number % RARE_EVERY == 0 else words(rng, 1)
    yield Draft(Kind.PROOF, {"held": True, "detail": f"{words(rng, 8)} {rare}"}, ticket, run)
    yield Draft(Kind.DIAGNOSIS, {"summary": words(rng, 30)}, ticket, run)
    yield Draft(Kind.RUN_FINISHED, {"state": "completed", "summary": words(rng, 8)}, ticket, run)


def command(action: Action, permit: str, ticket: int, run: str, said: str) -> Iterator[Draft]:
    """What one command leaves in the ledger."""
    minted = {
        "permit": permit,
        "digest": action.digest,
        "policy_digest": "",
        "expires_at": (SystemClock().now() + timedelta(seconds=60)).isoformat(),
        "epoch": 1,
    }
    result = Result(Outcome.RAN, 0, stdout=f"active (running)\n{said}", duration_s=0.1)
    yield Draft(Kind.REASONING, {"reasoning": action.reasoning, "calls": []}, ticket, run)
    yield Draft(Kind.PERMIT_MINTED, minted, ticket, run)
    yield Draft(Kind.TOOL_CALL, {"permit": permit, "action": to_json(action)}, ticket, run)
    yield Draft(Kind.TOOL_RESULT, {"permit": permit, "result": to_json(result)}, ticket, run)


def words(rng: random.Random, count: int) -> str:
    """Words as they come: a few very often, most hardly ever."""
    return " ".join(
        VOCABULARY[min(int(rng.paretovariate(0.6)), len(VOCABULARY)) - 1] for _ in range(count)
    )


def filled(where: str, entries: int) -> Maintained:
    """A ledger of that size, made on first use."""
    database = database_at(where)
    database.prepare()
    connection = database.session()
    held = connection.execute("SELECT count(*) FROM entries").fetchone()[0]
    if held < entries:
        say(f"filling {database.place} ...")
        started = time.perf_counter()
        fill(database, connection, held, entries)
        rate = (entries - held) / (time.perf_counter() - started)
        say(f"  {rate:.0f} entries/s chained and projected")
    connection.close()
    index(database)
    return database


def fill(database: Maintained, connection: Connection, held: int, entries: int) -> None:
    """Whole groups of runs, so that it can be broken off and gone on with."""
    rules = Rules(SystemClock())
    if database.name == "sqlite":
        connection.execute("PRAGMA synchronous = OFF")
    runs = -(-entries // RUN_ENTRIES)
    for first in range(held // RUN_ENTRIES, runs, GROUP_RUNS):
        database.begin(connection)
        transaction = Transaction(connection, rules)
        for number in range(first, min(first + GROUP_RUNS, runs)):
            for draft in story(number):
                transaction.append(draft)
        transaction.flush()
        connection.execute("COMMIT")


def index(database: Maintained) -> None:
    """Fill the index, with the commits that it has in life."""
    store = store_on(database, Rules(SystemClock()))
    behind, started = store.search.behind(), time.perf_counter()
    if behind:
        store.indexer.advance(steps_max=STEPS_MAX)
        say(f"  {behind / (time.perf_counter() - started):.0f} entries/s indexed")
    store.close()
    if database.name == "postgresql":
        connection = database.session()
        connection.execute("ANALYZE")  # a server does this by itself, in its own time
        connection.close()


def median_ms(times: int, work: Callable[[], object]) -> float:
    """The median of several calls, after one that warms up."""
    spent = []
    for _ in range(times + 1):
        started = time.perf_counter()
        work()
        spent.append((time.perf_counter() - started) * 1000)
    return statistics.median(spent[1:])


def searches() -> dict[str, Query]:
    """What is looked for, by how often it is there."""
    return {
        "rare: one word": parse_query("needle0"),
        "rare: absent": parse_query("nosuchwordanywhere"),
        "rare: word and common": parse_query("needle0 run_started"),
        "common: one word": parse_query("running"),
        "common: two words": parse_query("systemctl restart"),
        "common: inside a word": parse_query("tool restart node"),
        "common: phrase": parse_query('"active running"'),
        "common: never together": parse_query("run_started running"),
        "prefix": parse_query("needl*"),
        "no word: scan": parse_query("🔥"),
    }


def search_table(store: Store, bare: sqlite3.Connection | None, times: int) -> None:
    """Ours, beside bare FTS5 that only finds row ids."""
    say(f"{'search, newest 50':28}{'entries ms':>12}{'commands ms':>13}{'bare fts5 ms':>14}")
    for name, query in searches().items():
        entries = median_ms(times, partial(store.search.entries, query, limit=PAGE))
        work = partial(store.search.commands, query, CommandFilter(), limit=PAGE)
        commands = median_ms(times, work)
        plain = median_ms(times, partial(_bare, bare, query)) if bare else math.nan
        say(f"{name:28}{entries:12.2f}{commands:13.2f}{plain:14.2f}")
    if bare:
        for word in ("needle0", "running"):
            say(f"LIKE scan for {word!r}: {median_ms(1, partial(_like, bare, word)):.0f} ms")


def _bare_session(place: str) -> sqlite3.Connection:
    connection = sqlite3.connect(place)
    connection.execute("ATTACH DATABASE ? AS search", (f"{place}-search",))
    return connection


def _bare(connection: sqlite3.Connection, query: Query) -> object:
    phrases = " ".join(f'"{term.text}"{" *" * term.prefix}' for term in query.terms)
    return connection.execute(
        "SELECT rowid FROM entries_text WHERE entries_text MATCH ? ORDER BY rowid DESC LIMIT 50",
        (phrases,),
    ).fetchall()


def _like(connection: sqlite3.Connection, word: str) -> object:
    return connection.execute(
        "SELECT seq FROM entries WHERE CAST(body AS TEXT) LIKE ? ORDER BY seq DESC LIMIT 50",
        (f"%{word}%",),
    ).fetchall()


def listing_table(stores: Mapping[int, Store], times: int) -> None:
    """Listings that must not grow with the log."""
    say(f"\n{'listing':28}" + "".join(f"{f'{size} ms':>14}" for size in stores) + f"{'ratio':>8}")
    run = f"run-{7:08x}"
    where = CommandFilter(run=run)
    listings: dict[str, Callable[[Store], object]] = {
        "newest 50 entries": lambda store: store.entries.newest(limit=PAGE),
        "one run's entries": lambda store: store.entries.after(0, limit=1000, run=run),
        "newest 50 commands": lambda store: store.commands.newest(CommandFilter(), limit=PAGE),
        "one run's commands": lambda store: store.commands.newest(where, limit=PAGE),
        "one command": lambda store: store.commands.get(4),
    }
    for name, listing in listings.items():
        found = [median_ms(times, partial(listing, store)) for store in stores.values()]
        columns = "".join(f"{spent:14.3f}" for spent in found)
        say(f"{name:28}{columns}{found[-1] / found[0]:8.2f}")


def say(line: str) -> None:
    """One line."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--entries", type=int, default=1_000_000)
    parser.add_argument("--times", type=int, default=30)
    parser.add_argument("--store", default="", help="an empty PostgreSQL database; else SQLite")
    given = parser.parse_args()
    folder = Path(tempfile.gettempdir()) / "operator-benchmark-search"
    places = {size: str(folder / f"{size}.db") for size in (SMALL, given.entries)}
    if given.store:
        places = {given.entries: given.store}
    rules = Rules(SystemClock())
    stores = {size: store_on(filled(where, size), rules) for size, where in places.items()}
    large = stores[given.entries]
    bare = None if given.store else _bare_session(places[given.entries])
    search_table(large, bare, given.times)
    listing_table(stores, given.times)
    for store in stores.values():
        store.close()


if __name__ == "__main__":
    main()
