"""The clusters that a kubeconfig of this user names. Its credentials are neither used nor kept."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

__all__ = ["ClusterContext", "read_contexts"]

FILE_BYTES_MAX = 1 << 20
CONTEXTS_MAX = 20
DEFAULT = Path(".kube/config")


@dataclass(frozen=True, slots=True)
class ClusterContext:
    """A context: the file that has it, its name, and where its API server is."""

    file: str
    name: str
    server: str


def read_contexts(home: Path, variable: str | None = None) -> tuple[ClusterContext, ...]:
    """The contexts of $KUBECONFIG, else of the default file; one for each API server.

    What cannot be read or understood is left out.
    """
    named = os.environ.get("KUBECONFIG", "") if variable is None else variable
    files = [Path(part) for part in named.split(os.pathsep) if part] or [home / DEFAULT]
    found: dict[str, ClusterContext] = {}
    for file in files:
        try:
            with file.open("rb") as opened:
                config = yaml.safe_load(opened.read(FILE_BYTES_MAX))
        except (OSError, yaml.YAMLError, UnicodeDecodeError):
            continue
        servers = {
            name: str(cluster.get("server") or "")
            for name, cluster in _entries(config, "clusters", "cluster").items()
        }
        contexts = _entries(config, "contexts", "context")
        current = str(config.get("current-context") or "") if isinstance(config, dict) else ""
        # Of several contexts of a cluster the current one is proposed.
        for name in sorted(contexts, key=lambda each: each != current):
            server = servers.get(str(contexts[name].get("cluster")), "")
            if server and server not in found and len(found) < CONTEXTS_MAX:
                found[server] = ClusterContext(str(file.absolute()), name, server)
    return tuple(found.values())


def _entries(config: Any, section: str, inner: str) -> dict[str, Mapping[str, Any]]:
    """The named entries of a section of a kubeconfig."""
    rows = config.get(section) if isinstance(config, dict) else None
    return {
        str(row["name"]): row[inner]
        for row in (rows if isinstance(rows, list) else ())
        if isinstance(row, dict) and "name" in row and isinstance(row.get(inner), dict)
    }
