"""The contents of a report in every format: headings, paragraphs, tables and lists."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from operator_sre.app.reports.report import (
    Report,
    cost_of,
    facts_of,
    mind_name,
    moment,
    permission_of,
    result_of,
    share,
    time_of_day,
    verdict_of,
)
from operator_sre.drawing import plural, span

__all__ = [
    "Block",
    "Bullets",
    "Charts",
    "Code",
    "Heading",
    "Line",
    "Paragraph",
    "Span",
    "Table",
    "blocks_of",
]


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of text: plain, `code`, or `strong`."""

    text: str
    style: str = "plain"


Line = tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading of a level, 1 for the title."""

    level: int
    line: Line


@dataclass(frozen=True, slots=True)
class Paragraph:
    """Some sentences."""

    line: Line


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells; without a head it is a list of facts, the name of each in front."""

    head: tuple[str, ...]
    rows: tuple[tuple[Line, ...], ...]


@dataclass(frozen=True, slots=True)
class Bullets:
    """A list; with `boxes` a checklist."""

    items: tuple[Line, ...]
    boxes: bool = False


@dataclass(frozen=True, slots=True)
class Code:
    """Preformatted lines."""

    text: str


@dataclass(frozen=True, slots=True)
class Charts:
    """The place of the charts, in formats that can show them."""


Block = Heading | Paragraph | Table | Bullets | Code | Charts


def blocks_of(report: Report) -> tuple[Block, ...]:
    """The whole report, section by section."""
    facts = tuple(((Span(name, "strong"),), _line(text)) for name, text in facts_of(report))
    blocks: list[Block] = [
        Heading(1, _line(f"Incident {report.ticket}: {report.headline}")),
        Table((), facts),
        _heading("Summary"),
        Paragraph(_line(" ".join(report.summary))),
    ]
    impact, day = report.impact, report.clock.began_at
    blocks.append(_heading("Impact"))
    rows = []
    for broken in impact.breaks:
        lasted = "still broken"
        if broken.until:
            lasted = span((broken.until - broken.since).total_seconds())
        names = (_code(broken.target), _code(broken.invariant), broken.severity)
        since = time_of_day(broken.since, day)
        rows.append(_row(*names, since, lasted, broken.detail or "-", _seq(broken.seq)))
    head = ("target", "invariant", "severity", "since (UTC)", "duration", "observed", "entry")
    blocks.append(Table(head, tuple(rows)))
    of = f" ({len(impact.affected)} of {plural(impact.targets, 'part')})" if impact.targets else ""
    blocks.append(Paragraph(_line("Affected: ", *_list_names(impact.affected), f"{of}.")))
    if impact.unseen:
        blocks.append(
            Paragraph(_line("Not observable meanwhile: ", *_list_names(impact.unseen), "."))
        )
    for alert in report.alerts:
        state = "still firing" if alert.firing else f"cleared {moment(alert.cleared_at)}"
        name, trigger = Span(alert.name, "code"), Span(alert.trigger, "code")
        rest = f" ({state}): {alert.summary}"
        blocks.append(Paragraph(_line("Reported from outside: ", name, " of ", trigger, rest)))
    if impact.changes:
        blocks.append(
            Paragraph(_line(f"Changed readings ({plural(impact.looks, 'observation')}):"))
        )
        changes = (
            _row(
                _code(change.target),
                _code(change.reading),
                change.before,
                change.during,
                change.after,
            )
            for change in impact.changes
        )
        blocks.append(
            Table(("target", "reading", "before", "while broken", "after"), tuple(changes))
        )
    blocks.append(Charts())
    blocks.append(_heading("Timeline"))
    rows = []
    for event in report.timeline:
        after = f"+{span((event.at - day).total_seconds())}"
        rows.append(
            _row(time_of_day(event.at, day), after, event.step, event.text, _seq(event.seq))
        )
    blocks.append(Table(("time (UTC)", "after", "step", "what happened", "entry"), tuple(rows)))
    return (*blocks, *_cause(report), *_actions(report), *_closing(report))


def _line(*parts: str | Span) -> Line:
    return tuple(Span(part) if isinstance(part, str) else part for part in parts)


def _code(text: str) -> Span:
    return Span(text, "code") if text else Span("-")


def _row(*cells: str | Span) -> tuple[Line, ...]:
    return tuple(map(_line, cells))


def _seq(seq: int | None) -> str:
    return "-" if seq is None else str(seq)


def _heading(text: str) -> Heading:
    return Heading(2, _line(text))


def _list_names(names: Sequence[str]) -> Iterator[str | Span]:
    for at, name in enumerate(names):
        yield Span(", " if at else "")
        yield Span(name, "code")
    if not names:
        yield "no target"


