"""One look at a TiKV cluster: who is asked what, in which order, and how often at most.

The leader of PD knows all of it. First those who follow are asked who that is, out of their own
memory; then it is asked for the stores, for its metrics, and for what else is due; then every store
for its own metrics. That makes no more than five requests, and one for each store.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from operator_protocols.domain.target import Target
from operator_sre.subjects.tikv.client import Answer, Pd
from operator_sre.subjects.tikv.facts import Facts
from operator_sre.subjects.tikv.kinds import PD, found_at, shared_access, target_at
from operator_sre.subjects.tikv.prometheus import Scraped, paths_to, scraped_from
from operator_sre.subjects.tikv.screening import Screen, screen_from
from operator_sre.subjects.tikv.state import Member, Store, leader_from, stores_from
from operator_sre.subjects.tikv.turns import COUNT, PROMETHEUS_UP, Question, Turns, wanted
from operator_sre.subjects.tikv.whole import led

__all__ = ["Leading", "PdGlimpse", "ask_leader", "find_leader", "scrape"]

REQUESTS = 5  # beside one for each store
STORES = "stores?state=0&state=1&state=2"
# So many at once keep two cores busy; more would only wait, and hold what they have read.
SCRAPES_MAX = 24
# Who leads is in the memory of everybody; who takes long for that will not do better with more.
PATIENCE = 0.5


@dataclass(frozen=True, slots=True)
class PdGlimpse:
    """What one PD said of itself: that it is there, and whom it follows."""

    target: Target
    answer: Answer
    leader: Member | None = None

    @property
    def up(self) -> bool:
        """It answered as a PD does."""
        return self.answer.ok


@dataclass(slots=True)
class Leading:
    """Who leads PD, and what everybody who was asked said of that.

    `via` is asked instead where the leader does not answer us: who follows asks it for us.
    """

    glimpses: dict[str, PdGlimpse] = field(default_factory=dict)
    leader: Target | None = None
    via: Target | None = None
    stores: tuple[Store, ...] | None = None
    error: str = ""
    prometheus: Scraped | None = None
    prometheus_error: str = ""


async def find_leader(
    pd: Pd, targets: Sequence[Target], *, last: str, turn: int, timeout_s: float
) -> Leading:
    """Ask who leads: those who follow `last`, no more than two in one look; all where it is "".

    Who led and is not followed any more is asked as well, to tell whether it is there at all.
    """
    known = [one for one in targets if one.kind == PD]
    found = Leading()
    remembered = next((one for one in known if one.name == last), None)
    others = [one for one in known if one is not remembered]
    room = REQUESTS - (2 if remembered is None else 3)
    await _ask_who(pd, found, _in_turn(others, turn, room), timeout_s)
    found.leader = _target_of(_named(found), known)
    if remembered is not None and (found.leader is None or found.leader.name != last):
        if not found.glimpses:  # there is nobody else to ask
            found.leader = remembered
            return found
        await _ask_who(pd, found, [remembered], timeout_s)
        found.leader = _target_of(_named(found), known)
    leading = found.glimpses.get(found.leader.name) if found.leader is not None else None
    if leading is not None and not leading.up:
        found.via = next((one.target for one in found.glimpses.values() if one.up), None)
    return found


async def ask_leader(
    pd: Pd,
    found: Leading,
    facts: Facts,
    turns: Turns,
    *,
    prometheus: Target | None,
    metrics: bool,
) -> None:
    """Ask the leader for all that is due; what it says is in `found` and in `facts`.

    `metrics` asks the Prometheus for what the stores show, instead of the stores.
    """
    asked = found.via or found.leader
    questions = [] if asked is None else _due(found, facts, turns, prometheus, metrics=metrics)
    by_turns = [one for one in questions if one.name != PROMETHEUS_UP]
    is_due = metrics or len(by_turns) < len(questions)
    await asyncio.gather(
        _ask_prometheus(pd, found, prometheus if is_due else None, metrics=metrics),
        _ask_pd(pd, found, facts, asked, by_turns),
    )


async def _ask_pd(
    pd: Pd, found: Leading, facts: Facts, asked: Target | None, questions: Sequence[Question]
) -> None:
    if asked is None:
        return
    listed, shown, *answers = await asyncio.gather(
        pd.at(asked, STORES),
        # Who follows asks the leader for us, but shows its own metrics.
        _nothing() if found.via is not None else pd.at(asked, "/metrics", reading="text"),
        *(pd.at(asked, one.path, reading=one.reading) for one in questions),
    )
    found.stores = stores_from(listed.body) if listed.ok else None
    if found.stores is None:
        found.error = listed.error or "it lists no stores"
    facts.screened(screen_from(shown.content) if shown.ok else Screen())
    for question, answer in zip(questions, answers, strict=True):
        facts.learn(question, answer)
    if COUNT in questions and found.stores is not None:
        facts.compare(led(found.stores))
    if asked.name not in found.glimpses:
        found.glimpses[asked.name] = _seen_leading(asked, listed, shown)


def _due(
    found: Leading, facts: Facts, turns: Turns, prometheus: Target | None, *, metrics: bool
) -> list[Question]:
    slots = REQUESTS - len(found.glimpses) - (1 if found.via is not None else 2)
    schedulers = tuple(facts.schedulers or ())
    by_turns = prometheus is not None and not metrics
    return turns.take(wanted(facts.screen, schedulers, prometheus=by_turns), slots)


async def _nothing() -> Answer:
    return Answer(error="it was not asked")


async def scrape(
    pd: Pd, places: Mapping[str, tuple[Target, Sequence[str]]], timeout_s: float
) -> dict[str, Answer]:
    """The metrics of every store, by its target's name."""
    room = asyncio.Semaphore(SCRAPES_MAX)
    ends = asyncio.get_running_loop().time() + timeout_s

    async def one(target: Target, addresses: Sequence[str]) -> Answer:
        async with room:
            # Whoever had to wait has less time, so that all of it ends in time.
            left_s = max(0.05, ends - asyncio.get_running_loop().time())
            return await pd.get(target, addresses, "/metrics", timeout_s=left_s)

    answers = await asyncio.gather(*(one(*place) for place in places.values()))
    return dict(zip(places, answers, strict=True))


