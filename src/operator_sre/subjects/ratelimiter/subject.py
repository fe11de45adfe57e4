"""Observation of a rate limiter: every node by its API, stores and sentinels by their protocol."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace

from operator_protocols.domain.observation import Observation, Seen, Value
from operator_protocols.domain.target import Target
from operator_protocols.kit.access import addresses_of, authority
from operator_protocols.kit.client import ErrorRates
from operator_protocols.kit.datafiles import DataFiles
from operator_protocols.kit.machine import data_dir_of, disk_room, log_bytes
from operator_protocols.kit.subject import BaseSubject, see_stranger
from operator_protocols.ports import SubjectSettings
from operator_sre.subjects.ratelimiter.invariants import LOG_BYTES_MAX, invariants_with, most_of
from operator_sre.subjects.ratelimiter.nodes import NodeReport, observe_node
from operator_sre.subjects.ratelimiter.starts import (
    LOGS,
    SNAPSHOTS,
    has_data,
    see_starts,
    starts_as,
)
from operator_sre.subjects.ratelimiter.stores import Sample, StoreReport, observe_store
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
    wrong_upstream,
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
        # When each store fell silent.
        self._silent: dict[str, float] = {}
        self._error_rates = ErrorRates()
        self._files = DataFiles(LOGS, SNAPSHOTS)

    async def observe(self) -> Observation:
        """Observe once. ObservationError when there is nothing to observe."""
        targets = tuple(self.present_targets())
        nodes, sentinels = await asyncio.gather(
            self._observe_nodes([target for target in targets if target.kind == "node"]),
            self._observe_stores(
                [target for target in targets if target.kind == "sentinel"], Sample(PREFIX, 0.0)
            ),
        )
        now = self.settings.clock.now()
        common, counted = common_of(nodes), counted_by(nodes)
        # The stores last: if a node had lost one, it is lost here too, in the same check; and
        # what nodes say they counted must be there by now.
        window_s = common.get("window_s")
        numeric = isinstance(window_s, int | float) and not isinstance(window_s, bool)
        sample = Sample(
            str(common.get("key_prefix", PREFIX)),
            float(window_s) if numeric and window_s else WINDOW_S,
            counted or {},
            str(self.settings.options.get("canary", "")),
        )
        places = [target for target in targets if target.kind in STORES]
        stores = await self._observe_stores(places, sample)
        for each in (*stores, *sentinels):
            if each.configured is not None:
                self.changes.note(each.seen.target, "server", each.configured, now)
        where = {place.name: f"{place.host}:{place.port}" for place in places}
        primary = primary_among(stores, where, nodes, sentinels)
        seen = {sentinel.seen.target: sentinel.seen for sentinel in sentinels}
        seen |= _see_stores(stores, nodes, primary, common, counted)
        denied = any(node.reading("store_problem") == "authentication" for node in nodes)
        for store in stores:
            name = store.seen.target
            seen[name] = _with(seen[name], self._count_errors(store, denied=denied))
            wrong = wrong_upstream(store, stores, where)
            follows: dict[str, Value] = {"follows_wrong": wrong, "follows_replica": True}
            seen[name] = _with(seen[name], follows if wrong else {})
        if primary in seen and seen[primary].readings.get("limits_odd"):
            # Where limits can be set without a credential, as a script in a sandbox does.
            answering = {node.seen.target for node in nodes if node.answers}
            reachable = [
                target for target in targets if target.name in answering and target.access is None
            ]
            addresses = " ".join(authority(addresses_of(target)[0]) for target in reachable)
            seen[primary] = _with(seen[primary], {"limit_nodes": addresses} if addresses else {})
        report = next((store for store in stores if store.seen.target == primary), None)
        voters = sum(node.answers for node in nodes)
        ghosts, culprits = ghosts_of(nodes, report, common)
        found: dict[str, Seen] = {}
        for node in nodes:
            more = differences(node, common, voters) | alone_of(node, nodes, report)
            if node.answers and ghosts:
                more |= ghosts if node.seen.target in culprits else {"ghost_allowed": 0}
            found[node.seen.target] = _with(node.seen, more)
        seen |= found
        for name, readings in (await self._see_starts(places, stores, sentinels)).items():
            seen[name] = _with(seen[name], readings)
        seen |= {
            target.name: see_stranger(target) for target in targets if target.kind not in KINDS
        }
        long_bytes = most_of(self.settings.options, "log_bytes_max", LOG_BYTES_MAX)
        for target in targets:
            size = None if target.kind == "sentinel" else log_bytes(target)
            if size is not None:
                grown: dict[str, Value] = {"log_bytes": size, "log_grown": size > long_bytes}
                seen[target.name] = _with(seen[target.name], grown)
        return self.observation(seen[target.name] for target in targets)

    async def _see_starts(
        self,
        places: Sequence[Target],
        stores: Sequence[StoreReport],
        sentinels: Sequence[StoreReport],
    ) -> dict[str, dict[str, Value]]:
        now = self.settings.clock.monotonic()
        silent = {each.seen.target for each in stores if each.reading("reachable") is not True}
        self._silent = {name: self._silent.get(name, now) for name in silent}
        down_s = {name: now - since for name, since in self._silent.items()}
        data = {
            place.name: await asyncio.to_thread(self._check_data, place, place.name not in silent)
            for place in places
        }
        roles = {place.name: await asyncio.to_thread(starts_as, place) for place in places}
        found = see_starts(down_s, places, stores, sentinels, data, roles)
        for place in places:
            room = None if place.runs_at or not place.data_dir else disk_room(data_dir_of(place))
            found[place.name] |= {"disk_free_bytes": room[0]} if room is not None else {}
        return found

    def _check_data(self, place: Target, works: bool) -> bool | None:
        """Whether its data is there, as complete as when it was last seen to work."""
        present = has_data(place)
        folder = data_dir_of(place) if place.data_dir and not place.runs_at else None
        intact = self._files.compare(place.data_dir, folder, works=works)
        return False if present and intact is False else present

    def _count_errors(self, store: StoreReport, *, denied: bool) -> dict[str, Value]:
        """How many errors its clients get; `denied` says that a node reports its own rejection."""
        if not store.errors:
            return {}
        explained = ["login", "permission"] if denied else []
        explained += ["no_space"] if store.reading("refuses_writes") is True else []
        now, name = self.settings.clock.monotonic(), store.seen.target
        return self._error_rates.readings(name, store.errors, now, explained=explained)

    async def _observe_nodes(self, targets: Sequence[Target]) -> list[NodeReport]:
        timeout_s, secret = self.settings.timeout_s, self.settings.secret
        return await asyncio.gather(
            *(observe_node(target, timeout_s=timeout_s, secret=secret) for target in targets)
        )

    async def _observe_stores(self, targets: Sequence[Target], sample: Sample) -> list[StoreReport]:
        timeout_s, secret = self.settings.timeout_s, self.settings.secret
        return await asyncio.gather(
            *(
                observe_store(target, sample, timeout_s=timeout_s, secret=secret)
                for target in targets
            )
        )


def _see_stores(
    stores: Sequence[StoreReport],
    nodes: Sequence[NodeReport],
    primary: str,
    common: Mapping[str, Value],
    counted: Mapping[str, int] | None,
) -> dict[str, Seen]:
    primaries = [store for store in stores if store.reading("role") == "primary"]
    unseen = sum(store.reading("role") is None for store in stores)
    found: dict[str, Seen] = {}
    for report in stores:
        more: dict[str, Value] = {}
        if report.reading("role") is not None:
            more = {
                "primaries": len(primaries),
                "stores_unseen": unseen,
                "replicas_expected": len(stores) - 1 - unseen,
                "in_use": report.seen.target == primary,
            }
            more |= settings_of(report, [store for store in stores if store is not report])
        if report.seen.target == primary:
            if report.counted:
                first = "".join(report.endless[:1])
                more |= {"endless_keys": len(report.endless), "endless_key": first}
                more["has_endless"] = bool(report.endless)
            more |= (
                drift_of(report, nodes, counted) | over_limit_of(report, common) | limits_of(report)
            )
            more |= hot_key_of(nodes)
            ghosts, culprits = ghosts_of(nodes, report, common)
            if ghosts:
                more |= {"ghost_allowed": 0} if culprits else ghosts
        found[report.seen.target] = _with(report.seen, more)
    return found


def _with(seen: Seen, more: Mapping[str, Value]) -> Seen:
    return replace(seen, readings={**seen.readings, **more}) if more else seen
