"""From the facts of a report to what stands where in it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from operator_sre.app.reports.document import (
    Block,
    Bullets,
    Charts,
    Code,
    Heading,
    Line,
    Paragraph,
    Span,
    Table,
)
from operator_sre.app.reports.report import Deed, FollowUp, Report, Understanding
from operator_sre.app.reports.telling import (
    cost_of,
    facts_of,
    mind_name,
    permission_of,
    result_of,
    verdict_of,
)
from operator_sre.app.reports.wording import moment, plural, share, span, time_of_day

__all__ = ["blocks_of"]


def blocks_of(report: Report) -> tuple[Block, ...]:
    """The whole report, section by section."""
    sections = (
        *(_head, _summary, _impact, _timeline, _cause, _alternatives),
        *(_deeds, _questions, _proof, _follow_ups, _who, _foot),
    )
    return tuple(block for section in sections for block in section(report))


def _plain(text: str) -> Line:
    return (Span(text),)


def _code(text: str) -> Line:
    return (Span(text, "code"),) if text else (Span("-"),)


def _mixed(*parts: str | Span) -> Line:
    return tuple(Span(one) if isinstance(one, str) else one for one in parts)


def _seq(seq: int | None) -> Line:
    return _plain("-" if seq is None else str(seq))


def _heading(text: str, level: int = 2) -> Heading:
    return Heading(level, _plain(text))


def _head(report: Report) -> Iterator[Block]:
    yield Heading(1, _plain(f"Incident {report.ticket}: {report.title}"))
    rows = tuple(((Span(name, "strong"),), _plain(text)) for name, text in facts_of(report))
    yield Table((), rows)


def _summary(report: Report) -> Iterator[Block]:
    yield _heading("Summary")
    yield Paragraph(_plain(" ".join(report.summary)))


def _impact(report: Report) -> Iterator[Block]:
    impact, day = report.impact, report.clock.began_at
    yield _heading("Impact")
    rows = tuple(
        (
            _code(one.target),
            _code(one.invariant),
            _plain(one.severity),
            _plain(time_of_day(one.since, day)),
            _plain(_lasted(one.since, one.until)),
            _plain(one.detail or "-"),
            _seq(one.seq),
        )
        for one in impact.breaks
    )
    head = ("target", "invariant", "severity", "since (UTC)", "lasted", "seen", "entry")
    yield Table(head, rows)
    of = f" ({len(impact.affected)} of {plural(impact.targets, 'part')})" if impact.targets else ""
    yield Paragraph(_mixed("Affected: ", *_listed(impact.affected), f"{of}."))
    if impact.unseen:
        yield Paragraph(_mixed("Could not be seen meanwhile: ", *_listed(impact.unseen), "."))
    for one in report.alerts:
        told = "fires still" if one.firing else f"cleared {moment(one.cleared_at)}"
        name, trigger = Span(one.name, "code"), Span(one.trigger, "code")
        line = ("Reported from outside: ", name, " of ", trigger, f" ({told}): {one.summary}")
        yield Paragraph(_mixed(*line))
    yield from _moved(report)
    yield Charts()


def _lasted(since: datetime, until: datetime | None) -> str:
    return span((until - since).total_seconds()) if until else "not known to be over"


def _listed(names: Sequence[str]) -> Iterator[str | Span]:
    for at, name in enumerate(names):
        yield Span(", " if at else "")
        yield Span(name, "code")
    if not names:
        yield "nothing by name"


def _moved(report: Report) -> Iterator[Block]:
    if not report.impact.changes:
        return
    yield Paragraph(_plain(f"What moved, by {plural(report.impact.looks, 'look')} around it:"))
    rows = tuple(
        (
            _code(one.target),
            _code(one.reading),
            *map(_plain, (one.before, one.during, one.after)),
        )
        for one in report.impact.changes
    )
    yield Table(("target", "reading", "before", "while broken", "after"), rows)


def _timeline(report: Report) -> Iterator[Block]:
    yield _heading("Timeline")
    day = report.clock.began_at
    rows = tuple(
        (
            _plain(time_of_day(one.at, day)),
            _plain(f"+{span((one.at - day).total_seconds())}"),
            _plain(one.step),
            _plain(one.text),
            _seq(one.seq),
        )
        for one in report.timeline
    )
    yield Table(("time (UTC)", "after", "step", "what happened", "entry"), rows)


def _cause(report: Report) -> Iterator[Block]:
    yield _heading("Cause")
    found = report.cause
    if found is None:
        yield Paragraph(_plain("No diagnosis was handed in."))
        return
    diagnosis = found.diagnosis
    yield Paragraph((Span(diagnosis.summary, "strong"),))
    sure = f", {share(diagnosis.confidence)} sure (entry {found.seq}). Evidence:"
    yield Paragraph(_mixed(*_blamed(found), sure))
    yield Bullets(tuple(_evidence(found)))
    earlier = report.understandings[:-1]
    if earlier:
        yield Paragraph(_plain("Thought before, and given up:"))
        items = [
            _mixed(*_blamed(one), f": {one.diagnosis.summary} (entry {one.seq})") for one in earlier
        ]
        yield Bullets(tuple(items))


def _blamed(found: Understanding) -> Line:
    diagnosis = found.diagnosis
    return _mixed(Span(diagnosis.cause, "code"), " at ", Span(diagnosis.target, "code"))


def _evidence(found: Understanding) -> Iterator[Line]:
    sources = {one.seq: one for one in found.sources}
    for one in found.diagnosis.evidence:
        if one.seq is None:
            claim = Span("a claim", "strong")
            yield _mixed(f"{one.sentence} (", claim, ", with no entry behind it)")
        elif source := sources.get(one.seq):
            says = Span(source.says, "code")
            yield _mixed(f"{one.sentence} (entry {one.seq}: ", says, ")")
        else:
            yield _plain(f"{one.sentence} (entry {one.seq})")


def _alternatives(report: Report) -> Iterator[Block]:
    if report.cause is None:
        return
    diagnosis = report.cause.diagnosis
    yield _heading("What else it could have been")
    items = [
        _mixed(Span(one.cause, "code"), " at ", Span(one.target, "code"), f": {one.why_rejected}")
        for one in diagnosis.alternatives
    ]
    yield Bullets(tuple(items)) if items else Paragraph(_plain("Nothing else was weighed."))
    if not diagnosis.options:
        return
    yield Paragraph(_plain("What could have been done about it:"))
    rows = tuple(
        (
            _code(one.action),
            _plain(one.risk),
            _plain("yes" if one.reversible else "no"),
            _plain(one.trade_off or "-"),
        )
        for one in diagnosis.options
    )
    yield Table(("option", "risk", "can be taken back", "price"), rows)
    yield Paragraph(_mixed("Chosen: ", Span(diagnosis.choice, "code"), f". {diagnosis.why}"))


def _deeds(report: Report) -> Iterator[Block]:
    yield _heading("What was done")
    if not report.done:
        yield Paragraph(_plain("Nothing was changed."))
    for number, deed in enumerate(report.done, 1):
        at = time_of_day(deed.at, report.clock.began_at)
        target = (" at ", Span(deed.target, "code")) if deed.target else ()
        yield Heading(3, _mixed(f"{number}. {at} UTC", *target, f": {result_of(deed)}"))
        yield Code(deed.command)
        yield Bullets(tuple(_about(deed)))
        if deed.output:
            yield Paragraph(_plain(f"It said{' (the end of it)' if deed.truncated else ''}:"))
            yield Code(deed.output)


def _about(deed: Deed) -> Iterator[Line]:
    if deed.reasoning:
        yield _plain(f"Why: {deed.reasoning}")
    if deed.expected:
        yield _plain(f"Expected: {deed.expected}")
    yield _plain(f"Verdict: {verdict_of(deed)}")
    yield _plain(f"Allowed: {permission_of(deed.permission)}")
    if deed.undone is not None:
        yield _plain(f"Taken back (entry {deed.undone})")
    elif deed.undo:
        yield _mixed("Can be taken back with: ", Span(deed.undo, "code"))
    ended = f" to {deed.result_seq}" if deed.result_seq not in (None, deed.seq) else ""
    yield _plain(f"Entries: {deed.seq}{ended}")


def _questions(report: Report) -> Iterator[Block]:
    if not report.questions:
        return
    count = len(report.questions)
    yield Paragraph(_plain(f"Looked at, without changing anything ({count}):"))
    rows = tuple(
        (
            _plain(time_of_day(one.at, report.clock.began_at)),
            _code(one.command),
            _plain(one.reasoning or "-"),
            _plain(result_of(one)),
            _seq(one.seq),
        )
        for one in report.questions
    )
    yield Table(("time (UTC)", "command", "why", "result", "entry"), rows)


def _proof(report: Report) -> Iterator[Block]:
    yield _heading("Proof")
    if not report.proofs:
        yield Paragraph(_plain("There is none."))
        return
    rows = tuple(
        (
            _plain(time_of_day(one.at, report.clock.began_at)),
            (Span("held", "strong"),) if one.proof.held else _plain("did not hold"),
            _plain(str(one.proof.looks)),
            _plain(span(one.proof.stable_s)),
            _plain(one.proof.detail),
            _seq(one.seq),
        )
        for one in report.proofs
    )
    yield Table(("time (UTC)", "proof", "looks", "stable", "seen", "entry"), rows)


def _follow_ups(report: Report) -> Iterator[Block]:
    yield _heading("Follow-ups")
    if report.follow_ups:
        yield Bullets(tuple(map(_follow_up, report.follow_ups)), boxes=True)
    else:
        yield Paragraph(_plain("Nothing in the record asks for more."))


def _follow_up(one: FollowUp) -> Line:
    refs = [*_named("entry", "entries", one.seqs), *_named("ticket", "tickets", one.tickets)]
    where = f" ({', '.join(refs)})" if refs else ""
    if not one.command:
        return _plain(f"{one.text}{where}")
    return _mixed(f"{one.text} See ", Span(one.command, "code"), where)


def _named(one: str, many: str, numbers: Sequence[int]) -> Iterable[str]:
    if numbers:
        yield f"{one if len(numbers) == 1 else many} {', '.join(map(str, numbers))}"


def _who(report: Report) -> Iterator[Block]:
    yield _heading("Who")
    rows = []
    for mind in report.minds:
        took = (mind.finished_at - mind.started_at).total_seconds() if mind.finished_at else None
        others = ", ".join(map(mind_name, mind.others))
        name = f"{mind_name(mind.model)}{f'; in its place: {others}' if others else ''}"
        cells = (str(mind.turns), span(took), cost_of(mind.spent))
        rows.append((_plain(name), _code(mind.run), _plain(mind.state), *map(_plain, cells)))
    if rows:
        yield Table(("mind", "run", "state", "turns", "took", "cost"), tuple(rows))
    else:
        yield Paragraph(_plain("No mind has worked on it."))
    if report.people:
        yield Bullets(tuple(_plain(f"{one.name}: {', '.join(one.did)}") for one in report.people))


def _foot(report: Report) -> Iterator[Block]:
    numbers = f" ({report.first_seq} to {report.last_seq})" if report.first_seq else ""
    cut = "; there are more than fit here" if report.cut else ""
    entries = plural(report.entries, "entry", "entries")
    told = f"Written {moment(report.written_at)} from {entries} of the ledger{numbers}{cut}."
    verify = Span("operator audit verify", "code")
    yield Paragraph(_mixed(f"{told} Whether they are whole: ", verify))
