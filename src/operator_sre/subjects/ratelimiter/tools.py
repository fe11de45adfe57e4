"""What may be done to a rate limiter, through the API of a living node or at a store."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from operator_protocols.domain.action import Action, Argument, Outcome, Result
from operator_protocols.domain.category import FailureCategory
from operator_protocols.domain.observation import Value
from operator_protocols.domain.target import Target
from operator_protocols.domain.tool import ToolSpec
from operator_protocols.errors import OperatorError
from operator_protocols.ports import Job, SubjectSettings, Tool
from operator_protocols.rotating import rotate
from operator_sre.subjects.ratelimiter import tool_specs as specs
from operator_sre.subjects.ratelimiter.talking import TalkError, api, command, in_path
from operator_sre.subjects.ratelimiter.totals import COMMON

__all__ = ["tools"]

Arguments = Mapping[str, Argument]
Deed = Callable[[Arguments], Awaitable[Result]]


@dataclass(frozen=True, slots=True)
class _LimiterTool:
    """One deed as a Tool; whatever goes wrong is a Result."""

    spec: ToolSpec
    deed: Deed

    async def call(self, arguments: Arguments, job: Job) -> Result:
        """Do it. A failure is a Result."""
        begun = time.monotonic()
        why = _unfit(self.spec, arguments)
        if why:
            result = _failed(why, FailureCategory.SYNTAX)
        else:
            try:
                result = await self.deed(arguments)
            except (TalkError, OperatorError) as problem:
                result = _failed(str(problem), FailureCategory.RUNTIME)
        return replace(result, duration_s=time.monotonic() - begun)


def tools(settings: SubjectSettings) -> Sequence[Tool]:
    """All tools of one limiter."""
    hands = _Hands(settings)
    return tuple(
        _LimiterTool(spec, deed)
        for spec, deed in (
            (specs.RESET_COUNTER, hands.reset_counter),
            (specs.EXPIRE_COUNTERS, hands.expire_counters),
            (specs.UPDATE_LIMIT, hands.update_limit),
            (specs.REMOVE_LIMIT, hands.remove_limit),
            (specs.BLOCK_KEY, hands.block_key),
            (specs.UNBLOCK_KEY, hands.unblock_key),
            (specs.DRAIN_NODE, hands.drain_node),
            (specs.UNDRAIN_NODE, hands.undrain_node),
            (specs.CONFIGURE_NODE, hands.configure_node),
            (specs.ALIGN_NODE, hands.align_node),
            (specs.SET_STORE_SETTING, hands.set_store_setting),
            (specs.RESUME_WRITES, hands.resume_writes),
            (specs.FOLLOW_PRIMARY, hands.follow_primary),
            (specs.FAIL_OVER, hands.fail_over),
            (specs.ROTATE_LOG, hands.rotate_log),
        )
    )


class _Hands:
    """The deeds of one limiter; TalkError when one cannot be done."""

    def __init__(self, settings: SubjectSettings) -> None:
        self._settings = settings

    async def reset_counter(self, arguments: Arguments) -> Result:
        key = str(arguments["key"])
        said = await self._any_node("DELETE", f"/counters/{in_path(key)}")
        return _done(f"the counter of {key!r} is empty, {said['removed']} requests were removed")

    async def expire_counters(self, arguments: Arguments) -> Result:
        said = await self._any_node("POST", "/counters/expire")
        return _done(f"{said['expired']} windows that never expired do so now", said)

    async def update_limit(self, arguments: Arguments) -> Result:
        key, limit = str(arguments["key"]), arguments["limit"]
        before = await self._any_node("GET", f"/limits/{in_path(key)}")
        await self._any_node("PUT", f"/limits/{in_path(key)}", {"limit": limit})
        undo = Action("remove_limit", {"key": key})
        if before["source"] == "key":
            undo = Action("update_limit", {"key": key, "limit": before["limit"]})
        return _done(f"the limit of {key!r} is {limit}, it was {before['limit']}", undo=undo)

    async def remove_limit(self, arguments: Arguments) -> Result:
        key = str(arguments["key"])
        before = await self._any_node("GET", f"/limits/{in_path(key)}")
        now = await self._any_node("DELETE", f"/limits/{in_path(key)}")
        undo = None
        if before["source"] == "key":
            undo = Action("update_limit", {"key": key, "limit": before["limit"]})
        return _done(f"the limit of {key!r} is the usual {now['limit']} again", undo=undo)

    async def block_key(self, arguments: Arguments) -> Result:
        key, reason = str(arguments["key"]), str(arguments.get("reason") or "")
        await self._any_node("PUT", f"/blocks/{in_path(key)}", {"reason": reason})
        return _done(f"{key!r} is blocked", undo=Action("unblock_key", {"key": key}))

    async def unblock_key(self, arguments: Arguments) -> Result:
        key = str(arguments["key"])
        await self._any_node("DELETE", f"/blocks/{in_path(key)}")
        return _done(f"{key!r} is not blocked any more", undo=Action("block_key", {"key": key}))

    async def drain_node(self, arguments: Arguments) -> Result:
        node = self._target(arguments, "node")
        others = [one for one in self._of_kinds("node") if one.name != node.name]
        if not [one for one in others if await self._serves(one)]:
            raise TalkError(f"{node.name} is the last node that takes checks; it is not drained.")
        body = {"reason": str(arguments.get("reason") or "")}
        await self._api(node, "PUT", "/drain", body)
        undo = Action("undrain_node", {"target": node.name}, target=node.name)
        return _done(f"{node.name} takes no checks any more", undo=undo)

    async def undrain_node(self, arguments: Arguments) -> Result:
        node = self._target(arguments, "node")
        await self._api(node, "DELETE", "/drain")
        undo = Action("drain_node", {"target": node.name}, target=node.name)
        return _done(f"{node.name} takes checks again", undo=undo)

    async def configure_node(self, arguments: Arguments) -> Result:
        node = self._target(arguments, "node")
        wanted = {name: arguments[name] for name in COMMON if arguments.get(name) is not None}
        return await self._configure(node, wanted)

    async def align_node(self, arguments: Arguments) -> Result:
        node = self._target(arguments, "node")
        others = [one for one in self._of_kinds("node") if one.name != node.name]
        said = [await self._api(one, "GET", "/config") for one in others]
        wanted: dict[str, Any] = {}
        for name in COMMON:
            values = {str(one[name]): one[name] for one in said}
            if len(values) != 1:
                raise TalkError(f"The other nodes do not agree on {name}, so nobody is right.")
            wanted[name] = next(iter(values.values()))
        return await self._configure(node, wanted)

    async def set_store_setting(self, arguments: Arguments) -> Result:
        store = self._target(arguments, "store", "replica")
        setting, value = str(arguments["setting"]), str(arguments["value"])
        before = await self._setting(store, setting)
        await self._command(store, "CONFIG", "SET", setting, value)
        undo = Action(
            "set_store_setting",
            {"target": store.name, "setting": setting, "value": before},
            target=store.name,
        )
        return _done(f"{setting} of {store.name} is {value}, it was {before}", undo=undo)

    async def resume_writes(self, arguments: Arguments) -> Result:
        store = self._target(arguments, "store", "replica")
        await self._command(store, "CLIENT", "UNPAUSE")
        return _done(f"{store.name} takes writes again")

    async def follow_primary(self, arguments: Arguments) -> Result:
        store = self._target(arguments, "store", "replica")
        place = await self._primary_in_use()
        if place == f"{store.host}:{store.port}":
            raise TalkError(f"{store.name} is the primary that nodes use; it follows nobody.")
        host, _, port = place.rpartition(":")
        await self._command(store, "REPLICAOF", host, port)
        return _done(f"{store.name} is a replica of {place} now")

    async def fail_over(self, arguments: Arguments) -> Result:
        why = ""
        for sentinel in self._of_kinds("sentinel"):
            try:
                (said,) = await command(
                    sentinel, [("SENTINEL", "MASTERS")], secret=self._settings.secret
                )
                name = str(said[0][1])  # type: ignore[index]
                await self._command(sentinel, "SENTINEL", "FAILOVER", name)
            except (TalkError, TypeError, IndexError) as problem:
                why = str(problem)
            else:
                return _done(f"{sentinel.name} lets a replica take over from the primary")
        raise TalkError(f"No sentinel begins a failover: {why}" if why else "No sentinel is known.")

    async def rotate_log(self, arguments: Arguments) -> Result:
        part = self._target(arguments, "node", "store", "replica", "sentinel")
        if not part.log or part.runs_at:
            raise TalkError(f"The log of {part.name} is not on this machine.")
        try:
            before, copy = await asyncio.to_thread(rotate, Path(part.log))
        except OSError as problem:
            raise TalkError(f"The log of {part.name} cannot be rotated: {problem}") from problem
        return _done(
            f"the log of {part.name} begins anew, its {before >> 20} MB are kept in {copy}",
            {"before_bytes": before, "copy": copy},
        )

    async def _configure(self, node: Target, wanted: Mapping[str, Any]) -> Result:
        before = await self._api(node, "GET", "/config")
        changed = {name: value for name, value in wanted.items() if before[name] != value}
        if not changed:
            return _done(f"{node.name} is configured like that already")
        await self._api(node, "PUT", "/config", changed)
        old: dict[str, Value] = {name: before[name] for name in changed}
        undo = Action("configure_node", {"target": node.name, **old}, target=node.name)
        told = ", ".join(f"{name} {before[name]} -> {value}" for name, value in changed.items())
        return _done(f"{node.name}: {told}", undo=undo)

    async def _setting(self, store: Target, setting: str) -> str:
        said = await self._command(store, "CONFIG", "GET", setting)
        if not isinstance(said, list) or len(said) != 2:
            raise TalkError(f"{store.name} does not say its {setting}.")
        return str(said[1])

    async def _primary_in_use(self) -> str:
        """Where the nodes write, by the word of the first that answers and is connected."""
        for node in self._of_kinds("node"):
            try:
                said = await self._api(node, "GET", "/health")
            except TalkError:
                continue
            if said.get("store_connected") and not said.get("degraded"):
                return str(said["store_address"]).partition("/")[0]
        raise TalkError("No node says which store is in use.")

    async def _serves(self, node: Target) -> bool:
        try:
            return (await self._api(node, "GET", "/health")).get("status") == "up"
        except TalkError:
            return False

    async def _any_node(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        """The answer of the first node that does it; they all share one store."""
        why = "This limiter has no nodes."
        for node in self._of_kinds("node"):
            try:
                return await self._api(node, method, path, body)
            except TalkError as problem:
                why = str(problem)
        raise TalkError(why)

    async def _api(self, node: Target, method: str, path: str, body: Any = None) -> dict[str, Any]:
        return await api(node, method, path, secret=self._settings.secret, body=body)

    async def _command(self, store: Target, *words: str | int) -> Any:
        return (await command(store, [words], secret=self._settings.secret))[0]

    def _of_kinds(self, *kinds: str) -> list[Target]:
        return [one for one in self._settings.targets() if one.kind in kinds]

    def _target(self, arguments: Arguments, *kinds: str) -> Target:
        name = arguments["target"]
        for target in self._of_kinds(*kinds):
            if target.name == name:
                return target
        known = ", ".join(one.name for one in self._of_kinds(*kinds)) or "none"
        raise TalkError(f"There is no {' or '.join(kinds)} {name!r}; there is {known}.")


def _unfit(spec: ToolSpec, arguments: Arguments) -> str:
    """What is wrong with the arguments, or ""."""
    unknown = sorted(set(arguments) - {one.name for one in spec.parameters})
    missing = [one.name for one in spec.parameters if one.required and one.name not in arguments]
    if unknown:
        return f"{spec.name} has no argument {unknown[0]!r}."
    if missing:
        return f"{spec.name} needs the argument {missing[0]!r}."
    for one in spec.parameters:
        value = arguments.get(one.name)
        if one.choices and value is not None and value not in one.choices:
            return f"{one.name} of {spec.name} is one of {', '.join(one.choices)}."
    return ""


def _done(
    said: str, data: Mapping[str, Value] | None = None, *, undo: Action | None = None
) -> Result:
    return Result(Outcome.RAN, exit_code=0, stdout=said, data=dict(data or {}), undo=undo)


def _failed(why: str, category: FailureCategory) -> Result:
    return Result(Outcome.RAN, exit_code=1, stderr=why, category=category)
