"""Loosening what holds agents back: the switch, a session, limits, a rule for always."""

from __future__ import annotations

from operator_protocols.domain.action import digest_of
from operator_protocols.domain.confirmation import Boundary, Confirmation
from operator_protocols.domain.entry import Actor, Draft, Kind
from operator_protocols.domain.limits import Usage
from operator_protocols.domain.standing import Scope, StandingRule
from operator_protocols.domain.verdict import Risk
from operator_sre.app.crossing import Asked, Crossing, Effect
from operator_sre.app.wiring import App
from operator_sre.codec import from_json, to_json

__all__ = ["CROSSING", "limits_asked", "rule_asked", "session_asked", "switch_asked"]


def session_asked(app: App, agent: str, *, reason: str) -> Asked | None:
    """What a person says yes to before a session begins anew; None where nothing is piled up."""
    from operator_sre.app.sessions import show_session

    view = show_session(app, agent)
    if not view.held and not view.score:
        return None
    now = "is held in observe" if view.held else f"has piled up {view.score}"
    return Asked(
        Boundary.RULE_LOOSENED,
        {"what": "session", "agent": agent, "reason": reason},
        Risk.MEDIUM,
        f"The agent {agent!r} {now}, and begins anew from then on.",
        {"session": _session(app, agent)},
    )


def limits_asked(app: App, subject: str, *, reason: str) -> Asked | None:
    """The same for counting changes of a subject anew; None when nothing is counted."""
    from operator_sre.app.limits import limits_of

    usage = limits_of(app, subject).usage
    chosen = usage.subject
    if usage == Usage(chosen):
        return None
    return Asked(
        Boundary.RULE_LOOSENED,
        {"what": "limits", "subject": chosen, "reason": reason},
        Risk.MEDIUM,
        f"Changes of {chosen!r} are counted from here on: {usage.changes} in the last hour and"
        f" {usage.failures} failures in a row are forgotten.",
        {"failures": _failures(usage)},
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
        "Agents may act again as their mode says: the kill switch is turned off.",
        {"switch": _switch(app)},
    )


def rule_asked(app: App, rule: StandingRule) -> Asked:
    """The same for a rule that lets commands run for always."""
    line = " ".join(rule.argv)
    where = {Scope.TICKET: "its ticket", Scope.SUBJECT: "its subject"}.get(rule.scope, "everywhere")
    return Asked(
        Boundary.RULE_LOOSENED,
        {"what": "rule", "rule": to_json(rule)},
        rule.risk,
        f"What is like {line!r} ({rule.likeness}) runs without asking from then on, for {where}.",
        {"policy": app.rules().digest},
        ticket=rule.ticket if rule.scope is Scope.TICKET else None,
    )


def _session(app: App, agent: str) -> str:
    record = next(iter(app.store.sessions.find(agent)), None)
    return digest_of(None if record is None else to_json(record))


def _failures(usage: Usage) -> str:
    """What must not grow unseen; changes of the last hour become fewer by themselves."""
    failed_at = usage.failed_at.isoformat() if usage.failed_at else ""
    return digest_of({"failures": usage.failures, "failed_at": failed_at})


def _switch(app: App) -> str:
    state = app.store.switch.state()
    return digest_of({"on": state.on, "generation": state.generation})


def _changed(app: App, confirmation: Confirmation) -> str:
    change = confirmation.change
    if change["what"] == "session":
        same = _session(app, str(change["agent"])) == confirmation.bound.get("session")
        return "" if same else "the session has changed since"
    if change["what"] == "switch":
        same = _switch(app) == confirmation.bound.get("switch")
        return "" if same else "the kill switch was turned since"
    if change["what"] == "limits":
        from operator_sre.app.limits import limits_of

        now = _failures(limits_of(app, str(change["subject"])).usage)
        return "" if now == confirmation.bound.get("failures") else "more has failed since"
    if app.store.standing.get(str(change["rule"]["id"])):
        return "there is a rule of that id already"
    # What a command was judged by is what the person knew of it.
    same = app.rules().digest == confirmation.bound.get("policy")
    return "" if same else "the policy has changed since"


def _effect(app: App, confirmation: Confirmation, by: Actor) -> Effect:
    change = confirmation.change
    told = {"reason": change.get("reason", "")}
    match change["what"]:
        case "session":
            payload = {"agent": change["agent"], **told}
            return Effect([Draft(Kind.SESSION_RESET, payload, actor=by)])
        case "switch":
            payload = {"generation": int(change["generation"]) + 1, **told}
            return Effect([Draft(Kind.KILL_SWITCH_OFF, payload, actor=by)])
        case "limits":
            payload = {"subject": change["subject"], **told}
            return Effect([Draft(Kind.LIMITS_RESET, payload, actor=by)])
        case _:
            rule = from_json(StandingRule, change["rule"])
            ticket = rule.ticket if rule.scope is Scope.TICKET else None
            payload = {"rule": change["rule"]}
            return Effect([Draft(Kind.RULE_ADDED, payload, ticket=ticket, actor=by)])


def _deed(confirmation: Confirmation) -> str:
    words = {
        "session": "reset a session",
        "limits": "reset limits",
        "switch": "turn the kill switch off",
    }
    return words.get(str(confirmation.change["what"]), "")


CROSSING = Crossing(deed=_deed, changed=_changed, effect=_effect)
