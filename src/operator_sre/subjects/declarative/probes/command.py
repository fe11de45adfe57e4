"""Running a command where the target runs, and reading its output."""

from __future__ import annotations

from dataclasses import dataclass, field

from operator_protocols.domain.action import Outcome
from operator_protocols.ports import Job
from operator_sre.subjects.declarative.commands import (
    UNREACHABLE,
    Command,
    locate,
    read_command,
    refusal,
)
from operator_sre.subjects.declarative.document import Table
from operator_sre.subjects.declarative.probes.place import Blind, Place, up
from operator_sre.subjects.declarative.values import (
    Extraction,
    Readings,
    document_of,
    number_in,
    plain,
    read_extraction,
)

__all__ = ["KEYS", "CommandProbe", "read_command_probe"]

KEYS = ("run", "expect", "read", "reviewed", "directory", "passes")
STDOUT_CHARACTERS_MAX = 256 * 1024


@dataclass(frozen=True, slots=True)
class CommandProbe:
    """One command that changes nothing."""

    command: Command
    exit_codes: tuple[int, ...] = (0,)
    extraction: Extraction = field(default_factory=Extraction)
    reviewed: bool = False

    @property
    def fields(self) -> frozenset[str]:
        """The values that it can give."""
        own = frozenset({"up", "ok", "error", "exit_code", "stdout", "number", "latency_ms"})
        return own | self.extraction.fields

    async def observe(self, place: Place) -> Readings:
        """Run it once. A command that did not finish shows nothing."""
        shell = place.settings.shell
        if shell is None:
            raise Blind("commands cannot be run here", ours=True)
        action = self.command.action(place.target)
        if why := refusal(action, place.settings, reviewed=self.reviewed):
            raise Blind(why)
        try:
            action = await locate(action, shell)
            result = await shell.run(action, Job(timeout_s=place.timeout_s))
        except UNREACHABLE as error:
            raise Blind(f"the command cannot be run: {error}") from error
        code, output = result.exit_code, result.stdout[:STDOUT_CHARACTERS_MAX]
        if result.outcome is Outcome.TIMED_OUT:
            raise Blind("the command took too long", ours=True)
        if result.outcome is not Outcome.RAN or code is None:
            lines = result.stderr.strip().splitlines()
            why = lines[-1][:120] if lines else result.outcome
            raise Blind(f"the command did not run: {why}")
        readings: Readings = {
            "exit_code": code,
            "stdout": plain(output.strip()),
            "latency_ms": round(result.duration_s * 1000, 3),
        }
        number = number_in(output)
        if number is not None:
            readings["number"] = number
        document = document_of(output) if self.extraction.paths else None
        readings |= self.extraction.extract(document, output)
        why = ""
        if code not in self.exit_codes:
            lines = (result.stderr or output).strip().splitlines()
            why = f"the command exited with {code}" + (f": {lines[-1][:100]}" if lines else "")
        elif readings.get("matched") is False:
            why = "the output does not match"
        return up(readings, why)


def read_command_probe(table: Table, folder: str) -> CommandProbe:
    """Parse the probe of a description."""
    expect = table.table("expect", "exit", "stdout")
    codes: tuple[int, ...] = (0,)
    if expect is not None and "exit" in expect:
        node = expect.node("exit")
        assert node is not None
        texts = (str(node.value),) if isinstance(node.value, int) else expect.texts("exit")
        if not all(text.isdecimal() and int(text) < 256 for text in texts):
            raise expect.wrong("'exit' must be a number from 0 to 255, or a list.", "exit")
        codes = tuple(map(int, texts))
    return CommandProbe(
        command=read_command(table, folder, "run"),
        exit_codes=codes,
        extraction=read_extraction(table, expect, body="stdout"),
        reviewed=table.flag("reviewed"),
    )
