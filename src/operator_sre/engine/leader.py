"""Which of several monitors on one store checks a subject. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from operator_protocols.domain.watcher import Watch, Watcher

__all__ = ["SILENT_S", "find_leader"]

# A monitor without a heartbeat for this long checks nothing any more.
SILENT_S = 15.0
# A monitor whose last check is older than so many intervals, and this, is stuck.
INTERVALS_MAX, STUCK_S = 3.0, 60.0


def find_leader(watchers: Iterable[Watcher], me: Watcher) -> Watcher | None:
    """The other monitor that checks the one subject of `me`, with that watch alone; None: we do.

    Who checks a subject goes on. Of two who both check it, the older goes on. A subject is left to
    another only while it shows by its heartbeat that it checks it, so that at worst two check.
    """
    (own,) = me.watches
    others = [
        replace(watcher, watches=(watch,))
        for watcher in watchers
        for watch in watcher.watches
        if watcher.worker != me.worker
        and watch.subject == own.subject
        and _checks(watch, me.at)
        and (me.at - watcher.at).total_seconds() <= SILENT_S
    ]
    if own.last_at is not None and not own.leader:  # we check it as well
        mine = (me.started_at, me.worker)
        others = [other for other in others if (other.started_at, other.worker) < mine]
    return min(others, key=lambda other: (other.started_at, other.worker), default=None)


def _checks(watch: Watch, now: datetime) -> bool:
    if watch.leader or watch.last_at is None:
        return False
    age_s = (now - watch.last_at).total_seconds()
    return age_s <= INTERVALS_MAX * watch.interval_s + STUCK_S
