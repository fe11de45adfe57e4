"""The only place that names concrete classes: of stores, engines, transports and their parts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from operator_sre.app.wiring.home import OWN, App, kept_head, look_at_app, maintenance_of, open_app

if TYPE_CHECKING:
    # Types of the store's maintenance; other callers do not load them.
    from operator_sre.store.backup import Backup, Restored
    from operator_sre.store.maintenance import Maintenance, PurgePlan
    from operator_sre.store.rebuild import CheckReport, Difference
    from operator_sre.store.schema import Migrated

__all__ = [
    "OWN",
    "App",
    "Backup",
    "CheckReport",
    "Difference",
    "Maintenance",
    "Migrated",
    "PurgePlan",
    "Restored",
    "kept_head",
    "look_at_app",
    "maintenance_of",
    "open_app",
]


def __getattr__(name: str) -> object:
    """The types of reports at run time, which only schemas need."""
    if name not in {"CheckReport", "Difference"}:
        raise AttributeError(name)
    from operator_sre.store import rebuild

    return getattr(rebuild, name)
