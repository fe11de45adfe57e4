"""A write and a read as a client does them: what was written has to come back."""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass

from operator_protocols.domain.action import Outcome, Result
from operator_protocols.domain.excerpt import keep_last_line
from operator_protocols.ports import Job
from operator_sre.subjects.declarative.commands import (
    UNREACHABLE,
    Command,
    locate,
    read_command,
    refusal,
)
from operator_sre.subjects.declarative.document import Table
from operator_sre.subjects.declarative.probes.place import Blind, Place, down, up
from operator_sre.subjects.declarative.values import Readings

__all__ = ["KEYS", "CanaryProbe", "read_canary"]

KEYS = ("write", "read", "reviewed", "directory", "passes")
BLANK = "canary"


@dataclass(frozen=True, slots=True)
class CanaryProbe:
    """Two commands of the user. `{canary}` is a fresh word, which `read` has to print."""

    write: Command
    read: Command

    @property
    def fields(self) -> frozenset[str]:
        """The values that it can give."""
        return frozenset({"up", "ok", "error", "written", "returned", "latency_ms"})

    async def observe(self, place: Place) -> Readings:
        """Write, then read."""
        word = f"canary-{secrets.token_hex(6)}"
        started = time.perf_counter()
        written = await self._run(place, self.write, word)
        if written.exit_code != 0:
            why = _last_line(written)
            return down(f"the write failed: {why}", written=False, returned=False)
        found = await self._run(place, self.read, word)
        took_ms = round((time.perf_counter() - started) * 1000, 3)
        returned = found.exit_code == 0 and word in found.stdout
        readings: Readings = {"written": True, "returned": returned, "latency_ms": took_ms}
        if found.exit_code != 0:
            return up(readings, f"the read failed: {_last_line(found)}")
        return up(readings, "" if returned else "the written word does not come back")

    async def _run(self, place: Place, command: Command, word: str) -> Result:
        shell = place.settings.shell
        if shell is None:
            raise Blind("commands cannot be run here", ours=True)
        action = command.action(place.target, {BLANK: word})
        if why := refusal(action, place.settings, reviewed=True):
            raise Blind(why)
        try:
            action = await locate(action, shell)
            result = await shell.run(action, Job(timeout_s=place.timeout_s / 2))
        except UNREACHABLE as error:
            raise Blind(f"the command cannot be run: {error}") from error
        if result.outcome is not Outcome.RAN or result.exit_code is None:
            raise Blind(f"the command did not run: {_last_line(result)}")
        return result


def _last_line(result: Result) -> str:
    line = keep_last_line(result.stderr or result.stdout, 100)
    return line or f"exit code {result.exit_code}"


def read_canary(table: Table, folder: str) -> CanaryProbe:
    """Parse the probe of a description. It writes, so the file has to say that this is harmless."""
    if not table.flag("reviewed"):
        raise table.wrong(
            "a canary writes.",
            "reviewed",
            next_step="Write 'reviewed: true' if it writes only data of its own.",
        )
    commands = [read_command(table, folder, key, known=(BLANK,)) for key in ("write", "read")]
    if f"{{{BLANK}}}" not in commands[0].argv:
        raise table.wrong("'write' must be a list of words with '{canary}' among them.", "write")
    return CanaryProbe(*commands)
