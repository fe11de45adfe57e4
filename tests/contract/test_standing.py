"""What StandingRules promise: what a person allowed for always, until somebody revokes it."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from operator_protocols.domain.entry import Actor, Kind
from operator_protocols.domain.standing_rule import Scope, StandingRule
from operator_protocols.errors import ConflictError, NotFoundError
from tests.contract.clock import NOON, HeldClock
from tests.contract.samples import standing_rule
from tests.contract.stores import Home, Ports

pytestmark = pytest.mark.asyncio

BOB = Actor("bob", "user")


async def test_a_rule_comes_back_as_it_was_made(home: Home) -> None:
    ports = home.open()
    assert list(ports.standing.find()) == []
    rule = replace(standing_rule(), argv=("touch", "'quoted' \x00"), reason="\"}'")
    assert await ports.standing.add(rule) == rule
    home.close()
    again = home.open()
    assert again.standing.get("r1") == rule
    assert again.standing.get("r2") is None
    assert list(again.standing.find()) == [rule]


async def test_the_same_id_is_one_rule(ports: Ports) -> None:
    first = await ports.standing.add(standing_rule())
    other = replace(standing_rule(), argv=("rm", "-rf", "zz"))
    assert await ports.standing.add(other) == first
    assert len(ports.entries.after(0, limit=9)) == 1


async def test_who_allowed_it_is_in_the_ledger(ports: Ports) -> None:
    await ports.standing.add(standing_rule())
    (told,) = ports.entries.after(0, limit=9)
    assert (told.kind, told.actor) == (Kind.RULE_ADDED, Actor("ada", "user"))


@pytest.mark.parametrize("scope", list(Scope))
async def test_only_a_rule_for_a_ticket_belongs_to_it(ports: Ports, scope: Scope) -> None:
    await ports.standing.add(standing_rule(scope=scope))
    (told,) = ports.entries.after(0, limit=9)
    assert told.ticket == (1 if scope is Scope.TICKET else None)


async def test_a_revoked_rule_is_kept_with_who_and_why(ports: Ports, clock: HeldClock) -> None:
    for name in ("r1", "r2"):
        await ports.standing.add(standing_rule(name))
    revoked = await ports.standing.revoke("r1", by=BOB, reason="no more")
    assert (revoked.revoked_by, revoked.revoked_because) == ("bob", "no more")
    assert (revoked.revoked_at, revoked.stands) == (NOON, False)
    assert [one.id for one in ports.standing.find()] == ["r2"]
    assert [one.id for one in ports.standing.find(revoked=True)] == ["r1", "r2"]
    told = ports.entries.newest(limit=1)[0]
    assert (told.kind, told.actor) == (Kind.RULE_REVOKED, BOB)


async def test_a_rule_is_revoked_once(home: Home) -> None:
    one, other = home.open(), home.open()
    await one.standing.add(standing_rule())
    outcomes = await asyncio.gather(
        *((one, other)[n % 2].standing.revoke("r1", by=BOB, reason="") for n in range(6)),
        return_exceptions=True,
    )
    assert sum(isinstance(outcome, StandingRule) for outcome in outcomes) == 1
    assert sum(isinstance(outcome, ConflictError) for outcome in outcomes) == 5


async def test_an_unknown_rule_cannot_be_revoked(ports: Ports) -> None:
    with pytest.raises(NotFoundError, match=r"'nothing'\. .*operator approvals rules"):
        await ports.standing.revoke("nothing", by=BOB, reason="")
    assert list(ports.entries.after(0, limit=9)) == []
