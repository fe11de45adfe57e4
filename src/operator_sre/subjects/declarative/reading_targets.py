"""The section `targets`: what a system is made of, and how each part wants to be spoken to."""

from __future__ import annotations

import re
from pathlib import Path

from operator_protocols.domain.target import Access, Target
from operator_sre.subjects.declarative.table import Table, nearest

__all__ = [
    "ACCESS_KEYS",
    "KEYS",
    "NAME_OF_TARGET",
    "below",
    "read_access",
    "read_on",
    "read_targets",
]

NAME_OF_TARGET = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")
# A path is the folder of a socket, as PostgreSQL takes it.
_HOST = re.compile(r"[A-Za-z0-9_.:-]{1,253}|/[A-Za-z0-9_./-]{1,100}")
_ENDPOINT = re.compile(r"(?:[A-Za-z0-9_.-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\]):[0-9]{1,5}")
_RUNS_AT = re.compile(r"(?:ssh|docker|kubectl)://\S{1,300}")
KEYS = (
    *("kind", "host", "port", "endpoints", "depends_on", "log", "data_dir", "pid_file"),
    *("runs_at", "access"),
)
ACCESS_KEYS = tuple(Access.__dataclass_fields__)


def read_targets(root: Table, folder: str) -> tuple[tuple[Target, ...], dict[str, str]]:
    """All targets, and by name the files in which they write their pid."""
    section = root.table("targets")
    if section is None:
        return (), {}
    found: list[Target] = []
    pid_files: dict[str, str] = {}
    for name in section:
        if not NAME_OF_TARGET.fullmatch(name):
            raise section.wrong(f"{name[:60]!r} is no name for a target.", name)
        table = section.table(name, *KEYS)
        if table is None:
            raise section.wrong(f"the target {name!r} needs a 'kind'.", name)
        table.place = f"the target {name!r}"
        found.append(_target(name, table, folder))
        if pid_file := table.text("pid_file"):
            pid_files[name] = below(folder, pid_file)
    names = [target.name for target in found]
    for target in found:
        for need in target.depends_on:
            if need not in names or need == target.name:
                raise section.wrong(
                    f"{target.name!r} depends on {need[:60]!r}, which is no other target.",
                    target.name,
                    next_step=nearest(need, names),
                )
    return tuple(found), pid_files


def _target(name: str, table: Table, folder: str) -> Target:
    kind = table.needed("kind")
    if not NAME_OF_TARGET.fullmatch(kind):
        raise table.wrong(f"{kind[:60]!r} is no name for a kind.", "kind")
    host = table.text("host", "127.0.0.1")
    if not _HOST.fullmatch(host):
        raise table.wrong(f"{host[:60]!r} is no host.", "host")
    endpoints = table.texts("endpoints")
    for one in endpoints:
        if not _ENDPOINT.fullmatch(one) or not 0 < int(one.rpartition(":")[2]) < 65536:
            raise table.wrong(f"{one[:60]!r} is no host:port.", "endpoints")
    runs_at = table.text("runs_at")
    if runs_at and not _RUNS_AT.fullmatch(runs_at):
        hint = "Write ssh://user@host, docker://container or kubectl://context/namespace/pod."
        raise table.wrong(f"{runs_at[:60]!r} is no place.", "runs_at", next_step=hint)
    log, data_dir = table.text("log"), table.text("data_dir")
    here = not runs_at
    return Target(
        name=name,
        kind=kind,
        host=host,
        port=table.port(),
        depends_on=table.texts("depends_on"),
        log=below(folder, log) if log and here else log,
        data_dir=below(folder, data_dir) if data_dir and here else data_dir,
        runs_at=runs_at,
        endpoints=endpoints,
        access=read_access(table, folder),
    )


def read_access(table: Table, folder: str) -> Access | None:
    """How something wants to be spoken to; secrets are files, never words."""
    inner = table.table("access", *ACCESS_KEYS)
    if inner is None:
        return None
    found = {
        key: below(folder, value) if key.endswith("_file") else value
        for key in ACCESS_KEYS
        if key != "tls" and (value := inner.text(key))
    }
    return Access(tls=inner.flag("tls"), **found)


def read_on(table: Table, targets: tuple[Target, ...]) -> frozenset[str]:
    """Kinds or names of targets; those of operator.toml are not known here."""
    wanted = table.texts("on")
    known = {word for target in targets for word in (target.kind, target.name)}
    for one in wanted if known else ():
        if one not in known:
            raise table.wrong(
                f"{one[:60]!r} is neither a kind nor a name of a target.",
                "on",
                next_step=nearest(one, sorted(known)),
            )
    return frozenset(wanted)


def below(folder: str, path: str) -> str:
    """A path of a description; a relative one begins where the description lies."""
    return str(Path(folder, Path(path).expanduser()))
