"""The ledger of a real journey, as sentences."""

from __future__ import annotations

from pathlib import Path

import pytest

from operator_protocols.domain.action import Action
from operator_protocols.domain.entry import Actor, Entry, Kind
from operator_protocols.domain.run import Answer, Escalate, Finish
from operator_protocols.domain.verdict import Mode
from operator_sre.app.story import Line, lines_of, summarize_entry
from tests.contract.clock import NOON
from tests.contract.workshop import DIAGNOSIS, MEND, Script, Workshop

pytestmark = pytest.mark.asyncio

SILENT = {Kind.OBSERVED, Kind.RUN_STARTED, Kind.RUN_FINISHED, Kind.PERMIT_MINTED, Kind.TOOL_CALL}
SILENT |= {Kind.TOOL_STARTED}  # of a tool that a busy machine leaves running for a while


async def _journey(folder: Path) -> list[Entry]:
    danger = Action.shell("rm -rf /", target="node-1")
    shop = Workshop(
        folder,
        Script(
            Answer("look first", (Action.shell("uname -s"), danger)),
            Answer("repair", (DIAGNOSIS, MEND, Finish("mended"))),
        ),
    )
    await shop.carry()
    entries = shop.entries()
    shop.close()
    return entries


async def test_every_step_of_the_journey_is_told_in_order(tmp_path: Path) -> None:
    entries = await _journey(tmp_path)
    steps = [line.step for entry in entries for line in lines_of(entry)]
    order = list(dict.fromkeys(steps))
    assert order == ["file", "think", "decide", "act", "prove", "close"]


async def test_what_is_only_book_keeping_is_not_told(tmp_path: Path) -> None:
    entries = await _journey(tmp_path)
    assert {entry.kind in SILENT for entry in entries} == {True, False}
    for entry in entries:
        lines = list(lines_of(entry))
        assert (not lines) is (entry.kind in SILENT), entry.kind
        for line in lines:
            assert line.text
            assert line.tone in {"plain", "good", "warn", "bad", "strong"}


async def test_an_entry_without_a_sentence_is_summarized(tmp_path: Path) -> None:
    entries = await _journey(tmp_path)
    commands = [summarize_entry(entry) for entry in entries if entry.kind is Kind.TOOL_CALL]
    assert commands == ["uname -s", "mend(target=node-1)"]
    checks = [summarize_entry(entry) for entry in entries if entry.kind is Kind.OBSERVED]
    assert all("findings broken" in check for check in checks)


def _told(entries: list[Entry], kind: Kind) -> list[Line]:
    return [line for entry in entries if entry.kind is kind for line in lines_of(entry)]


async def test_the_sentences_say_what_happened(tmp_path: Path) -> None:
    entries = await _journey(tmp_path)
    verdicts = [(line.text, line.tone) for line in _told(entries, Kind.VERDICT)]
    assert verdicts == [
        ("uname -s  SAFE, risk low", "good"),
        ("mend(target=node-1)  REVIEW, risk medium", "warn"),
    ]
    assert "not run" in _told(entries, Kind.REFUSED)[0].text
    assert "node-1 mended" in _told(entries, Kind.TOOL_RESULT)[-1].text
    assert _told(entries, Kind.PROOF)[0].tone == "good"
    assert _told(entries, Kind.TICKET_RESOLVED)[0].text.startswith("RESOLVED with proof")


async def test_a_diagnosis_is_told_with_its_evidence_and_its_choice(tmp_path: Path) -> None:
    (line,) = _told(await _journey(tmp_path), Kind.DIAGNOSIS)
    assert "97.0% sure" in line.text
    for word in ("evidence: ", "ruled out: process_hung", "option: mend", "choice: mend(node-1)"):
        assert any(detail.startswith(word) for detail in line.details), word


async def test_a_request_to_a_person_says_how_to_answer(tmp_path: Path) -> None:
    shop = Workshop(tmp_path, Script(Answer("", (DIAGNOSIS, MEND)), Answer("", (Escalate("x"),))))
    shop.mode = Mode.APPROVE
    await shop.carry()
    entries = shop.entries()
    (asked,) = shop.store.approvals.find()
    shop.close()
    (request,) = _told(entries, Kind.APPROVAL_REQUESTED)
    assert f"operator approvals approve {asked.id}" in request.text
    (answer,) = _told(entries, Kind.APPROVAL_DECIDED)
    assert "expired" in answer.text
    (end,) = _told(entries, Kind.TICKET_ESCALATED)
    assert end.text.startswith("ESCALATED. x Next: `operator tickets show ")
    assert end.tone == "bad"


def _entry(kind: Kind, **payload: object) -> Entry:
    return Entry(1, NOON, kind, payload, 1, "run-1", Actor(), "", "")


async def test_what_people_said_is_told_with_what_is_missing() -> None:
    yes = {"state": "pending", "answer": "approved", "decided_by": "ada", "reason": "go on"}
    (first,) = lines_of(_entry(Kind.APPROVAL_DECIDED, **yes))
    assert first.text == "approved by ada: go on; a second approval is required"
    (last,) = lines_of(_entry(Kind.APPROVAL_DECIDED, **yes | {"state": "approved", "reason": ""}))
    assert last.text == "approved by ada"
    (louder,) = lines_of(_entry(Kind.APPROVAL_ESCALATED, id="a1", reason="no answer in 60 s"))
    assert (louder.text, louder.tone) == ("escalated: no answer in 60 s", "warn")
    (allowed,) = lines_of(_entry(Kind.PERMIT_MINTED, rule="r1"))
    assert allowed.text == "allowed by the standing rule r1"
