"""What may be done to a rate limiter, through the API of a living node or at a store.

A remedy runs a script, which is `operator_sre.subjects.ratelimiter.restore_limit`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from operator_protocols.domain.action import Action
from operator_protocols.domain.observation import Value
from operator_protocols.domain.target import Target
from operator_protocols.kit.knowledge import read_knowledge
from operator_protocols.kit.machine import is_running
from operator_protocols.kit.tool import Call, Done, TypedTool, find_target, rotate_log_of
from operator_protocols.ports import SubjectSettings, Tool
from operator_sre.subjects.ratelimiter.nodes import TalkError, api, in_path
from operator_sre.subjects.ratelimiter.starts import (
    FAILOVER_S,
    config_file,
    elect_primary,
    with_primary,
)
from operator_sre.subjects.ratelimiter.stores import Sample, command, observe_store, role_of
from operator_sre.subjects.ratelimiter.totals import COMMON

__all__ = ["KNOWLEDGE", "tools"]

ELECTED_POLL_S = 0.5

KNOWLEDGE = read_knowledge(Path(__file__).parent)


def tools(settings: SubjectSettings) -> Sequence[Tool]:
    """All tools of one limiter, each a method of its name."""
    acts = _LimiterTools(settings)
    return tuple(
        TypedTool(spec, getattr(acts, name))
        for name, spec in KNOWLEDGE.tools.items()
        if settings.life is not None or name != "start_as_replica"
    )


class _LimiterTools:
    """The acts of one limiter, each a method of its tool's name; TalkError where one fails."""

    def __init__(self, settings: SubjectSettings) -> None:
        self._settings = settings

    async def reset_counter(self, call: Call) -> Done:
        key = call.text("key")
        reply = await self._any_node("DELETE", f"/counters/{in_path(key)}")
        return Done(f"the counter of {key!r} is empty, {reply['removed']} requests were removed")

    async def expire_counters(self, call: Call) -> Done:
        reply = await self._any_node("POST", "/counters/expire")
        return Done(f"{reply['expired']} windows that never expired do so now", reply)

    async def update_limit(self, call: Call) -> Done:
        key, limit = call.text("key"), call.arguments["limit"]
        before = await self._any_node("GET", f"/limits/{in_path(key)}")
        await self._any_node("PUT", f"/limits/{in_path(key)}", {"limit": limit})
        undo = Action("remove_limit", {"key": key})
        if before["source"] == "key":
            undo = Action("update_limit", {"key": key, "limit": before["limit"]})
        return Done(f"the limit of {key!r} is {limit}, it was {before['limit']}", undo=undo)

    async def remove_limit(self, call: Call) -> Done:
        key = call.text("key")
        before = await self._any_node("GET", f"/limits/{in_path(key)}")
        now = await self._any_node("DELETE", f"/limits/{in_path(key)}")
        undo = None
        if before["source"] == "key":
            undo = Action("update_limit", {"key": key, "limit": before["limit"]})
        return Done(f"the default limit {now['limit']} applies to {key!r} again", undo=undo)

    async def block_key(self, call: Call) -> Done:
        key, reason = call.text("key"), call.text("reason")
        await self._any_node("PUT", f"/blocks/{in_path(key)}", {"reason": reason})
        return Done(f"{key!r} is blocked", undo=Action("unblock_key", {"key": key}))

    async def unblock_key(self, call: Call) -> Done:
        key = call.text("key")
        await self._any_node("DELETE", f"/blocks/{in_path(key)}")
        return Done(f"{key!r} is not blocked any more", undo=Action("block_key", {"key": key}))

    async def drain_node(self, call: Call) -> Done:
        node = self._target(call, "node")
        others = [other for other in self._of_kinds("node") if other.name != node.name]
        if not [other for other in others if (await self._health(other)).get("status") == "up"]:
            raise TalkError(
                f"{node.name} is the last node that takes checks, so it is not drained."
            )
        body = {"reason": call.text("reason")}
        await self._api(node, "PUT", "/drain", body)
        undo = Action("undrain_node", {"target": node.name}, target=node.name)
        return Done(f"{node.name} takes no checks any more", undo=undo)

    async def undrain_node(self, call: Call) -> Done:
        node = self._target(call, "node")
        await self._api(node, "DELETE", "/drain")
        undo = Action("drain_node", {"target": node.name}, target=node.name)
        return Done(f"{node.name} takes checks again", undo=undo)

    async def configure_node(self, call: Call) -> Done:
        node = self._target(call, "node")
        given = call.arguments
        return await self._configure(
            node, {name: given[name] for name in COMMON if given.get(name) is not None}
        )

    async def align_node(self, call: Call) -> Done:
        node = self._target(call, "node")
        others = [other for other in self._of_kinds("node") if other.name != node.name]
        configs = [await self._api(other, "GET", "/config") for other in others]
        wanted: dict[str, Any] = {}
        for name in COMMON:
            values = {str(config[name]): config[name] for config in configs}
            if len(values) != 1:
                raise TalkError(f"The other nodes do not agree on {name}.")
            wanted[name] = next(iter(values.values()))
        return await self._configure(node, wanted)

    async def set_store_setting(self, call: Call) -> Done:
        store = self._target(call, "store", "replica")
        setting, value = call.text("setting"), call.text("value")
        reply = await self._command(store, "CONFIG", "GET", setting)
        if not isinstance(reply, list) or len(reply) != 2:
            raise TalkError(f"{store.name} does not say its {setting}.")
        before = str(reply[1])
        await self._command(store, "CONFIG", "SET", setting, value)
        undo = Action(
            "set_store_setting",
            {"target": store.name, "setting": setting, "value": before},
            target=store.name,
        )
        return Done(f"{setting} of {store.name} is {value}, it was {before}", undo=undo)

    async def resume_writes(self, call: Call) -> Done:
        store = self._target(call, "store", "replica")
        await self._command(store, "CLIENT", "UNPAUSE")
        return Done(f"{store.name} takes writes again")

    async def follow_primary(self, call: Call) -> Done:
        store = self._target(call, "store", "replica")
        # Where the nodes write, by the word of the first that answers and is connected.
        for node in self._of_kinds("node"):
            health = await self._health(node)
            if health.get("store_connected") and not health.get("degraded"):
                place = str(health["store_address"]).partition("/")[0]
                break
        else:
            raise TalkError("No node reports which store is in use.")
        if place == f"{store.host}:{store.port}":
            raise TalkError(
                f"{store.name} is the primary that the nodes use, so it cannot become a replica."
            )
        host, _, port = place.rpartition(":")
        await self._command(store, "REPLICAOF", host, port)
        kept = ""
        try:
            await self._command(store, "CONFIG", "REWRITE")
        except TalkError as problem:
            kept = f"; its file still starts it as before: {problem}"
        return Done(f"{store.name} is a replica of {place} now{kept}")

    async def start_as_replica(self, call: Call) -> Done:
        store, life = self._target(call, "store", "replica"), self._settings.life
        if life is None:
            raise TalkError(f"{store.name} cannot be started from here.")
        # While a failover goes on, the sentinels still name the former primary.
        ends = self._settings.clock.monotonic() + FAILOVER_S
        while (primary := await self._find_elected()).name == store.name:
            if self._settings.clock.monotonic() >= ends:
                raise TalkError(f"{store.name} is the elected primary, so it starts as such.")
            await self._settings.clock.sleep(ELECTED_POLL_S)
        if await role_of(primary, secret=self._settings.secret) != "primary":
            raise TalkError(f"{primary.name} is elected, but does not answer as the primary.")
        file = await asyncio.to_thread(config_file, store)
        if file is None:
            raise TalkError(f"The configuration file of {store.name} is not accessible.")
        if store.process is not None and is_running(store.process):
            # A paused primary would take writes as soon as it continues, even to end.
            await life.kill(store.name)
        text = with_primary(file.read_text(encoding="utf-8"), primary.host, primary.port or 0)
        # Its owner and its rights stay.
        file.write_text(text, encoding="utf-8")
        await life.restart(store.name)
        role = await role_of(store, secret=self._settings.secret)
        if role != "replica":
            await life.kill(store.name)
            raise TalkError(f"{store.name} started as {role or 'unknown'}, so it was stopped.")
        return Done(f"{store.name} was started as a replica of {primary.name}", {"role": role})

    async def _find_elected(self) -> Target:
        """The primary by the word of most sentinels, with quorum. TalkError without one."""
        timeout_s, secret = self._settings.timeout_s, self._settings.secret
        reports = await asyncio.gather(
            *(
                observe_store(each, Sample("", 0.0), timeout_s=timeout_s, secret=secret)
                for each in self._of_kinds("sentinel")
            )
        )
        elected = elect_primary(reports)
        if not elected or not any(each.reading("quorum_error") == "" for each in reports):
            raise TalkError("The sentinels do not agree on a primary with a quorum.")
        for store in self._of_kinds("store", "replica"):
            if elected == f"{store.host}:{store.port}":
                return store
        raise TalkError(f"The elected primary {elected} is none of the known stores.")

    async def fail_over(self, call: Call) -> Done:
        why = ""
        for sentinel in self._of_kinds("sentinel"):
            try:
                (reply,) = await command(
                    sentinel, [("SENTINEL", "MASTERS")], secret=self._settings.secret
                )
                name = str(reply[0][1])  # type: ignore[index]
                await self._command(sentinel, "SENTINEL", "FAILOVER", name)
            except (TalkError, TypeError, IndexError) as problem:
                why = str(problem)
            else:
                return Done(f"{sentinel.name} lets a replica take over from the primary")
        raise TalkError(f"No sentinel begins a failover: {why}" if why else "No sentinel is known.")

    async def rotate_log(self, call: Call) -> Done:
        return await rotate_log_of(self._target(call, "node", "store", "replica", "sentinel"))

    async def _configure(self, node: Target, wanted: Mapping[str, Any]) -> Done:
        before = await self._api(node, "GET", "/config")
        changed = {name: value for name, value in wanted.items() if before[name] != value}
        if not changed:
            return Done(f"{node.name} already has this configuration")
        await self._api(node, "PUT", "/config", changed)
        old: dict[str, Value] = {name: before[name] for name in changed}
        undo = Action("configure_node", {"target": node.name, **old}, target=node.name)
        changes = ", ".join(f"{name} {before[name]} -> {value}" for name, value in changed.items())
        return Done(f"{node.name}: {changes}", undo=undo)

    async def _health(self, node: Target) -> dict[str, Any]:
        """What a node says of itself; nothing where it does not answer."""
        try:
            return await self._api(node, "GET", "/health")
        except TalkError:
            return {}

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
        return [target for target in self._settings.targets() if target.kind in kinds]

    def _target(self, call: Call, *kinds: str) -> Target:
        return find_target(self._settings.targets(), call.text("target"), *kinds)
