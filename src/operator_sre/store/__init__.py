"""Every stored noun's port on one database with shared transactions."""

from __future__ import annotations

from operator_sre.store.store import Store, open_store, open_store_at, store_on

__all__ = ["Store", "open_store", "open_store_at", "store_on"]
