"""One audit hook for all that the tests watch.

A hook cannot be removed again, and Python calls it for each file that is opened and each attribute
that is asked for by name. So there is one, and it costs no more than a look into a dictionary.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Iterable

__all__ = ["Watcher", "watch"]

Watcher = Callable[[str, tuple[object, ...]], None]

_watchers: defaultdict[str, list[Watcher]] = defaultdict(list)


def _pass_on(event: str, arguments: tuple[object, ...]) -> None:
    if event in _watchers:
        for watcher in _watchers[event]:
            watcher(event, arguments)


sys.addaudithook(_pass_on)


def watch(events: Iterable[str], watcher: Watcher) -> None:
    """Call the watcher at each of these events; what it raises is raised there."""
    for event in events:
        _watchers[event].append(watcher)
