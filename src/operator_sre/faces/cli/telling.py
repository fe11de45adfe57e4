"""Ledger entries as a story, for every command that shows one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from operator_sre.faces.cli.output import clean, print_lines

if TYPE_CHECKING:
    from operator_protocols.domain.entry import Entry

__all__ = ["tell"]


def tell(entries: Iterable[Entry], *, summaries: bool = False) -> None:
    """Every entry that has something to say, with its number and time, and perhaps its summary.

    A warning that comes with every turn, such as who speaks in whose place, is told once.
    """
    from operator_sre.app.story import lines_of

    known = list(entries)
    short = _summaries(known) if summaries else {}
    warned: set[str] = set()
    for entry in known:
        for line in lines_of(entry):
            if line.step == "think" and line.tone == "warn":
                if line.text in warned:
                    continue
                warned.add(line.text)
            place = f"{entry.seq:6}  {entry.at:%H:%M:%S}  {line.step:7}"
            # Only a mind writes several lines; indented, so that none of them looks like ours.
            first, *more = line.text.split("\n") if line.step == "think" else [line.text]
            print_lines([f"{place}{clean(first)}", *(f"{'':25}{clean(one)}" for one in more)])
            print_lines([f"{'':25}· {clean(detail)}" for detail in line.details])
        if entry.seq in short:
            print_lines([f"{'':25}= {clean(short[entry.seq])}"])


def _summaries(entries: Iterable[Entry]) -> dict[int, str]:
    """What was said in short, by the entry that it is about; not where that is as short itself."""
    known = list(entries)
    texts = {entry.seq: str(entry.payload.get("reasoning", "")) for entry in known}
    told = {one.payload["of"]: str(one.payload["text"]) for one in known if one.kind == "summary"}
    return {seq: text for seq, text in told.items() if text != " ".join(texts.get(seq, "").split())}
