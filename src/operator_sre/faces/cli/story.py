"""Ledger entries as readable lines: past entries, live entries, or JSON lines."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Coroutine, Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from operator_sre.faces.cli.output import clean, is_quiet, print_json, print_lines

if TYPE_CHECKING:
    from rich.console import Console

    from operator_protocols.domain.entry import Entry
    from operator_sre.app.story import Line
    from operator_sre.app.wiring import App

__all__ = ["STYLES", "Painter", "follow", "show_entries", "tell", "tell_work", "with_entries"]

STYLES = {"good": "green", "bad": "bold red", "warn": "yellow", "strong": "bold", "plain": ""}
STEP_STYLE = "cyan"


class Painter:
    """Prints one line after the other."""

    def __init__(self) -> None:
        self.console: Console | None = None
        if sys.stdout.isatty() and not is_quiet():
            from rich.console import Console

            plain = bool(os.environ.get("NO_COLOR"))
            self.console = Console(highlight=False, color_system=None if plain else "auto")

    def line(self, place: str, step: str, text: str, style: str) -> None:
        """One line: when, which step of the journey speaks, and what it says."""
        if self.console is None:
            print_lines([f"{place}{step}{text}".rstrip()])
            return
        from rich.padding import Padding
        from rich.table import Table
        from rich.text import Text

        if not step:
            # As it is, however long: a command that was broken in two could not be copied.
            self.console.print(Text(text, style=style), soft_wrap=True)
            return
        grid = Table.grid(padding=0)
        grid.add_column(width=len(place + step))
        grid.add_column(ratio=1, overflow="fold")
        grid.add_row(Text.assemble((place, "dim"), (step, STEP_STYLE)), Text(text, style=style))
        self.console.print(Padding(grid, 0, expand=False))


def tell(entries: Iterable[Entry], *, summaries: bool = False) -> None:
    """Every entry that has something to say, with its number and time, and perhaps its summary.

    A warning that repeats with every turn, such as a fallback to another model, appears once.
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
            # Only a model writes several lines; they are indented, to tell them from ours.
            first, *more = line.text.split("\n") if line.step == "think" else [line.text]
            print_lines([f"{place}{clean(first)}", *(f"{'':25}{clean(row)}" for row in more)])
            print_lines([f"{'':25}· {clean(detail)}" for detail in line.details])
        if entry.seq in short:
            print_lines([f"{'':25}= {clean(short[entry.seq])}"])


def _summaries(entries: Iterable[Entry]) -> dict[int, str]:
    """Summaries by the entry they describe, unless they repeat its text."""
    known = list(entries)
    texts = {entry.seq: str(entry.payload.get("reasoning", "")) for entry in known}
    summaries = {
        entry.payload["of"]: str(entry.payload["text"])
        for entry in known
        if entry.kind == "summary"
    }
    return {
        seq: text for seq, text in summaries.items() if text != " ".join(texts.get(seq, "").split())
    }


FOLLOW_S = 0.2
# A model may write much; `operator tickets show` prints all of it.
LINE_CHARACTERS_MAX = 240
# The steps of a monitor; all others belong to an agent.
WATCHING = frozenset({"watch", "file"})


class Storyteller:
    """Prints lines and entries; a warning that repeats with every turn appears once."""

    def __init__(self) -> None:
        self._painter = Painter()
        self._warned: set[str] = set()

    def entry(self, entry: Entry, *, only: Callable[[str], bool] = lambda step: True) -> None:
        """Print the lines of an entry; `only` selects the steps."""
        from operator_sre.app.story import lines_of

        for line in lines_of(entry):
            if only(line.step):
                self.line(line, entry.at, ticket=entry.ticket)

    def line(self, line: Line, at: datetime, *, ticket: int | None = None) -> None:
        """Print one line, shortened, without its details."""
        if line.step == "think" and line.tone == "warn":
            if line.text in self._warned:
                return
            self._warned.add(line.text)
        text = clean(" ".join(line.text.split()))
        if len(text) > LINE_CHARACTERS_MAX:
            text = f"{text[:LINE_CHARACTERS_MAX]} ..."
        number = f"#{ticket} " if ticket is not None else ""
        self._painter.line(f"{at:%H:%M:%S}  ", f"{line.step:7}", number + text, STYLES[line.tone])


