"""A proof that does not hold says so in every field, and blames the right part of the subject."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from operator_protocols.domain.health import Health
from operator_protocols.domain.observation import CheckResult, Finding, Observation
from operator_protocols.domain.proof import Proof
from operator_protocols.domain.target import Target
from operator_sre.verify import Verifier
from tests.contract.clock import LeapingClock
from tests.contract.samples import ticket, violation

pytestmark = pytest.mark.asyncio

WELL, UNKNOWN, BROKEN = Health
TICKET = ticket(violation("store"))
TARGETS = (Target("store", "store"), Target("other", "node"))
Look = Callable[[int], Sequence[Finding]]


def _seen(
    target: str, health: Health, own: Health | None = None, *, by: str = "node_down"
) -> Finding:
    return Finding(by, target, health, "seen", own)


async def _prove(look: Look, *, stable_s: float = 5.0) -> Proof:
    clock, checks = LeapingClock(), iter(range(10_000))

    async def observe() -> CheckResult:
        return CheckResult(Observation("shop", clock.now()), tuple(look(next(checks))))

    verifier = Verifier(clock=clock, stable_s=stable_s, deadline_s=20.0, interval_s=1.0)
    return await verifier.prove(lambda: TICKET, observe, before=frozenset(), targets=TARGETS)


@pytest.mark.parametrize("health", [BROKEN, UNKNOWN])
async def test_without_a_stable_period_what_is_broken_is_still_not_proven(health: Health) -> None:
    proof = await _prove(lambda n: [_seen("store", health)], stable_s=0.0)
    assert (proof.held, proof.health, proof.looks) == (False, health, 21)


async def test_what_others_report_is_no_excuse_for_what_has_not_held_long_enough() -> None:
    proof = await _prove(
        lambda n: [_seen("store", BROKEN, WELL) if n > 17 else _seen("store", BROKEN)]
    )
    assert (proof.held, proof.health, proof.pending) == (False, WELL, ())
    assert "nothing is proven" in proof.detail


async def test_a_repair_that_did_harm_is_not_only_waited_for() -> None:
    proof = await _prove(lambda n: [_seen("store", BROKEN, WELL), _seen("other", BROKEN)])
    assert (proof.held, proof.harm, proof.pending) == (False, ("shop/other/node_down",), ())
    assert proof.detail == "Another invariant broke meanwhile: shop/other/node_down."


async def test_an_invariant_of_the_whole_subject_that_breaks_is_the_fault_that_spread() -> None:
    proof = await _prove(
        lambda n: [_seen("store", WELL), _seen("shop", BROKEN if n < 3 else WELL, by="writes")]
    )
    assert (proof.held, proof.harm, proof.looks) == (True, (), 9)
    proof = await _prove(lambda n: [_seen("store", WELL), _seen("shop", BROKEN, by="writes")])
    assert (proof.held, proof.health, proof.harm) == (False, BROKEN, ())


async def test_a_subject_that_cannot_be_observed_any_more_was_harmed() -> None:
    proof = await _prove(lambda n: [_seen("store", WELL), _seen("shop", BROKEN, by="observable")])
    assert (proof.held, proof.harm) == (False, ("shop/shop/observable",))
