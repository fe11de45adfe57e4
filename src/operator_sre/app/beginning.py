"""How a story begins: what is watched, by whom, what may be done, and how it is found."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from datetime import datetime

from operator_protocols.domain.health import Health, worst
from operator_protocols.domain.verdict import Mode
from operator_sre.app.story import Line
from operator_sre.app.wiring import App

__all__ = ["beginning", "each_look", "first_look"]

NAMED_MAX = 3

_MAY = {
    Mode.OBSERVE: "only proposes, changes nothing",
    Mode.APPROVE: "asks a person before every change",
    Mode.EXECUTE: "does by itself what the policy allows",
}


def beginning(app: App, subjects: Sequence[str], *, works: bool = True) -> Sequence[Line]:
    """What to tell before anything has happened; `works` when tickets are worked on as well."""
    from operator_sre.app.models import thinking_model

    who = f"{socket.gethostname()}:{os.getpid()}"
    lines = [Line("watch", _watching(app, name, who)) for name in subjects]
    if works:
        lines += [Line("decide", f"{name}: {_may(app, name)}") for name in subjects]
        lines.append(Line("think", f"tickets are worked on by {thinking_model(app.config)}"))
        if app.store.switch.state().on:
            off = "the kill switch is on, nothing is done until: operator kill-switch off"
            lines.append(Line("decide", off, "bad"))
    return lines


def first_look(app: App, subject: str, since: datetime) -> Line | None:
    """How a subject was found by the first look after `since`; None until there is one."""
    newest = app.store.observations.newest(subject, limit=1)
    if not newest or newest[0].at < since:
        return None
    conditions = app.store.conditions.of(subject)
    health = worst(one.health for one in conditions) if conditions else Health.UNKNOWN
    wrong = sum(one.health is not Health.HEALTHY for one in conditions)
    if health is Health.HEALTHY:
        return Line("watch", f"{subject} is healthy: every invariant holds", "good")
    return Line("watch", f"{subject} is {health}: {wrong} of {len(conditions)} do not hold", "bad")


def each_look(app: App, subject: str, since: datetime) -> tuple[datetime, Line] | None:
    """The newest look after `since`: when, and how it found a subject; None until there is one."""
    newest = app.store.observations.newest(subject, limit=1)
    if not newest or newest[0].at <= since:
        return None
    conditions = app.store.conditions.of(subject)
    if not conditions:
        return None  # what was seen is written before what it means
    broken = [one for one in conditions if one.health is Health.BROKEN]
    unknown = sum(one.health is Health.UNKNOWN for one in conditions)
    if not broken and not unknown:
        return newest[0].at, Line("watch", f"looked: all {len(conditions)} conditions hold", "good")
    named = [f"{one.invariant} at {one.target}" for one in broken[:NAMED_MAX]]
    if len(broken) > NAMED_MAX:
        named.append(f"{len(broken) - NAMED_MAX} more")
    told = [f"BROKEN {', '.join(named)}"] if named else []
    told += [f"{unknown} unknown"] if unknown else []
    return newest[0].at, Line("watch", f"looked: {'; '.join(told)}", "bad")


def _watching(app: App, subject: str, who: str) -> str:
    return f"{subject} is looked at every {app.config.interval_of(subject):g} s by {who}"


def _may(app: App, subject: str) -> str:
    mode = app.mode_of(subject)
    return f"mode {mode}, {_MAY[mode]}"
