"""Everything needed to care for one subject, put together."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from operator_protocols.ports import Plugin, Subject
    from operator_sre.app.wiring.home import App
    from operator_sre.pipeline import Care

__all__ = ["care_of", "notes_of"]


def care_of(app: App, name: str) -> Care:
    """The subject of this name, with the gate and the hands that are meant for it."""
    from operator_sre.app.context import comments_of, context_of
    from operator_sre.gate import Turns
    from operator_sre.pipeline import Care

    plugin = app.plugin_of(name)
    hands = app.hands(name)
    subject = plugin.subject(hands.settings)
    return Care(
        subject=_told(app, subject),
        gate=hands.gate,
        executor=hands.executor,
        propose=hands.propose,
        causes=plugin.causes,
        notes=notes_of(plugin, subject),
        turns=Turns(name, app.store.changes, hands.executor.limits, app.clock),
        context=context_of(app, hands.targets),
        comments=partial(comments_of, app.store.entries),
    )


def notes_of(plugin: Plugin, subject: Subject) -> str:
    """What holds for all subjects of a plug-in, and what this one has to say itself."""
    from operator_protocols.ports import Noted

    own = subject.notes if isinstance(subject, Noted) else ""
    return "\n".join(note.strip() for note in (plugin.notes, own) if note.strip())


def _told(app: App, subject: Subject) -> Subject:
    """The subject, with what triggers tell of it."""
    from operator_sre.triggers.subject import WithAlerts

    if not any(one.subject == subject.name for one in app.config.triggers):
        return subject
    # Less than a look may take in all: alerts count also where the rest cannot be seen.
    timeout_s = app.config.look_s * 2 / 3
    return WithAlerts(subject, app.store.alerts, clock=app.clock, timeout_s=timeout_s)
