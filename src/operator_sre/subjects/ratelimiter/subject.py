"""Looking at a rate limiter: every node by its API, stores and sentinels by their protocol."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from operator_protocols.domain.observation import Observation, Seen, Value
from operator_protocols.domain.target import Target
from operator_protocols.errors import ObservationError
from operator_protocols.ports import Invariant, SubjectSettings
from operator_sre.subjects.ratelimiter.invariants import LOG_BYTES_MAX, invariants_with, most_of
from operator_sre.subjects.ratelimiter.nodes import NodeLook, client_for, look_at_node, url_of
from operator_sre.subjects.ratelimiter.resp import addresses_of
from operator_sre.subjects.ratelimiter.stores import Asking, StoreLook, look_at_store
from operator_sre.subjects.ratelimiter.totals import (
    alone_of,
    common_of,
    counted_by,
    differences,
    drift_of,
    ghosts_of,
    hot_key_of,
    limits_of,
    over_limit_of,
    primary_among,
    settings_of,
)

__all__ = ["RateLimiter"]

STORES = ("store", "replica")
KINDS = ("node", *STORES, "sentinel")
PREFIX = "ratelimiter"
WINDOW_S = 60.0


class RateLimiter:
    """Nodes, which answer HTTP; their stores, of which one is the primary; and sentinels."""

    def __init__(self, settings: SubjectSettings) -> None:
        self._settings = settings
        self.name = settings.name
        self.invariants: Sequence[Invariant] = invariants_with(settings.options)

    def targets(self) -> Sequence[Target]:
        """Its parts as they are now."""
        return self._settings.targets()

    async def observe(self) -> Observation:
        """Look once. ObservationError when there is nothing to look at."""
        targets = tuple(self.targets())
        if not targets:
            raise ObservationError(f"{self.name!r} has no targets to look at.")
        nodes, sentinels = await asyncio.gather(
            self._nodes([one for one in targets if one.kind == "node"]),
            self._stores([one for one in targets if one.kind == "sentinel"], Asking(PREFIX, 0.0)),
        )
        common, counted = common_of(nodes), counted_by(nodes)
        # The stores last: if a node had lost one, it is seen lost here too, in the same look; and
        # what nodes say they counted has to be there by now.
        asking = Asking(
            str(common.get("key_prefix", PREFIX)),
            _seconds(common.get("window_s")),
            counted or {},
        )
        places = [one for one in targets if one.kind in STORES]
        stores = await self._stores(places, asking)
        where = {one.name: "{}:{}".format(*addresses_of(one)[0]) for one in places}
        primary = primary_among(stores, where, nodes, sentinels)
        seen = {one.seen.target: one.seen for one in sentinels}
        seen |= _stores_seen(stores, nodes, primary, common, counted)
        if primary in seen and seen[primary].readings.get("limits_odd"):
            seen[primary] = _with(seen[primary], _open_nodes(targets, nodes))
        seen |= _nodes_seen(nodes, _look(stores, primary), common)
        seen |= {
            one.name: Seen(one.name, problem=f"its kind {one.kind!r} is not known")
            for one in targets
            if one.kind not in KINDS
        }
        long_bytes = most_of(self._settings.options, "log_bytes_max", LOG_BYTES_MAX)
        shown = tuple(_with(seen[one.name], _log(one, long_bytes)) for one in targets)
        return Observation(self.name, self._settings.clock.now(), shown)

    async def _nodes(self, targets: Sequence[Target]) -> list[NodeLook]:
        timeout_s, secret = self._settings.timeout_s, self._settings.secret
        async with client_for(tuple(targets), timeout_s) as client:
            return await asyncio.gather(
                *(look_at_node(client, one, timeout_s=timeout_s, secret=secret) for one in targets)
            )

    async def _stores(self, targets: Sequence[Target], asking: Asking) -> list[StoreLook]:
        timeout_s, secret = self._settings.timeout_s, self._settings.secret
        return await asyncio.gather(
            *(look_at_store(one, asking, timeout_s=timeout_s, secret=secret) for one in targets)
        )


def _open_nodes(targets: Sequence[Target], nodes: Sequence[NodeLook]) -> dict[str, Value]:
    """Where limits can be set by whoever has no credential, as a script in a box."""
    answering = {one.seen.target for one in nodes if one.answers}
    places = [
        url_of(one, *addresses_of(one)[0]).removeprefix("http://")
        for one in targets
        if one.name in answering and one.access is None
    ]
    return {"limit_nodes": " ".join(places)} if places else {}


def _nodes_seen(
    nodes: Sequence[NodeLook], look: StoreLook | None, common: Mapping[str, Value]
) -> dict[str, Seen]:
    voters = sum(node.answers for node in nodes)
    ghosts, culprits = ghosts_of(nodes, look, common)
    found: dict[str, Seen] = {}
    for node in nodes:
        more = differences(node, common, voters) | alone_of(node, nodes, look)
        if node.answers and ghosts:
            more |= ghosts if node.seen.target in culprits else {"ghost_allowed": 0}
        found[node.seen.target] = _with(node.seen, more)
    return found


def _stores_seen(
    stores: Sequence[StoreLook],
    nodes: Sequence[NodeLook],
    primary: str,
    common: Mapping[str, Value],
    counted: Mapping[str, int] | None,
) -> dict[str, Seen]:
    primaries = [one for one in stores if one.reading("role") == "primary"]
    unseen = sum(one.reading("role") is None for one in stores)
    found: dict[str, Seen] = {}
    for look in stores:
        more: dict[str, Value] = {}
        if look.reading("role") is not None:
            more = {
                "primaries": len(primaries),
                "stores_unseen": unseen,
                "replicas_expected": len(stores) - 1 - unseen,
                "in_use": look.seen.target == primary,
            }
            more |= settings_of(look, [one for one in stores if one is not look])
        if look.seen.target == primary:
            if look.counted:
                first = "".join(look.endless[:1])
                more |= {"endless_keys": len(look.endless), "endless_key": first}
                more["has_endless"] = bool(look.endless)
            more |= drift_of(look, nodes, counted) | over_limit_of(look, common) | limits_of(look)
            more |= hot_key_of(nodes)
            ghosts, culprits = ghosts_of(nodes, look, common)
            if ghosts:
                more |= {"ghost_allowed": 0} if culprits else ghosts
        found[look.seen.target] = _with(look.seen, more)
    return found


def _log(target: Target, long_bytes: float) -> dict[str, Value]:
    """How long its log is, where that lies on this machine."""
    if not target.log or target.runs_at or target.kind == "sentinel":
        return {}
    try:
        size = Path(target.log).stat().st_size
    except OSError:
        return {}
    return {"log_bytes": size, "log_grown": size > long_bytes}


def _look(stores: Sequence[StoreLook], name: str) -> StoreLook | None:
    return next((one for one in stores if one.seen.target == name), None)


def _with(seen: Seen, more: Mapping[str, Value]) -> Seen:
    return replace(seen, readings={**seen.readings, **more}) if more else seen


def _seconds(value: Value) -> float:
    numeric = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if numeric and value else WINDOW_S