async def _ask_who(pd: Pd, found: Leading, asked: Sequence[Target], timeout_s: float) -> None:
    answers = await asyncio.gather(
        *(pd.at(one, "leader", itself=True, timeout_s=timeout_s * PATIENCE) for one in asked)
    )
    for target, answer in zip(asked, answers, strict=True):
        found.glimpses[target.name] = PdGlimpse(target, answer, leader_from(answer.body))


async def _ask_prometheus(pd: Pd, found: Leading, target: Target | None, *, metrics: bool) -> None:
    if target is None:
        return
    answer = await pd.at(target, paths_to(metrics=metrics))
    found.prometheus = scraped_from(answer.body) if answer.ok else None
    if found.prometheus is None:
        found.prometheus_error = answer.error or "what it answered are no metrics"


def _seen_leading(leader: Target, listed: Answer, shown: Answer) -> PdGlimpse:
    """The leader by its answers: it is there when it answered one of them."""
    answer = next((one for one in (listed, shown) if one.reached), listed)
    if answer.reached and not answer.strange:
        answer = Answer(status=answer.status, offset_s=answer.offset_s, took_s=answer.took_s)
    return PdGlimpse(leader, answer, Member(leader.name, 0))


def _named(found: Leading) -> Member | None:
    """Whom most of them follow: who is cut off may still believe in somebody of the past."""
    leaders = [one.leader for one in found.glimpses.values() if one.up and one.leader is not None]
    most = Counter(one.name for one in leaders).most_common(1)
    return next((one for one in leaders if one.name == most[0][0]), None) if most else None


def _target_of(member: Member | None, known: Sequence[Target]) -> Target | None:
    if member is None:
        return None
    name = target_at(known, [member.name], member.addresses)
    listed = next((one for one in known if one.name == name), None)
    if listed is not None or not member.addresses:
        return listed
    taken = [one.name for one in known]
    return found_at(member.name, PD, member.addresses[0], taken, shared_access(known))


def _in_turn(targets: Sequence[Target], turn: int, most: int) -> list[Target]:
    if len(targets) <= most:
        return list(targets)
    first = turn * most % len(targets)
    return [*targets[first:], *targets[:first]][:most]
