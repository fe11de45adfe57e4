"""Another process on the same database: `python -m tests.contract.actor KIND FOLDER VERB NAME`.

It says `ready`, waits for a line, acts, and writes one line for each thing that it has done.
"""

from __future__ import annotations

import asyncio
import itertools
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from operator_protocols.domain.action import Action
from operator_protocols.domain.entry import Actor as Person
from operator_protocols.domain.entry import Draft, Kind
from operator_protocols.domain.limits import Limits
from operator_protocols.domain.permit import ApprovalState, Permit
from operator_protocols.errors import ConflictError, PermitError
from operator_sre.clock import SystemClock
from tests.contract.doing import DONE, Doer
from tests.contract.samples import violation
from tests.contract.stores import STORES, Home, Ports
from tests.e2e.warm import start_module

__all__ = ["APPENDED", "APPROVED", "CHANGED", "OPENED", "Actor", "actors", "main"]

APPENDED = 500
CHANGED = 20
OPENED = 40
APPROVED = 50
GROUP = 25


class Actor:
    """One process, seen from the test."""

    def __init__(self, home: Home, verb: str, name: str) -> None:
        words = (home.kind, str(home.folder), verb, name)
        self._process = start_module("tests.contract.actor", *words)
        assert self._output.readline() == "ready\n"

    @property
    def _output(self) -> IO[str]:
        assert self._process.stdout is not None
        return self._process.stdout

    def go(self) -> None:
        """Let it begin."""
        assert self._process.stdin is not None
        self._process.stdin.write("go\n")
        self._process.stdin.flush()

    def line(self) -> str:
        """The next thing that it has done."""
        return self._output.readline().strip()

    def rest(self) -> list[str]:
        """Everything it did until its end, which is a good one."""
        lines = self._output.read().split()
        assert self._process.wait() == 0
        self._close()
        return lines

    def kill(self) -> list[str]:
        """End it as a power cut would; returns what it had said by then."""
        self._process.kill()
        lines = self._output.read().splitlines(keepends=True)
        self._process.wait()
        self._close()
        return [line.strip() for line in lines if line.endswith("\n")]

    def _close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._output.close()


def actors(home: Home, verb: str, *names: str) -> list[Actor]:
    """Several of them, which begin at the same moment."""
    found = [Actor(home, verb, name) for name in names]
    for actor in found:
        actor.go()
    return found


def _say(word: object) -> None:
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


def _draft(name: str, number: int) -> Draft:
    return Draft(Kind.REASONING, {"by": name, "number": number}, run=name)


async def _append(ports: Ports, name: str) -> None:
    for begin in range(0, APPENDED, GROUP):
        drafts = [_draft(name, number) for number in range(begin, begin + GROUP)]
        for entry in await asyncio.gather(*map(ports.journal.append, drafts)):
            _say(entry.seq)


async def _stream(ports: Ports, name: str) -> None:
    for number in itertools.count():
        _say((await ports.journal.append(_draft(name, number))).seq)


async def _open(ports: Ports, name: str) -> None:
    for number in range(OPENED):
        try:
            _say((await ports.tickets.open([violation(f"node-{number}", detail=name)])).id)
        except ConflictError:
            _say("conflict")


async def _claim(ports: Ports, name: str) -> None:
    while True:
        claimed = await ports.leases.claim(name, run=f"run-{name}", lease_s=600.0, attempts_max=3)
        if claimed is None:
            return
        _say(claimed.id)


async def _approve(ports: Ports, name: str) -> None:
    """Fifty answers at once to the one request, all by whoever saw its first version."""

    async def answer(number: int) -> str:
        by = Person(f"{name}-{number}", "user")
        (asked,) = ports.approvals.find()
        try:
            await ports.approvals.decide(
                asked.id, ApprovalState.APPROVED, by=by, reason="", version=1
            )
        except ConflictError:
            return "conflict"
        return "approved"

    for word in await asyncio.gather(*map(answer, range(APPROVED))):
        _say(word)


async def _change(ports: Ports, name: str) -> None:
    """Change the subject so many times, whenever nobody else does."""
    doer = await Doer.hired(ports, SystemClock(), run=name)
    limits = Limits(changes_per_hour=10_000)
    done = 0
    while done < CHANGED:
        wanted = Action.shell("systemctl restart x", target="node-1")
        permit = await doer.gate.permit(doer.gate.judge(wanted), doer.ticket)
        assert isinstance(permit, Permit)
        try:
            intent = await ports.intents.begin(permit, limits)
        except PermitError:
            continue
        await ports.intents.end(intent, DONE)
        done += 1
        _say(done)


async def _touch(ports: Ports, name: str) -> None:
    _say((await ports.journal.append(_draft(name, 0))).seq)


_VERBS = {
    "append": _append,
    "stream": _stream,
    "open": _open,
    "claim": _claim,
    "approve": _approve,
    "change": _change,
}


def main(words: Sequence[str]) -> None:
    """Act as told, on the store of this kind in this folder."""
    kind, folder, verb, name = words
    if verb == "create":
        # Says ready before it opens, so that several meet a database that is not there yet.
        _say("ready")
        sys.stdin.readline()
        ports = STORES[kind](Path(folder), SystemClock())
        asyncio.run(_touch(ports, name))
    else:
        ports = STORES[kind](Path(folder), SystemClock())
        _say("ready")
        sys.stdin.readline()
        asyncio.run(_VERBS[verb](ports, name))
    ports.close()


if __name__ == "__main__":
    main(sys.argv[1:])
