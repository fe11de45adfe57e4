"""Running a command where the target runs, and reading what it says."""

from __future__ import annotations

from dataclasses import dataclass, field

from operator_protocols.domain.action import Outcome, Result
from operator_protocols.ports import Job
from operator_sre.subjects.declarative.commands import (
    UNREACHABLE,
    Command,
    placed,
    read_command,
    refusal,
)
from operator_sre.subjects.declarative.probes.place import Blind, Place, Readings, checked
from operator_sre.subjects.declarative.table import Table
from operator_sre.subjects.declarative.taking import Taken, taken_in
from operator_sre.subjects.declarative.values import document_of, number_in, plain

__all__ = ["KEYS", "CommandProbe", "read_command_probe"]

KEYS = ("run", "expect", "read", "reviewed", "directory", "passes")
STDOUT_CHARACTERS_MAX = 256 * 1024


@dataclass(frozen=True, slots=True)
class CommandProbe:
    """One command that only looks."""

    command: Command
    exit_codes: tuple[int, ...] = (0,)
    taken: Taken = field(default_factory=Taken)
    reviewed: bool = False

    @property
    def fields(self) -> frozenset[str]:
        """The values that it can give."""
        own = frozenset({"up", "ok", "error", "exit_code", "stdout", "number", "latency_ms"})
        return own | self.taken.fields

    async def look(self, place: Place) -> Readings:
        """Run it once. What did not run to its end shows nothing."""
        shell = place.settings.shell
        if shell is None:
            raise Blind("no command can be run here")
        action = self.command.action(place.target)
        if why := refusal(action, place.settings, reviewed=self.reviewed):
            raise Blind(why)
        try:
            action = await placed(action, place.target, shell)
            result = await shell.run(action, Job(timeout_s=place.timeout_s))
        except UNREACHABLE as error:
            raise Blind(f"its command cannot be run: {error}") from error
        if result.outcome is not Outcome.RAN or result.exit_code is None:
            raise Blind(_unfinished(result))
        return self._read(result, result.exit_code)

    def _read(self, result: Result, code: int) -> Readings:
        said = result.stdout[:STDOUT_CHARACTERS_MAX]
        readings: Readings = {
            "exit_code": code,
            "stdout": plain(said.strip()),
            "latency_ms": round(result.duration_s * 1000, 3),
        }
        number = number_in(said)
        if number is not None:
            readings["number"] = number
        readings |= self.taken.found(document_of(said) if self.taken.paths else None, said)
        why = ""
        if code not in self.exit_codes:
            told = (result.stderr or said).strip().splitlines()
            why = f"it exited with {code}" + (f": {told[-1][:100]}" if told else "")
        elif readings.get("matched") is False:
            why = "what it says does not match"
        return checked(readings, why)


def _unfinished(result: Result) -> str:
    if result.outcome is Outcome.TIMED_OUT:
        return "its command took too long"
    told = result.stderr.strip().splitlines()
    return f"its command did not run: {told[-1][:120] if told else result.outcome}"


def read_command_probe(table: Table, folder: str) -> CommandProbe:
    """The probe of a description."""
    expect = table.table("expect", "exit", "stdout")
    codes: tuple[int, ...] = (0,)
    if expect is not None and "exit" in expect:
        node = expect.node("exit")
        assert node is not None
        texts = (str(node.value),) if isinstance(node.value, int) else expect.texts("exit")
        if not all(one.isdecimal() and int(one) < 256 for one in texts):
            raise expect.wrong("'exit' is a number from 0 to 255, or several.", "exit")
        codes = tuple(map(int, texts))
    return CommandProbe(
        command=read_command(table, folder, "run"),
        exit_codes=codes,
        taken=taken_in(table, expect, body="stdout"),
        reviewed=table.flag("reviewed"),
    )
