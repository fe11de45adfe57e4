"""An Entry is one chained record of the Ledger; a Checkpoint signs its head, Cursors follow it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

__all__ = ["Actor", "Checkpoint", "Cursor", "Draft", "Entry", "Kind"]


class Kind(StrEnum):
    """What an Entry records."""

    OBSERVED = "observed"
    TICKET_OPENED = "ticket_opened"
    TICKET_GREW = "ticket_grew"
    TICKET_CLAIMED = "ticket_claimed"
    TICKET_RELEASED = "ticket_released"
    TICKET_RESOLVED = "ticket_resolved"
    TICKET_ESCALATED = "ticket_escalated"
    TICKET_WATCHED = "ticket_watched"
    TICKET_CLOSED = "ticket_closed"
    TICKET_REOPENED = "ticket_reopened"
    TICKET_HELD = "ticket_held"
    TICKET_UNHELD = "ticket_unheld"
    TICKET_SNOOZED = "ticket_snoozed"
    TICKET_ASSIGNED = "ticket_assigned"
    TICKET_COMMENTED = "ticket_commented"
    RUN_STARTED = "run_started"
    RUN_FINISHED = "run_finished"
    REASONING = "reasoning"
    SUMMARY = "summary"
    SUSPICION = "suspicion"
    DIAGNOSIS = "diagnosis"
    VERDICT = "verdict"
    APPROVAL_REQUESTED = "approval_requested"
    APPROVAL_ESCALATED = "approval_escalated"
    APPROVAL_DECIDED = "approval_decided"
    RULE_ADDED = "rule_added"
    RULE_REVOKED = "rule_revoked"
    POLICY_OVERRIDDEN = "policy_overridden"
    PERMIT_MINTED = "permit_minted"
    TOOL_CALL = "tool_call"
    TOOL_STARTED = "tool_started"
    TOOL_RESULT = "tool_result"
    GATE_MISS = "gate_miss"
    REFUSED = "refused"
    PROOF = "proof"
    PATTERN_CREATED = "pattern_created"
    PATTERN_USED = "pattern_used"
    PATTERN_DELETED = "pattern_deleted"
    KILL_SWITCH_ON = "kill_switch_on"
    KILL_SWITCH_OFF = "kill_switch_off"
    MODE_SET = "mode_set"
    MODE_RESET = "mode_reset"
    SESSION_HELD = "session_held"
    SESSION_RESET = "session_reset"
    LIMITS_RESET = "limits_reset"
    TICKET_FLAPPING = "ticket_flapping"
    SILENCE_ADDED = "silence_added"
    SILENCE_ENDED = "silence_ended"
    SEGMENT_STARTED = "segment_started"
    PURGED = "purged"
    WORKFLOW_REQUESTED = "workflow_requested"
    WORKFLOW_CLAIMED = "workflow_claimed"
    WORKFLOW_STEP = "workflow_step"
    WORKFLOW_UNDO = "workflow_undo"
    WORKFLOW_CANCELLED = "workflow_cancelled"
    WORKFLOW_ENDED = "workflow_ended"
    ALERT_FIRED = "alert_fired"
    ALERT_CLEARED = "alert_cleared"
    TRIGGER_REFUSED = "trigger_refused"
    CONFIRMATION_REQUESTED = "confirmation_requested"
    CONFIRMATION_DECIDED = "confirmation_decided"
    CONFIRMATION_SETTLED = "confirmation_settled"
    POLICY_CHANGED = "policy_changed"
    TOKEN_CREATED = "token_created"
    TOKEN_REVOKED = "token_revoked"
    ACCESS_REFUSED = "access_refused"
    SIGNED_IN = "signed_in"
    SIGNED_OUT = "signed_out"
    LISTENER_OPENED = "listener_opened"
    SECRET_CHANGED = "secret_changed"
    SECRET_LEASED = "secret_leased"
    TICKET_HANDED_OFF = "ticket_handed_off"
    PROJECT_PACKED = "project_packed"
    PROJECT_INSTALLED = "project_installed"
    STORE_RESTORED = "store_restored"
    CONFIG_TRUSTED = "config_trusted"


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


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The signed bytes say which entry was the head, what its hash was, and what came before."""

    seq: int
    body: bytes
    key: str
    signature: bytes


@dataclass(frozen=True, slots=True)
class Cursor:
    """The last entry that a follower is done with, and what it has to remember on its way.

    One process at a time holds it, until `until`; `epoch` tells one claim from the next.
    """

    name: str
    seq: int
    epoch: int
    holder: str
    until: datetime
    note: Mapping[str, Any] = field(default_factory=dict)
