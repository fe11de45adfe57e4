"""How much runs without a person, for each subject."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from operator_protocols.domain.verdict import Mode
from operator_protocols.errors import UsageError
from operator_sre.app.persons import administrator
from operator_sre.app.wiring import App

__all__ = ["ModeView", "mode_named", "reset_modes", "set_modes", "show_modes", "unconfirmed"]


@dataclass(frozen=True, slots=True)
class ModeView:
    """The mode that counts for a subject, and whose word it is."""

    subject: str
    mode: Mode
    source: str
    by: str = ""
    reason: str = ""


def show_modes(app: App) -> list[ModeView]:
    """What counts for every subject, and for those that have none: the configured mode."""
    names = [*app.subjects(), *(one.subject for one in app.store.modes.find())]
    found = [_view(app, name) for name in dict.fromkeys(names)]
    return found or [ModeView("-", app.config.mode, app.config.sources["mode"])]


def mode_named(text: str) -> Mode:
    """A mode by its name; UsageError lists those there are."""
    if text not in set(Mode):
        raise UsageError(f"There is no mode {text!r}.", next_step=f"Modes: {', '.join(Mode)}.")
    return Mode(text)


def unconfirmed(app: App, mode: Mode, subjects: Sequence[str]) -> list[str]:
    """The subjects for which a person has to confirm it: what executes outside a rig."""
    chosen = app.choose(subjects)
    return [one for one in chosen if mode is Mode.EXECUTE and not app.is_rig(one)]


async def set_modes(
    app: App, mode: Mode, subjects: Sequence[str], *, reason: str
) -> list[ModeView]:
    """It counts instead of the configured one, for these or the only subject there is."""
    person = administrator(app, "set a mode")
    chosen = app.choose(subjects)
    for subject in chosen:
        await app.store.modes.set(subject, mode, by=person, reason=reason)
    return [_view(app, subject) for subject in chosen]


async def reset_modes(app: App, subjects: Sequence[str], *, reason: str) -> list[ModeView]:
    """The configured mode counts again, for these subjects or for all."""
    person = administrator(app, "reset a mode")
    known = [one.subject for one in app.store.modes.find()]
    for subject in known:
        if not subjects or subject in subjects:
            await app.store.modes.reset(subject, by=person, reason=reason)
    return show_modes(app)


def _view(app: App, subject: str) -> ModeView:
    mode = app.mode_of(subject)
    switch = app.store.switch.state()
    if switch.on:
        return ModeView(subject, mode, "kill switch", switch.by, switch.reason)
    for one in app.store.modes.find(subject):
        return ModeView(subject, mode, "set", one.by, one.reason)
    told = subject in app.rules().modes and app.config.sources["mode"] != "flag"
    return ModeView(subject, mode, "policy" if told else app.config.sources["mode"])
