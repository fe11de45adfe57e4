"""What whoever leads a campaign makes of the queue, without a server: every turn it can take."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from operator_evals.app.leader import AWAY_S_MAX, LOST_MAX, Leader
from operator_evals.app.worker import order_from, pack_result
from operator_evals.campaign import Campaign, Mind, Scenario, Variant
from operator_evals.conductor import Outcome, Progress
from operator_evals.facts import Moments, TrialFacts, TrialState
from operator_protocols.domain.budget import Spent
from operator_protocols.errors import StoreError
from operator_protocols.ports import CorrectOutcome
from operator_sre.app.wiring.engines import ErrandState, TrialErrand, TrialTaker

FAULT = Scenario("shop", "till_kill", CorrectOutcome.MITIGATED, ("answers",))
OTHER = Scenario("shop", "till_stop", CorrectOutcome.MITIGATED, ("answers",))
ALONE = Scenario("shop", "latency", CorrectOutcome.MITIGATED, ("slow",), alone=True)
ONE = Campaign("c", (FAULT,), (Variant("reasoner"),), {"reasoner": 1})


class Clock:
    """Time passes when somebody sleeps; then the world takes its turn."""

    def __init__(self, turn: Callable[[], None]) -> None:
        self._turn, self._now = turn, 0.0

    def monotonic(self) -> float:
        """Seconds."""
        return self._now

    def now(self) -> datetime:
        """The same as a date."""
        return datetime.fromtimestamp(self._now, UTC)

    async def sleep(self, seconds: float) -> None:
        """The world takes its turn."""
        self._now += seconds
        assert self._now < 10_000, "it never comes to an end"
        self._turn()


class Shelf:
    """A queue in memory, as the real one answers."""

    def __init__(self) -> None:
        self.orders: dict[str, str] = {}
        self.states: dict[str, ErrandState] = {}
        self.outcomes: dict[str, str] = {}
        self.added: list[str] = []
        self.live: list[TrialTaker] = []
        self.foreign: set[str] = set()
        self.away = False

    def _must_be_there(self) -> None:
        if self.away:
            raise StoreError("The server is away.")

    def add(self, errand: str, order: str, *, alone: bool) -> None:
        """Once."""
        self._must_be_there()
        if errand not in self.states:
            self.added.append(order_from(order).planned.key)
            self.orders[errand], self.states[errand] = order, ErrandState.WAITS

    def find(self, *, begins: str) -> list[TrialErrand]:
        """By name."""
        self._must_be_there()
        found = [one for one in self.states.items() if one[0].startswith(begins)]
        return [
            TrialErrand(name, state, ours=name not in self.foreign)
            for name, state in reversed(found)
        ]

    def takers(self, *, silent_s: float) -> list[TrialTaker]:
        """Those who speak."""
        return self.live

    def outcome(self, errand: str) -> str:
        """What came back."""
        return self.outcomes[errand]

    def drop(self, errands: Sequence[str]) -> None:
        """Forget them."""
        self._must_be_there()
        for one in errands:
            self.states.pop(one, None)

    def finish(self, errand: str, usd: float = 0.0) -> None:
        """Somebody did it."""
        order = order_from(self.orders[errand])
        one = order.planned
        facts = TrialFacts(
            *(order.campaign.name, one.key, one.scenario, one.variant, one.seed, TrialState.DONE),
            moments=Moments(ended=30.0),
            spent=Spent(usd=usd),
        )
        self.outcomes[errand] = pack_result(facts, Path())
        self.states[errand] = ErrandState.OVER


async def _lead(
    shelf: Shelf,
    turn: Callable[[], None],
    campaign: Campaign = ONE,
    known: Sequence[TrialFacts] = (),
) -> tuple[Outcome, Counter[str], list[Progress], dict[str, TrialFacts]]:
    keeps: Counter[str] = Counter()
    said: list[Progress] = []
    kept: dict[str, TrialFacts] = {}

    def keep(facts: TrialFacts) -> None:
        keeps[facts.key] += 1
        kept[facts.key] = facts

    queue: Any = shelf
    leader = Leader(
        queue, campaign, "trial-x", Path("ledgers/c"), keep, Clock(turn), said.append, poll_s=1.0
    )
    outcome = await leader.conduct(known)
    assert not shelf.states, "something was left in the queue"
    return outcome, keeps, said, kept


def _finish_all(shelf: Shelf, usd: float = 0.0) -> None:
    for name, state in list(shelf.states.items()):
        if state in (ErrandState.WAITS, ErrandState.TAKEN):
            shelf.finish(name, usd)


@pytest.mark.asyncio
async def test_what_has_to_be_alone_is_handed_out_when_nothing_else_waits() -> None:
    shelf = Shelf()
    campaign = replace(ONE, scenarios=(ALONE, FAULT, OTHER))
    seen: list[list[str]] = []

    def turn() -> None:
        waiting = [name for name, state in shelf.states.items() if state is ErrandState.WAITS]
        seen.append([order_from(shelf.orders[name]).planned.scenario.fault for name in waiting])
        if waiting:
            shelf.finish(waiting[0])

    outcome, keeps, said, _ = await _lead(shelf, turn, campaign)
    assert (outcome.done, set(keeps.values())) == (3, {1})
    assert all(one in (["latency"], []) or "latency" not in one for one in seen)
    assert shelf.added[-1] == "shop:latency/reasoner/0"
    assert said[0].workers == 0


@pytest.mark.asyncio
async def test_a_trial_nobody_holds_is_given_to_another_and_given_up_after_some() -> None:
    shelf = Shelf()

    def turn() -> None:
        for name in shelf.states:
            shelf.states[name] = ErrandState.TAKEN  # and whoever took it is never heard of

    outcome, keeps, _, kept = await _lead(shelf, turn)
    assert (outcome.done, outcome.failed, shelf.added) == (1, 1, ["shop:till_kill/reasoner/0"] * 3)
    assert LOST_MAX == 3
    (facts,) = kept.values()
    assert facts.why == "3 workers in a row were lost while they ran it"
    assert set(keeps.values()) == {1}


@pytest.mark.asyncio
async def test_a_trial_that_is_held_may_take_its_time() -> None:
    shelf, turns = Shelf(), [0]

    def turn() -> None:
        turns[0] += 1
        for name in list(shelf.states):
            shelf.states[name] = ErrandState.TAKEN
            shelf.live = [TrialTaker("w", "w", 2, (name,))]
            if turns[0] > 500:
                shelf.finish(name)

    outcome, _, said, _ = await _lead(shelf, turn)
    assert (outcome.done, outcome.failed, len(shelf.added)) == (1, 0, 1)
    assert ("shop:till_kill/reasoner/0",) in {one.running for one in said}
    assert said[-1].last is not None


@pytest.mark.asyncio
async def test_what_is_given_back_lost_by_the_queue_or_broken_is_followed_up() -> None:
    shelf, ways = Shelf(), ["given back", "gone", "of another version", "broken"]

    def turn() -> None:
        waits = [one for one in shelf.states if shelf.states[one] is ErrandState.WAITS]
        name = waits[-1]
        match ways.pop(0):
            case "given back":
                shelf.outcomes[name], shelf.states[name] = "", ErrandState.OVER
            case "gone":
                shelf.states.clear()
            case "of another version":
                shelf.foreign.add(name)
            case "broken":
                shelf.states[name] = ErrandState.BROKEN

    outcome, keeps, _, kept = await _lead(shelf, turn)
    assert (outcome.failed, len(shelf.added), set(keeps.values())) == (1, 4, {1})
    assert next(iter(kept.values())).why == "its worker could not run it"


@pytest.mark.asyncio
async def test_what_cannot_be_read_is_a_failure_of_this_trial_alone() -> None:
    shelf = Shelf()

    def turn() -> None:
        for name in list(shelf.states):
            shelf.finish(name)
            if "till_kill" in shelf.orders[name]:
                shelf.outcomes[name] = "nonsense"

    outcome, *_ = await _lead(shelf, turn, replace(ONE, scenarios=(FAULT, OTHER)))
    assert (outcome.done, outcome.failed) == (2, 1)


@pytest.mark.asyncio
async def test_who_leads_again_takes_what_came_meanwhile_and_forgets_what_is_kept() -> None:
    first = Shelf()
    campaign = replace(ONE, scenarios=(FAULT, OTHER))
    _, _, _, kept = await _lead(first, lambda: _finish_all(first), campaign)
    second = Shelf()
    second.orders = first.orders
    for name in first.orders:  # whoever led was killed before it had dropped anything
        second.finish(name)
    known = [kept["shop:till_kill/reasoner/0"]]
    outcome, keeps, *_ = await _lead(second, lambda: None, campaign, known)
    assert (outcome.before, outcome.done, second.added) == (1, 1, [])
    assert keeps == {"shop:till_stop/reasoner/0": 1}
    newer = Shelf()
    newer.orders = dict(first.orders)
    (name,) = [one for one in first.orders if "till_stop" in first.orders[one]]
    later = name[:-1] + "12"
    newer.orders[later] = newer.orders[name]
    newer.finish(name)
    newer.states[later] = ErrandState.WAITS  # the newest attempt counts, whatever came of others

    def turn() -> None:
        assert name not in newer.states or newer.states[later] is ErrandState.WAITS
        newer.finish(later)

    outcome, keeps, *_ = await _lead(newer, turn, campaign, known)
    assert (outcome.done, keeps) == (1, {"shop:till_stop/reasoner/0": 1})


@pytest.mark.asyncio
async def test_money_ends_what_costs_it_and_little_of_that_is_out_at_once() -> None:
    shelf, most = Shelf(), [0]
    paid = Variant("claude", Mind.MODEL, "claude")
    campaign = Campaign(
        "c", (FAULT,), (paid, Variant("reasoner")), {"claude": 9, "reasoner": 2}, parallel=2,
        usd_max=3.0,
    )  # fmt: skip

    def turn() -> None:
        out = [shelf.orders[name] for name in shelf.states]
        most[0] = max(most[0], sum('"variant": "claude"' in one for one in out))
        _finish_all(shelf, usd=1.0)

    outcome, keeps, *_ = await _lead(shelf, turn, campaign)
    counted = Counter(key.split("/")[1] for key in keeps)
    assert (most[0], counted["reasoner"]) == (2, 2)
    assert counted["claude"] + int(outcome.why.split()[0]) == 9
    assert counted["claude"] < 9


@pytest.mark.asyncio
async def test_a_server_may_be_away_for_a_while_and_not_forever() -> None:
    shelf, turns = Shelf(), [0]

    def turn() -> None:
        turns[0] += 1
        shelf.away = 1 <= turns[0] <= 20
        if turns[0] == 30:
            _finish_all(shelf)

    outcome, *_ = await _lead(shelf, turn)
    assert outcome.done == 1
    gone = Shelf()

    def vanish() -> None:
        gone.away = True

    with pytest.raises(StoreError, match="away"):
        await _lead(gone, vanish)
    assert AWAY_S_MAX < 10_000
