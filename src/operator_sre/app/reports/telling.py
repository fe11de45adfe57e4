"""Facts of a report as phrases that every rendering uses. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from operator_protocols.domain.budget import Spent
from operator_sre.app.reports.report import Deed, Permission, Report
from operator_sre.app.reports.wording import moment, span

__all__ = ["cost_of", "facts_of", "mind_name", "permission_of", "result_of", "verdict_of"]

BUILT_IN = "reasoner"


def mind_name(model: str) -> str:
    """How people call a mind."""
    return "the built-in reasoner" if model == BUILT_IN else model


def cost_of(spent: Spent) -> str:
    """What thinking cost; a dash for what is free."""
    if not spent.tokens and not spent.usd:
        return "-"
    tokens = f"{spent.tokens_in} tokens in, {spent.tokens_out} out"
    return f"{tokens}, {spent.usd:.4f} USD" if spent.usd else tokens


def facts_of(report: Report) -> Sequence[tuple[str, str]]:
    """What stands at the top of it, by name."""
    clock = report.clock
    facts = [
        ("state", report.state),
        ("severity", report.severity),
        ("subject", f"{report.subject}, {report.target}"),
        ("first seen broken", moment(clock.began_at)),
        ("ticket opened", _after(clock.detected_at, report)),
        ("understood", _after(clock.understood_at, report)),
        ("repaired", _after(clock.repaired_at, report)),
        ("holds since", _after(clock.over_at, report)),
        ("all held from", _after(report.proof.proof.since if report.proof else None, report)),
        ("ended", _after(clock.ended_at, report)),
        ("broken for", span(report.impact.lasted_s)),
        (
            "who thought",
            ", ".join(dict.fromkeys(mind_name(one.model) for one in report.minds)) or "nobody",
        ),
    ]
    if report.assignee:
        facts.append(("assigned to", report.assignee))
    facts.append(("cost of thinking", cost_of(report.spent)))
    if report.reason:
        facts.append(("in short", report.reason))
    return [(name, text) for name, text in facts if text != "-"]


def _after(at: datetime | None, report: Report) -> str:
    if at is None:
        return "-"
    return f"{moment(at)} (+{span((at - report.clock.began_at).total_seconds())})"


def verdict_of(deed: Deed) -> str:
    """What the gate thought of it."""
    if not deed.level:
        return "it was never judged"
    rules = f" [{', '.join(deed.rules)}]" if deed.rules else ""
    explanation = f": {deed.explanation}" if deed.explanation else ""
    back = {True: ", can be taken back", False: ", cannot be taken back"}
    reversible = "" if deed.reversible is None else back[deed.reversible]
    return f"{deed.level.upper()}, risk {deed.risk}{reversible}{explanation}{rules}"


def permission_of(permission: Permission) -> str:
    """Who let it run, or did not."""
    match permission.how:
        case "policy":
            return "by the policy, without asking"
        case "rule":
            return f"by the standing rule {permission.rule}"
        case "people":
            by = f" by {', '.join(permission.by)}" if permission.by else ""
            when = f" at {moment(permission.decided_at)}" if permission.decided_at else ""
            waited = ""
            if permission.asked_at and permission.decided_at:
                seconds = (permission.decided_at - permission.asked_at).total_seconds()
                waited = f", {span(seconds)} after it was asked"
            reason = f": {permission.reason}" if permission.reason else ""
            return f"{permission.state}{by}{when}{waited} (request {permission.approval}){reason}"
        case _:
            return "nobody allowed it"


def result_of(deed: Deed) -> str:
    """What became of it, in a line."""
    if deed.outcome == "ran":
        lines = deed.output.splitlines()
        said = f": {lines[-1].strip()}" if lines else ""
        return f"exit {deed.exit_code} in {span(deed.duration_s)}{said}"
    if deed.outcome == "refused":
        return f"not run: {' '.join(deed.output.split())}"
    if not deed.outcome:
        return "waits for a person" if deed.permission.state == "pending" else "not over"
    return deed.outcome.replace("_", " ")
