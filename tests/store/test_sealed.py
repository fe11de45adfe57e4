"""What redaction takes out of an answer is kept sealed until its run is over, and nowhere else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from operator_protocols.domain.action import Action, Outcome, Result
from operator_protocols.domain.entry import Draft, Entry, Kind
from operator_sre.codec import from_json, to_json
from operator_sre.ledger.keys import Vault
from operator_sre.store import Store, open_store
from tests.contract.clock import HeldClock
from tests.contract.samples import run_finished, ticket

pytestmark = pytest.mark.asyncio
SECRET = "hunter2"
PAYLOAD = {"reasoning": f"the password is {SECRET}", "calls": []}


def _redact(payload: Any) -> Any:
    if isinstance(payload, str):
        return payload.replace(SECRET, "[REDACTED]")
    if isinstance(payload, dict):
        return {name: _redact(value) for name, value in payload.items()}
    return payload


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    one = open_store(
        tmp_path / "operator.db",
        clock=HeldClock(),
        redact=_redact,
        sealer=Vault(tmp_path / "vault.key"),
    )
    yield one
    one.close()


async def _answer(store: Store, run: str = "run-1") -> Entry:
    return await store.journal.append(Draft(Kind.REASONING, PAYLOAD, run=run))


def _anywhere(folder: Path) -> bool:
    return any(SECRET.encode() in path.read_bytes() for path in folder.rglob("*") if path.is_file())


async def test_the_ledger_holds_no_secret_and_the_file_neither(
    store: Store, tmp_path: Path
) -> None:
    written = await _answer(store)
    read = store.entries.get(written.seq)
    assert read is not None
    assert read == written
    assert read.payload["reasoning"] == "the password is [REDACTED]"
    assert not _anywhere(tmp_path)


async def test_whoever_resumes_a_run_gets_its_answers_as_they_were(store: Store) -> None:
    await _answer(store)
    entries = store.entries.after(0, limit=10)
    (entry,) = store.sealed.unseal(entries)
    assert entry.payload == PAYLOAD
    assert (entry.seq, entry.hash) == (entries[0].seq, entries[0].hash)


async def test_an_answer_without_a_secret_is_not_sealed(store: Store) -> None:
    await store.journal.append(Draft(Kind.REASONING, {"reasoning": "fine"}, run="run-1"))
    assert store.reader.rows("SELECT * FROM sealed") == []


async def test_a_result_is_kept_as_it_was_only_when_it_can_be_taken_back(store: Store) -> None:
    undo = Action("fill", {"token": SECRET}, target="node-1")
    for result in (Result(Outcome.RAN, 0, undo=undo), Result(Outcome.RAN, 0, SECRET)):
        payload = {"permit": "p", "result": to_json(result)}
        await store.journal.append(Draft(Kind.TOOL_RESULT, payload, run="run-1"))
    entries = store.entries.after(0, limit=10)
    assert SECRET not in str([entry.payload for entry in entries])
    unsealed = store.sealed.unseal(entries)
    assert [SECRET in str(entry.payload) for entry in unsealed] == [True, False]
    assert from_json(Result, unsealed[0].payload["result"]).undo == undo


async def test_nothing_is_kept_when_the_run_is_over(store: Store) -> None:
    await _answer(store)
    await _answer(store, "run-2")
    await store.journal.append(run_finished(ticket()))
    assert store.reader.rows("SELECT run FROM sealed") == [("run-2",)]
    (entry,) = store.sealed.unseal(store.entries.after(0, limit=1, run="run-1"))
    assert SECRET not in str(entry.payload)


async def test_another_key_opens_nothing(store: Store, tmp_path: Path) -> None:
    await _answer(store)
    (tmp_path / "vault.key").unlink()
    other = open_store(
        tmp_path / "operator.db", clock=HeldClock(), sealer=Vault(tmp_path / "vault.key")
    )
    (entry,) = other.sealed.unseal(other.entries.after(0, limit=1))
    other.close()
    assert entry.payload["reasoning"] == "the password is [REDACTED]"
