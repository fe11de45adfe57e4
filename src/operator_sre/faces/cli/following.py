"""The ledger as it grows: a story on a terminal, or JSON lines for programs."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any

from operator_sre.faces.cli.output import clean, is_quiet, print_json, print_lines

if TYPE_CHECKING:
    from operator_protocols.domain.entry import Entry
    from operator_sre.app.wiring import App

__all__ = ["follow", "show_entries", "with_entries"]

FOLLOW_S = 0.2


async def with_entries(
    app: App,
    work: Coroutine[Any, Any, None],
    *,
    as_json: bool,
    subjects: Callable[[], Sequence[str]] = tuple,
    works: bool = True,
    tell: bool = False,
) -> None:
    """Do the work; what the ledger gets meanwhile is told.

    With `as_json` every new entry is a JSON document on a line. On a terminal it is a story that
    begins with what is watched; without one there are only log lines, and with --quiet only errors.
    With `tell` there is always a story, of what this process does itself.
    """
    from operator_sre.app import audit

    newest = audit.tail(app, count=1)
    seq = newest[-1].seq if newest else 0
    if as_json:
        telling: Coroutine[Any, Any, None] = follow(app, seq, as_json=True)
    elif tell and not is_quiet():
        from operator_sre.faces.cli.storytelling import tell_work

        telling = tell_work(app, seq, subjects=subjects, works=works)
    elif sys.stdout.isatty() and not is_quiet():
        from operator_sre.faces.cli.logs import set_up_logging
        from operator_sre.faces.cli.storytelling import tell_live

        if app.config.sources["log_level"] == "default":
            # Both at once would say everything twice.
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
