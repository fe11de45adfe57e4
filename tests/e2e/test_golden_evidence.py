"""Every reference of every golden document is followed, in a home where that run really was."""

from __future__ import annotations

import asyncio
import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from operator_protocols.domain.action import Action
from operator_protocols.domain.entry import Actor, Kind
from operator_protocols.domain.run import Answer, Escalate
from operator_protocols.domain.ticket import Move, MoveKind
from operator_sre.contract.evidence import command_for
from operator_sre.contract.messages import EvidenceType
from tests.app.answering import FOUND, Shopkeeper, shopkeeper
from tests.contract_messages.samples import DENIED_SEQ, RUN
from tests.e2e.home import Home, Json
from tests.e2e.warm import Warm

GOLDEN = Path(__file__).parents[1] / "contract_messages" / "golden"
TURN = Answer("try", (FOUND, Action.shell("rm -rf /"), Escalate("It is forbidden.")))
# What is seen by whoever follows a reference of this type.
SHOWN = {
    EvidenceType.AUDIT_SEQ: f'"seq": {DENIED_SEQ},',
    EvidenceType.RUN_ID: f"Run {RUN} on ticket 1",
    EvidenceType.POLICY_RULE: "delete_system",
    EvidenceType.SPAN: f'"seq": {DENIED_SEQ},',
    EvidenceType.LOG: "Blocked: it never runs.",
    EvidenceType.REDACTED_EXCERPT: "Blocked: it never runs.",
    EvidenceType.VERIFICATION: "",
}


def _refs(value: Any) -> Iterator[Json]:
    """Every reference in a document, at any depth."""
    if isinstance(value, dict):
        yield from value.get("evidence_refs", [])
    for one in value.values() if isinstance(value, dict) else value:
        if isinstance(one, dict | list):
            yield from _refs(one)


def _golden_refs() -> dict[tuple[str, str], str]:
    """Each reference once, by its type and what it names, with what is said of it."""
    found = {}
    for file in GOLDEN.glob("*.json"):
        for ref in _refs(json.loads(file.read_text())):
            found[ref["type"], ref["ref"]] = ref["detail"]
    return found


ATTEMPTS_MAX = 8


async def _denied(keeper: Shopkeeper, remarks: int) -> int:
    """Let that run be denied something after so many remarks; the number of the denial's entry."""
    await keeper.break_one()
    store = keeper.app.store
    for number in range(remarks):
        await store.ticket_moves.make(1, Move(MoveKind.COMMENT, Actor("ada", "user"), f"{number}"))
    lease = {"lease_s": 60.0, "attempts_max": 3, "ticket": 0, "subjects": None}
    ticket = await store.leases.claim("w", run=RUN, **lease)  # type: ignore[arg-type]
    assert ticket is not None
    await keeper.app.engine().pipeline.work(ticket)
    entries = store.entries.after(0, limit=999, run=RUN)
    return next(one.seq for one in entries if one.kind is Kind.REFUSED)


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory, warm: Warm) -> Iterator[Home]:
    """A home in which the run of the golden documents was denied what they say."""
    folder = tmp_path_factory.mktemp("golden")
    with pytest.MonkeyPatch.context() as patch:
        remarks = found = 0
        # What is noted beside a run, such as a summary, may come before or after it.
        for attempt in range(ATTEMPTS_MAX):
            place = folder / f"shop-{attempt}"
            with shopkeeper(place, patch, TURN) as keeper:
                found = asyncio.run(_denied(keeper, remarks))
            if found == DENIED_SEQ:
                break
            remarks += DENIED_SEQ - found
        assert found == DENIED_SEQ
    home = Home(place, warm)
    yield home
    home.close()


def test_every_type_of_evidence_is_in_a_golden_document() -> None:
    assert {type for type, _ in _golden_refs()} == {one.value for one in EvidenceType}
    assert set(SHOWN) == set(EvidenceType)


def test_every_reference_of_every_golden_document_can_be_followed(lived: Home) -> None:
    refs = _golden_refs()
    assert len(refs) >= len(SHOWN)
    for (type, ref), detail in refs.items():
        kind = EvidenceType(type)
        command = command_for(kind, ref)
        named = detail.partition("(see: ")[2].removesuffix(")")
        assert command == (named or ref), f"{type} {ref} does not name its command: {detail}"
        program, *words = shlex.split(command)
        done = lived.run(*words)
        assert (program, done.code) == ("operator", 0), (command, done)
        assert SHOWN[kind] in done.out, (command, done)