def _cause(report: Report) -> Iterator[Block]:
    """The diagnosis with its evidence, then the alternatives."""
    yield _heading("Cause")
    cause = report.cause
    if cause is None:
        yield Paragraph(_line("No diagnosis was submitted."))
        return
    diagnosis = cause.diagnosis
    yield Paragraph((Span(diagnosis.summary, "strong"),))
    sure = f", {share(diagnosis.confidence)} sure (entry {cause.seq}). Evidence:"
    yield Paragraph(_line(*_blame(diagnosis.cause, diagnosis.target), sure))
    sources = {source.seq: source.says for source in cause.sources}
    items = []
    for evidence in diagnosis.evidence:
        if evidence.seq is None:
            claim = Span("unproven claim", "strong")
            items.append(_line(f"{evidence.sentence} (", claim, ": no entry supports it)"))
        elif evidence.seq in sources:
            says = Span(sources[evidence.seq], "code")
            items.append(_line(f"{evidence.sentence} (entry {evidence.seq}: ", says, ")"))
        else:
            items.append(_line(f"{evidence.sentence} (entry {evidence.seq})"))
    yield Bullets(tuple(items))
    if earlier := report.understandings[:-1]:
        yield Paragraph(_line("Earlier diagnoses, rejected:"))
        items = [
            _line(
                *_blame(understanding.diagnosis.cause, understanding.diagnosis.target),
                f": {understanding.diagnosis.summary} (entry {understanding.seq})",
            )
            for understanding in earlier
        ]
        yield Bullets(tuple(items))
    yield _heading("Alternatives")
    items = [
        _line(*_blame(alternative.cause, alternative.target), f": {alternative.why_rejected}")
        for alternative in diagnosis.alternatives
    ]
    yield Bullets(tuple(items)) if items else Paragraph(_line("No alternatives were considered."))
    if not diagnosis.options:
        return
    yield Paragraph(_line("Options:"))
    rows = tuple(
        _row(
            _code(option.action),
            option.risk,
            "yes" if option.reversible else "no",
            option.trade_off or "-",
        )
        for option in diagnosis.options
    )
    yield Table(("option", "risk", "reversible", "trade-off"), rows)
    yield Paragraph(_line("Chosen: ", Span(diagnosis.choice, "code"), f". {diagnosis.why}"))


def _blame(cause: str, target: str) -> Line:
    return _line(Span(cause, "code"), " at ", Span(target, "code"))


def _actions(report: Report) -> Iterator[Block]:
    """One heading for each change, a table of read-only commands, and the proofs."""
    day = report.clock.began_at
    yield _heading("Actions")
    if not report.done:
        yield Paragraph(_line("Nothing was changed."))
    for number, deed in enumerate(report.done, 1):
        target = (" at ", Span(deed.target, "code")) if deed.target else ()
        at = time_of_day(deed.at, day)
        yield Heading(3, _line(f"{number}. {at} UTC", *target, f": {result_of(deed)}"))
        yield Code(deed.command)
        about = [f"Why: {deed.reasoning}"] if deed.reasoning else []
        about += [f"Expected: {deed.expected}"] if deed.expected else []
        about += [f"Verdict: {verdict_of(deed)}", f"Allowed: {permission_of(deed.permission)}"]
        items = [_line(text) for text in about]
        if deed.undone is not None:
            items.append(_line(f"Rolled back (entry {deed.undone})"))
        elif deed.undo:
            items.append(_line("Rollback: ", Span(deed.undo, "code")))
        ended = f" to {deed.result_seq}" if deed.result_seq not in (None, deed.seq) else ""
        items.append(_line(f"Entries: {deed.seq}{ended}"))
        yield Bullets(tuple(items))
        if deed.output:
            yield Paragraph(_line(f"Output{' (last lines)' if deed.truncated else ''}:"))
            yield Code(deed.output)
    rows = []
    for question in report.questions:
        at, command = time_of_day(question.at, day), _code(question.command)
        why, result = question.reasoning or "-", result_of(question)
        rows.append(_row(at, command, why, result, _seq(question.seq)))
    if rows:
        yield Paragraph(_line(f"Read-only commands ({len(rows)}):"))
        yield Table(("time (UTC)", "command", "why", "result", "entry"), tuple(rows))
    yield _heading("Proof")
    rows = []
    for proven in report.proofs:
        proof, at = proven.proof, time_of_day(proven.at, day)
        held = Span("held", "strong") if proof.held else "did not hold"
        numbers = (str(proof.looks), span(proof.stable_s))
        rows.append(_row(at, held, *numbers, proof.detail, _seq(proven.seq)))
    if rows:
        yield Table(("time (UTC)", "proof", "checks", "stable", "observed", "entry"), tuple(rows))
    else:
        yield Paragraph(_line("No proof was recorded."))


def _closing(report: Report) -> Iterator[Block]:
    """Follow-ups, agents and people, and the entries that the report is based on."""
    yield _heading("Follow-ups")
    if report.follow_ups:
        items = []
        for follow_up in report.follow_ups:
            named = (("entry", "entries", follow_up.seqs), ("ticket", "tickets", follow_up.tickets))
            refs = [
                f"{noun if len(numbers) == 1 else nouns} {', '.join(map(str, numbers))}"
                for noun, nouns, numbers in named
                if numbers
            ]
            where = f" ({', '.join(refs)})" if refs else ""
            see = (" See ", Span(follow_up.command, "code")) if follow_up.command else ()
            items.append(_line(follow_up.text, *see, where))
        yield Bullets(tuple(items), boxes=True)
    else:
        yield Paragraph(_line("None."))
    yield _heading("Agents and people")
    rows = []
    for mind in report.minds:
        took = (mind.finished_at - mind.started_at).total_seconds() if mind.finished_at else None
        others = ", ".join(map(mind_name, mind.others))
        name = f"{mind_name(mind.model)}{f'; fallback: {others}' if others else ''}"
        cells = (mind.state, str(mind.turns), span(took), cost_of(mind.spent))
        rows.append(_row(name, _code(mind.run), *cells))
    if rows:
        yield Table(("model", "run", "state", "turns", "duration", "cost"), tuple(rows))
    else:
        yield Paragraph(_line("No agent has worked on the ticket."))
    if report.people:
        yield Bullets(
            tuple(_line(f"{person.name}: {', '.join(person.did)}") for person in report.people)
        )
    numbers = f" ({report.first_seq} to {report.last_seq})" if report.first_seq else ""
    cut = "; later entries are left out" if report.cut else ""
    entries = plural(report.entries, "entry", "entries")
    written = f"Written {moment(report.written_at)} from {entries} of the ledger{numbers}{cut}."
    verify = Span("operator audit verify", "code")
    yield Paragraph(_line(f"{written} To verify them: ", verify))
