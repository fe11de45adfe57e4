"""One call of a tool: the cluster as it is now, what stands in its way, and how to ask PD."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from operator_protocols.domain.category import FailureCategory
from operator_protocols.domain.target import Target
from operator_protocols.kit.tool import Call, CheckedTool, Done, RefusedCall
from operator_protocols.ports import Job, SubjectSettings
from operator_sre.subjects.tikv.client import Answer, Pd
from operator_sre.subjects.tikv.kinds import STORE, discovered_target, shared_access
from operator_sre.subjects.tikv.knowledge import KNOWLEDGE
from operator_sre.subjects.tikv.options import Options, options_from
from operator_sre.subjects.tikv.parts import names_of
from operator_sre.subjects.tikv.state import (
    EVICT_LEADER,
    UNHEARD,
    Operator,
    Region,
    Store,
    evicting_from,
    operators_from,
    region_from,
    scheduled_stores,
    schedulers_from,
    stores_from,
)

__all__ = ["DEFAULTS", "GRANT_LEADER", "NO_PD", "UP", "Live", "PdCall", "live_from", "tool_for"]

# What every PD runs from its first day on, and no cluster should be without for long.
DEFAULTS = ("balance-hot-region-scheduler", "balance-leader-scheduler", "balance-region-scheduler")
UP = "Up"
GRANT_LEADER = "grant-leader-scheduler"

POLL_S = 0.1
CHECK_S = 10.0
PATIENCE_S = 30.0  # a PD that lost its leader has another one by then
WORDS_MAX = 300
NO_PD = (
    "No PD leader answers, so Operator changes nothing: without a majority of PD the placement of"
    " regions is unknown. Bring the PD members back, and never force a new cluster."
)


@dataclass(frozen=True, slots=True)
class Live:
    """Stores by the names of their targets, and all that PD does with regions just now.

    `evicting` are the ids of the stores from which leaders are driven away, `granting` of those
    that get all leaders of what they hold.
    """

    stores: Mapping[str, Store]
    operators: tuple[Operator, ...] = ()
    schedulers: tuple[str, ...] = ()
    paused: frozenset[str] = frozenset()
    evicting: frozenset[int] = frozenset()
    granting: frozenset[int] = frozenset()

    def find(self, named: str) -> Store | None:
        """A store by the name of its target, or by its id in digits."""
        found = self.stores.get(named)
        if found is None and named.isdecimal():
            return next((store for store in self.stores.values() if str(store.id) == named), None)
        return found

    def name_of(self, id_: int) -> str:
        """The name of a store's target; its id where PD does not know it."""
        names = (name for name, store in self.stores.items() if store.id == id_)
        return next(names, f"store {id_}")

    def operator_on(self, region: int) -> Operator | None:
        """What PD has a region do."""
        return next((operator for operator in self.operators if operator.region == region), None)

    def find_trouble(self, *, but: int) -> str:
        """The first other store that is not there for the regions of this one, and why; or ""."""
        for name, store in self.stores.items():
            if store.id == but:
                continue
            if store.state == UNHEARD:
                return f"the PD leader has had no heartbeat of {name}"
            if store.state != UP:
                return f"{name} is {store.state}"
            if store.id in self.evicting:
                return f"{name} is being drained"
        return ""

    def heirs(self, *, but: int = 0) -> list[Store]:
        """The other stores that could lead its regions."""
        return [
            store
            for store in self.stores.values()
            if store.id != but
            and store.state == UP
            and store.leads
            and store.id not in self.evicting
        ]


def live_from(
    targets: Sequence[Target],
    *,
    stores: object,
    operators: object,
    schedulers: object,
    paused: object = None,
    evicting: object = None,
    granting: object = None,
) -> Live | None:
    """What answers of PD say together; None where one of them is not how PD speaks."""
    listed = stores_from(stores)
    running, names = operators_from(operators), schedulers_from(schedulers)
    if listed is None or running is None or names is None:
        return None
    names_by_id = names_of(listed, targets)
    named = {
        names_by_id.get(store.id, f"store-{store.id}"): store
        for store in listed
        if store.state != "Tombstone"
    }
    evicted, granted = (
        (evicting_from(config) or frozenset()) | scheduled_stores(kind, names)
        for kind, config in ((EVICT_LEADER, evicting), (GRANT_LEADER, granting))
    )
    return Live(named, running, names, frozenset(schedulers_from(paused) or ()), evicted, granted)


class _ChecksPassed(Exception):
    """Everything that speaks against a call was looked for."""


