"""What the harness costs for each turn of a model: everything but the model itself.

    .venv/bin/python benchmarks/turn.py [--entries 1000000] [--runs 5]

From the moment at which a model has answered to the moment at which it is asked again, on a ledger
of that many entries, with redaction, chain, gate, executor and summaries as the product wires them.
The ledger is filled once into the temporary directory and kept there. The processor time is that of
our own process, with what begins and ends a run.

Promise: under 25 ms for half of the turns, with 1,000,000 entries.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from operator_protocols.domain.action import Action, Outcome, Result
from operator_protocols.domain.entry import Draft, Kind
from operator_protocols.domain.health import Severity
from operator_protocols.domain.observation import Observation, Seen, Violation
from operator_protocols.domain.run import Answer, Ask, Budget, Escalate, Misuse
from operator_protocols.ports import Model
from operator_sre.app.wiring import App, open_app
from operator_sre.clock import SystemClock
from operator_sre.codec import to_json
from operator_sre.config import load_config
from operator_sre.models.remote import RemoteModel
from operator_sre.store import store_on
from operator_sre.store.store import database_at
from operator_sre.store.transaction import Rules, Transaction

GOAL_MS = 25.0
TURNS = 38
RUN_ENTRIES = 5
GROUP = 10_000
LOOKS = 500
FIRST_TICKET = 10_000_000
STEPS_MAX = 10_000
TOML = """
mode = "execute"
timeout_s = 0.5
[subjects.shop]
plugin = "ratelimiter"
[[subjects.shop.targets]]
name = "node-1"
kind = "node"
port = 1
"""
LOOK = Action.shell("true", target="node-1", reasoning="Is anything there at all?")
NONSENSE = Misuse("fly", "{}", "There is no tool 'fly'.")


class Timed:
    """A model that answers at once, or as another does, and knows how long it was left alone."""

    name = "timed"

    def __init__(self, answer: Answer, inner: Model | None = None) -> None:
        self._answer = answer
        self._inner = inner
        self._left_at: float | None = None
        self.alone_ms: list[float] = []

    async def answer(self, ask: Ask) -> Answer:
        """The same again, until it has had its turns."""
        now = time.perf_counter()
        if self._left_at is not None and ask.turns:
            self.alone_ms.append((now - self._left_at) * 1000)
        if len(ask.turns) >= TURNS:
            self._left_at = None
            return Answer("enough", (Escalate("The measurement is over."),))
        if self._inner is not None:
            await self._inner.answer(ask)
            # What a real model adds is its question, its wire and the reading of its answer.
            self.alone_ms[-1:] = [
                one + (time.perf_counter() - now) * 1000 for one in self.alone_ms[-1:]
            ]
        self._left_at = time.perf_counter()
        return self._answer


def filled(path: Path, entries: int) -> None:
    """A ledger of that size: real entries, chained and projected, only not one commit for each."""
    database = database_at(path)
    database.prepare()
    connection = database.session()
    held = connection.execute("SELECT count(*) FROM entries").fetchone()[0]
    connection.execute("PRAGMA synchronous = OFF")
    if held < entries:
        say(f"filling {path} ...")
    rules = Rules(SystemClock())
    for first in range(held // RUN_ENTRIES, -(-entries // RUN_ENTRIES), GROUP // RUN_ENTRIES):
        database.begin(connection)
        transaction = Transaction(connection, rules)
        for number in range(first, first + GROUP // RUN_ENTRIES):
            for draft in story(number):
                transaction.append(draft)
        transaction.flush()
        connection.execute("COMMIT")
    connection.close()
    # In life the index has kept up; here it would catch up while we measure.
    store = store_on(database, rules)
    store.indexer.advance(steps_max=STEPS_MAX)
    store.close()


def story(number: int) -> Iterator[Draft]:
    """The entries of one old run."""
    run, ticket = f"old-{number:08x}", FIRST_TICKET + number
    said = to_json(
        Result(Outcome.RAN, 0, stdout=f"active (running) since {number}", duration_s=0.1)
    )
    spent = {"tokens_in": 900, "tokens_out": 80, "usd": 0.004}
    yield Draft(Kind.RUN_STARTED, {"model": "claude", "worker": "w"}, ticket, run)
    for place in range(RUN_ENTRIES - 2):
        told = {"reasoning": f"thought {place} of {number}: {said['stdout']}", "calls": []}
        yield Draft(Kind.REASONING, {**told, "spent": spent}, ticket, run)
    yield Draft(Kind.RUN_FINISHED, {"state": "completed", "summary": "over"}, ticket, run)


async def turns_of(app: App, model: Timed, runs: int) -> list[float]:
    """The milliseconds between two questions, of so many runs."""
    now = app.clock.now()
    for place in range(LOOKS):
        seen = (Seen("node-1", {"latency_ms": float(place % 50)}, "connection refused"),)
        at = now - timedelta(seconds=5 * (LOOKS - place))
        await app.store.observations.add(Observation("shop", at, seen))
    budget = Budget(turns_max=1000, commands_max=1000, seconds_max=3600.0)
    pipeline = replace(app.engine().pipeline, model=model, budget=budget)
    for number in range(runs):
        broken = Violation("shop", "node_down", "node-1", Severity.CRITICAL, "it is down", now)
        await app.store.tickets.open([broken])
        ticket = await app.store.leases.claim(
            "bench", run=f"run-{time.time_ns()}-{number}", lease_s=3600.0, attempts_max=9
        )
        assert ticket is not None
        await pipeline.work(ticket)
        await close(app, ticket.id)
    return model.alone_ms


async def close(app: App, ticket: int) -> None:
    """Make room for the next ticket about the same."""
    held = app.store.tickets.get(ticket)
    assert held is not None
    draft = Draft(Kind.TICKET_RESOLVED, {"reason": "over"}, ticket=ticket, run=held.run)
    await app.store.journal.append(draft)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """One tool call, whatever was asked."""
        self.rfile.read(int(self.headers.get("content-length", 0)))
        call = {"name": "shell", "arguments": json.dumps({"command": "true", "reasoning": "why"})}
        calls = [{"id": "call_1", "type": "function", "function": call}]
        message = {"role": "assistant", "content": "I look.", "tool_calls": calls}
        choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
        usage = {"prompt_tokens": 9, "completion_tokens": 9, "total_tokens": 18}
        head = {"id": "c", "object": "chat.completion", "created": 1, "model": "m"}
        body = json.dumps({**head, "choices": [choice], "usage": usage}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@contextmanager
def endpoint() -> Iterator[str]:
    """A server that speaks like a model and thinks for no time at all."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    finally:
        server.shutdown()
        server.server_close()


