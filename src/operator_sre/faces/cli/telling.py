"""Ledger entries as a story, for every command that shows one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from operator_sre.faces.cli.output import clean, print_lines

if TYPE_CHECKING:
    from operator_protocols.domain.entry import Entry

__all__ = ["tell"]


def tell(entries: Iterable[Entry]) -> None:
    """Every entry that has something to say, with its number and time."""
    from operator_sre.app.story import lines_of

    for entry in entries:
        for line in lines_of(entry):
            place = f"{entry.seq:6}  {entry.at:%H:%M:%S}  {line.step:7}"
            print_lines([f"{place}{clean(line.text)}"])
            print_lines([f"{'':25}· {clean(detail)}" for detail in line.details])
