"""What is shown first, and what is folded behind one line."""

from __future__ import annotations

from dataclasses import replace

import pytest

from operator_protocols.domain.health import Health, Severity
from operator_protocols.domain.observation import Finding
from operator_protocols.domain.ticket import TicketState
from operator_sre.app.health import Trouble
from operator_sre.app.reports.report import Break
from operator_sre.app.ticket_page import (
    FoldedFindings,
    FoldedTarget,
    Section,
    fold_findings,
    headline_of,
    reason_listed,
)
from tests.app.reports.samples import sample
from tests.contract.clock import NOON
from tests.contract.samples import ticket

DOWN = Finding("node_down", "node-1", Health.BROKEN, "connection refused")
OTHERS = tuple(
    Finding(f"check_{number}", "node-1", Health.UNKNOWN, "it does not answer")
    for number in range(7)
)


def test_checks_of_a_target_that_is_down_fold_into_one_line() -> None:
    elsewhere = Finding("lag", "node-2", Health.UNKNOWN, "never measured")
    folded = fold_findings([*OTHERS[:3], DOWN, *OTHERS[3:], elsewhere])
    assert folded.shown == (DOWN, elsewhere)
    (fold,) = folded.folds
    assert fold.text == "7 more checks unavailable because node-1 is down"
    assert fold == FoldedTarget(fold.text, OTHERS)


def test_the_diagnosis_comes_first_and_the_timeline_last() -> None:
    assert [*Section][:3] == [Section.DIAGNOSIS, Section.ACTION, Section.EVIDENCE]
    assert [*Section][-1] is Section.TIMELINE


def test_what_is_broken_at_a_target_that_is_down_stays_in_sight() -> None:
    full = Finding("disk_full", "node-1", Health.BROKEN, "no room")
    assert fold_findings([DOWN, full]) == FoldedFindings((DOWN, full), ())


def test_unknown_checks_of_a_target_that_answers_are_shown() -> None:
    slow = Finding("high_latency", "node-1", Health.BROKEN, "p99 2 s")
    assert fold_findings([slow, *OTHERS]).folds == ()
    well = replace(DOWN, health=Health.HEALTHY)
    assert fold_findings([well, *OTHERS]).folds == ()


def test_a_target_that_cannot_be_observed_is_named_as_such() -> None:
    blind = Finding("observable", "node-1", Health.BROKEN, "permission denied")
    folded = fold_findings([blind, OTHERS[0]])
    assert folded.shown == (blind,)
    text = "1 more check unavailable because node-1 cannot be observed"
    assert [one.text for one in folded.folds] == [text]


def test_breaks_of_a_report_are_all_broken() -> None:
    down = Break("node_down", "node-1", Severity.CRITICAL, "refused", NOON)
    blind, other = replace(down, invariant="observable"), replace(down, invariant="lag")
    folded = fold_findings([down, blind, other])
    assert folded.shown == (down, other)
    assert folded.folds[0].findings == (blind,)


def test_the_headline_is_the_diagnosis_or_says_that_there_is_none() -> None:
    report = sample("words")
    assert report.cause is not None
    found = report.cause.diagnosis
    assert headline_of(ticket(), found) == found.summary
    waiting = replace(ticket(), state=TicketState.OPEN)
    assert headline_of(waiting, None) == "Cause not identified"
    claimed = replace(ticket(), state=TicketState.CLAIMED)
    assert headline_of(claimed, None) == "Diagnosis in progress"
    unknown = replace(found, cause="unexplained", summary="node-1 is broken.")
    assert headline_of(ticket(), unknown) == "Cause not identified: node-1 is broken."


@pytest.mark.parametrize(
    ("flapping", "state", "reason"),
    [
        (True, TicketState.OPEN, "healthy now; listed because it is flapping"),
        (
            True,
            TicketState.WATCHED,
            "healthy now; listed because it is flapping and its ticket is being watched",
        ),
        (False, TicketState.WATCHED, "healthy now; listed because its ticket is being watched"),
    ],
)
def test_a_healthy_finding_says_why_it_is_listed(
    *, flapping: bool, state: TicketState, reason: str
) -> None:
    one = replace(ticket(), state=state)
    trouble = Trouble("node-1", "lag", Health.HEALTHY, NOON, "", flapping=flapping, ticket=one.id)
    assert reason_listed(trouble, [one]) == reason
    assert reason_listed(replace(trouble, health=Health.BROKEN), [one]) == ""
