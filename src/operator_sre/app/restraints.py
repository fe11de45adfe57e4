"""What holds agents back: modes, limits, the kill switch; and how each is loosened."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from operator_protocols.domain.action import digest_of
from operator_protocols.domain.command import CommandFilter
from operator_protocols.domain.confirmation import Boundary, Confirmation
from operator_protocols.domain.entry import Actor, Draft, Kind
from operator_protocols.domain.limits import Limits, SwitchState, Usage
from operator_protocols.domain.standing_rule import Scope, StandingRule
from operator_protocols.domain.ticket import TicketState
from operator_protocols.domain.verdict import Level, Mode, Risk
from operator_protocols.errors import UsageError
from operator_sre.app.confirmations import Asked, Crossing, Effect
from operator_sre.app.persons import administrator, must_be_a_person, signed_in
from operator_sre.app.sessions import session_digest
from operator_sre.app.wiring import App
from operator_sre.codec import from_json, to_json
from operator_sre.controls import MACHINE

__all__ = [
    "CROSSING",
    "LimitsView",
    "ModeView",
    "PartlyRun",
    "Stopped",
    "execute_asked",
    "limits_asked",
    "limits_of",
    "list_unconfirmed",
    "mode_named",
    "reset_asked",
    "reset_limits",
    "reset_modes",
    "rule_asked",
    "set_modes",
    "show_limits",
    "show_modes",
    "switch_asked",
    "switch_off",
    "switch_on",
    "switch_state",
]

RUNNING_MAX = 1000
# Shorter than the usual grace: the kill switch has to take effect within two seconds.
GRACE_S = 0.5


@dataclass(frozen=True, slots=True)
class ModeView:
    """The mode that counts for a subject, and whose word it is."""

    subject: str
    mode: Mode
    source: str
    by: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class LimitsView:
    """The limits of a subject, what they go by, and why no change may begin now."""

    subject: str
    limits: Limits
    usage: Usage
    refusal: str


@dataclass(frozen=True, slots=True)
class PartlyRun:
    """A command that was running when the switch was turned on."""

    seq: int
    command: str
    target: str
    ticket: int | None


@dataclass(frozen=True, slots=True)
class Stopped:
    """What the switch found and stopped.

    `pending_proposals` are requests that can no longer be approved, `processes` pids that
    this command stopped itself, `tasks` tickets that an agent was working on. `observed` are the
    subjects that were set to observe instead, where only changes were stopped.
    """

    switch: SwitchState
    pending_proposals: tuple[str, ...]
    processes: tuple[int, ...]
    docker_containers: tuple[str, ...]
    docker: str
    tasks: tuple[int, ...]
    partly_run: tuple[PartlyRun, ...]
    took_s: float
    observed: tuple[str, ...] = ()


def show_modes(app: App) -> list[ModeView]:
    """The mode of every subject, and the configured default."""
    names = [*app.subjects(), *(mode.subject for mode in app.store.modes.find())]
    views = [_mode_view(app, name) for name in dict.fromkeys(names)]
    return views or [ModeView("-", app.config.mode, app.config.sources["mode"])]


def mode_named(text: str) -> Mode:
    """A mode by its name; UsageError lists those there are."""
    if text not in set(Mode):
        raise UsageError(f"{text!r} is not a valid mode.", next_step=f"Modes: {', '.join(Mode)}.")
    return Mode(text)


def list_unconfirmed(app: App, mode: Mode, subjects: Sequence[str]) -> list[str]:
    """The subjects for which a person has to confirm it: what executes outside a rig."""
    chosen = app.choose(subjects)
    return [subject for subject in chosen if mode is Mode.EXECUTE and not app.is_rig(subject)]


async def set_modes(
    app: App, mode: Mode, subjects: Sequence[str], *, reason: str
) -> list[ModeView]:
    """It counts instead of the configured one, for these or the only subject there is."""
    person = administrator(app, "set a mode")
    chosen = app.choose(subjects)
    for subject in chosen:
        await app.store.modes.set(subject, mode, by=person, reason=reason)
    return [_mode_view(app, subject) for subject in chosen]


async def reset_modes(app: App, subjects: Sequence[str], *, reason: str) -> list[ModeView]:
    """The configured mode counts again, for these subjects or for all."""
    person = administrator(app, "reset a mode")
    known = [mode.subject for mode in app.store.modes.find()]
    for subject in known:
        if not subjects or subject in subjects:
            await app.store.modes.reset(subject, by=person, reason=reason)
    return show_modes(app)


def execute_asked(app: App, mode: Mode, subjects: Sequence[str], *, reason: str) -> Asked | None:
    """The confirmation that this mode requires; None when it requires none."""
    if not (outside := list_unconfirmed(app, mode, subjects)):
        return None
    return _mode_asked(app, "set", app.choose(subjects), outside, reason)


def reset_asked(app: App, subjects: Sequence[str], *, reason: str) -> Asked | None:
    """The same for going back to the configured mode, where that one executes."""
    chosen = [mode for mode in app.store.modes.find() if not subjects or mode.subject in subjects]
    outside = [
        subject.subject
        for subject in chosen
        if subject.mode is not Mode.EXECUTE
        and _configured_mode(app, subject.subject) is Mode.EXECUTE
        and not app.is_rig(subject.subject)
    ]
    if not outside:
        return None
    return _mode_asked(app, "reset", [subject.subject for subject in chosen], outside, reason)


def _mode_asked(
    app: App, deed: str, subjects: Sequence[str], outside: Sequence[str], reason: str
) -> Asked:
    names = ", ".join(map(repr, outside))
    return Asked(
        Boundary.MODE_EXECUTE,
        {"deed": deed, "mode": Mode.EXECUTE.value, "subjects": list(subjects), "reason": reason},
        Risk.HIGH,
        f"{names} is not a rig: what the policy allows runs there without approval.",
        {"modes": _modes_digest(app, subjects)},
        destinations=tuple(outside),
    )


def _configured_mode(app: App, subject: str) -> Mode:
    flag = app.config.sources["mode"] == "flag"
    return app.config.mode if flag else app.rules().modes.get(subject, app.config.mode)


def _mode_view(app: App, subject: str) -> ModeView:
    mode, switch = app.mode_of(subject), app.store.switch.state()
    if switch.on:
        return ModeView(subject, mode, "kill switch", switch.by, switch.reason)
    for setting in app.store.modes.find(subject):
        return ModeView(subject, mode, "set", setting.by, setting.reason)
    by_policy = subject in app.rules().modes and app.config.sources["mode"] != "flag"
    return ModeView(subject, mode, "policy" if by_policy else app.config.sources["mode"])


def show_limits(app: App) -> list[LimitsView]:
    """Every subject that can be watched from here, and the machine where it was changed."""
    views = [_limits_view(app, name) for name in dict.fromkeys([*app.subjects(), MACHINE])]
    return [view for view in views if view.subject != MACHINE or view.usage != Usage(MACHINE)]


def limits_of(app: App, subject: str) -> LimitsView:
    """The limits of one subject, or of the machine."""
    (chosen,) = [MACHINE] if subject == MACHINE else app.choose([subject])
    return _limits_view(app, chosen)


async def reset_limits(app: App, subject: str, *, reason: str) -> LimitsView:
    """Count from here on: changes are allowed again at once."""
    (chosen,) = [MACHINE] if subject == MACHINE else app.choose([subject])
    await app.store.limit_usage.reset(chosen, by=administrator(app, "reset limits"), reason=reason)
    return _limits_view(app, chosen)


def _limits_view(app: App, subject: str) -> LimitsView:
    limits = app.limits_of(len(app.targets_of(subject)), rig=app.is_rig(subject))
    now = app.clock.now()
    usage = app.store.limit_usage.usage(subject, limits, now=now)
    return LimitsView(subject, limits, usage, limits.refusal(usage, now))


def switch_state(app: App) -> SwitchState:
    """How the kill switch stands."""
    return app.store.switch.state()


async def switch_on(app: App, *, reason: str, changes_only: bool = False) -> Stopped:
    """Permit nothing from here on and end what runs. Fine when it is on already.

    With `changes_only` every subject is set to observe instead: pending requests are cancelled,
    checks go on, and a change that runs ends by itself.
    """
    # Reading a mode does not load the code that stops commands.
    from asyncio import gather

    from operator_sre.executor.containers import end_containers

    must_be_a_person(app)
    started = app.clock.monotonic()
    if changes_only:
        return await _hold_changes(app, started, reason)
    cancelled = await app.store.switch.turn_on(by=signed_in(), reason=reason)
    running = app.store.commands.newest(CommandFilter(outcome="running"), limit=RUNNING_MAX)
    partly_run = tuple(
        PartlyRun(command.seq, command.command, command.target, command.ticket)
        for command in running
    )
    tasks = tuple(ticket.id for ticket in app.store.tickets.find(states=[TicketState.CLAIMED]))
    processes, containers = await gather(
        app.running.end_all(grace_s=GRACE_S), end_containers(app.home_id)
    )
    return Stopped(
        switch=switch_state(app),
        pending_proposals=tuple(cancelled),
        processes=processes,
        docker_containers=containers.ended,
        docker=containers.note,
        tasks=tasks,
        partly_run=partly_run,
        took_s=round(app.clock.monotonic() - started, 3),
    )


async def _hold_changes(app: App, started_s: float, reason: str) -> Stopped:
    names = [*app.subjects(), *(mode.subject for mode in app.store.modes.find()), MACHINE]
    subjects = tuple(dict.fromkeys(names))
    cancelled = await app.store.modes.hold(subjects, by=signed_in(), reason=reason)
    running = app.store.commands.newest(CommandFilter(outcome="running"), limit=RUNNING_MAX)
    return Stopped(
        switch=switch_state(app),
        pending_proposals=tuple(cancelled),
        processes=(),
        docker_containers=(),
        docker="",
        tasks=(),
        partly_run=tuple(
            PartlyRun(command.seq, command.command, command.target, command.ticket)
            for command in running
            if command.level != Level.SAFE.value
        ),
        took_s=round(app.clock.monotonic() - started_s, 3),
        observed=subjects,
    )


async def switch_off(app: App, *, reason: str) -> SwitchState:
    """Let permits be given again; those from before stay void."""
    await app.store.switch.turn_off(
        by=administrator(app, "turn the kill switch off"), reason=reason
    )
    return switch_state(app)


def limits_asked(app: App, subject: str, *, reason: str) -> Asked | None:
    """The same for a reset of the limits of a subject."""
    usage = limits_of(app, subject).usage
    if usage == Usage(usage.subject):
        return None
    return Asked(
        Boundary.RULE_LOOSENED,
        {"what": "limits", "subject": usage.subject, "reason": reason},
        Risk.MEDIUM,
        f"Reset the limits of {usage.subject!r}: {usage.changes} changes in the last hour"
        f" and {usage.failures} failures in a row no longer count.",
        {"failures": _failures_digest(usage)},
    )


def switch_asked(app: App, *, reason: str) -> Asked | None:
    """The same for turning the kill switch off; None when it is off."""
    state = app.store.switch.state()
    if not state.on:
        return None
    return Asked(
        Boundary.RULE_LOOSENED,
        {"what": "switch", "generation": state.generation, "reason": reason},
        Risk.HIGH,
        "The kill switch is turned off, and agents act again as their mode allows.",
        {"switch": _switch_digest(app)},
    )


def rule_asked(app: App, rule: StandingRule) -> Asked:
    """The same for a rule that lets commands run for always."""
    line = " ".join(rule.argv)
    where = {Scope.TICKET: "its ticket", Scope.SUBJECT: "its subject"}.get(rule.scope, "everywhere")
    return Asked(
        Boundary.RULE_LOOSENED,
        {"what": "rule", "rule": to_json(rule)},
        rule.risk,
        f"Commands like {line!r} ({rule.likeness}) run without approval, for {where}.",
        {"policy": app.rules().digest},
        ticket=rule.ticket if rule.scope is Scope.TICKET else None,
    )


def _modes_digest(app: App, subjects: Sequence[str]) -> str:
    """What holds for these now, so that a yes is to a change of exactly that."""
    modes = {mode.subject: mode.mode.value for mode in app.store.modes.find()}
    return digest_of(
        {
            subject: [modes.get(subject, ""), _configured_mode(app, subject).value]
            for subject in sorted(subjects)
        }
    )


def _failures_digest(usage: Usage) -> str:
    """What must not grow unseen; changes of the last hour become fewer by themselves."""
    failed_at = usage.failed_at.isoformat() if usage.failed_at else ""
    return digest_of({"failures": usage.failures, "failed_at": failed_at})


def _switch_digest(app: App) -> str:
    state = app.store.switch.state()
    return digest_of({"on": state.on, "generation": state.generation})


def _why_changed(app: App, confirmation: Confirmation) -> str:
    change, bound = confirmation.change, confirmation.bound
    match _kind_of(confirmation):
        case "mode":
            same = _modes_digest(app, change["subjects"]) == bound.get("modes")
            return "" if same else "the mode has changed since the request"
        case "session":
            same = session_digest(app, str(change["agent"])) == bound.get("session")
            return "" if same else "the session has changed since the request"
        case "switch":
            same = _switch_digest(app) == bound.get("switch")
            return "" if same else "the kill switch has changed since the request"
        case "limits":
            usage = limits_of(app, str(change["subject"])).usage
            same = _failures_digest(usage) == bound.get("failures")
            return "" if same else "more actions have failed since the request"
        case _ if app.store.standing.get(str(change["rule"]["id"])):
            return "a rule with this id already exists"
        case _:  # what a command was judged by is what the person knew of it
            same = app.rules().digest == bound.get("policy")
            return "" if same else "the policy has changed since the request"


def _effect_of(app: App, confirmation: Confirmation, by: Actor) -> Effect:
    change = confirmation.change
    reason = {"reason": change.get("reason", "")}
    match _kind_of(confirmation):
        case "mode" if change["deed"] == "set":
            mode = {"mode": Mode.EXECUTE.value, **reason}
            drafts = [
                (Kind.MODE_SET, {"subject": subject, **mode}) for subject in change["subjects"]
            ]
        case "mode":
            drafts = [
                (Kind.MODE_RESET, {"subject": subject, **reason}) for subject in change["subjects"]
            ]
        case "session":
            drafts = [(Kind.SESSION_RESET, {"agent": change["agent"], **reason})]
        case "switch":
            generation = int(change["generation"]) + 1
            drafts = [(Kind.KILL_SWITCH_OFF, {"generation": generation, **reason})]
        case "limits":
            drafts = [(Kind.LIMITS_RESET, {"subject": change["subject"], **reason})]
        case _:
            rule = from_json(StandingRule, change["rule"])
            ticket = rule.ticket if rule.scope is Scope.TICKET else None
            payload = {"rule": change["rule"]}
            return Effect([Draft(Kind.RULE_ADDED, payload, ticket=ticket, actor=by)])
    return Effect([Draft(kind, payload, actor=by) for kind, payload in drafts])


def _kind_of(confirmation: Confirmation) -> str:
    is_mode = confirmation.boundary is Boundary.MODE_EXECUTE
    return "mode" if is_mode else str(confirmation.change["what"])


_ADMIN_DEEDS = {
    "mode": "set a mode",
    "session": "reset a session",
    "limits": "reset limits",
    "switch": "turn the kill switch off",
}
CROSSING = Crossing(
    admin_action=lambda confirmation: _ADMIN_DEEDS.get(_kind_of(confirmation), ""),
    changed=_why_changed,
    effect=_effect_of,
)
