"""A process that writes: `python -m tests.crash.victim FOLDER VERB NAME [COUNT]`, place on stdin.

It says what it has done in lines, each only when it is durable.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from operator_protocols.domain.entry import Draft, Kind
from operator_sre.clock import SystemClock
from operator_sre.store import Store
from tests.contract.samples import violation
from tests.e2e.warm import start_module
from tests.store.life import Estate

__all__ = ["Victim", "main", "size_of"]

PRODUCERS = 8
GROUP = 50


class Victim:
    """One writing process, seen from the test."""

    def __init__(self, estate: Estate, *words: str) -> None:
        self._process = start_module("tests.crash.victim", str(estate.folder), *words)
        assert self._process.stdin is not None
        self._process.stdin.write(f"{estate.place}\n")
        self._process.stdin.flush()

    def line(self) -> str:
        """The next thing that it has done; '' when it has ended."""
        assert self._process.stdout is not None
        return self._process.stdout.readline()

    def go(self) -> None:
        """Let it begin, when it waits for that."""
        assert self._process.stdin is not None
        self._process.stdin.write("go\n")
        self._process.stdin.flush()

    def rest(self) -> tuple[int, list[str]]:
        """Its exit code, and everything it said that is a whole line."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        lines = self._process.stdout.read().splitlines(keepends=True)
        code = self._process.wait()
        self._process.stdin.close()
        self._process.stdout.close()
        return code, [line for line in lines if line.endswith("\n")]

    def kill(self) -> list[str]:
        """End it as a power cut would; returns what it had said by then."""
        self._process.kill()
        return self.rest()[1]


def size_of(number: int) -> int:
    """Payloads from a few bytes to some pages, so that a kill finds transactions of all sizes."""
    return (number * 7919) % 20_000 if number % 5 == 0 else number % 100


def _say(*words: object) -> None:
    os.write(sys.stdout.fileno(), (" ".join(map(str, words)) + "\n").encode())


async def _think(store: Store, name: str, producer: int) -> None:
    for number in itertools.count():
        payload = {"by": name, "number": number, "text": "x" * size_of(number)}
        draft = Draft(Kind.REASONING, payload, run=f"{name}-{producer}")
        _say("entry", (await store.journal.append(draft)).seq, number)


async def _file(store: Store, name: str) -> None:
    for number in itertools.count():
        _say("ticket", (await store.tickets.open([violation(f"{name}-{number}")])).id, number)


async def _write_forever(store: Store, name: str) -> None:
    thinking = [_think(store, name, producer) for producer in range(PRODUCERS)]
    await asyncio.gather(_file(store, name), *thinking)


async def _append(store: Store, name: str, count: int) -> None:
    for begin in range(0, count, GROUP):
        drafts = [
            Draft(Kind.REASONING, {"by": name, "number": number}, run=name)
            for number in range(begin, begin + GROUP)
        ]
        for entry in await asyncio.gather(*map(store.journal.append, drafts)):
            _say(entry.seq)


def main(words: Sequence[str]) -> None:
    """Write as told; the place of the store comes as the first line of the input."""
    folder, verb, name, *rest = words
    estate = Estate(sys.stdin.readline().strip(), Path(folder), SystemClock())
    _say("opening")
    store = estate.open()
    if verb == "forever":
        asyncio.run(_write_forever(store, name))
    else:
        _say("ready")
        sys.stdin.readline()
        asyncio.run(_append(store, name, int(rest[0])))
    store.close()


if __name__ == "__main__":
    main(sys.argv[1:])
