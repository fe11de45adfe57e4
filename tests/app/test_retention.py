"""Retention takes what is old enough, by the setting only, and the ledger still verifies."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

from operator_protocols.domain.entry import Draft, Kind
from operator_sre.app.retention import RETENTION, purge_old_entries, retain_entries
from operator_sre.app.store import check_store
from operator_sre.clock import SystemClock
from tests.app.home import opened

OLD = Draft(Kind.REASONING, {"reasoning": "long ago"})


class Later(SystemClock):
    """The real clock, ten days ahead."""

    def now(self) -> datetime:
        return super().now() + timedelta(days=10)


def test_entries_go_once_they_are_older_than_the_setting(tmp_path: Path) -> None:
    with opened(tmp_path, "ledger_days = 9\n") as app:
        asyncio.run(app.store.journal.append(OLD))
        assert asyncio.run(purge_old_entries(app)) is None, "it is young"
        later = replace(app, clock=Later())
        entry = asyncio.run(purge_old_entries(later))
        assert entry is not None
        assert (entry.kind, entry.actor, entry.payload["entries"]) == (Kind.PURGED, RETENTION, 1)
        report = check_store(app.config, progress=lambda count: None)
        assert report.sound
        assert report.purged == 1
        assert asyncio.run(purge_old_entries(later)) is None, "there is no more of it"


def test_without_the_setting_nothing_is_ever_purged(tmp_path: Path) -> None:
    with opened(tmp_path) as app:
        asyncio.run(app.store.journal.append(OLD))
        later = replace(app, clock=Later())
        assert asyncio.run(purge_old_entries(later)) is None
        asyncio.run(asyncio.wait_for(retain_entries(later), 10))
        assert check_store(app.config, progress=lambda count: None).purged == 0
