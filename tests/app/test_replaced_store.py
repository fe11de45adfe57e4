"""A home whose store was replaced by an older copy: it can be read, and nothing runs."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from operator_protocols.domain.verdict import Mode
from operator_protocols.errors import LedgerDamagedError
from operator_sre.app.audit import verify_ledger
from operator_sre.app.store import backup_store, restore_store
from operator_sre.app.wiring import kept_head, open_app
from operator_sre.config import Config, load_config
from operator_sre.controls import MACHINE


def _silent(count: int) -> None:
    return None


def _decide(config: Config, reason: str) -> None:
    with open_app(config) as app:
        asyncio.run(app.store.modes.set("shop", Mode.OBSERVE, by="ada", reason=reason))


def test_an_older_store_runs_nothing_until_that_is_recorded(tmp_path: Path) -> None:
    config = load_config(flags={"home": str(tmp_path / "home")}, environ={}, cwd=tmp_path)
    assert isinstance(config.store, Path)
    _decide(config, "before the copy")
    shutil.copy(config.store, tmp_path / "old.db")
    _decide(config, "after the copy")
    for name in ("", "-wal", "-shm", "-search"):
        config.store.with_name(f"operator.db{name}").unlink(missing_ok=True)
    shutil.copy(tmp_path / "old.db", config.store)
    with open_app(config) as app:
        with pytest.raises(LedgerDamagedError, match="was replaced"):
            app.controls(MACHINE)
        assert app.mode_of(MACHINE) is Mode.OBSERVE
        report = verify_ledger(app, progress=_silent)
        assert [one.detail for one in report.damages] == [
            "entry 2 was anchored, but the log ends at 1"
        ]
        assert kept_head(config, app.clock, app.key).read() is not None
    backup_store(config, tmp_path / "saved.db", force=False, progress=_silent)
    restore_store(config, tmp_path / "saved.db", force=True, progress=_silent, reason="meant")
    with open_app(config) as app:
        assert app.controls(MACHINE) is not None
        assert verify_ledger(app, progress=_silent).whole
