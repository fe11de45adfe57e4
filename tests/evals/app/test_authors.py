"""Each turn, action and diagnosis of a trial names who made it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

from operator_evals.app.authors import find_authors, model_of_runs, turns_of
from operator_evals.app.trial_facts import commands_of, diagnoses_of
from operator_protocols.domain.action import Action, Outcome, Result
from operator_protocols.domain.entry import Actor, Entry, Kind
from operator_protocols.domain.run import Answer, Misuse
from operator_sre.agent.transcript import answer_payload
from operator_sre.codec import to_json
from tests.contract.workshop import DIAGNOSIS

AT = datetime(2026, 1, 1, tzinfo=UTC)
RESTART = Action("restart", {"target": "n1"}, target="n1", reasoning="it is dead")


def _entries(*rows: tuple[Kind, dict[str, Any]], run: str = "r1") -> Iterator[Entry]:
    for seq, (kind, payload) in zip(count(1), rows, strict=False):
        yield Entry(seq, AT + timedelta(seconds=seq), kind, payload, 7, run, Actor(), "", "")


def _refused(action: Action) -> dict[str, Any]:
    record = {"action": action, "result": Result(Outcome.REFUSED), "level": "review"}
    return dict(to_json(record | {"risk": "medium", "permit": ""}))


ENTRIES = tuple(
    _entries(
        (Kind.RUN_STARTED, {"model": "qwen"}),
        (Kind.REASONING, answer_payload(Answer("hm", (Misuse("a", "{}", "no such tool"),)))),
        (Kind.REASONING, answer_payload(Answer("it is dead", (DIAGNOSIS, RESTART)))),
        (Kind.DIAGNOSIS, dict(to_json(DIAGNOSIS.diagnosis))),
        (Kind.REFUSED, _refused(RESTART)),
        (
            Kind.REASONING,
            answer_payload(Answer("so be it", (RESTART,), by="reasoner", note="timed out")),
        ),
        (Kind.REFUSED, _refused(RESTART)),
    )
)


def test_turns_name_the_model_or_the_reasoner_that_took_over() -> None:
    turns = turns_of(ENTRIES, AT)
    assert [(turn.by, turn.calls) for turn in turns] == [("qwen", 0), ("qwen", 2), ("reasoner", 1)]
    assert (turns[0].seq, turns[0].at_s, turns[0].ticket) == (2, 2.0, 7)
    assert model_of_runs(ENTRIES) == "qwen"
    assert model_of_runs(()) == ""


def test_diagnoses_and_actions_name_the_author_of_their_turn() -> None:
    (diagnosis,) = diagnoses_of(ENTRIES, AT)
    assert diagnosis.by == "qwen"
    actions = commands_of(ENTRIES, AT, frozenset({"n1"}), "/")
    assert [action.by for action in actions] == ["qwen", "reasoner"]


def test_what_a_probe_showed_is_a_fact_and_a_repair_shows_nothing() -> None:
    """The counts from which likelihoods are fitted: what each probe found, beside the fault."""
    look = Action.shell("ps -o pid=,stat=,etimes=,args= -p 4711")

    def called(action: Action, permit: str, result: Result) -> Iterator[tuple[Kind, Any]]:
        call = {"action": to_json(action), "permit": permit, "level": "safe", "risk": "low"}
        yield Kind.TOOL_CALL, call
        yield Kind.TOOL_RESULT, {"permit": permit, "result": to_json(result)}

    ledger = tuple(
        _entries(
            *called(look, "p1", Result(Outcome.RAN, 1)),
            *called(RESTART, "p2", Result(Outcome.RAN, 0, "restarted")),
        )
    )
    facts = commands_of(ledger, AT, frozenset({"n1"}), "/")
    assert [fact.reading for fact in facts] == ["process=dead", ""]


def test_runs_are_kept_apart() -> None:
    other = tuple(_entries((Kind.RUN_STARTED, {"model": "big"}), run="r2"))
    assert set(find_authors([*ENTRIES, *other]).values()) == {"qwen", "reasoner"}
    assert model_of_runs(other) == "big"
