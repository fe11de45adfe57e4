"""Plug-ins, found by entry point; ours come in by the same door as anybody's."""

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

    from operator_protocols.ports import Plugin

__all__ = ["CAPABILITIES", "GROUP", "PERMISSIONS", "find_checker", "find_plugin", "plugin_names"]

GROUP = "operator.subjects"
PERMISSIONS = "operator.permissions"
CAPABILITIES = "operator.capabilities"
T = TypeVar("T")
FILES_MAX = 5000
_OURS = "operator_sre"
_REINSTALL = "Reinstall the package it came from."


def plugin_names() -> list[str]:
    """The names of all subjects that are installed; loads none of them."""
    return sorted({point.name for point in _points(GROUP)})


def find_plugin(name: str) -> Plugin:
    """The plug-in of that name, loaded. NotFoundError lists the names there are."""
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


def find_checker(group: str, kind: type[T], otherwise: T) -> T:
    """The one that is installed in a group, an object that has the verbs of `kind`; or ours.

    One that is broken, or that is not the only one, raises: nobody may more because of that.
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
    # A class has the verbs too, and each of them would want one argument more.
    if isinstance(checker, type) or not isinstance(checker, kind):
        raise MissingPluginError(
            f"{points[0].name!r} in {group!r} is broken: it is not a {kind.__name__}.",
            next_step=_REINSTALL,
        )
    return checker


def _points(group: str) -> tuple[EntryPoint, ...]:
    """What is installed in a group; looked for again when any folder it could lie in has changed.

    Looking takes milliseconds for every hundred packages, and a server asks for each request.
    """
    return _installed(group, tuple((place, _changed_at(place)) for place in sys.path))


@lru_cache(maxsize=16)
def _installed(group: str, places: tuple[tuple[str, int], ...]) -> tuple[EntryPoint, ...]:
    return tuple(_selection(places)(group=group))


@lru_cache(maxsize=1)
def _selection(places: tuple[tuple[str, int], ...]) -> Callable[..., EntryPoints]:
    """Selects among all groups: reading one of them takes as long as reading all of them."""
    from importlib.metadata import entry_points  # most commands ask for no plug-in

    return entry_points().select


def _changed_at(place: str) -> int:
    try:
        return Path(place or ".").stat().st_mtime_ns
    except OSError:
        return 0


def _load(point: EntryPoint, what: str) -> Any:
    # What is loaded already has run, and our own package has run before this line.
    if point.module not in sys.modules and point.module.partition(".")[0] != _OURS:
        for path in _files(point):
            must_be_trusted(path, MissingPluginError)
    try:
        return point.load()
    except Exception as error:  # a stranger's module may raise anything while it is loaded
        raise MissingPluginError(
            f"{what} cannot be loaded: {error}.", next_step=_REINSTALL
        ) from error


def _files(point: EntryPoint) -> Iterator[Path]:
    """What is run when it is loaded: where it is named, and the package or module it comes from."""
    named = getattr(point.dist, "_path", None)  # the folder that says what is installed
    if named is not None:
        yield Path(str(named))
        yield Path(str(named)) / "entry_points.txt"
    try:
        # Only the first name: looking for one below it would run what is above.
        found = find_spec(point.module.partition(".")[0])
    except (ImportError, ValueError):
        return  # it cannot be loaded, which is said when that is tried
    if found is None:
        return
    if found.has_location and found.origin:
        yield Path(found.origin)
    for folder in found.submodule_search_locations or ():
        yield Path(folder)
        for at, (root, folders, names) in enumerate(os.walk(folder)):
            if at >= FILES_MAX:
                return
            code = [name for name in names if name.endswith((".py", ".so", ".pyc"))]
            yield from (Path(root) / name for name in (*folders, *code))
