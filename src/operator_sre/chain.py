"""The bytes of an entry, and its link to the entry before."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from operator_protocols.domain.entry import Actor, Draft, Entry, Kind

__all__ = [
    "GENESIS",
    "body_at",
    "body_of",
    "chain_hash",
    "digest_of_body",
    "entry_from",
    "record_from",
    "seq_of",
]

GENESIS = bytes(32)
_NEVER = datetime.fromtimestamp(0, UTC)  # the time of a purged entry
_ENCODER = msgspec.json.Encoder(order="sorted")


def body_of(*, seq: int, at: datetime, draft: Draft) -> bytes:
    """The canonical bytes of an entry: JSON with sorted keys and without spaces."""
    return body_at(seq, at.isoformat(), draft, draft.payload)


def body_at(seq: int, at: str, draft: Draft, payload: Mapping[str, Any]) -> bytes:
    """The same, with the time as RFC 3339 and `payload` instead of that of the draft."""
    actor = draft.actor
    record = {
        "actor": {"agent": actor.agent, "id": actor.id, "type": actor.type},
        "at": at,
        "kind": draft.kind,
        "payload": payload,
        "run": draft.run,
        "seq": seq,
        "ticket": draft.ticket,
    }
    try:
        return _ENCODER.encode(record)
    except UnicodeEncodeError:
        # Lone surrogates stand for bytes that are not text; they survive as ASCII escapes.
        plain = msgspec.to_builtins(record, str_keys=True)
        return json.dumps(plain, sort_keys=True, separators=(",", ":")).encode()


def digest_of_body(body: bytes) -> bytes:
    """The digest that stands for the body in the chain, so that a purge keeps the chain intact."""
    return hashlib.sha256(body).digest()


def chain_hash(previous: bytes, digest: bytes) -> bytes:
    """The hash of an entry covers the one before it, so that every change is noticed."""
    return hashlib.sha256(previous + digest).digest()


def record_from(body: bytes) -> Any:
    """The JSON of an entry's bytes."""
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return json.loads(body)  # accepts lone surrogates


class _Numbered(msgspec.Struct):
    seq: int


class _Stored(msgspec.Struct):
    """An entry as its bytes hold it. One decoder reads it, because a run has thousands of them."""

    actor: Actor
    at: datetime
    kind: Kind
    payload: dict[str, Any]
    run: str
    seq: int
    ticket: int | None


_NUMBERED = msgspec.json.Decoder(_Numbered)
_STORED = msgspec.json.Decoder(_Stored)


def seq_of(body: bytes) -> int | None:
    """The number in the body itself; None when it is not the body of an entry."""
    try:
        return _NUMBERED.decode(body).seq
    except msgspec.DecodeError:
        pass  # perhaps only a lone surrogate
    try:
        seq = json.loads(body)["seq"]
    except (ValueError, KeyError, TypeError):
        return None
    return seq if type(seq) is int else None


def entry_from(seq: int, body: bytes | None, previous: bytes, digest: bytes) -> Entry:
    """An entry from its stored bytes; every field comes from them."""
    links = bytes(previous).hex(), bytes(digest).hex()
    if body is None:
        return Entry(seq, _NEVER, Kind.PURGED, {}, None, "", Actor(), *links)
    try:
        stored = _STORED.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        pass  # perhaps only a lone surrogate
    else:
        return Entry(
            stored.seq,
            stored.at,
            stored.kind,
            stored.payload,
            stored.ticket,
            stored.run,
            stored.actor,
            *links,
        )
    record = record_from(bytes(body))
    return Entry(
        seq=record["seq"],
        at=datetime.fromisoformat(record["at"]),
        kind=Kind(record["kind"]),
        payload=record["payload"],
        ticket=record["ticket"],
        run=record["run"],
        actor=Actor(**record["actor"]),
        previous=links[0],
        hash=links[1],
    )
