"""One call of a tool: the cluster as it is now, what may be asked of it, and how it is told."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from operator_protocols.domain.action import Action, Argument, Outcome, Result
from operator_protocols.domain.category import FailureCategory
from operator_protocols.domain.observation import Value
from operator_protocols.domain.target import Target
from operator_protocols.domain.tool import Parameter, ParameterType, Prepared, ToolSpec
from operator_protocols.errors import OperatorError
from operator_protocols.ports import Job, SubjectSettings
from operator_sre.subjects.tikv.client import Answer, Pd
from operator_sre.subjects.tikv.kinds import STORE, found_at, shared_access
from operator_sre.subjects.tikv.live import GRANT_LEADER, Live, live_from
from operator_sre.subjects.tikv.options import Options, options_from
from operator_sre.subjects.tikv.region import Region, region_from
from operator_sre.subjects.tikv.state import EVICT_LEADER, UNHEARD, Store

__all__ = ["NO_PD", "Deed", "Done", "Refusal", "TikvTool"]

POLL_S = 0.1
CHECK_S = 10.0
PATIENCE_S = 30.0  # a PD that lost its leader has another one by then
WORDS_MAX = 300
NO_PD = (
    "No PD answers for the cluster, so nothing of it is changed: without a majority of PD nobody"
    " knows where regions are. Bring its members back, and never force a new cluster."
)
_TYPES: Mapping[ParameterType, type] = {ParameterType.STRING: str, ParameterType.INTEGER: int}


class Refusal(Exception):
    """A call ends here, with this sentence."""

    def __init__(self, why: str, category: FailureCategory = FailureCategory.RUNTIME) -> None:
        super().__init__(why)
        self.category = category


class _Enough(Exception):
    """Everything that speaks against a call was looked for."""


@dataclass(frozen=True, slots=True)
class Done:
    """What was done, in a sentence and in numbers, and what takes it back."""

    sentence: str
    data: Mapping[str, Value]
    undo: Action | None = None


@dataclass(frozen=True, slots=True)
class Deed:
    """A call under way: what it was given, and how to speak to the cluster.

    With `only_checks` it ends before the first change.
    """

    settings: SubjectSettings
    options: Options
    pd: Pd
    arguments: Mapping[str, Argument]
    timeout_s: float
    ends_at: float
    job: Job
    only_checks: bool = False

    def text(self, name: str) -> str:
        """An argument that is a text; "" where there is none."""
        value = self.arguments.get(name)
        return value if isinstance(value, str) else ""

    def integer(self, name: str) -> int:
        """An argument that is an integer."""
        value = self.arguments.get(name)
        return value if isinstance(value, int) else 0

    @property
    def left_s(self) -> float:
        """How much of its time a call has left."""
        return self.ends_at - asyncio.get_running_loop().time()

    def target(self, name: str, kind: str) -> Target:
        """One of the targets that are known, by name."""
        known = [one for one in self.settings.targets() if one.kind == kind]
        for one in known:
            if one.name == name:
                return one
        names = ", ".join(one.name for one in known) or "none"
        raise Refusal(f"There is no {kind} {name[:60]!r}; there are: {names}.", _NOT_FOUND)

    async def look(self) -> Live:
        """The cluster as PD knows it now; Refusal where no PD speaks for it.

        A new leader of PD is given the time to hear of every store that answers us.
        """
        ends_s = self.left_s - min(PATIENCE_S, self.left_s / 2)
        while True:
            live = await self._live()
            if self.left_s <= ends_s or not await self._unheard(live):
                return live
            await asyncio.sleep(POLL_S)

    async def _unheard(self, live: Live) -> bool:
        unheard = [one for one in live.stores.items() if one[1].state == UNHEARD]
        answers = await asyncio.gather(*(self.answers(*one) for one in unheard))
        return any(answers)

    async def answers(self, name: str, store: Store) -> bool:
        """Whether anything answers at its status address."""
        target = self.part(name, store)
        place = store.status_address or store.address
        return (await self.pd.get(target, [*target.endpoints, place], "/status")).reached

    def part(self, name: str, store: Store) -> Target:
        """The target of a store; one that nobody listed is where PD says."""
        targets = self.settings.targets()
        listed = next((one for one in targets if one.name == name and one.kind == STORE), None)
        found = found_at(name, STORE, store.address, (), shared_access(targets))
        return listed if listed is not None else found

    async def _live(self) -> Live:
        stores, operators, schedulers, paused = await asyncio.gather(
            self.told("stores"),
            self.told("operators"),
            self.told("schedulers"),
            self.told("schedulers?status=paused"),
        )
        for answer in (stores, operators, schedulers):
            _must(answer, "PD did not tell how the cluster is")
        live = live_from(
            self.settings.targets(),
            stores=stores.body,
            operators=operators.body,
            schedulers=schedulers.body,
            paused=paused.body if paused.ok else None,
            evicting=await self._config_of(EVICT_LEADER, schedulers),
            granting=await self._config_of(GRANT_LEADER, schedulers),
        )
        if live is None:
            raise Refusal("What answers there does not speak as PD does; nothing was changed.")
        return live

    async def told(self, path: str) -> Answer:
        """What PD says; one that is about to elect a leader is given the time to do so."""
        ends_s = self.left_s - min(PATIENCE_S, self.left_s / 2)
        while True:
            answer = await self.pd.ask(path)
            if answer.ok or answer.status == 404 or self.left_s <= ends_s:
                return answer
            await asyncio.sleep(POLL_S)

    async def _config_of(self, scheduler: str, listed: Answer) -> object:
        """The settings of a scheduler that names stores; None where there is none of it."""
        if not isinstance(listed.body, list) or scheduler not in listed.body:
            return None
        answer = await self.pd.ask(f"scheduler-config/{scheduler}/list")
        return answer.body if answer.ok else None

    async def region(self, id_: int) -> Region | None:
        """One region as it is now; None where there is none of that id."""
        answer = await self.told(f"region/id/{id_}")
        if answer.status == 404:
            return None
        _must(answer, f"PD did not tell how region {id_} is")
        return region_from(answer.body)

    async def ask(self, path: str, *, method: str, body: Mapping[str, object] | None = None) -> str:
        """Have PD do something; what it said. Refusal with its own words when it does not."""
        self.begin()
        patience_s = min(PATIENCE_S, self.left_s / 2)
        answer = await self.send(path, method=method, body=body, patience_s=patience_s)
        _must(answer, "PD did not do it")
        return answer.body if isinstance(answer.body, str) else ""

    async def send(
        self,
        path: str,
        *,
        method: str,
        body: Mapping[str, object] | None = None,
        patience_s: float = PATIENCE_S,
    ) -> Answer:
        """Have PD do something, once; while there is nobody to take it, it is sent again."""
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + patience_s
        while True:
            answer = await self.pd.ask(path, method=method, body=body, timeout_s=patience_s)
            if not answer.untaken or loop.time() >= ends_at:
                return answer
            await asyncio.sleep(POLL_S)

    def begin(self) -> None:
        """Every deed says so before it changes anything, when all that may refuse it has spoken."""
        if self.only_checks:
            raise _Enough

    async def again(self) -> bool:
        """Wait for a moment; False when the time of the call is nearly over."""
        await asyncio.sleep(POLL_S)
        return self.left_s > POLL_S


_NOT_FOUND = FailureCategory.NOT_FOUND


def _must(answer: Answer, otherwise: str) -> None:
    if answer.ok:
        return
    if not answer.reached or answer.status == 503:
        raise Refusal(NO_PD, FailureCategory.NETWORK)
    words = " ".join(answer.error.split())[:WORDS_MAX].rstrip(".")
    raise Refusal(f"{otherwise}: {words}.")


@dataclass(frozen=True, slots=True)
class TikvTool:
    """A typed action on a cluster. Whatever goes wrong is a Result."""

    spec: ToolSpec
    settings: SubjectSettings
    act: Callable[[Deed], Awaitable[Done]]

    async def call(self, arguments: Mapping[str, Argument], job: Job) -> Result:
        """Look at the cluster, refuse or do it, and tell what came of it."""
        loop = asyncio.get_running_loop()
        begun = loop.time()
        within_s = min(job.timeout_s, self.spec.timeout_s)
        try:
            done = await self._done(arguments, job, within_s)
        except Refusal as refusal:
            return _failed(str(refusal), refusal.category, loop.time() - begun)
        except TimeoutError:
            why = f"{self.spec.name} was not done within {within_s:g} s; look before trying again."
            return _failed(why, FailureCategory.TIMEOUT, loop.time() - begun)
        except (OperatorError, OSError) as problem:
            return _failed(str(problem), FailureCategory.RUNTIME, loop.time() - begun)
        return Result(
            Outcome.RAN,
            exit_code=0,
            stdout=done.sentence,
            duration_s=loop.time() - begun,
            data=done.data,
            undo=done.undo,
        )

    async def prepare(self, arguments: Mapping[str, Argument]) -> Prepared:
        """What speaks against it in the cluster as it is now, before anybody is asked."""
        try:
            await self._done(arguments, Job(), CHECK_S, only_checks=True)
        except Refusal as refusal:
            return Prepared(flaws=(str(refusal),), category=refusal.category)
        except (OperatorError, OSError, _Enough):
            # A cluster that cannot be looked at in time is for the call itself to tell.
            return Prepared()
        return Prepared()

    async def _done(
        self,
        arguments: Mapping[str, Argument],
        job: Job,
        within_s: float,
        *,
        only_checks: bool = False,
    ) -> Done:
        given = self._given(arguments)
        options = options_from(self.settings.options)
        ends_at = asyncio.get_running_loop().time() + within_s
        async with asyncio.timeout(within_s), Pd(self.settings) as pd:
            deed = Deed(self.settings, options, pd, given, within_s, ends_at, job, only_checks)
            return await self.act(deed)

    def _given(self, arguments: Mapping[str, Argument]) -> Mapping[str, Argument]:
        unknown = sorted(set(arguments) - {one.name for one in self.spec.parameters})
        if unknown:
            takes = ", ".join(one.name for one in self.spec.parameters)
            why = f"{self.spec.name} takes {takes}, not {unknown[0][:60]!r}."
            raise Refusal(why, FailureCategory.SYNTAX)
        return {one.name: _value(one, arguments.get(one.name)) for one in self.spec.parameters}


def _value(parameter: Parameter, value: Argument) -> Argument:
    if value is None:
        if parameter.required:
            why = f"{parameter.name!r} is missing: {parameter.sentence}."
            raise Refusal(why, FailureCategory.SYNTAX)
        return parameter.default
    fits = isinstance(value, _TYPES[parameter.type]) and not isinstance(value, bool)
    if isinstance(value, int) and parameter.type is ParameterType.INTEGER:
        low, high = parameter.minimum or 0, parameter.maximum
        fits = fits and low <= value and (high is None or value <= high)
    if parameter.choices:
        fits = fits and value in parameter.choices
    if not fits:
        why = f"{parameter.name!r} does not fit: {parameter.sentence}."
        raise Refusal(why, FailureCategory.SYNTAX)
    return value


def _failed(why: str, category: FailureCategory, took_s: float) -> Result:
    return Result(Outcome.RAN, exit_code=1, stderr=why, duration_s=took_s, category=category)
