"""A report with the same text wherever text comes from outside."""

from __future__ import annotations

from datetime import datetime, timedelta

from operator_protocols.domain.alert import Alert
from operator_protocols.domain.diagnosis import (
    Alternative,
    Diagnosis,
    Evidence,
    Hypothesis,
    Option,
)
from operator_protocols.domain.health import Health, Severity
from operator_protocols.domain.proof import Proof
from operator_protocols.domain.run import Spent
from operator_protocols.domain.verdict import Risk
from operator_sre.app.reports.report import (
    Break,
    Clock,
    FollowUp,
    Impact,
    Mind,
    Moment,
    Permission,
    Person,
    Proven,
    ReadingChange,
    Report,
    ReportedAction,
    Source,
    Understanding,
)
from operator_sre.app.subjects import Point, Series
from tests.contract.clock import NOON

__all__ = ["at", "sample"]


def at(seconds: float) -> datetime:
    """So many seconds after noon."""
    return NOON + timedelta(seconds=seconds)


def sample(text: str) -> Report:
    """A whole incident, told by somebody who says this everywhere."""
    return Report(
        ticket=7,
        title=text,
        subject=text,
        target=text,
        severity="critical",
        state="resolved",
        reason=text,
        written_at=at(60),
        clock=Clock(at(0), at(1), at(2), at(3), at(4), at(5), at(9)),
        summary=(text, text),
        impact=Impact(
            breaks=(Break(text, text, "critical", text, at(0), at(5), 1),),
            lasted_s=5.0,
            affected=(text, text),
            targets=3,
            unseen=(text,),
            changes=(ReadingChange(text, text, text, text, text),),
            looks=4,
        ),
        timeline=(Moment(at(0), "break", text), Moment(at(1), "file", text, 1)),
        understandings=(_understanding(text, 9), _understanding(text, 12)),
        deeds=(_deed(text, 20, "safe"), _deed(text, 30, "review")),
        proofs=(Proven(40, at(9), _proof(text)),),
        follow_ups=(FollowUp("deeper", text, text, (1, 2), (3,)),),
        minds=(Mind("run-1", text, "completed", text, at(2), at(9), 3, Spent(7, 8, 0.5), (text,)),),
        people=(Person(text, (text,)),),
        alerts=(Alert("t", "f", text, "s", text, text, Severity.WARNING, text, at(0)),),
        assignee=text,
        spent=Spent(7, 8, 0.5),
        series=(
            Series(text, "answers", (Point(at(0), value=True), Point(at(4), False, text))),
            Series(text, text, (Point(at(0), 1.5), Point(at(2), None, text), Point(at(4), 9.0))),
        ),
        entries=40,
        first_seq=1,
        last_seq=40,
    )


def _understanding(text: str, seq: int) -> Understanding:
    diagnosis = Diagnosis(
        cause=text,
        target=text,
        summary=text,
        severity=Severity.CRITICAL,
        confidence=0.97,
        timeline=(),
        affected=(text,),
        evidence=(Evidence(text, 4), Evidence(text, None), Evidence(text, 5)),
        hypotheses=(Hypothesis(text, text, 0.9),),
        alternatives=(Alternative(text, text, (), (), text),),
        options=(Option(text, Risk.MEDIUM, reversible=False, trade_off=text),),
        choice=text,
        why=text,
    )
    return Understanding(seq, at(3), "run-1", diagnosis, (Source(4, "observed", text),))


def _deed(text: str, seq: int, level: str) -> ReportedAction:
    return ReportedAction(
        seq=seq,
        at=at(4),
        run="run-1",
        command=text,
        target=text,
        cwd="/",
        reasoning=text,
        expected=text,
        changes=level != "safe",
        level=level,
        risk="medium",
        explanation=text,
        rules=(text,),
        reversible=False,
        permission=Permission("people", "approved", "a-1", "", at(3), at(4), (text,), text),
        outcome="ran",
        exit_code=0,
        duration_s=0.5,
        output=text,
        truncated=False,
        result_seq=seq + 1,
        undo=text,
    )


def _proof(text: str) -> Proof:
    return Proof(
        held=True,
        health=Health.HEALTHY,
        looks=3,
        since=at(5),
        until=at(9),
        stable_s=4.0,
        detail=text,
    )
