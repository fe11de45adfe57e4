"""Looking at a TiKV cluster: what PD says, what every store says itself, and what follows."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from operator_protocols.domain.observation import Observation, Seen, Value
from operator_protocols.domain.target import Target
from operator_protocols.errors import ObservationError
from operator_protocols.ports import Invariant, SubjectSettings
from operator_sre.subjects.tikv.client import Answer, Pd
from operator_sre.subjects.tikv.facts import Facts
from operator_sre.subjects.tikv.invariants import invariants_of
from operator_sre.subjects.tikv.kinds import (
    CLUSTER,
    KINDS,
    PD,
    PROMETHEUS,
    STORE,
    found_at,
    shared_access,
    target_at,
    with_cluster,
)
from operator_sre.subjects.tikv.logs import LogTail
from operator_sre.subjects.tikv.look import (
    Leading,
    PdGlimpse,
    ask_leader,
    find_leader,
    scrape,
)
from operator_sre.subjects.tikv.options import options_from
from operator_sre.subjects.tikv.parts import (
    compared,
    leads,
    needed,
    pd_readings,
    pds_together,
    with_quorum,
)
from operator_sre.subjects.tikv.place import local_readings
from operator_sre.subjects.tikv.prometheus import Scraped, readings_at
from operator_sre.subjects.tikv.showing import Showing
from operator_sre.subjects.tikv.state import UNHEARD, Store
from operator_sre.subjects.tikv.stores import heard_readings, judged, names_of, places_of
from operator_sre.subjects.tikv.turns import Turns
from operator_sre.subjects.tikv.whole import Whole

__all__ = ["TikvCluster"]


class TikvCluster:
    """PDs of kind `pd`, stores of kind `store`, perhaps a `prometheus`.

    Parts that PD knows of and nobody listed are looked at as well. What they are together is one
    more target, the cluster.
    """

    def __init__(self, settings: SubjectSettings) -> None:
        self._settings = settings
        self._options = options_from(settings.options)
        self.name = settings.name
        self.invariants: Sequence[Invariant] = invariants_of(self._options)
        self._facts = Facts()
        self._turns = Turns()
        self._showing = Showing()
        self._tail = LogTail()
        self._looks = 0
        self._leader = self._trusted = ""
        self._led_since: float | None = None
        self._unheard_since: dict[tuple[str, int], float] = {}
        self._stores: tuple[Store, ...] = ()
        self._found: tuple[Target, ...] = ()
        self._glimpses: dict[str, PdGlimpse] = {}
        self._scraped: Scraped | None = None
        self._needs: frozenset[str] = frozenset()

    def targets(self) -> Sequence[Target]:
        """Its parts as they are now, those that PD told of, and the cluster that they are."""
        return with_cluster(self._parts(), self._needs)

    async def observe(self) -> Observation:
        """Look once. ObservationError when there is nothing to look at."""
        parts = self._parts()
        if not parts:
            raise ObservationError(f"{self.name!r} has no targets to look at.")
        timeout_s = self._settings.timeout_s
        by_prometheus = self._options.metrics_from == PROMETHEUS
        async with Pd(self._settings, self._trusted) as pd:
            found = await find_leader(
                pd, parts, last=self._trusted, turn=self._looks, timeout_s=timeout_s
            )
            await ask_leader(
                pd,
                found,
                self._facts,
                self._turns,
                prometheus=next((one for one in parts if one.kind == PROMETHEUS), None),
                metrics=by_prometheus,
            )
            parts, names = self._learn(found)
            places = {} if by_prometheus else self._places(parts, names)
            shown = await scrape(pd, places, timeout_s)
            requests = pd.requests
        self._looks += 1
        beside = await asyncio.to_thread(self._beside, parts)
        seen = self._seen(parts, names, found, shown, beside)
        whole = self._whole(found, names, seen, requests)
        seen = with_quorum(seen, whole.get("quorum"))
        self._needs = needed(seen)
        cluster = [Seen(one.name, whole) for one in with_cluster(parts) if one.kind == CLUSTER]
        return Observation(self.name, self._settings.clock.now(), (*seen, *cluster))

    def _parts(self) -> tuple[Target, ...]:
        given = tuple(self._settings.targets())
        taken = {one.name for one in given}
        return (*given, *(one for one in self._found if one.name not in taken))

    def _learn(self, found: Leading) -> tuple[tuple[Target, ...], dict[int, str]]:
        """Keep what this look told of who there is: all parts, and the names of the stores."""
        leader = found.leader.name if found.leader is not None and leads(found) else ""
        if leader and self._leader and leader != self._leader:
            self._led_since = self._settings.clock.monotonic()
        self._leader = leader or self._leader
        # Where the leader did not answer us, everybody is asked again who leads.
        self._trusted = leader if found.via is None else ""
        if found.stores is not None:
            self._stores = self._heard(found.stores)
        if found.prometheus is not None or found.prometheus_error:
            self._scraped = found.prometheus
        given = tuple(self._settings.targets())
        names = names_of(self._stores, given)
        fresh: list[Target] = []
        if self._options.discover and any(one.kind == PD for one in given):
            fresh = self._discovered(given, names, found)
        self._found = tuple(fresh)
        parts = self._parts()
        self._glimpses |= found.glimpses
        here = {one.name for one in parts}
        self._glimpses = {name: one for name, one in self._glimpses.items() if name in here}
        return parts, names

    def _heard(self, stores: Sequence[Store]) -> tuple[Store, ...]:
        """The same; whom a leader of PD has not heard of in `settle_s` it will not hear of soon."""
        now, known = self._settings.clock.monotonic(), self._unheard_since
        unheard = {(self._leader, one.id) for one in stores if one.state == UNHEARD}
        self._unheard_since = {one: known.get(one, now) for one in unheard}
        over = {
            id_
            for (_, id_), since in self._unheard_since.items()
            if now - since >= self._options.settle_s
        }
        return tuple(replace(one, state=one.hearsay) if one.id in over else one for one in stores)

    def _discovered(
        self, given: Sequence[Target], names: dict[int, str], found: Leading
    ) -> list[Target]:
        """Parts that nobody listed; their names are added to `names`."""
        fresh: list[Target] = []
        taken = [one.name for one in given]
        access = shared_access(given)
        pds = [one for one in given if one.kind == PD]
        members = self._facts.members.members if self._facts.members else ()
        for member in members:
            if member.addresses and not target_at(pds, [member.name], member.addresses):
                fresh.append(found_at(member.name, PD, member.addresses[0], taken, access))
                taken.append(fresh[-1].name)
        if found.leader is not None and found.leader.name not in taken:
            fresh.append(found.leader)
            taken.append(found.leader.name)
        for store in self._stores:
            if store.id not in names and store.state != "Tombstone":
                part = found_at(f"{STORE}-{store.id}", STORE, store.address, taken, access)
                names[store.id] = part.name
                fresh.append(part)
                taken.append(part.name)
        return fresh

    def _places(
        self, parts: Sequence[Target], names: Mapping[int, str]
    ) -> dict[str, tuple[Target, Sequence[str]]]:
        """Where the metrics of each store are, which has some."""
        by_name = {one.name: one for one in parts}
        found: dict[str, tuple[Target, Sequence[str]]] = {}
        for store in self._stores:
            target = by_name.get(names.get(store.id, ""))
            if target is not None and store.leads and store.state != "Tombstone":
                found[target.name] = (target, places_of(target, store))
        return found

    def _beside(self, parts: Sequence[Target]) -> dict[str, dict[str, Value]]:
        return {one.name: local_readings(one, self._tail) for one in parts}

    def _seen(
        self,
        parts: Sequence[Target],
        names: Mapping[int, str],
        found: Leading,
        shown: Mapping[str, Answer],
        beside: Mapping[str, dict[str, Value]],
    ) -> list[Seen]:
        stores = {names[one.id]: one for one in self._stores if one.id in names}
        now = self._pd_time()
        told = self._showing.readings(stores, shown, self._settings.clock.monotonic())
        seen = []
        for part in parts:
            readings: dict[str, Value] = {"kind": part.kind, **beside.get(part.name, {})}
            if part.kind == PD:
                glimpse = self._glimpses.get(part.name)
                readings |= pd_readings(part, glimpse, self._leader, self._facts.members)
                readings |= judged(readings, self._options)
            elif part.kind == STORE:
                store = stores.get(part.name)
                readings |= self._of_store(found, store, now)
                readings |= told.get(part.name, {})
                readings |= judged(readings, self._options)
            elif part.kind == PROMETHEUS:
                readings |= self._of_prometheus(found)
            problem = self._problem(part, shown.get(part.name))
            seen.append(Seen(part.name, readings, problem))
        return compared(seen, self._offsets(shown), self._options.clock_skew_s_max)

    def _problem(self, part: Target, answer: Answer | None) -> str:
        """Why it could not even be looked at."""
        if part.kind not in KINDS:
            return f"its kind {part.kind!r} is not known"
        glimpse = self._glimpses.get(part.name)
        said = answer or (glimpse.answer if glimpse is not None else None)
        return said.error if said is not None and said.unasked else ""

    def _of_store(self, found: Leading, store: Store | None, now: datetime) -> dict[str, Value]:
        """What PD says of it, in this look."""
        if found.stores is None:
            return {}
        if store is None:
            return {"known": False}
        readings = heard_readings(store, now, self._facts.evicting)
        hottest = self._facts.hottest
        readings["is_hot"] = hottest is not None and hottest.store == store.id
        return readings | readings_at(self._scraped, store.status_address)

    def _of_prometheus(self, found: Leading) -> dict[str, Value]:
        if found.prometheus_error:
            return {"reachable": False, "error": found.prometheus_error}
        return {"reachable": True, "error": ""} if self._scraped is not None else {}

    def _offsets(self, shown: Mapping[str, Answer]) -> dict[str, float]:
        """How far every clock is ahead of ours."""
        said = {name: one.answer for name, one in self._glimpses.items()} | dict(shown)
        told = ((name, one.offset_s) for name, one in said.items() if one.ok)
        return {name: offset for name, offset in told if offset is not None}

    def _whole(
        self, found: Leading, names: Mapping[int, str], seen: Sequence[Seen], requests: int
    ) -> dict[str, Value]:
        readings: dict[str, Value] = {"kind": CLUSTER, "requests": requests}
        readings |= pds_together(seen, found, self._leader)
        if found.stores is None:
            readings["settled"] = False
            return {**readings, "error": found.error} if found.error else readings
        deaf = {one.target for one in seen if one.readings.get("reachable") is False}
        away = frozenset(id_ for id_, name in names.items() if name in deaf)
        whole = Whole(
            self._stores,
            names,
            self._facts,
            self._options,
            self._pd_time(),
            self._settled(away),
            away,
        )
        return readings | whole.readings()

    def _settled(self, away: frozenset[int]) -> bool:
        """The leader of PD is not new, by what we saw and by whom it has heard of."""
        since, now = self._led_since, self._settings.clock.monotonic()
        waits = any(one.state == UNHEARD and one.id not in away for one in self._stores)
        return not waits and (since is None or now - since >= self._options.settle_s)

    def _pd_time(self) -> datetime:
        """What time it is for the leader of PD, who says when it heard of whom."""
        leader = self._glimpses.get(self._leader)
        offset_s = leader.answer.offset_s if leader is not None else None
        return self._settings.clock.now() + timedelta(seconds=offset_s or 0.0)
