"""Observation of a rate limiter: every node by its API, stores and sentinels by their protocol."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace

from operator_protocols.domain.observation import Observation, Seen, Value
from operator_protocols.domain.target import Target
from operator_protocols.kit.access import addresses_of, authority
from operator_protocols.kit.machine import log_bytes
from operator_protocols.kit.subject import BaseSubject, see_stranger
from operator_protocols.ports import SubjectSettings
from operator_sre.subjects.ratelimiter.invariants import LOG_BYTES_MAX, invariants_with, most_of
from operator_sre.subjects.ratelimiter.nodes import NodeLook, look_at_node
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


class RateLimiter(BaseSubject):
    """Nodes, which answer HTTP; their stores, of which one is the primary; and sentinels."""

    def __init__(self, settings: SubjectSettings) -> None:
        super().__init__(settings, invariants_with(settings.options))

    async def observe(self) -> Observation:
        """Observe once. ObservationError when there is nothing to observe."""
        targets = tuple(self.present_targets())
        nodes, sentinels = await asyncio.gather(
            self._look_at_nodes([one for one in targets if one.kind == "node"]),
            self._look_at_stores(
                [one for one in targets if one.kind == "sentinel"], Asking(PREFIX, 0.0)
            ),
        )
        common, counted = common_of(nodes), counted_by(nodes)
        # The stores last: if a node had lost one, it is seen lost here too, in the same look; and
        # what nodes say they counted has to be there by now.
        window_s = common.get("window_s")
        numeric = isinstance(window_s, int | float) and not isinstance(window_s, bool)
        asking = Asking(
            str(common.get("key_prefix", PREFIX)),
            float(window_s) if numeric and window_s else WINDOW_S,
            counted or {},
        )
        places = [one for one in targets if one.kind in STORES]
        stores = await self._look_at_stores(places, asking)
        where = {one.name: f"{one.host}:{one.port}" for one in places}
        primary = primary_among(stores, where, nodes, sentinels)
        seen = {one.seen.target: one.seen for one in sentinels}
        seen |= _see_stores(stores, nodes, primary, common, counted)
        if primary in seen and seen[primary].readings.get("limits_odd"):
            # Where limits can be set without a credential, as a script in a sandbox does.
            answering = {one.seen.target for one in nodes if one.answers}
            reachable = [one for one in targets if one.name in answering and one.access is None]
            addresses = " ".join(authority(addresses_of(one)[0]) for one in reachable)
            seen[primary] = _with(seen[primary], {"limit_nodes": addresses} if addresses else {})
        look = next((one for one in stores if one.seen.target == primary), None)
        seen |= _see_nodes(nodes, look, common)
        seen |= {one.name: see_stranger(one) for one in targets if one.kind not in KINDS}
        long_bytes = most_of(self.settings.options, "log_bytes_max", LOG_BYTES_MAX)
        for one in targets:
            size = None if one.kind == "sentinel" else log_bytes(one)
            if size is not None:
                grown: dict[str, Value] = {"log_bytes": size, "log_grown": size > long_bytes}
                seen[one.name] = _with(seen[one.name], grown)
        return self.observation(seen[one.name] for one in targets)

    async def _look_at_nodes(self, targets: Sequence[Target]) -> list[NodeLook]:
        timeout_s, secret = self.settings.timeout_s, self.settings.secret
        return await asyncio.gather(
            *(look_at_node(one, timeout_s=timeout_s, secret=secret) for one in targets)
        )

    async def _look_at_stores(self, targets: Sequence[Target], asking: Asking) -> list[StoreLook]:
        timeout_s, secret = self.settings.timeout_s, self.settings.secret
        return await asyncio.gather(
            *(look_at_store(one, asking, timeout_s=timeout_s, secret=secret) for one in targets)
        )


def _see_nodes(
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


def _see_stores(
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


def _with(seen: Seen, more: Mapping[str, Value]) -> Seen:
    return replace(seen, readings={**seen.readings, **more}) if more else seen
