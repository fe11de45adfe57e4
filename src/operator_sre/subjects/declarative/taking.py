"""Values that a description takes out of an answer: by a path in JSON, or by a pattern."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from operator_sre.subjects.declarative.patterns import pattern_of
from operator_sre.subjects.declarative.probes.place import Readings
from operator_sre.subjects.declarative.table import NAME, Table
from operator_sre.subjects.declarative.values import number_in, path_of, pick, plain

__all__ = ["Taken", "taken_in"]

TAKEN_MAX = 50
# What probes say of themselves.
_OWN = frozenset({"bytes", "certificate_days", "endpoint", "error", "exit_code", "latency_ms"})
_OWN |= {"matched", "number", "ok", "status", "stdout", "up"}


@dataclass(frozen=True, slots=True)
class Taken:
    """Names with paths into a document, and a pattern whose named groups are values too."""

    paths: Mapping[str, tuple[str | int, ...]] = field(default_factory=dict)
    pattern: str = ""
    groups: tuple[str, ...] = ()

    @property
    def fields(self) -> frozenset[str]:
        """What can be taken."""
        return frozenset({*self.paths, *self.groups, *(("matched",) if self.pattern else ())})

    def found(self, document: object, body: bytes | str) -> Readings:
        """What is there; what is not is left out."""
        readings: Readings = {name: pick(document, path) for name, path in self.paths.items()}
        if self.pattern:
            text = body.decode("utf-8", "replace") if isinstance(body, bytes) else body
            match = pattern_of(self.pattern).search(text)
            readings["matched"] = match is not None
            for name in self.groups if match is not None else ():
                told = match.group(name)
                if told is not None:
                    number = number_in(told)
                    readings[name] = plain(told) if number is None else number
        return {name: value for name, value in readings.items() if value is not None}


def taken_in(table: Table, expect: Table | None = None, *, body: str = "body") -> Taken:
    """What `read` and the pattern under `expect` take."""
    paths: dict[str, tuple[str | int, ...]] = {}
    for name, text in table.pairs("read").items():
        if not NAME.fullmatch(name) or name in _OWN:
            raise table.wrong(f"{name[:40]!r} is no name for a value of its own.", "read")
        try:
            paths[name] = path_of(str(text))
        except ValueError as error:
            raise table.wrong(f"{error}.", "read") from error
    pattern = expect.regex(body) if expect is not None else ""
    groups = tuple(pattern_of(pattern).groupindex) if pattern else ()
    for name in groups:
        assert expect is not None
        if not NAME.fullmatch(name) or name in paths or name in _OWN:
            raise expect.wrong(f"the group {name[:40]!r} is no name of its own.", body)
    if len(paths) + len(groups) > TAKEN_MAX:
        raise table.wrong(f"no more than {TAKEN_MAX} values are read.", "read")
    return Taken(paths, pattern, groups)
