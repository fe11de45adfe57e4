"""Every stored noun's port on one database with shared transactions."""

from __future__ import annotations

from operator_sre.store.sqlite import Store, open_store

__all__ = ["Store", "open_store"]
