"""The bytes of an entry never change their form, or every old chain would break."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operator_protocols.domain.entry import Actor, Draft, Kind
from operator_sre.chain import (
    GENESIS,
    body_at,
    body_of,
    chain_hash,
    digest_of_body,
    entry_from,
    record_from,
    seq_of,
)
from tests.contract.clock import NOON

DRAFT = Draft(
    Kind.PROOF,
    {"b": [1, 2.5, None], "a": "ü"},
    ticket=3,
    run="run-1",
    actor=Actor("ada", "user", "reasoner"),
    key="k",
)


def test_the_bytes_are_these_for_all_time() -> None:
    assert body_of(seq=7, at=NOON, draft=DRAFT) == (
        b'{"actor":{"agent":"reasoner","id":"ada","type":"user"},'
        b'"at":"2026-03-04T12:00:00+00:00","kind":"proof",'
        b'"payload":{"a":"\xc3\xbc","b":[1,2.5,null]},"run":"run-1","seq":7,"ticket":3}'
    )


def test_the_hash_is_this_for_all_time() -> None:
    body = body_of(seq=7, at=NOON, draft=DRAFT)
    assert body == body_at(7, NOON.isoformat(), DRAFT, DRAFT.payload)
    assert chain_hash(GENESIS, digest_of_body(body)).hex() == (
        "2beab85f0d33bca6a596dd706e68e6a7dfc5c2e92048209c2d04f13f2992fd51"
    )


CHANGES: dict[str, object] = {
    "kind": Kind.TOOL_RESULT,
    "payload": {"b": [1, 2.5, None], "a": "u"},
    "ticket": 4,
    "run": "run-2",
    "actor": Actor("bob", "user", "reasoner"),
}


@pytest.mark.parametrize("name", sorted(CHANGES))
def test_everything_that_is_told_is_in_the_bytes(name: str) -> None:
    other = replace(DRAFT, **{name: CHANGES[name]})  # type: ignore[arg-type]
    before = body_of(seq=7, at=NOON, draft=DRAFT)
    assert body_of(seq=7, at=NOON, draft=other) != before


def test_the_place_and_the_time_are_in_the_bytes() -> None:
    body = body_of(seq=7, at=NOON, draft=DRAFT)
    assert body_of(seq=8, at=NOON, draft=DRAFT) != body
    later = NOON + timedelta(microseconds=1)
    assert body_of(seq=7, at=later, draft=DRAFT) != body


def test_the_hash_depends_on_the_entry_before_and_on_the_body() -> None:
    body = body_of(seq=7, at=NOON, draft=DRAFT)
    digest = digest_of_body(body)
    assert chain_hash(GENESIS, digest) != chain_hash(b"1" * 32, digest)
    assert chain_hash(GENESIS, digest) != chain_hash(GENESIS, digest_of_body(body + b" "))


def test_an_entry_is_what_its_bytes_say() -> None:
    body = body_of(seq=7, at=NOON, draft=DRAFT)
    entry = entry_from(99, body, GENESIS, b"h" * 32)
    assert (entry.seq, entry.at, entry.kind, entry.payload) == (7, NOON, DRAFT.kind, DRAFT.payload)
    assert (entry.ticket, entry.run, entry.actor) == (DRAFT.ticket, DRAFT.run, DRAFT.actor)
    assert (entry.previous, entry.hash) == (GENESIS.hex(), (b"h" * 32).hex())


def test_an_entry_whose_body_was_taken_still_has_its_place() -> None:
    entry = entry_from(99, None, GENESIS, b"h" * 32)
    assert (entry.seq, entry.kind, entry.payload) == (99, Kind.PURGED, {})


@pytest.mark.parametrize("body", [b"", b"x", b"[]", b"null", b"{}", b'{"seq":"1"}', b"\xff"])
def test_bytes_that_are_no_entry_have_no_number(body: bytes) -> None:
    assert seq_of(body) is None


@given(st.dictionaries(st.text(st.characters()), st.text(st.characters()), max_size=5))
def test_any_text_survives_and_the_order_does_not_matter(payload: dict[str, str]) -> None:
    body = body_of(seq=1, at=NOON, draft=Draft(Kind.REASONING, payload))
    turned = dict(reversed(payload.items()))
    assert body_of(seq=1, at=NOON, draft=Draft(Kind.REASONING, turned)) == body
    assert record_from(body)["payload"] == json.loads(body)["payload"] == payload
    assert seq_of(body) == 1
