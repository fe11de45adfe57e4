"""What happens, told while it happens: one line for each thing, with its time and its ticket."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from operator_sre.faces.cli.output import clean
from operator_sre.faces.cli.painting import STYLES, Painter

if TYPE_CHECKING:
    from operator_protocols.domain.entry import Entry
    from operator_sre.app.story import Line
    from operator_sre.app.wiring import App

__all__ = ["Storyteller", "tell_live", "tell_work"]

FOLLOW_S = 0.2
# A mind may say much; all of it is in `operator tickets show`.
LINE_CHARACTERS_MAX = 240
# What a monitor does; all other steps are an agent's.
WATCHING = frozenset({"watch", "file"})


class Storyteller:
    """Tells lines and entries; a warning that comes with every turn is told once."""

    def __init__(self) -> None:
        self._painter = Painter()
        self._warned: set[str] = set()

    def entry(self, entry: Entry, *, only: Callable[[str], bool] = lambda step: True) -> None:
        """What an entry adds to the story, if anything; `only` says which steps are told."""
        from operator_sre.app.story import lines_of

        for line in lines_of(entry):
            if only(line.step):
                self.line(line, entry.at, ticket=entry.ticket)

    def line(self, line: Line, at: datetime, *, ticket: int | None = None) -> None:
        """One line, cut where it is too long; its details are for those who look further."""
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
    """How it begins, then what comes behind an entry of the ledger, until cancelled."""
    from operator_sre.app import audit
    from operator_sre.app.beginning import beginning, first_look

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
    """What one process of several does, until cancelled: every look, or all but looking and filing.

    Who reads the others beside it would otherwise read everything twice.
    """
    from operator_sre.app import audit
    from operator_sre.app.beginning import beginning, each_look

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
