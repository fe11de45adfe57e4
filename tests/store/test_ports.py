"""Whatever the wiring puts in a port has the shape that the port asks for."""

from __future__ import annotations

import asyncio
from pathlib import Path

from operator_protocols.domain.entry import Draft, Kind
from operator_protocols.ports import (
    Approvals,
    Backlog,
    ChangedCommands,
    Checkpoints,
    Conditions,
    Entries,
    Intents,
    Journal,
    Leases,
    LimitUsage,
    Modes,
    Observations,
    RawEntry,
    Replies,
    Runs,
    Sealed,
    Sealer,
    Sessions,
    Signer,
    Silences,
    StandingRules,
    Switch,
    Tickets,
    Tokens,
    Watchers,
    Workers,
    WorkflowClaims,
    Workflows,
)
from operator_sre.ledger import KeyFile
from operator_sre.ledger.keys import Vault
from operator_sre.store import Store, store_on
from operator_sre.store.sqlite import SqliteDatabase
from operator_sre.store.transaction import Rules
from tests.contract.clock import HeldClock


def _store(folder: Path) -> Store:
    database = SqliteDatabase(folder / "operator.db")
    database.prepare()
    return store_on(database, Rules(HeldClock(), signer=KeyFile(folder / "key")))


def test_every_stored_noun_meets_its_port(tmp_path: Path) -> None:
    store = _store(tmp_path)
    met: dict[type, object] = {
        Approvals: store.approvals,
        ChangedCommands: store.commands,
        LimitUsage: store.limit_usage,
        Checkpoints: store.checkpoints,
        Conditions: store.conditions,
        Entries: store.entries,
        Intents: store.intents,
        Journal: store.journal,
        Leases: store.leases,
        Modes: store.modes,
        Observations: store.observations,
        Runs: store.runs,
        Sealed: store.sealed,
        StandingRules: store.standing,
        Sessions: store.sessions,
        Silences: store.silences,
        Switch: store.switch,
        Tickets: store.tickets,
        Tokens: store.tokens,
        Replies: store.replies,
        Watchers: store.watchers,
        Workers: store.workers,
        Backlog: store.backlog,
        WorkflowClaims: store.workflow_claims,
        Workflows: store.workflows,
    }
    assert [port for port, one in met.items() if not isinstance(one, port)] == []
    store.close()


def test_keys_meet_their_ports(tmp_path: Path) -> None:
    assert isinstance(KeyFile(tmp_path / "key"), Signer)
    assert isinstance(Vault(tmp_path / "vault"), Sealer)


def test_closing_signs_the_head(tmp_path: Path) -> None:
    store = _store(tmp_path)
    asyncio.run(store.journal.append(Draft(Kind.REASONING)))
    store.close()
    again = _store(tmp_path)
    row: RawEntry = again.entries.raw(0, limit=1)[0]
    (signed,) = again.checkpoints.after(0, limit=10)
    again.close()
    assert row[4].hex().encode() in signed.body
    assert signed.key == KeyFile(tmp_path / "key").key
