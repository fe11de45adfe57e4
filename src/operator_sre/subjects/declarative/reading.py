"""From a file to a Description: all of it is understood, or the line that is not is told."""

from __future__ import annotations

from pathlib import Path

from operator_protocols.domain.health import Severity
from operator_protocols.domain.target import Target
from operator_protocols.errors import ConfigError
from operator_sre.ownership import must_be_trusted
from operator_sre.subjects.declarative.description import DeclaredProbe, Description, speaks_of
from operator_sre.subjects.declarative.document import FILE_BYTES_MAX, parse
from operator_sre.subjects.declarative.expression import ExpressionError, Reference, compiled
from operator_sre.subjects.declarative.invariants import DeclaredInvariant, blanks
from operator_sre.subjects.declarative.reading_levers import read_levers
from operator_sre.subjects.declarative.reading_probes import read_probes
from operator_sre.subjects.declarative.reading_targets import NAME_OF_TARGET, read_on, read_targets
from operator_sre.subjects.declarative.table import Table, nearest

__all__ = ["KEYS", "SECTIONS", "describe", "read_description"]

SECTIONS = ("name", "targets", "probes", "invariants", "levers", "notes")
GRACE_S_MAX = 3599.0
KEYS = ("holds", "on", "for", "grace", "severity", "says")
# The monitor's own word for what cannot be seen.
_OBSERVABLE = "observable"


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
    name = root.needed("name")
    if not NAME_OF_TARGET.fullmatch(name):
        raise root.wrong(f"{name[:60]!r} is no name for a subject.", "name")
    targets, pid_files = read_targets(root, folder)
    probes = read_probes(root, targets, folder)
    known = _Known(targets, {probe.name: probe for probe in probes})
    invariants = tuple(
        _invariant(one, Table(node, file, f"the invariant {one!r}", KEYS), known)
        for one, node in root.tables("invariants", "an invariant").items()
    )
    if not invariants:
        raise root.wrong("there are no invariants: nothing could ever be wrong.")
    return Description(
        name=name,
        targets=targets,
        probes=probes,
        invariants=invariants,
        levers=read_levers(root, targets, folder),
        notes=root.text("notes"),
        pid_files=pid_files,
    )


def _invariant(name: str, table: Table, known: _Known) -> DeclaredInvariant:
    if name == _OBSERVABLE:
        raise table.wrong(f"{name!r} is what is said of a target that cannot be seen.")
    on = read_on(table, known.targets)
    try:
        expression = compiled(table.needed("holds"), lambda one: known.unknown(one, on))
    except ExpressionError as error:
        told = str(error)
        end = "" if told.endswith("?") else "."
        raise table.wrong(f"'holds' of {table.place}: {told.rstrip('.')}{end}", "holds") from error
    if not expression.references:
        raise table.wrong(f"{table.place} names no value of a probe.", "holds")
    says = table.text("says")
    for blank in blanks(says):
        probe, _, field = blank.partition(".")
        if blank != "target" and (problem := known.unknown(Reference(probe, field), on)):
            raise table.wrong(f"'says' of {table.place}: {problem}", "says")
    if "for" in table and "grace" in table:
        raise table.wrong("'for' and 'grace' are the same; write one.", "grace")
    return DeclaredInvariant(
        name=name,
        severity=Severity(table.choice("severity", tuple(Severity), Severity.WARNING)),
        grace_s=table.seconds("grace" if "grace" in table else "for", 0.0, high=GRACE_S_MAX),
        expression=expression,
        says=says,
        on=on,
        kinds={target.name: target.kind for target in known.targets},
    )


class _Known:
    """What an expression can name; what no probe shows would be UNKNOWN for ever."""

    def __init__(self, targets: tuple[Target, ...], probes: dict[str, DeclaredProbe]) -> None:
        self.targets = targets
        self._probes = probes

    def unknown(self, one: Reference, on: frozenset[str]) -> str:
        """What is wrong with a value that is named, or ""."""
        declared = self._probes.get(one.probe)
        if declared is None:
            hint = nearest(one.probe, self._probes)
            return f"there is no probe {one.probe[:40]!r}. {hint}".strip()
        fields = declared.probe.fields
        if not one.field or (fields is not None and one.field not in fields):
            hint = nearest(one.field, sorted(fields or ()))
            return f"the probe {one.probe!r} has no value {one.field[:40]!r}. {hint}".strip()
        meant = [target for target in self.targets if speaks_of(on, target)]
        if one.target:
            meant = [target for target in self.targets if target.name == one.target]
            if not meant:
                hint = nearest(one.target, [target.name for target in self.targets])
                return f"there is no target {one.target[:40]!r}. {hint}".strip()
        for target in meant:
            if not speaks_of(declared.on, target):
                return f"the probe {one.probe!r} does not look at {target.name!r}"
        return ""
