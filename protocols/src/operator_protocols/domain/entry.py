"""An Entry is one chained record of the Ledger."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

__all__ = ["GENESIS", "Actor", "Draft", "Entry", "Kind", "canonical_bytes", "chain_hash"]

GENESIS = "0" * 64


class Kind(StrEnum):
    """What an Entry records."""

    OBSERVED = "observed"
    TICKET_OPENED = "ticket_opened"
    TICKET_GREW = "ticket_grew"
    TICKET_CLAIMED = "ticket_claimed"
    TICKET_RELEASED = "ticket_released"
    TICKET_RESOLVED = "ticket_resolved"
    TICKET_ESCALATED = "ticket_escalated"
    RUN_STARTED = "run_started"
    RUN_FINISHED = "run_finished"
    REASONING = "reasoning"
    DIAGNOSIS = "diagnosis"
    VERDICT = "verdict"
    APPROVAL_REQUESTED = "approval_requested"
    APPROVAL_DECIDED = "approval_decided"
    PERMIT_MINTED = "permit_minted"
    INTENT = "intent"
    OUTCOME = "outcome"
    REFUSED = "refused"
    PROOF = "proof"


@dataclass(frozen=True, slots=True)
class Actor:
    """Who did it: the requester, what they are, and the agent that acted for them."""

    id: str = "operator"
    type: str = "system"
    agent: str = ""


@dataclass(frozen=True, slots=True)
class Draft:
    """An Entry before it has a place in the chain. `key` makes appending it idempotent."""

    kind: Kind
    payload: Mapping[str, Any] = field(default_factory=dict)
    ticket: int | None = None
    run: str = ""
    actor: Actor = field(default_factory=Actor)
    key: str = ""


@dataclass(frozen=True, slots=True)
class Entry:
    """One record: the stored bytes are the entry, everything else is derived from them."""

    seq: int
    at: datetime
    kind: Kind
    payload: Mapping[str, Any]
    ticket: int | None
    run: str
    actor: Actor
    previous: str
    hash: str


def canonical_bytes(*, seq: int, at: datetime, draft: Draft) -> bytes:
    """The bytes that are hashed and stored."""
    record = {
        "seq": seq,
        "at": at.isoformat(),
        "kind": draft.kind.value,
        "ticket": draft.ticket,
        "run": draft.run,
        "actor": {"id": draft.actor.id, "type": draft.actor.type, "agent": draft.actor.agent},
        "payload": draft.payload,
    }
    text = json.dumps(record, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    # Lone surrogates come from undecodable output; they must survive, not break the append.
    return text.encode("utf-8", "surrogatepass")


def chain_hash(previous: str, body: bytes) -> str:
    """The hash of an entry covers the one before it, so nothing can change unseen."""
    return hashlib.sha256(previous.encode() + b"\n" + body).hexdigest()