def measure(app: App, runs: int, title: str, make: Callable[[], Timed]) -> float:
    """One row of the table; the median in milliseconds."""
    worked = time.process_time()
    found = sorted(asyncio.run(turns_of(app, make(), runs)))
    worked_ms = (time.process_time() - worked) * 1000 / len(found)
    half, most = statistics.median(found), found[int(len(found) * 0.95)]
    say(f"| {title} | {len(found)} | {half:.1f} ms | {most:.1f} ms | {worked_ms:.1f} ms |")
    return half


async def bare(times: int) -> list[float]:
    """The milliseconds of the same command without us."""
    found = []
    for _ in range(times):
        begun = time.perf_counter()
        process = await asyncio.create_subprocess_exec("true", stdout=asyncio.subprocess.PIPE)
        await process.communicate()
        found.append((time.perf_counter() - begun) * 1000)
    return found


def say(line: str) -> None:
    """On stdout, at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> int:
    """Fill, measure, compare with the promise."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--entries", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=5)
    asked = parser.parse_args()
    folder = Path(tempfile.gettempdir()) / f"operator-turn-{asked.entries}"
    (folder / "home").mkdir(parents=True, exist_ok=True)
    (folder / "operator.toml").write_text(TOML)
    filled(folder / "home" / "operator.db", asked.entries)
    flags = {"home": str(folder / "home"), "model": "reasoner"}
    say(f"{asked.entries} entries\n\n| a turn that | turns | half | 95 of 100 | processor time |")
    say("|---|---|---|---|---|")
    with (
        open_app(load_config(flags=flags, environ={}, cwd=folder)) as app,
        endpoint() as address,
    ):
        remote = RemoteModel(
            name="m", provider="openai-compatible", model="m", base_url=address, tools="native"
        )
        looking = Answer("I look.", (LOOK,))
        alone = measure(
            app, asked.runs, "calls nothing", lambda: Timed(Answer("I think.", (NONSENSE,)))
        )
        whole = measure(app, asked.runs, "runs a command", lambda: Timed(looking))
        measure(app, asked.runs, "the same over HTTP", lambda: Timed(looking, remote))
        beside = statistics.median(asyncio.run(bare(TURNS * asked.runs)))
    say(f"\na bare asyncio subprocess of the same command: {beside:.1f} ms")
    say(f"goal: {GOAL_MS:g} ms for half of them")
    return 0 if max(alone, whole) < GOAL_MS else 1


if __name__ == "__main__":
    sys.exit(main())
