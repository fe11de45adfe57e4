"""Plug-ins, found by entry point; ours come in by the same door as anybody's."""

from __future__ import annotations

from importlib.metadata import entry_points

from operator_protocols.errors import MissingPluginError, NotFoundError
from operator_protocols.ports import Plugin

__all__ = ["GROUP", "find_plugin", "plugin_names"]

GROUP = "operator.subjects"


def plugin_names() -> list[str]:
    """The names of all subjects that are installed; loads none of them."""
    return sorted({point.name for point in entry_points(group=GROUP)})


def find_plugin(name: str) -> Plugin:
    """The plug-in of that name, loaded. NotFoundError lists the names there are."""
    points = [point for point in entry_points(group=GROUP) if point.name == name]
    if not points:
        raise NotFoundError(
            f"There is no subject {name!r}.",
            next_step=f"Known subjects: {', '.join(plugin_names()) or 'none'}.",
        )
    try:
        plugin = points[0].load()
    except Exception as error:  # a stranger's module may raise anything while it is loaded
        raise MissingPluginError(
            f"The subject {name!r} cannot be loaded: {error}.",
            next_step="Reinstall the package it came from.",
        ) from error
    if not isinstance(plugin, Plugin):
        raise MissingPluginError(
            f"The subject {name!r} is broken: {points[0].value!r} is not a Plugin.",
            next_step="Reinstall the package it came from.",
        )
    return plugin
