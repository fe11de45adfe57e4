"""Who leads PD, and what it and the stores are asked in one check, in which order.

The leader of PD knows all of it. First its followers are asked who that is, from their own memory;
then it is asked for the stores, for its metrics, and for what else is due; then every store for its
own metrics. That makes no more than five requests, and one for each store.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from operator_protocols.domain.target import Target
from operator_sre.subjects.tikv.client import Answer, Pd
from operator_sre.subjects.tikv.facts import (
    COUNT,
    PROMETHEUS_UP,
    Facts,
    Question,
    Screen,
    Turns,
    choose_questions,
    screen_from,
)
from operator_sre.subjects.tikv.kinds import PD, discovered_target, shared_access, target_at
from operator_sre.subjects.tikv.metrics import Scraped, scrape_path, scraped_from
from operator_sre.subjects.tikv.state import Member, Store, count_led, leader_from, stores_from

__all__ = ["Leadership", "PdReport", "ask_leader", "find_leader", "scrape"]

REQUESTS = 5  # beside one for each store
STORES = "stores?state=0&state=1&state=2"
# So many at once keep two cores busy; more would only wait, and hold what they have read.
SCRAPES_MAX = 24
# Who leads is in the memory of everybody; who takes long for that will not do better with more.
PATIENCE = 0.5


@dataclass(frozen=True, slots=True)
class PdReport:
    """The report of one PD about itself: that it is up, and whom it follows."""

    target: Target
    answer: Answer
    leader: Member | None = None

    @property
    def up(self) -> bool:
        """It answered as a PD does."""
        return self.answer.ok


@dataclass(slots=True)
class Leadership:
    """The leader of PD, and the report of every PD that was asked.

    `via` is asked instead where the leader does not answer us: a follower forwards requests to it.
    """

    reports: dict[str, PdReport] = field(default_factory=dict)
    leader: Target | None = None
    via: Target | None = None
    stores: tuple[Store, ...] | None = None
    error: str = ""
    prometheus: Scraped | None = None
    prometheus_error: str = ""

    @property
    def leads(self) -> bool:
        """There is a leader, and it was reached, or one of its followers."""
        if self.leader is None:
            return False
        report = self.reports.get(self.leader.name)
        return self.stores is not None or (report is not None and report.up)


async def find_leader(
    pd: Pd, targets: Sequence[Target], *, last: str, turn: int, timeout_s: float
) -> Leadership:
    """Ask who leads: followers of `last`, no more than two in one check; all PDs where it is "".

    An earlier leader without followers is asked as well, to see whether it is up at all.
    """
    known = [target for target in targets if target.kind == PD]
    found = Leadership()
    remembered = next((target for target in known if target.name == last), None)
    others = [target for target in known if target is not remembered]
    room = REQUESTS - (2 if remembered is None else 3)
    if len(others) > room:
        first = turn * room % len(others)
        others = [*others[first:], *others[:first]][:room]
    await _ask_who_leads(pd, found, others, known, timeout_s)
    if remembered is not None and (found.leader is None or found.leader.name != last):
        if not found.reports:  # there is no other PD to ask
            found.leader = remembered
            return found
        await _ask_who_leads(pd, found, [remembered], known, timeout_s)
    leading = found.reports.get(found.leader.name) if found.leader is not None else None
    if leading is not None and not leading.up:
        found.via = next((report.target for report in found.reports.values() if report.up), None)
    return found


async def _ask_who_leads(
    pd: Pd, found: Leadership, members: Sequence[Target], known: Sequence[Target], timeout_s: float
) -> None:
    answers = await asyncio.gather(
        *(
            pd.at(target, "leader", itself=True, timeout_s=timeout_s * PATIENCE)
            for target in members
        )
    )
    for target, answer in zip(members, answers, strict=True):
        found.reports[target.name] = PdReport(target, answer, leader_from(answer.body))
    # The leader that most of them follow: a PD that is cut off may still follow an earlier leader.
    reports = found.reports.values()
    leaders = [report.leader for report in reports if report.up and report.leader is not None]
    if not leaders:
        found.leader = None
        return
    most = Counter(leader.name for leader in leaders).most_common(1)[0][0]
    member = next(leader for leader in leaders if leader.name == most)
    name = target_at(known, [member.name], member.addresses)
    found.leader = next((target for target in known if target.name == name), None)
    if found.leader is None and member.addresses:
        taken, access = [target.name for target in known], shared_access(known)
        found.leader = discovered_target(member.name, PD, member.addresses[0], taken, access)


async def ask_leader(
    pd: Pd,
    found: Leadership,
    facts: Facts,
    turns: Turns,
    *,
    prometheus: Target | None,
    metrics: bool,
) -> None:
    """Ask the leader for all that is due; what it says is in `found` and in `facts`.

    `metrics` asks the Prometheus for what the stores show, instead of the stores.
    """
    member = found.via or found.leader
    questions: list[Question] = []
    if member is not None:
        slots = REQUESTS - len(found.reports) - (1 if found.via is not None else 2)
        by_turns = prometheus is not None and not metrics
        schedulers = tuple(facts.schedulers or ())
        due = choose_questions(facts.screen, schedulers, prometheus=by_turns)
        questions = turns.take(due, slots)
    of_pd = [question for question in questions if question.name != PROMETHEUS_UP]

    async def ask_prometheus() -> None:
        if prometheus is None or not (metrics or len(of_pd) < len(questions)):
            return
        answer = await pd.at(prometheus, scrape_path(metrics=metrics))
        found.prometheus = scraped_from(answer.body) if answer.ok else None
        if found.prometheus is None:
            found.prometheus_error = answer.error or "the answer contains no metrics"

    await asyncio.gather(
        ask_prometheus(),
        *([_ask_pd(pd, found, facts, member, of_pd)] if member is not None else ()),
    )


async def _ask_pd(
    pd: Pd, found: Leadership, facts: Facts, member: Target, questions: Sequence[Question]
) -> None:
    # Who follows asks the leader for us, but shows its own metrics.
    shows = found.via is None
    listed, *answers = await asyncio.gather(
        pd.at(member, STORES),
        *(pd.at(member, question.path, reading=question.reading) for question in questions),
        *([pd.at(member, "/metrics", reading="text")] if shows else ()),
    )
    shown = answers.pop() if shows else Answer(error="it was not asked")
    found.stores = stores_from(listed.body) if listed.ok else None
    if found.stores is None:
        found.error = listed.error or "it lists no stores"
    facts.learn_screen(screen_from(shown.content) if shown.ok else Screen())
    for question, answer in zip(questions, answers, strict=True):
        facts.learn(question, answer)
    if COUNT in questions and found.stores is not None:
        facts.compare(count_led(found.stores))
    if member.name not in found.reports:
        # The leader is there when it answered one of them.
        answer = next((reply for reply in (listed, shown) if reply.reached), listed)
        if answer.reached and not answer.strange:
            answer = Answer(status=answer.status, offset_s=answer.offset_s, took_s=answer.took_s)
        found.reports[member.name] = PdReport(member, answer, Member(member.name, 0))


async def scrape(
    pd: Pd, places: Mapping[str, tuple[Target, Sequence[str]]], timeout_s: float
) -> dict[str, Answer]:
    """The metrics of every store, by its target's name."""
    room = asyncio.Semaphore(SCRAPES_MAX)
    ends = asyncio.get_running_loop().time() + timeout_s

    async def get_metrics(target: Target, addresses: Sequence[str]) -> Answer:
        async with room:
            # A request that had to wait has less time, so that all of it ends in time.
            left_s = max(0.05, ends - asyncio.get_running_loop().time())
            return await pd.get(target, addresses, "/metrics", timeout_s=left_s)

    answers = await asyncio.gather(*(get_metrics(*place) for place in places.values()))
    return dict(zip(places, answers, strict=True))
