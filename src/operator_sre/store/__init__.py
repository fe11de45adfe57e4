"""Every stored noun's port on one database with shared transactions."""

from __future__ import annotations

from operator_sre.store.store import Store, open_store, store_on

__all__ = ["Store", "open_store", "store_on"]