async def tell_live(
    app: App, seq: int, *, subjects: Callable[[], Sequence[str]], works: bool
) -> None:
    """Print the start, then every entry after `seq`, until cancelled."""
    from operator_sre.app import audit
    from operator_sre.app.story import beginning, first_look

    teller, since, waiting = Storyteller(), app.clock.now(), list(subjects())
    for line in beginning(app, waiting, works=works):
        teller.line(line, since)
    while True:
        for name in list(waiting):
            if found := first_look(app, name, since):
                teller.line(found, app.clock.now())
                waiting.remove(name)
        for entry in audit.behind(app, seq):
            seq = entry.seq
            teller.entry(entry)
        await asyncio.sleep(FOLLOW_S)


async def tell_work(
    app: App, seq: int, *, subjects: Callable[[], Sequence[str]], works: bool
) -> None:
    """Print what one of several processes does, until cancelled: its checks, or its other steps.

    Each process prints only its own steps, so that nothing appears twice side by side.
    """
    from operator_sre.app import audit
    from operator_sre.app.story import beginning, each_look

    teller, since = Storyteller(), dict.fromkeys(subjects(), app.clock.now())
    for line in beginning(app, subjects(), works=works):
        if (line.step not in WATCHING) == works:
            teller.line(line, app.clock.now())
    while True:
        if not works:
            for name, before in since.items():
                if look := each_look(app, name, before):
                    since[name] = look[0]
                    teller.line(look[1], look[0])
        for entry in audit.behind(app, seq):
            seq = entry.seq
            teller.entry(entry, only=lambda step: (step not in WATCHING) == works)
        await asyncio.sleep(FOLLOW_S)


async def with_entries(
    app: App,
    work: Coroutine[Any, Any, None],
    *,
    as_json: bool,
    subjects: Callable[[], Sequence[str]] = tuple,
    works: bool = True,
    tell: bool = False,
) -> None:
    """Do the work and print new ledger entries meanwhile.

    With `as_json` every new entry is a JSON document on a line. A terminal shows readable lines
    that start with what is watched; without one there are only log lines, and with --quiet only
    errors. With `tell` there are always readable lines of what this process does.
    """
    from operator_sre.app import audit

    newest = audit.tail(app, count=1)
    seq = newest[-1].seq if newest else 0
    if as_json:
        telling: Coroutine[Any, Any, None] = follow(app, seq, as_json=True)
    elif tell and not is_quiet():
        telling = tell_work(app, seq, subjects=subjects, works=works)
    elif sys.stdout.isatty() and not is_quiet():
        from operator_sre.faces.cli.logs import set_up_logging

        if app.config.sources["log_level"] == "default":
            # Both at once would print everything twice.
            set_up_logging(style=app.config.values["log_format"], level="error")
        telling = tell_live(app, seq, subjects=subjects, works=works)
    else:
        await work
        return
    async with asyncio.TaskGroup() as group:
        group.create_task(telling)
        group.create_task(work)


async def follow(app: App, seq: int, *, as_json: bool) -> None:
    """Show what comes behind an entry, until cancelled."""
    from operator_sre.app import audit

    while True:
        for entry in audit.behind(app, seq):
            seq = entry.seq
            show_entries([entry], as_json=as_json)
        await asyncio.sleep(FOLLOW_S)


def show_entries(entries: Sequence[Entry], *, as_json: bool) -> None:
    """Each entry on a line of its own."""
    for entry in entries:
        if as_json:
            print_json({"entry": entry}, line=True)
        else:
            place = f"{entry.seq:6}  {entry.at:%m-%d %H:%M:%S}  {entry.kind:18}"
            print_lines([f"{place}{entry.run or '-':15}  {clean(str(dict(entry.payload)))[:200]}"])
