"""A wait that can only fail ends: what comes back, what plainly persists, what is harmed."""

from __future__ import annotations

from collections.abc import Callable, Collection

import pytest

from operator_protocols.domain.health import Health
from operator_protocols.domain.observation import CheckResult, Finding, Observation
from operator_protocols.domain.proof import Proof
from operator_protocols.domain.target import Target
from operator_sre.verify import NO_CONCERN, Concern, Verifier
from tests.contract.clock import LeapingClock
from tests.contract.samples import ticket, violation

pytestmark = pytest.mark.asyncio

WELL, UNKNOWN, BROKEN = Health
STABLE_S, DEADLINE_S = 5.0, 40.0
TARGETS = (Target("db", "node"), Target("api", "node", depends_on=("db",)), Target("mail", "node"))
States = Callable[[int], dict[str, tuple[Health, str]]]
CRITICAL = Concern({"two_writers": 0.0, "node_down": 0.0})


async def _prove(
    states: States,
    *about: str,
    changed: bool = True,
    concern: Concern = NO_CONCERN,
    target: str = "",
    deadline_s: float | None = None,
    ended: Callable[[], Collection[str]] = tuple,
) -> Proof:
    """The proof of a ticket about these targets; one look each second."""
    clock = LeapingClock()
    looks = iter(range(10_000))

    async def look() -> CheckResult:
        findings = []
        for name, (health, detail) in states(next(looks)).items():
            at, _, invariant = name.partition("/")
            findings.append(Finding(invariant or "node_down", at, health, detail))
        return CheckResult(Observation("shop", clock.now()), tuple(findings))

    filed = ticket(*map(violation, about))
    verifier = Verifier(clock=clock, stable_s=STABLE_S, deadline_s=DEADLINE_S, interval_s=1.0)
    return await verifier.prove(
        lambda: filed,
        look,
        before=frozenset(each.key for each in filed.violations),
        targets=TARGETS,
        changed=changed,
        concern=concern,
        target=target,
        deadline_s=deadline_s,
        ended=ended,
    )


async def test_what_held_and_breaks_again_ends_the_wait() -> None:
    proof = await _prove(lambda n: {"db": (WELL if n < 4 else BROKEN, f"gone {n}")}, "db")
    assert (proof.held, proof.looks) == (False, 6)


async def test_one_missed_check_is_not_the_end() -> None:
    proof = await _prove(lambda n: {"db": (BROKEN if n == 4 else WELL, "late")}, "db")
    assert proof.held


@pytest.mark.parametrize(
    ("detail", "changed", "deadline_s", "looks"),
    [
        ("no answer", True, None, 21),  # plainly persists: half of the time
        ("{n} keys left", True, None, 41),  # it moves
        ("no answer", False, None, 41),  # nothing was changed: it is waited for
        ("no answer", True, 38.0, 39),  # the change says that it needs longer
    ],
)
async def test_a_finding_that_plainly_persists_ends_the_wait(
    detail: str, changed: bool, deadline_s: float | None, looks: int
) -> None:
    proof = await _prove(
        lambda n: {"db": (BROKEN, detail.format(n=n))},
        "db",
        changed=changed,
        deadline_s=deadline_s,
    )
    assert (proof.held, proof.looks) == (False, looks)


async def test_what_recovers_late_is_awaited() -> None:
    assert (await _prove(lambda n: {"db": (BROKEN if n < 15 else WELL, "off")}, "db")).held


async def test_harm_to_what_is_critical_ends_the_wait_at_once() -> None:
    proof = await _prove(
        lambda n: {"db": (BROKEN, f"{n}"), "mail/two_writers": (BROKEN if n else WELL, "two")},
        "db",
        concern=CRITICAL,
    )
    assert proof.critical == ("shop/mail/two_writers",)
    assert (proof.held, proof.looks) == (False, 7)


@pytest.mark.parametrize(("predicted", "harm"), [("two_writers", ()), ("other", ("x",))])
async def test_a_cause_that_is_known_does_not_break_what_it_does_not_predict(
    predicted: str, harm: tuple[str, ...]
) -> None:
    concern = Concern(CRITICAL.critical, frozenset({predicted}))
    proof = await _prove(
        lambda n: {"db": (WELL, ""), "api/two_writers": (BROKEN if n else WELL, "two")},
        "db",
        concern=concern,
    )
    assert bool(proof.critical) is bool(harm)
    assert not proof.held


async def test_a_target_is_proven_by_its_own_invariants() -> None:
    def states(n: int) -> dict[str, tuple[Health, str]]:
        return {"db": (WELL, ""), "mail": (BROKEN, "off")}

    proof = await _prove(states, "db", "mail", target="db")
    assert (proof.held, proof.target, proof.looks) == (True, "db", 3)
    assert not (await _prove(states, "db", "mail")).held
    assert not (await _prove(states, "db", "mail", target="mail")).held


async def test_what_depends_on_the_target_gets_time_and_then_all_of_it_is_proven() -> None:
    proof = await _prove(
        lambda n: {"db": (WELL, ""), "api": (BROKEN if n < 8 else WELL, "off")},
        *("db", "api"),
        target="db",
    )
    assert (proof.held, proof.target) == (True, "")
    stuck = await _prove(
        lambda n: {"db": (WELL, ""), "api": (BROKEN, "off")}, "db", "api", target="db"
    )
    assert (stuck.held, stuck.target, stuck.looks) == (True, "db", 11)


def _is_gone(n: int) -> dict[str, tuple[Health, str]]:
    return {"db": (BROKEN, f"gone for {n} s"), "mail": (WELL, "")}


async def test_a_process_that_has_exited_does_not_recover_by_waiting() -> None:
    proof = await _prove(_is_gone, "db", ended=lambda: {"db"})

    assert not proof.held
    assert 2 * STABLE_S <= proof.looks <= 2 * STABLE_S + 2


async def test_a_process_that_is_started_late_gets_the_time_that_its_tool_declares() -> None:
    def state(n: int) -> dict[str, tuple[Health, str]]:
        return {"db": (WELL if n > 30 else BROKEN, f"gone for {n} s")}

    gone = iter([{"db"}] * 30 + [set[str]()] * 100)
    assert (await _prove(state, "db", deadline_s=40.0, ended=lambda: next(gone))).held
    never = await _prove(_is_gone, "db", deadline_s=40.0, ended=lambda: {"db"})
    assert (never.held, 40 <= never.looks <= 42) == (False, True)


@pytest.mark.parametrize("ended", [{"mail"}, set[str]()])
async def test_only_the_process_of_what_is_broken_ends_the_wait(ended: set[str]) -> None:
    proof = await _prove(_is_gone, "db", ended=lambda: ended)

    assert proof.looks >= DEADLINE_S


async def test_a_process_that_is_started_again_soon_gets_its_time() -> None:
    gone = iter([{"db"}] * 8 + [set[str]()] * 100)

    def state(n: int) -> dict[str, tuple[Health, str]]:
        return {"db": (WELL if n > 12 else BROKEN, f"gone for {n} s")}

    proof = await _prove(state, "db", ended=lambda: next(gone))

    assert proof.held
