"""Finds plug-ins by entry point, the built-in ones like any others."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from operator_protocols.errors import MissingPluginError, NotFoundError
from operator_sre.ownership import must_be_trusted

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint, EntryPoints

    from operator_protocols.ports import Plugin, RecordReader

__all__ = [
    "CAPABILITIES",
    "GROUP",
    "PERMISSIONS",
    "find_checker",
    "find_plugin",
    "find_reader",
    "plugin_names",
]

GROUP = "operator.subjects"
PERMISSIONS = "operator.permissions"
CAPABILITIES = "operator.capabilities"
RECORDS = "operator.records"
T = TypeVar("T")
FILES_MAX = 5000
_OURS = "operator_sre"
_REINSTALL = "Reinstall the package it came from."


def plugin_names() -> list[str]:
    """The names of all installed subjects; loads none of them."""
    return sorted({point.name for point in _points(GROUP)})


def find_plugin(name: str) -> Plugin:
    """Load the plug-in of that name. NotFoundError lists the installed names."""
    from operator_protocols.ports import Plugin

    points = [point for point in _points(GROUP) if point.name == name]
    if not points:
        raise NotFoundError(
            f"There is no subject {name!r}.",
            next_step=f"Known subjects: {', '.join(plugin_names()) or 'none'}.",
        )
    plugin = _load(points[0], f"The subject {name!r}")
    if not isinstance(plugin, Plugin):
        raise MissingPluginError(
            f"The subject {name!r} is broken: {points[0].value!r} is not a Plugin.",
            next_step=_REINSTALL,
        )
    return plugin


def find_reader(name: str) -> RecordReader:
    """Load the reader of recorded systems of that name; MissingPluginError if there is none."""
    from operator_protocols.ports import RecordReader

    points = [point for point in _points(RECORDS) if point.name == name]
    reader = _load(points[0], f"The reader {name!r}") if points else None
    if not isinstance(reader, RecordReader):
        raise MissingPluginError(
            f"No installed package can read records of {name!r}.", next_step=_REINSTALL
        )
    return reader


def find_checker(group: str, kind: type[T], otherwise: T) -> T:
    """Load the object with the methods of `kind` installed in a group, or return `otherwise`.

    A plug-in that is broken, or not the only one, raises an error instead of granting more.
    """
    points = _points(group)
    if not points:
        return otherwise
    if len(points) > 1:
        names = ", ".join(sorted(point.value for point in points))
        raise MissingPluginError(
            f"Only one plug-in may be installed for {group!r}, but there are several: {names}.",
            next_step="Uninstall all but one.",
        )
    checker = _load(points[0], f"{points[0].name!r} in {group!r}")
    # A class has the methods too, but they would lack their first argument.
    if isinstance(checker, type) or not isinstance(checker, kind):
        raise MissingPluginError(
            f"{points[0].name!r} in {group!r} is broken: it is not a {kind.__name__}.",
            next_step=_REINSTALL,
        )
    return checker


def _points(group: str) -> tuple[EntryPoint, ...]:
    """The entry points of a group, cached until a folder of the import path changes.

    Reading them takes milliseconds for every hundred packages, and a server asks for each request.
    """
    places = []
    for place in sys.path:
        try:
            places.append((place, Path(place or ".").stat().st_mtime_ns))
        except OSError:
            places.append((place, 0))
    return _select_points(group, tuple(places))


@lru_cache(maxsize=16)
def _select_points(group: str, places: tuple[tuple[str, int], ...]) -> tuple[EntryPoint, ...]:
    return tuple(_selection(places)(group=group))


@lru_cache(maxsize=1)
def _selection(places: tuple[tuple[str, int], ...]) -> Callable[..., EntryPoints]:
    """Selects among all groups: reading one of them takes as long as reading all of them."""
    from importlib.metadata import entry_points  # most commands load no plug-in

    return entry_points().select


def _load(point: EntryPoint, title: str) -> Any:
    # The code of a loaded module has run already, and so has that of our own package.
    if point.module not in sys.modules and point.module.partition(".")[0] != _OURS:
        for path in _files(point):
            must_be_trusted(path, MissingPluginError)
    try:
        return point.load()
    except Exception as error:  # the module of a plug-in may raise anything
        raise MissingPluginError(
            f"{title} cannot be loaded: {error}.", next_step=_REINSTALL
        ) from error


def _files(point: EntryPoint) -> Iterator[Path]:
    """The files that loading a plug-in trusts: its metadata, and its package or module."""
    metadata = getattr(point.dist, "_path", None)
    if metadata is not None:
        yield Path(str(metadata))
        yield Path(str(metadata)) / "entry_points.txt"
    try:
        # Only the first name: finding a name below it would import what is above.
        spec = find_spec(point.module.partition(".")[0])
    except (ImportError, ValueError):
        return  # loading it raises a better error
    if spec is None:
        return
    if spec.has_location and spec.origin:
        yield Path(spec.origin)
    for folder in spec.submodule_search_locations or ():
        yield Path(folder)
        for at, (root, folders, names) in enumerate(os.walk(folder)):
            if at >= FILES_MAX:
                return
            code = [name for name in names if name.endswith((".py", ".so", ".pyc"))]
            yield from (Path(root) / name for name in (*folders, *code))
