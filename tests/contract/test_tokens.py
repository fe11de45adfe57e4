"""What Tokens and Replies promise: who was let in is in the ledger, and nothing is done twice."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from operator_protocols.domain.entry import Actor, Kind
from operator_protocols.domain.token import Reply, Role, Token
from operator_protocols.errors import ConflictError, NotFoundError
from tests.contract.clock import NOON, HeldClock
from tests.contract.stores import Home, Ports

pytestmark = pytest.mark.asyncio

MONTH = timedelta(days=30)
TOKEN = Token("token-1", "grafana", Role.VIEWER, "ada", NOON, NOON + MONTH)
BOB = Actor("bob", "user")
ASKED = Reply("key-1", "digest-1", NOON)


async def test_a_token_is_found_by_its_fingerprint_and_survives(home: Home) -> None:
    await home.open().tokens.add(TOKEN, fingerprint="f" * 64)
    home.close()
    tokens = home.open().tokens
    assert tokens.of("f" * 64) == TOKEN
    assert list(tokens.find()) == [TOKEN]
    for other in ("", "F" * 64, "f" * 63, "' OR 1=1 --", "\x00", "%"):
        assert tokens.of(other) is None


async def test_revoking_is_recorded_once(ports: Ports, clock: HeldClock) -> None:
    await ports.tokens.add(TOKEN, fingerprint="f")
    clock.advance(60.0)
    revoked = await ports.tokens.revoke("token-1", by=BOB, reason="it was lost")
    assert revoked == ports.tokens.of("f") == replace(TOKEN, revoked_at=clock.now())
    with pytest.raises(ConflictError):
        await ports.tokens.revoke("token-1", by=BOB, reason="")
    with pytest.raises(NotFoundError):
        await ports.tokens.revoke("nosuch", by=BOB, reason="")
    told = ports.entries.after(0, limit=9)
    assert [(one.kind, one.actor.id) for one in told] == [
        (Kind.TOKEN_CREATED, "ada"),
        (Kind.TOKEN_REVOKED, "bob"),
    ]


async def test_an_id_and_a_secret_are_used_once(ports: Ports) -> None:
    await ports.tokens.add(TOKEN, fingerprint="f")
    with pytest.raises(ConflictError):
        await ports.tokens.add(replace(TOKEN, name="other"), fingerprint="g")
    with pytest.raises(ConflictError):
        await ports.tokens.add(replace(TOKEN, id="token-2"), fingerprint="f")
    assert list(ports.tokens.find()) == [TOKEN]


async def test_what_is_begun_is_begun_once(ports: Ports, clock: HeldClock) -> None:
    assert await ports.replies.begin(ASKED, keep_s=60) is None
    assert await ports.replies.begin(replace(ASKED, digest="other"), keep_s=60) == ASKED
    await ports.replies.end("key-1", status=201, body='{"a": "\u00e9"}')
    known = await ports.replies.begin(ASKED, keep_s=60)
    assert known == replace(ASKED, status=201, body='{"a": "\u00e9"}')
    later = replace(ASKED, at=NOON + timedelta(seconds=61))
    assert await ports.replies.begin(later, keep_s=60) is None


async def test_what_was_dropped_may_be_asked_again(home: Home) -> None:
    replies = home.open().replies
    assert await replies.begin(ASKED, keep_s=60) is None
    await replies.drop("key-1")
    assert await replies.begin(ASKED, keep_s=60) is None
    home.close()
    assert await home.open().replies.begin(ASKED, keep_s=60) == ASKED


async def test_a_role_is_enough_for_itself_and_what_is_less() -> None:
    able = [(one.value, [need.value for need in Role if one.may(need)]) for one in Role]
    assert able == [
        ("viewer", ["viewer"]),
        ("approver", ["viewer", "approver"]),
        ("admin", ["viewer", "approver", "admin"]),
    ]
    assert TOKEN.refusal(NOON) == ""
    assert TOKEN.refusal(NOON + MONTH) == "expired"
    assert replace(TOKEN, revoked_at=NOON).refusal(NOON) == "revoked"


async def test_of_each_owner_the_latest_answers_are_kept(home: Home) -> None:
    replies = home.open().replies
    begun = [
        replace(ASKED, key=f"{owner}/{number}", at=ASKED.at + timedelta(seconds=number))
        for number in range(4)
        for owner in ("one", "two", "none")
    ]
    for one in begun:
        few = one.key.startswith("one/")
        assert await replies.begin(one, keep_s=60, keep_max=2 if few else 9) is None
    kept = {one.key for one in begun if await replies.begin(one, keep_s=60, keep_max=9) == one}
    assert {key for key in kept if key.startswith("one/")} == {"one/2", "one/3"}
    assert len(kept) == 2 + 4 + 4
