"""How much runs without a person, for each subject."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from operator_protocols.domain.action import digest_of
from operator_protocols.domain.confirmation import Boundary, Confirmation
from operator_protocols.domain.entry import Actor, Draft, Kind
from operator_protocols.domain.verdict import Mode, Risk
from operator_protocols.errors import UsageError
from operator_sre.app.crossing import Asked, Crossing, Effect
from operator_sre.app.persons import administrator
from operator_sre.app.wiring import App

__all__ = [
    "CROSSING",
    "ModeView",
    "execute_asked",
    "mode_named",
    "reset_asked",
    "reset_modes",
    "set_modes",
    "show_modes",
    "unconfirmed",
]


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


def execute_asked(app: App, mode: Mode, subjects: Sequence[str], *, reason: str) -> Asked | None:
    """What a person has to say yes to before this mode is set; None when nobody has to."""
    if not (outside := unconfirmed(app, mode, subjects)):
        return None
    return _asked(app, "set", app.choose(subjects), outside, reason)


def reset_asked(app: App, subjects: Sequence[str], *, reason: str) -> Asked | None:
    """The same for going back to the configured mode, where that one executes."""
    known = [one.subject for one in app.store.modes.find() if one.mode is not Mode.EXECUTE]
    wanted = [one for one in known if not subjects or one in subjects]
    outside = [
        one for one in wanted if _configured(app, one) is Mode.EXECUTE and not app.is_rig(one)
    ]
    if not outside:
        return None
    every = [one.subject for one in app.store.modes.find()]
    chosen = [one for one in every if not subjects or one in subjects]
    return _asked(app, "reset", chosen, outside, reason)


def _asked(
    app: App, deed: str, subjects: Sequence[str], outside: Sequence[str], reason: str
) -> Asked:
    names = ", ".join(map(repr, outside))
    return Asked(
        Boundary.MODE_EXECUTE,
        {"deed": deed, "mode": Mode.EXECUTE.value, "subjects": list(subjects), "reason": reason},
        Risk.HIGH,
        f"{names} is no rig: what the policy allows runs there without a person.",
        {"modes": _ground(app, subjects)},
        destinations=tuple(outside),
    )


def _configured(app: App, subject: str) -> Mode:
    flag = app.config.sources["mode"] == "flag"
    return app.config.mode if flag else app.rules().modes.get(subject, app.config.mode)


def _ground(app: App, subjects: Sequence[str]) -> str:
    """What holds for these now, so that a yes is to a change of exactly that."""
    found = {one.subject: one.mode.value for one in app.store.modes.find()}
    return digest_of(
        {one: [found.get(one, ""), _configured(app, one).value] for one in sorted(subjects)}
    )


def _changed(app: App, confirmation: Confirmation) -> str:
    now = _ground(app, confirmation.change["subjects"])
    return "" if now == confirmation.bound.get("modes") else "the mode has changed since"


def _effect(app: App, confirmation: Confirmation, by: Actor) -> Effect:
    change = confirmation.change
    told = {"mode": Mode.EXECUTE.value} if change["deed"] == "set" else {}
    kind = Kind.MODE_SET if change["deed"] == "set" else Kind.MODE_RESET
    return Effect(
        [
            Draft(kind, {"subject": one, **told, "reason": change["reason"]}, actor=by)
            for one in change["subjects"]
        ]
    )


def _deed(confirmation: Confirmation) -> str:
    return "set a mode"


CROSSING = Crossing(deed=_deed, changed=_changed, effect=_effect)


def _view(app: App, subject: str) -> ModeView:
    mode = app.mode_of(subject)
    switch = app.store.switch.state()
    if switch.on:
        return ModeView(subject, mode, "kill switch", switch.by, switch.reason)
    for one in app.store.modes.find(subject):
        return ModeView(subject, mode, "set", one.by, one.reason)
    told = subject in app.rules().modes and app.config.sources["mode"] != "flag"
    return ModeView(subject, mode, "policy" if told else app.config.sources["mode"])
