"""The ledger as it grows, on the screen or as JSON lines."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING, Any

from operator_sre.faces.cli.output import clean, print_json, print_lines

if TYPE_CHECKING:
    from operator_protocols.domain.entry import Entry
    from operator_sre.app.wiring import App

__all__ = ["follow", "show_entries", "with_entries"]

FOLLOW_S = 0.2


async def with_entries(app: App, work: Coroutine[Any, Any, None], *, as_json: bool) -> None:
    """Do the work; with `as_json` every new entry of the ledger is a JSON document on a line."""
    if not as_json:
        await work
        return
    from operator_sre.app import audit

    newest = audit.tail(app, count=1)
    async with asyncio.TaskGroup() as group:
        group.create_task(follow(app, newest[-1].seq if newest else 0, as_json=True))
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