@dataclass(frozen=True, slots=True)
class PdCall(Call):
    """A call under way: what it was given, and how to speak to the cluster.

    With `only_checks` it ends before the first change.
    """

    settings: SubjectSettings
    options: Options
    pd: Pd
    ends_at: float
    only_checks: bool = False

    @property
    def left_s(self) -> float:
        """How much of its time a call has left."""
        return self.ends_at - asyncio.get_running_loop().time()

    async def read_live(self) -> Live:
        """The cluster as PD knows it now; RefusedCall where no PD speaks for it.

        A new leader of PD is given the time to hear of every store that answers us.
        """
        ends_s = self.left_s - min(PATIENCE_S, self.left_s / 2)
        while True:
            stores, operators, schedulers, paused = await asyncio.gather(
                *map(self.read, ("stores", "operators", "schedulers", "schedulers?status=paused"))
            )
            for answer in (stores, operators, schedulers):
                _require(answer, "PD did not report the state of the cluster")
            # The settings of schedulers that name stores, where there are any of them.
            configs: dict[str, object] = {}
            for scheduler in (EVICT_LEADER, GRANT_LEADER):
                if isinstance(schedulers.body, list) and scheduler in schedulers.body:
                    config = await self.pd.ask(f"scheduler-config/{scheduler}/list")
                    configs[scheduler] = config.body if config.ok else None
            live = live_from(
                self.settings.targets(),
                stores=stores.body,
                operators=operators.body,
                schedulers=schedulers.body,
                paused=paused.body if paused.ok else None,
                evicting=configs.get(EVICT_LEADER),
                granting=configs.get(GRANT_LEADER),
            )
            if live is None:
                why = "The answer is not from PD; nothing was changed."
                raise RefusedCall(why)
            unheard = [pair for pair in live.stores.items() if pair[1].state == UNHEARD]
            if self.left_s <= ends_s or not any(
                await asyncio.gather(*(self.answers(*pair) for pair in unheard))
            ):
                return live
            await asyncio.sleep(POLL_S)

    async def answers(self, name: str, store: Store) -> bool:
        """Whether anything answers at its status address."""
        target = self.part(name, store)
        place = store.status_address or store.address
        return (await self.pd.get(target, [*target.endpoints, place], "/status")).reached

    def part(self, name: str, store: Store) -> Target:
        """The target of a store; an unlisted store is at the address that PD gives."""
        targets = self.settings.targets()
        for target in targets:
            if target.name == name and target.kind == STORE:
                return target
        return discovered_target(name, STORE, store.address, (), shared_access(targets))

    async def read(self, path: str) -> Answer:
        """The answer of PD; a PD that is about to elect a leader gets the time to do so."""
        ends_s = self.left_s - min(PATIENCE_S, self.left_s / 2)
        while True:
            answer = await self.pd.ask(path)
            if answer.ok or answer.status == 404 or self.left_s <= ends_s:
                return answer
            await asyncio.sleep(POLL_S)

    async def region(self, id_: int) -> Region | None:
        """One region as it is now; None where there is none of that id."""
        answer = await self.read(f"region/id/{id_}")
        if answer.status == 404:
            return None
        _require(answer, f"PD did not report the state of region {id_}")
        return region_from(answer.body)

    async def ask(self, path: str, *, method: str, body: Mapping[str, object] | None = None) -> str:
        """Send a change to PD and return its answer. RefusedCall with PD's own words when it
        refuses.
        """
        self.begin()
        patience_s = min(PATIENCE_S, self.left_s / 2)
        answer = await self.send(path, method=method, body=body, patience_s=patience_s)
        _require(answer, "PD rejected the request")
        return answer.body if isinstance(answer.body, str) else ""

    async def send(
        self,
        path: str,
        *,
        method: str,
        body: Mapping[str, object] | None = None,
        patience_s: float = PATIENCE_S,
    ) -> Answer:
        """Send a change to PD once; it is sent again only while no PD accepts it."""
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + patience_s
        while True:
            answer = await self.pd.ask(path, method=method, body=body, timeout_s=patience_s)
            if not answer.untaken or loop.time() >= ends_at:
                return answer
            await asyncio.sleep(POLL_S)

    def begin(self) -> None:
        """Every tool calls it before its first change, when all that may refuse it has spoken."""
        if self.only_checks:
            raise _ChecksPassed

    async def wait(self) -> bool:
        """Wait for a moment; False when the time of the call is nearly over."""
        await asyncio.sleep(POLL_S)
        return self.left_s > POLL_S


def _require(answer: Answer, otherwise: str) -> None:
    if answer.ok:
        return
    if not answer.reached or answer.status == 503:
        raise RefusedCall(NO_PD, FailureCategory.NETWORK)
    words = " ".join(answer.error.split())[:WORDS_MAX].rstrip(".")
    raise RefusedCall(f"{otherwise}: {words}.")


def tool_for(settings: SubjectSettings, act: Callable[[PdCall], Awaitable[Done]]) -> CheckedTool:
    """The tool whose name is that of the function."""

    async def run(call: Call, *, only_checks: bool = False) -> Done:
        pd_call = PdCall(
            call.arguments,
            call.job,
            settings,
            options_from(settings.options),
            Pd(settings),
            ends_at=asyncio.get_running_loop().time() + call.job.timeout_s,
            only_checks=only_checks,
        )
        return await act(pd_call)

    async def check(call: Call) -> None:
        with contextlib.suppress(_ChecksPassed):
            async with asyncio.timeout(CHECK_S):
                await run(replace(call, job=Job(timeout_s=CHECK_S)), only_checks=True)

    return CheckedTool(KNOWLEDGE.tools[act.__name__], run, check=check)
