"""The store as a whole, as faces ask for it: in a file, or on a server."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from operator_protocols.domain.entry import Kind
from operator_protocols.errors import UsageError
from operator_sre.app.store import (
    backup_store,
    check_store,
    migrate_store,
    plan_purge,
    purge_store,
    rebuild_store,
    restore_store,
)
from operator_sre.app.wiring import maintenance_of
from operator_sre.config import Config, load_config
from tests.contract.clock import HeldClock
from tests.contract.postgres import database_in
from tests.contract.stores import STORES
from tests.store.life import Estate, quietly


def _config(home: Path, store: str = "") -> Config:
    config = load_config(flags={"home": str(home)}, environ={}, cwd=home)
    return replace(config, values={**config.values, "store": store})


@pytest.fixture(params=sorted(STORES))
def config(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Config]:
    """Settings of a home whose store has lived, in each database."""
    with database_in(str(request.param), tmp_path, request.config) as place:
        Estate(place, tmp_path, HeldClock()).live()
        yield _config(tmp_path, place)


def test_what_is_saved_can_be_brought_to_the_other_database(config: Config, tmp_path: Path) -> None:
    saved = backup_store(config, tmp_path / "saved.db", force=False, progress=quietly)
    other = _config(tmp_path / "other")
    restored = restore_store(other, saved.path, force=False, progress=quietly)
    assert (restored.head, restored.entries) == (saved.head, saved.entries)
    back = restore_store(config, saved.path, force=True, progress=quietly)
    assert back.saved is not None
    assert back.saved.parent == tmp_path / "backups"
    for one in (config, other):
        assert check_store(one, progress=quietly).sound
        assert rebuild_store(one, progress=quietly) == ()
        assert migrate_store(one).backup is None


def test_a_purge_is_planned_and_then_done_in_the_name_of_who_is_signed_in(config: Config) -> None:
    plan = plan_purge(config, "2026-03-05")
    assert plan.entries > 0
    entry = purge_store(config, plan, progress=quietly)
    assert (entry.kind, entry.actor.type) == (Kind.PURGED, "user")
    assert plan_purge(config, "2026-03-05").entries == 0
    assert check_store(config, progress=quietly).sound


@pytest.mark.parametrize("text", ["", "yesterday", "2026-13-01", "2999-01-01"])
def test_only_a_day_that_has_been_is_a_limit(tmp_path: Path, text: str) -> None:
    with pytest.raises(UsageError):
        plan_purge(_config(tmp_path), text)


@pytest.mark.parametrize("text", ["2026-03-04", "2026-03-04T00:00", "2026-03-04T01:00+01:00"])
def test_a_day_without_a_zone_is_one_of_utc(config: Config, text: str) -> None:
    assert plan_purge(config, text).before.isoformat().startswith("2026-03-04T")
    assert plan_purge(config, text).before == plan_purge(config, "2026-03-04").before


def test_nothing_is_made_by_asking(tmp_path: Path) -> None:
    maintenance = maintenance_of(_config(tmp_path / "home"))
    assert maintenance.database.version() == 0
    assert not (tmp_path / "home").exists()
