"""Which engine a name means."""

from __future__ import annotations

from pathlib import Path

from operator_protocols.errors import UsageError
from operator_protocols.ports import Backlog, Engine, Workers
from operator_sre.engine.cluster import ClusterEngine
from operator_sre.engine.joining import must_be_installed
from operator_sre.engine.local import LocalEngine

__all__ = ["ENGINES", "engine_named"]

ENGINES = ("local", "dbos")


def engine_named(
    name: str, local: LocalEngine, where: str | Path, *, backlog: Backlog, workers: Workers
) -> Engine:
    """The engine of this name on the store at `where`. Nothing is started yet."""
    if name == "local":
        return local
    if name != "dbos":
        raise UsageError(
            f"There is no engine {name!r}.", next_step=f"Choose one of: {', '.join(ENGINES)}."
        )
    if isinstance(where, Path) or not where.startswith("postgres"):
        raise UsageError(
            "The engine dbos needs a store in PostgreSQL, and this one is a file.",
            next_step="Name one with --store postgresql://user@host:5432/database.",
        )
    must_be_installed()
    return ClusterEngine(local=local, backlog=backlog, workers=workers, url=where)
