"""The section `probes`: what is asked of which targets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from operator_protocols.domain.target import Target
from operator_sre.subjects.declarative.description import DeclaredProbe, speaks_of
from operator_sre.subjects.declarative.document import Node
from operator_sre.subjects.declarative.probes import (
    command,
    file,
    http,
    process,
    prometheus,
    redis,
    sql,
    tcp,
)
from operator_sre.subjects.declarative.probes.place import Probe
from operator_sre.subjects.declarative.reading_targets import below, read_access, read_on
from operator_sre.subjects.declarative.table import Table

__all__ = ["KINDS", "read_probes"]

TIMEOUT_S_MAX = 60.0
KINDS: Mapping[str, Sequence[str]] = {
    "http": http.KEYS,
    "tcp": tcp.KEYS,
    "prometheus": prometheus.KEYS,
    "command": command.KEYS,
    "sql": sql.KEYS,
    "redis": redis.KEYS,
    "file": file.KEYS,
    "process": process.KEYS,
}


def read_probes(root: Table, targets: tuple[Target, ...], folder: str) -> tuple[DeclaredProbe, ...]:
    """All probes; every target has to be looked at by one."""
    found = tuple(
        _probe(name, node, root.file, targets, folder)
        for name, node in root.tables("probes", "a probe").items()
    )
    for target in targets:
        if not any(speaks_of(one.on, target) for one in found):
            raise root.wrong(
                f"no probe looks at the target {target.name!r}.",
                "probes",
                next_step=f"Add one with 'on: {target.kind}'.",
            )
    return found


def _probe(
    name: str, node: Node, file_name: str, targets: tuple[Target, ...], folder: str
) -> DeclaredProbe:
    table = Table(node, file_name, f"the probe {name!r}", (*KINDS, "on", "timeout"))
    kinds = [kind for kind in KINDS if kind in table]
    if len(kinds) != 1:
        raise table.wrong(f"{table.place} needs one of: {', '.join(KINDS)}.")
    kind = kinds[0]
    # `tcp:` alone asks for nothing special.
    bare = Table(Node({}, table.line, {}), file_name, f"{kind!r} of {table.place}")
    inner = table.table(kind, *KINDS[kind]) or bare
    return DeclaredProbe(
        name=name,
        probe=_asking(kind, inner, folder),
        on=read_on(table, targets),
        timeout_s=table.seconds("timeout", None, high=TIMEOUT_S_MAX),
    )


def _asking(kind: str, table: Table, folder: str) -> Probe:
    readers: Mapping[str, Callable[[], Probe]] = {
        "http": lambda: _http(table, folder),
        "tcp": lambda: tcp.read_tcp(table),
        "prometheus": lambda: prometheus.read_prometheus(table, read_access(table, folder)),
        "command": lambda: command.read_command_probe(table, folder),
        "sql": lambda: sql.read_sql(table),
        "redis": lambda: redis.read_redis(table),
        "file": lambda: file.read_file(table, folder),
        "process": lambda: process.read_process(table, folder),
    }
    return readers[kind]()


def _http(table: Table, folder: str) -> Probe:
    found = http.read_http(table)
    files = {name: below(folder, path) for name, path in found.header_files.items()}
    return replace(found, header_files=files)
