"""One call of a tool: who is there, what may be asked of them, and how it is told."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from operator_protocols.domain.action import Action, Argument, Outcome, Result
from operator_protocols.domain.category import FailureCategory
from operator_protocols.domain.observation import Value
from operator_protocols.domain.tool import Parameter, ParameterType, ToolSpec
from operator_protocols.errors import OperatorError
from operator_protocols.ports import Job, SubjectSettings
from operator_sre.subjects.etcd.client import Answer, Etcd
from operator_sre.subjects.etcd.cluster import Cluster
from operator_sre.subjects.etcd.glimpse import Glimpse, glimpse_of
from operator_sre.subjects.etcd.members import KIND, quorum_of
from operator_sre.subjects.etcd.options import Options, options_from
from operator_sre.subjects.etcd.probes import read_from

__all__ = ["NO_QUORUM", "Deed", "Done", "EtcdTool", "Refusal", "look_at"]

POLL_S = 0.1
SETTLE_S = 15.0
NO_QUORUM = (
    "The cluster has no quorum, so nothing of it is changed: forcing it would risk what the members"
    " that are gone still hold. Bring them back, or let a person decide."
)
_TYPES: Mapping[ParameterType, type] = {ParameterType.STRING: str, ParameterType.INTEGER: int}


class Refusal(Exception):
    """A call ends here, with this sentence."""

    def __init__(self, why: str, category: FailureCategory = FailureCategory.RUNTIME) -> None:
        super().__init__(why)
        self.category = category


@dataclass(frozen=True, slots=True)
class Done:
    """What was done, in a sentence and in numbers, and what takes it back."""

    sentence: str
    data: Mapping[str, Value]
    undo: Action | None = None


@dataclass(frozen=True, slots=True)
class Deed:
    """A call under way: the cluster as it was when it began, and how to speak to it."""

    settings: SubjectSettings
    options: Options
    etcd: Etcd
    cluster: Cluster
    arguments: Mapping[str, Argument]
    timeout_s: float

    def text(self, name: str) -> str:
        """An argument that is a text; "" where there is none."""
        value = self.arguments.get(name)
        return value if isinstance(value, str) else ""

    def integer(self, name: str) -> int:
        """An argument that is an integer."""
        value = self.arguments.get(name)
        return value if isinstance(value, int) else 0

    @property
    def speaker(self) -> Glimpse:
        """Whom to ask for the whole cluster."""
        speaker = self.cluster.speaker
        if speaker is None:
            raise Refusal(NO_QUORUM, FailureCategory.RESOURCE)
        return speaker

    async def need_quorum(self) -> None:
        """Refuse when the cluster cannot decide, or nobody can be asked whether it can."""
        reads = {
            one.target.name: await read_from(self.etcd, one.target)
            for one in self.cluster.up
            if one.leader
        }
        if self.cluster.quorum(reads) is not True:
            raise Refusal(NO_QUORUM, FailureCategory.RESOURCE)

    def glimpse(self, name: str) -> Glimpse:
        """What was seen of one member."""
        for one in self.cluster.glimpses:
            if one.target.name == name:
                return one
        known = ", ".join(one.target.name for one in self.cluster.glimpses)
        raise Refusal(f"There is no member {name!r}; there are: {known}.", _NOT_FOUND)

    def up(self, name: str) -> Glimpse:
        """One member that answers."""
        one = self.glimpse(name)
        if not one.up:
            why = one.problem or one.status.error
            raise Refusal(f"{name} cannot be asked: {why}.", FailureCategory.NETWORK)
        return one

    def survives_without(self, name: str) -> bool:
        """Whether the other voters are a majority by themselves."""
        learners = {member.id for member in self.cluster.members if member.learner}
        others = [
            one
            for one in self.cluster.up
            if one.target.name != name and one.leader and one.id not in learners
        ]
        return len(others) >= quorum_of(self.cluster.voters)

    async def ask(self, one: Glimpse, path: str, body: Mapping[str, object]) -> Answer:
        """Ask one member to do something; Refusal with its own words when it does not."""
        answer = await self.etcd.ask(one.target, path, body, timeout_s=self.timeout_s)
        if not answer.ok:
            category = FailureCategory.RUNTIME if answer.reached else FailureCategory.NETWORK
            raise Refusal(f"{one.target.name} did not do it: {answer.error}.", category)
        return answer

    async def ask_settled(self, one: Glimpse, path: str, body: Mapping[str, object]) -> Answer:
        """The same, again and again while it says that members have not been connected for long.

        A cluster changes its members only when all that answer have done so for some seconds.
        """
        deadline = asyncio.get_running_loop().time() + SETTLE_S
        while True:
            try:
                return await self.ask(one, path, body)
            except Refusal as refusal:
                late = asyncio.get_running_loop().time() >= deadline
                if late or "unhealthy cluster" not in str(refusal):
                    raise
            await asyncio.sleep(POLL_S)

    async def again(self) -> Cluster:
        """The cluster as it is now."""
        return await look_at(self.etcd, self.settings)

    async def until(self, holds: Callable[[Cluster], Awaitable[bool]]) -> Cluster:
        """Look until it holds; the time of the whole call is its limit."""
        while True:
            cluster = await self.again()
            if await holds(cluster):
                return cluster
            await asyncio.sleep(POLL_S)


_NOT_FOUND = FailureCategory.NOT_FOUND


async def look_at(etcd: Etcd, settings: SubjectSettings) -> Cluster:
    """What all members say of themselves."""
    members = [target for target in settings.targets() if target.kind == KIND]
    return Cluster(await asyncio.gather(*(glimpse_of(etcd, one) for one in members)))


@dataclass(frozen=True, slots=True)
class EtcdTool:
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
            given = self._given(arguments)
            async with asyncio.timeout(within_s), Etcd(self.settings) as etcd:
                cluster = await look_at(etcd, self.settings)
                options = options_from(self.settings.options)
                deed = Deed(self.settings, options, etcd, cluster, given, within_s)
                done = await self.act(deed)
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

    def _given(self, arguments: Mapping[str, Argument]) -> Mapping[str, Argument]:
        unknown = sorted(set(arguments) - {one.name for one in self.spec.parameters})
        if unknown:
            raise Refusal(f"{self.spec.name} takes no {unknown[0]!r}.", FailureCategory.SYNTAX)
        return {one.name: _value(one, arguments.get(one.name)) for one in self.spec.parameters}


def _value(parameter: Parameter, value: Argument) -> Argument:
    if value is None:
        if parameter.required:
            raise Refusal(f"{parameter.name!r} is missing.", FailureCategory.SYNTAX)
        return parameter.default
    if isinstance(value, bool) or not isinstance(value, _TYPES[parameter.type]):
        raise Refusal(f"{parameter.name!r} has to be a {parameter.type}.", FailureCategory.SYNTAX)
    if isinstance(value, int) and parameter.minimum is not None and value < parameter.minimum:
        raise Refusal(
            f"{parameter.name!r} has to be {parameter.minimum:g} or more.", FailureCategory.SYNTAX
        )
    return value


def _failed(why: str, category: FailureCategory, took_s: float) -> Result:
    return Result(Outcome.RAN, exit_code=1, stderr=why, duration_s=took_s, category=category)
