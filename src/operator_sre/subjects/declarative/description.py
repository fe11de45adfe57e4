"""A description of a system, read from a file.

All of the file is understood, or the error names the line.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from operator_protocols.domain.health import Severity
from operator_protocols.domain.target import Access, Target
from operator_protocols.errors import ConfigError
from operator_sre.ownership import must_be_trusted
from operator_sre.subjects.declarative.cause import (
    SHARED,
    DeclaredCause,
    implied_by,
    read_causes,
    read_names,
)
from operator_sre.subjects.declarative.document import (
    FILE_BYTES_MAX,
    Node,
    Table,
    nearest,
    parse,
)
from operator_sre.subjects.declarative.expression import Reference
from operator_sre.subjects.declarative.invariants import (
    DeclaredInvariant,
    blanks,
    read_expression,
)
from operator_sre.subjects.declarative.lever import Lever, read_levers
from operator_sre.subjects.declarative.probes.kinds import PROBES
from operator_sre.subjects.declarative.probes.place import Probe

__all__ = [
    "ACCESS_KEYS",
    "INVARIANT_KEYS",
    "SECTIONS",
    "TARGET_KEYS",
    "DeclaredProbe",
    "Description",
    "describe",
    "read_description",
    "speaks_of",
]

SECTIONS = ("name", "targets", "probes", "invariants", "causes", "levers", "notes")
TARGET_KEYS = (
    *("kind", "host", "port", "endpoints", "depends_on", "log", "data_dir", "pid_file"),
    *("runs_at", "access"),
)
ACCESS_KEYS = tuple(Access.__dataclass_fields__)
INVARIANT_KEYS = ("holds", "on", "for", "grace", "severity", "says", "causes")
GRACE_S_MAX = 3599.0
PROBE_TIMEOUT_S_MAX = 60.0
# The monitor's own word for what cannot be seen.
_OBSERVABLE = "observable"
_TARGET_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")
# A path is the folder of a socket, as PostgreSQL takes it.
_HOST = re.compile(r"[A-Za-z0-9_.:-]{1,253}|/[A-Za-z0-9_./-]{1,100}")
_ENDPOINT = re.compile(r"(?:[A-Za-z0-9_.-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\]):[0-9]{1,5}")
_RUNS_AT = re.compile(r"(?:ssh|docker|kubectl)://\S{1,300}")


@dataclass(frozen=True, slots=True)
class DeclaredProbe:
    """A probe by its name, with the targets that it observes."""

    name: str
    probe: Probe
    on: frozenset[str] = frozenset()
    timeout_s: float | None = None


@dataclass(frozen=True, slots=True)
class Description:
    """Everything that a file says. `pid_files` are where targets write who they are."""

    name: str
    targets: tuple[Target, ...] = ()
    probes: tuple[DeclaredProbe, ...] = ()
    invariants: tuple[DeclaredInvariant, ...] = ()
    causes: tuple[DeclaredCause, ...] = ()
    levers: tuple[Lever, ...] = ()
    notes: str = ""
    pid_files: Mapping[str, str] = field(default_factory=dict)

    @property
    def parts(
        self,
    ) -> Sequence[tuple[str, DeclaredProbe | DeclaredInvariant | DeclaredCause | Lever]]:
        """Everything that has an `on`, each with its noun."""
        return (
            *(("the probe", probe) for probe in self.probes),
            *(("the invariant", invariant) for invariant in self.invariants),
            *(("the cause", cause) for cause in self.causes),
            *(("the lever", lever) for lever in self.levers),
        )


def speaks_of(on: frozenset[str], target: Target) -> bool:
    """True when a list of kinds and names means a target; one without any means all."""
    return not on or target.kind in on or target.name in on


def read_description(path: Path) -> Description:
    """What a file says; ConfigError with the first thing that makes no sense."""
    must_be_trusted(path, ConfigError)
    try:
        with path.open("rb") as opened:
            text = opened.read(FILE_BYTES_MAX + 1).decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not text"
        raise ConfigError(
            f"{str(path)!r} cannot be read: {why}.",
            next_step="Write one with: operator subjects init",
        ) from error
    return describe(text, str(path), folder=str(path.absolute().parent))


def describe(text: str, file: str, *, folder: str = "/") -> Description:
    """The same for a text; relative paths in it are below `folder`."""
    root = Table(parse(text, file), file, "the file", SECTIONS)
    name = root.require_text("name")
    if not _TARGET_NAME.fullmatch(name):
        raise root.wrong(f"{name[:60]!r} is not a valid name for a subject.", "name")
    targets, pid_files = _read_targets(root, folder)
    probes = _read_probes(root, targets, folder)
    by_name = {probe.name: probe for probe in probes}

    def read_on(table: Table) -> frozenset[str]:
        return _read_on(table, targets)

    def find_problem(reference: Reference, on: frozenset[str]) -> str:
        return _find_problem(reference, on, targets, by_name)

    causes = read_causes(root, read_on, find_problem)
    known = [*SHARED, *(cause.name for cause in causes)]
    invariants = _read_invariants(root, targets, by_name, known)
    if not invariants:
        raise root.wrong("there are no invariants. Add at least one.")
    names = [invariant.name for invariant in invariants]
    levers = read_levers(root, targets, folder, known, names, read_on, find_problem)
    _check_names(root, causes, names, levers)
    repaired = {cause for lever in levers for cause in lever.ends}
    implied = tuple(implied_by(each) for each in invariants if each.name in repaired)
    return Description(
        name=name,
        targets=targets,
        probes=probes,
        invariants=invariants,
        causes=(*causes, *implied),
        levers=tuple(_add_remedies(lever, causes) for lever in levers),
        notes=root.text("notes"),
        pid_files=pid_files,
    )


def _check_names(
    root: Table,
    causes: Sequence[DeclaredCause],
    invariants: Sequence[str],
    levers: Sequence[Lever],
) -> None:
    """Refuse names that mean two things, and remedies that are none of the levers."""
    section = root.table("causes")
    for cause in causes if section is not None else ():
        assert section is not None
        if cause.name in invariants:
            raise section.wrong(f"{cause.name!r} is a cause and an invariant.", cause.name)
        table = section.table(cause.name)
        assert table is not None
        read_names(table, "remedies", "a lever", [lever.name for lever in levers])


def _add_remedies(lever: Lever, causes: Sequence[DeclaredCause]) -> Lever:
    """The lever with the causes that name it as their remedy."""
    more = tuple(cause.name for cause in causes if lever.name in cause.remedies)
    return replace(lever, ends=tuple(dict.fromkeys((*lever.ends, *more))))


def _read_targets(root: Table, folder: str) -> tuple[tuple[Target, ...], dict[str, str]]:
    """All targets, and by name the files in which they write their pid."""
    section = root.table("targets")
    if section is None:
        return (), {}
    targets: list[Target] = []
    pid_files: dict[str, str] = {}
    for name in section:
        if not _TARGET_NAME.fullmatch(name):
            raise section.wrong(f"{name[:60]!r} is not a valid name for a target.", name)
        table = section.table(name, *TARGET_KEYS)
        if table is None:
            raise section.wrong(f"the target {name!r} needs a 'kind'.", name)
        table.place = f"the target {name!r}"
        kind = table.require_text("kind")
        if not _TARGET_NAME.fullmatch(kind):
            raise table.wrong(f"{kind[:60]!r} is not a valid name for a kind.", "kind")
        host = table.text("host", "127.0.0.1")
        if not _HOST.fullmatch(host):
            raise table.wrong(f"{host[:60]!r} is not a valid host.", "host")
        endpoints = table.texts("endpoints")
        for place in endpoints:
            if not _ENDPOINT.fullmatch(place) or not 0 < int(place.rpartition(":")[2]) < 65536:
                raise table.wrong(f"{place[:60]!r} is not a valid host:port.", "endpoints")
        runs_at = table.text("runs_at")
        if runs_at and not _RUNS_AT.fullmatch(runs_at):
            hint = "Write ssh://user@host, docker://container or kubectl://context/namespace/pod."
            raise table.wrong(f"{runs_at[:60]!r} is not a valid place.", "runs_at", next_step=hint)
        log, data_dir = table.text("log"), table.text("data_dir")
        target = Target(
            name=name,
            kind=kind,
            host=host,
            port=table.port(),
            depends_on=table.texts("depends_on"),
            log=_below(folder, log) if log and not runs_at else log,
            data_dir=_below(folder, data_dir) if data_dir and not runs_at else data_dir,
            runs_at=runs_at,
            endpoints=endpoints,
            access=_read_access(table, folder),
        )
        targets.append(target)
        if pid_file := table.text("pid_file"):
            pid_files[name] = pid_file if runs_at else _below(folder, pid_file)
    names = [target.name for target in targets]
    for target in targets:
        for need in target.depends_on:
            if need not in names or need == target.name:
                raise section.wrong(
                    f"{target.name!r} depends on {need[:60]!r}, which is not another target.",
                    target.name,
                    next_step=nearest(need, names),
                )
    return tuple(targets), pid_files


def _read_access(table: Table, folder: str) -> Access | None:
    """How something wants to be spoken to; secrets are files, never words."""
    inner = table.table("access", *ACCESS_KEYS)
    if inner is None:
        return None
    words = {
        key: _below(folder, value) if key.endswith("_file") else value
        for key in ACCESS_KEYS
        if key != "tls" and (value := inner.text(key))
    }
    return Access(tls=inner.flag("tls"), **words)


def _read_on(table: Table, targets: tuple[Target, ...]) -> frozenset[str]:
    """Kinds or names of targets; those of operator.toml are not known here."""
    words = table.texts("on")
    known = {word for target in targets for word in (target.kind, target.name)}
    for word in words if known else ():
        if word not in known:
            raise table.wrong(
                f"{word[:60]!r} is neither a kind nor a name of a target.",
                "on",
                next_step=nearest(word, sorted(known)),
            )
    return frozenset(words)


def _below(folder: str, path: str) -> str:
    """A path of a description; a relative one begins where the description lies."""
    return str(Path(folder, Path(path).expanduser()))


def _read_probes(
    root: Table, targets: tuple[Target, ...], folder: str
) -> tuple[DeclaredProbe, ...]:
    """All probes; every target needs one."""
    probes = []
    for name, node in root.tables("probes", "a probe").items():
        table = Table(node, root.file, f"the probe {name!r}", (*PROBES, "on", "timeout"))
        kinds = [kind for kind in PROBES if kind in table]
        if len(kinds) != 1:
            raise table.wrong(f"{table.place} needs one of: {', '.join(PROBES)}.")
        (kind,) = kinds
        # `tcp:` alone asks for nothing special.
        bare = Table(Node({}, table.line, {}), root.file, f"{kind!r} of {table.place}")
        probe = DeclaredProbe(
            name=name,
            probe=PROBES[kind].read(
                table.table(kind, *PROBES[kind].keys) or bare,
                folder,
                lambda inner: _read_access(inner, folder),
            ),
            on=_read_on(table, targets),
            timeout_s=table.seconds("timeout", None, high=PROBE_TIMEOUT_S_MAX),
        )
        probes.append(probe)
    for target in targets:
        if not any(speaks_of(probe.on, target) for probe in probes):
            raise root.wrong(
                f"no probe covers the target {target.name!r}.",
                "probes",
                next_step=f"Add one with 'on: {target.kind}'.",
            )
    return tuple(probes)


def _read_invariants(
    root: Table,
    targets: tuple[Target, ...],
    probes: Mapping[str, DeclaredProbe],
    causes: Sequence[str],
) -> tuple[DeclaredInvariant, ...]:
    invariants = []
    for name, node in root.tables("invariants", "an invariant").items():
        table = Table(node, root.file, f"the invariant {name!r}", INVARIANT_KEYS)
        if name == _OBSERVABLE:
            raise table.wrong(f"{name!r} is reserved for targets that cannot be observed.")
        on = _read_on(table, targets)

        def find_problem(reference: Reference, on: frozenset[str] = on) -> str:
            return _find_problem(reference, on, targets, probes)

        expression = read_expression(table, "holds", find_problem)
        says = table.text("says")
        for blank in blanks(says):
            probe, _, value = blank.partition(".")
            if blank == "target":
                continue
            if not value:
                hint = nearest(blank, ("target", *probes))
                problem = f"there is no value {{{blank[:40]}}}. {hint}"
                raise table.wrong(f"'says' of {table.place}: {problem}", "says")
            if problem := find_problem(Reference(probe, value)):
                raise table.wrong(f"'says' of {table.place}: {problem}", "says")
        if "for" in table and "grace" in table:
            raise table.wrong("'for' and 'grace' are the same; write one.", "grace")
        invariant = DeclaredInvariant(
            name=name,
            severity=Severity(table.choice("severity", tuple(Severity), Severity.WARNING)),
            grace_s=table.seconds("grace" if "grace" in table else "for", 0.0, high=GRACE_S_MAX),
            expression=expression,
            says=says,
            on=on,
            kinds={target.name: target.kind for target in targets},
            causes=read_names(table, "causes", "a cause", causes),
        )
        invariants.append(invariant)
    return tuple(invariants)


def _find_problem(
    reference: Reference,
    on: frozenset[str],
    targets: tuple[Target, ...],
    probes: Mapping[str, DeclaredProbe],
) -> str:
    """What is wrong with a value that is named: what no probe shows would be UNKNOWN for ever."""
    declared = probes.get(reference.probe)
    if declared is None:
        hint = nearest(reference.probe, probes)
        return f"there is no probe {reference.probe[:40]!r}. {hint}".strip()
    fields = declared.probe.fields
    if not reference.field or (fields is not None and reference.field not in fields):
        hint = nearest(reference.field, sorted(fields or ()))
        name, value = reference.probe, reference.field[:40]
        return f"the probe {name!r} has no value {value!r}. {hint}".strip()
    meant = [target for target in targets if speaks_of(on, target)]
    if reference.target:
        meant = [target for target in targets if target.name == reference.target]
        if not meant:
            hint = nearest(reference.target, [target.name for target in targets])
            return f"there is no target {reference.target[:40]!r}. {hint}".strip()
    for target in meant:
        if not speaks_of(declared.on, target):
            return f"the probe {reference.probe!r} does not cover {target.name!r}"
    return ""
