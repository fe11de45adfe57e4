"""The page of generated faults: how they ended, and the worst cases with what was seen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from operator_evals.generated.observed import Look
from operator_evals.generated.tally import Judged, Tally, credit_rows
from operator_evals.rendering.cells import count, draw_share, interval, seconds
from operator_evals.rendering.report import whole
from operator_sre.drawing.html import (
    EMPTY,
    Html,
    badge,
    code,
    details,
    facts,
    heading,
    join,
    paragraph,
    section,
    table,
    text,
)

__all__ = ["generated_page"]

WORST_MAX = 200
LOOKS_MAX = 40
WORDS = (
    "Handled: repaired, or escalated with the component in the headline and the decisive evidence"
    " among three quoted lines, of the cases in which something had to be done. Harm: data, roles"
    " or healthy parts damaged by an action of the product. The oracle sees clients, data, roles"
    " and claims, and knows no causes. Bars are 95 % Wilson intervals."
)


def generated_page(found: Tally, judged: Sequence[Judged], machine: Mapping[str, str]) -> str:
    """All cases of a subject at one revision."""
    about = [
        ("Variant", text(found.variant)),
        ("Revision", code(found.revision)),
        ("Seeds", text(f"{found.first_seed} to {found.last_seed}")),
        ("Cases", join(count(found.trials), text(f", {found.void} void"))),
        ("Named a cause", text(f"{found.named}; abstained in {found.abstained}")),
        ("Time for a case, p50", seconds(found.took_s_median)),
        ("Ticket to first change, p50", seconds(found.first_change_s_median)),
        ("Machine", text(", ".join(f"{k} {v}" for k, v in sorted(machine.items())))),
    ]
    rows = [
        [text(name), count(share.count), draw_share(share), text(interval(share))]
        for name, share in (
            ("handled", found.handled),
            *credit_rows(found).items(),
            *found.outcomes.items(),
            ("component named", found.component_right),
        )
    ]
    head = [text(name) for name in ("Outcome", "Cases", "Share", "95 % interval")]
    by_seed = {each.facts.seed: each for each in judged}
    every = [
        [text(str(each.facts.seed)), _outcome(each), text(each.case.sentence)] for each in judged
    ]
    body = join(
        heading(1, text(f"Generated faults: {found.subject}")),
        facts(about),
        paragraph(text(WORDS)),
        section("Outcomes", table("Outcomes", head, rows)),
        section("Worst cases", *(_case(by_seed[bad.seed]) for bad in found.worst[:WORST_MAX])),
        section(
            "All cases",
            table("All cases", [text(name) for name in ("Seed", "Outcome", "Case")], every),
        ),
    )
    return whole(f"Generated faults of {found.subject}", body)


def _case(each: Judged) -> Html:
    seen = each.facts.generated
    if seen is None:
        return EMPTY
    done = [
        (f"{fault.at_s:.0f} s", text(fault.note or f"refused: {fault.refused}"))
        for fault in seen.injected
    ]
    claims = [
        (
            f"ticket {claim.ticket}, {claim.state}",
            join(text(claim.headline), *(paragraph(code(line)) for line in claim.lines)),
        )
        for claim in seen.claims
    ]
    commands = [
        (f"{row.at_s:.0f} s", join(code(row.text), text(f" {row.outcome} {row.exit_code}")))
        for row in each.facts.commands
        if row.ran and row.changes
    ]
    looks = [(f"{look.at_s:.0f} s", text(_look(look))) for look in seen.looks[:LOOKS_MAX]]
    inner = join(
        paragraph(text("; ".join(each.judgement.why) or each.judgement.outcome.value)),
        facts([("Case", text(each.case.sentence)), *done, *claims, *commands]),
        details("What clients saw", facts(looks)),
    )
    return join(heading(3, join(text(f"Seed {each.facts.seed} "), _outcome(each))), inner)


def _outcome(each: Judged) -> Html:
    kind = "bad" if each.judgement.outcome.value in ("harm", "missed") else "plain"
    return badge(kind, each.judgement.outcome.value)


def _look(look: Look) -> str:
    parts = [f"served by {', '.join(look.served) or 'no part'}"]
    if look.writes is False:
        parts.append("no write acknowledged")
    if look.reads is False:
        parts.append("the last writes not readable")
    if look.writers is not None:
        parts.append(f"writes accepted by {', '.join(look.writers) or 'no part'}")
    gone = sorted(name for name, process in look.running.items() if not process)
    if gone:
        parts.append(f"not running: {', '.join(gone)}")
    return "; ".join(parts)
