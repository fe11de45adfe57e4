"""What breaks beside a repair: the fault that spreads, harm, and what others have not seen yet."""

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
TARGETS = (
    Target("store", "store"),
    Target("node-1", "node", depends_on=("store",)),
    Target("other", "node"),
)
Look = Callable[[int], Sequence[Finding]]


def _finding(target: str, health: Health, own: Health | None = None) -> Finding:
    return Finding("node_down", target, health, "seen", own)


async def _prove(look: Look, *, deadline_s: float | None = None, hasty: bool = False) -> Proof:
    clock, looks = LeapingClock(), iter(range(10_000))

    async def observe() -> CheckResult:
        found = tuple(look(next(looks)))
        return CheckResult(Observation("shop", clock.now()), found)

    verifier = Verifier(clock=clock, stable_s=5.0, deadline_s=20.0, interval_s=1.0)
    return await verifier.prove(
        lambda: TICKET,
        observe,
        before=frozenset(),
        targets=TARGETS,
        deadline_s=deadline_s,
        hasty=hasty,
    )


async def test_what_needs_the_broken_one_has_to_hold_too_and_is_no_harm() -> None:
    proof = await _prove(
        lambda n: [_finding("store", WELL), _finding("node-1", BROKEN if n < 6 else WELL)]
    )
    assert (proof.held, proof.harm) == (True, ())
    assert proof.looks == 12


async def test_a_fault_that_spread_and_stays_is_not_over() -> None:
    proof = await _prove(lambda n: [_finding("store", WELL), _finding("node-1", BROKEN)])
    assert (proof.held, proof.health, proof.harm) == (False, BROKEN, ())


async def test_what_has_nothing_to_do_with_it_and_stays_broken_is_harm() -> None:
    proof = await _prove(lambda n: [_finding("store", WELL), _finding("other", BROKEN)])
    assert (proof.held, proof.harm) == (False, ("shop/other/node_down",))
    assert proof.looks == 6


async def test_what_is_broken_for_one_look_is_no_harm() -> None:
    proof = await _prove(
        lambda n: [_finding("store", WELL), _finding("other", BROKEN if n == 5 else WELL)]
    )
    assert (proof.held, proof.harm) == (True, ())


async def test_a_report_that_lags_is_waited_for() -> None:
    proof = await _prove(
        lambda n: [_finding("store", BROKEN, WELL) if n < 10 else _finding("store", WELL)]
    )
    assert (proof.held, proof.pending) == (True, ())
    assert proof.looks == 11


async def test_a_report_that_stays_is_pending_and_our_own_look_counts() -> None:
    proof = await _prove(lambda n: [_finding("store", BROKEN, WELL)])
    assert (proof.held, proof.pending) == (True, ("shop/store/node_down",))
    assert proof.looks == 21


@pytest.mark.parametrize("own", [BROKEN, UNKNOWN])
async def test_a_report_that_our_own_look_confirms_is_broken(own: Health) -> None:
    proof = await _prove(lambda n: [_finding("store", BROKEN, own)])
    assert (proof.held, proof.pending) == (False, ())


async def test_a_change_that_needs_longer_is_given_longer() -> None:
    def late(n: int) -> list[Finding]:
        return [_finding("store", WELL if n > 30 else BROKEN)]

    assert not (await _prove(late)).held
    assert (await _prove(late, deadline_s=60.0)).held


async def test_whoever_is_hasty_waits_for_nothing_that_is_broken() -> None:
    proof = await _prove(lambda n: [_finding("store", WELL if n < 2 else BROKEN)], hasty=True)
    assert (proof.held, proof.looks) == (False, 3)
    assert (await _prove(lambda n: [_finding("store", WELL)], hasty=True)).held
