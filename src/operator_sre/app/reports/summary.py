"""The few sentences that whoever reads no further should have read. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from operator_sre.app.reports.report import Report
from operator_sre.app.reports.wording import moment, plural, share, span

__all__ = ["summary_of"]

NAMED_MAX = 4


def summary_of(report: Report) -> tuple[str, ...]:
    """What happened, why, what was done, and whether it is over."""
    return tuple(_sentences(report))


def _sentences(report: Report) -> Iterator[str]:
    first = report.impact.breaks[0] if report.impact.breaks else None
    where = first.target if first else report.target
    what = f"{first.invariant} ({first.detail})" if first and first.detail else report.title
    yield f"On {moment(report.clock.began_at)}, {where} of {report.subject} broke: {what}."
    others = len(report.impact.breaks) - 1
    if others > 0:
        yield f"{plural(others, 'more break')} belonged to the same incident."
    yield from _cause(report)
    yield from _deeds(report)
    yield _end(report)


def _cause(report: Report) -> Iterator[str]:
    if report.cause is None:
        yield "Nobody has said yet why." if report.minds else "No mind has worked on it."
        return
    diagnosis = report.cause.diagnosis
    backed = sum(one.seq is not None for one in diagnosis.evidence)
    on = f" on {plural(backed, 'piece')} of evidence" if backed else ""
    summary = diagnosis.summary.rstrip(".")
    yield f"Cause, {share(diagnosis.confidence)} sure{on}: {summary}."


def _deeds(report: Report) -> Iterator[str]:
    done = [one for one in report.done if one.outcome not in ("", "refused")]
    if done:
        named = "; ".join(one.command for one in done[:NAMED_MAX])
        more = f" and {len(done) - NAMED_MAX} more" if len(done) > NAMED_MAX else ""
        people = dict.fromkeys(by for one in done for by in one.permission.by)
        who = f", approved by {', '.join(people)}" if people else ""
        looked = len(report.questions)
        after = f" after {plural(looked, 'question')} that changed nothing" if looked else ""
        yield f"What was done{after}: {named}{more}{who}."
    elif report.deeds:
        yield f"Nothing was changed; {plural(len(report.questions), 'question')} asked."
    else:
        yield "Nothing was run."


def _end(report: Report) -> str:
    lasted = report.impact.lasted_s
    if report.proof is not None:
        proof = report.proof.proof
        return (
            f"It was broken for {span(lasted)}, and is resolved with a proof"
            f" ({plural(proof.looks, 'look')} over {span(proof.stable_s)})."
        )
    match report.state:
        case "resolved":
            return f"It is resolved, {span(lasted)} after it was first seen broken."
        case "closed":
            return "A person or a removal closed it without a proof."
        case "escalated":
            return f"It is escalated: a person has to look. {report.reason}".strip()
        case "watched":
            return "It holds again, and is watched until that can be trusted."
        case _:
            return f"It is not over: broken for {span(lasted)} by now."
