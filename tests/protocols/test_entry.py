"""The bytes of an entry never change their form, or every old chain would break."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operator_protocols.domain.entry import (
    GENESIS,
    Actor,
    Draft,
    Kind,
    canonical_bytes,
    chain_hash,
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
    assert canonical_bytes(seq=7, at=NOON, draft=DRAFT) == (
        b'{"actor":{"agent":"reasoner","id":"ada","type":"user"},'
        b'"at":"2026-03-04T12:00:00+00:00","kind":"proof",'
        b'"payload":{"a":"\xc3\xbc","b":[1,2.5,null]},"run":"run-1","seq":7,"ticket":3}'
    )


def test_the_hash_is_this_for_all_time() -> None:
    body = canonical_bytes(seq=7, at=NOON, draft=DRAFT)
    assert chain_hash(GENESIS, body) == (
        "e9e6f80983dff6f232869cafb17ab22415b02416a68031a394954156176b8dd4"
    )


CHANGES: dict[str, object] = {
    "kind": Kind.OUTCOME,
    "payload": {"b": [1, 2.5, None], "a": "u"},
    "ticket": 4,
    "run": "run-2",
    "actor": Actor("bob", "user", "reasoner"),
}


@pytest.mark.parametrize("name", sorted(CHANGES))
def test_everything_that_is_told_is_in_the_bytes(name: str) -> None:
    other = replace(DRAFT, **{name: CHANGES[name]})  # type: ignore[arg-type]
    before = canonical_bytes(seq=7, at=NOON, draft=DRAFT)
    assert canonical_bytes(seq=7, at=NOON, draft=other) != before


def test_the_place_and_the_time_are_in_the_bytes() -> None:
    body = canonical_bytes(seq=7, at=NOON, draft=DRAFT)
    assert canonical_bytes(seq=8, at=NOON, draft=DRAFT) != body
    later = NOON + timedelta(microseconds=1)
    assert canonical_bytes(seq=7, at=later, draft=DRAFT) != body


def test_the_hash_depends_on_the_entry_before() -> None:
    body = canonical_bytes(seq=7, at=NOON, draft=DRAFT)
    assert chain_hash(GENESIS, body) != chain_hash("1" * 64, body)
    assert chain_hash(GENESIS, body) != chain_hash(GENESIS, body + b" ")


@given(st.dictionaries(st.text(st.characters()), st.text(st.characters()), max_size=5))
def test_any_text_survives_and_the_order_does_not_matter(payload: dict[str, str]) -> None:
    body = canonical_bytes(seq=1, at=NOON, draft=Draft(Kind.REASONING, payload))
    turned = dict(reversed(payload.items()))
    assert canonical_bytes(seq=1, at=NOON, draft=Draft(Kind.REASONING, turned)) == body
    assert json.loads(body.decode("utf-8", "surrogatepass"))["payload"] == payload
