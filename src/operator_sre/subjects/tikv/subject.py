"""A TiKV cluster as a subject: what PD says, what every store says itself, and what follows."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

from operator_protocols.domain.observation import Observation, Seen, Value
from operator_protocols.domain.target import Target
from operator_protocols.errors import ObservationError
from operator_protocols.kit.client import CLIENT_VIEW, UNCHECKED
from operator_protocols.kit.datafiles import DataFiles
from operator_protocols.ports import Invariant, SubjectSettings
from operator_sre.subjects.tikv.client import Answer, Pd
from operator_sre.subjects.tikv.cluster import cluster_readings
from operator_sre.subjects.tikv.facts import Facts, Turns
from operator_sre.subjects.tikv.invariants import invariants_of
from operator_sre.subjects.tikv.kinds import (
    CLUSTER,
    KINDS,
    PD,
    PROMETHEUS,
    STORE,
    discovered_target,
    shared_access,
    target_at,
    with_cluster,
)
from operator_sre.subjects.tikv.leader import (
    Leadership,
    PdReport,
    ask_leader,
    find_leader,
    scrape,
)
from operator_sre.subjects.tikv.logs import LogTail, local_readings
from operator_sre.subjects.tikv.metrics import Scraped, StoreHistory, readings_at
from operator_sre.subjects.tikv.options import options_from
from operator_sre.subjects.tikv.parts import (
    compare_parts,
    find_listed,
    find_needed,
    flag_readings,
    metrics_addresses,
    names_of,
    pd_readings,
    pds_readings,
    store_readings,
    with_quorum,
)
from operator_sre.subjects.tikv.state import UNHEARD, Store

__all__ = ["TikvCluster"]

# The logs that a part only appends to, and the files without which its data is lost; the directory
# may be a level below the configured one.
FILES = {
    PD: (("member/wal/*.wal", "*/member/wal/*.wal"), ("member/snap/db", "*/member/snap/db")),
    STORE: (
        ("raft-engine/*.raftlog", "*/raft-engine/*.raftlog"),
        ("db/CURRENT", "*/db/CURRENT"),
    ),
}


class TikvCluster:
    """PDs of kind `pd`, stores of kind `store`, perhaps a `prometheus`.

    Parts that PD knows of and the configuration does not list are checked as well. What they are
    together is one more target, the cluster.
    """

    def __init__(self, settings: SubjectSettings) -> None:
        self._settings = settings
        self._options = options_from(settings.options)
        self.name = settings.name
        self.invariants: Sequence[Invariant] = invariants_of(self._options)
        self._facts = Facts()
        self._turns = Turns()
        self._history = StoreHistory()
        self._tail = LogTail()
        self._checks = 0
        self._leader = self._trusted = ""
        self._led_since: float | None = None
        self._unheard_since: dict[tuple[str, int], float] = {}
        self._stores: tuple[Store, ...] = ()
        self._discovered: tuple[Target, ...] = ()
        self._reports: dict[str, PdReport] = {}
        self._scraped: Scraped | None = None
        self._needs: frozenset[str] = frozenset()
        self._files = {kind: DataFiles(*patterns) for kind, patterns in FILES.items()}

    def targets(self) -> Sequence[Target]:
        """Its current parts, the parts that PD reported, and the cluster that they form."""
        return with_cluster(self._parts(), self._needs)

    async def observe(self) -> Observation:
        """Check once. ObservationError when there is nothing to check."""
        parts = self._parts()
        if not parts:
            raise ObservationError(f"{self.name!r} has no targets.")
        if all(part.kind != PD for part in parts):
            raise ObservationError(
                f"{self.name!r} has no target of kind {PD!r}, which knows the state of stores."
            )
        timeout_s = self._settings.timeout_s
        by_prometheus = self._options.metrics_from == PROMETHEUS
        pd = Pd(self._settings, self._trusted)
        found = await find_leader(
            pd, parts, last=self._trusted, turn=self._checks, timeout_s=timeout_s
        )
        await ask_leader(
            pd,
            found,
            self._facts,
            self._turns,
            prometheus=next((part for part in parts if part.kind == PROMETHEUS), None),
            metrics=by_prometheus,
        )
        names = self._learn(found)
        parts = self._parts()
        self._reports |= found.reports
        here = {part.name: part for part in parts}
        self._reports = {name: report for name, report in self._reports.items() if name in here}
        places = {
            target.name: (target, metrics_addresses(target, store))
            for store in self._stores
            if (target := here.get(names.get(store.id, ""))) is not None
            and store.leads
            and store.state != "Tombstone"
        }
        shown = await scrape(pd, {} if by_prometheus else places, timeout_s)
        requests = pd.requests
        self._checks += 1
        beside = await asyncio.to_thread(
            lambda: {part.name: local_readings(part, self._tail) for part in parts}
        )
        seen = self._see_parts(parts, names, found, shown, beside)
        seen = await asyncio.to_thread(self._compare_data, parts, seen)
        whole = self._see_cluster(found, names, seen, requests)
        seen = with_quorum(seen, whole.get("quorum"))
        self._needs = find_needed(seen)
        cluster = [Seen(part.name, whole) for part in with_cluster(parts) if part.kind == CLUSTER]
        return Observation(self.name, self._settings.clock.now(), (*seen, *cluster))

    def _parts(self) -> tuple[Target, ...]:
        given = tuple(self._settings.targets())
        taken = {part.name for part in given}
        return (*given, *(part for part in self._discovered if part.name not in taken))

    def _learn(self, found: Leadership) -> dict[int, str]:
        """Keep the parts that this check found; return the names of the stores, by their id."""
        now = self._settings.clock.monotonic()
        leader = found.leader.name if found.leader is not None and found.leads else ""
        if leader and self._leader and leader != self._leader:
            self._led_since = now
        self._leader = leader or self._leader
        # Where the leader did not answer us, everybody is asked again who leads.
        self._trusted = leader if found.via is None else ""
        if found.stores is not None:
            # Whom a leader of PD has not heard of in `settle_s` it will not hear of soon.
            unheard = [(self._leader, store.id) for store in found.stores if store.state == UNHEARD]
            self._unheard_since = {key: self._unheard_since.get(key, now) for key in unheard}
            over = {
                id_
                for (_, id_), since in self._unheard_since.items()
                if now - since >= self._options.settle_s
            }
            self._stores = tuple(
                replace(store, state=store.hearsay) if store.id in over else store
                for store in found.stores
            )
        if found.prometheus is not None or found.prometheus_error:
            self._scraped = found.prometheus
        given = tuple(self._settings.targets())
        names = names_of(self._stores, given)
        self._discovered = ()
        if self._options.discover and any(part.kind == PD for part in given):
            self._discovered = tuple(self._discover(given, names, found))
        return names

    def _discover(
        self, given: Sequence[Target], names: dict[int, str], found: Leadership
    ) -> list[Target]:
        """Parts that the configuration does not list; their names are added to `names`."""
        fresh: list[Target] = []
        taken = [part.name for part in given]
        access = shared_access(given)
        pds = [part for part in given if part.kind == PD]
        for member in self._facts.members.members if self._facts.members else ():
            if member.addresses and not target_at(pds, [member.name], member.addresses):
                address = member.addresses[0]
                fresh.append(discovered_target(member.name, PD, address, taken, access))
                taken.append(fresh[-1].name)
        if found.leader is not None and found.leader.name not in taken:
            fresh.append(found.leader)
            taken.append(found.leader.name)
        for store in self._stores:
            if store.id not in names and store.state != "Tombstone":
                name = f"{STORE}-{store.id}"
                fresh.append(discovered_target(name, STORE, store.address, taken, access))
                names[store.id] = fresh[-1].name
                taken.append(fresh[-1].name)
        return fresh

    def _compare_data(self, parts: Sequence[Target], seen: Sequence[Seen]) -> list[Seen]:
        """The same, and of each part on this machine whether its data is what it left."""
        compared = []
        for part, each in zip(parts, seen, strict=True):
            if part.kind in FILES and part.data_dir and not part.runs_at:
                works = each.readings.get("reachable") is True
                files, place = self._files[part.kind], Path(part.data_dir)
                intact = files.compare(part.data_dir, place, works=works)
                intact = files.are_present(place) if intact is None else intact
                each = replace(each, readings={**each.readings, "data_intact": intact})
            compared.append(each)
        return compared

    def _see_parts(
        self,
        parts: Sequence[Target],
        names: Mapping[int, str],
        found: Leadership,
        shown: Mapping[str, Answer],
        beside: Mapping[str, dict[str, Value]],
    ) -> list[Seen]:
        stores = {names[store.id]: store for store in self._stores if store.id in names}
        now, hottest = self._pd_time(), self._facts.hottest
        listed = find_listed(
            tuple(self._settings.targets()),
            self._facts.members,
            None if found.stores is None else self._stores,
        )
        history = self._history.readings(stores, shown, self._settings.clock.monotonic())
        seen = []
        for part in parts:
            readings: dict[str, Value] = {"kind": part.kind, **beside.get(part.name, {})}
            report, store = self._reports.get(part.name), stores.get(part.name)
            if part.name in listed:
                readings["listed"] = listed[part.name]
            if part.kind == PD:
                readings |= pd_readings(part, report, self._leader, self._facts.members)
                readings |= flag_readings(readings, self._options)
            elif part.kind == STORE:
                if found.stores is not None and store is None:
                    readings["known"] = False
                elif found.stores is not None and store is not None:
                    readings |= store_readings(store, now, self._facts.evicting)
                    readings["is_hot"] = hottest is not None and hottest.store == store.id
                    readings |= readings_at(self._scraped, store.status_address)
                readings |= history.get(part.name, {})
                readings |= flag_readings(readings, self._options)
            elif part.kind == PROMETHEUS:
                if found.prometheus_error:
                    readings |= {"reachable": False, "error": found.prometheus_error}
                elif self._scraped is not None:
                    readings |= {"reachable": True, "error": ""}
            # Why it could not even be checked.
            answer = shown.get(part.name) or (report.answer if report is not None else None)
            problem = answer.error if answer is not None and answer.unasked else ""
            if part.kind not in KINDS:
                problem = f"its kind {part.kind!r} is not known"
            seen.append(Seen(part.name, readings, problem))
        # How far every clock is ahead of ours.
        answers = {name: report.answer for name, report in self._reports.items()} | dict(shown)
        offsets = {
            name: answer.offset_s
            for name, answer in answers.items()
            if answer.ok and answer.offset_s is not None
        }
        return compare_parts(seen, offsets, self._options.clock_skew_s_max)

    def _see_cluster(
        self, found: Leadership, names: Mapping[int, str], seen: Sequence[Seen], requests: int
    ) -> dict[str, Value]:
        readings: dict[str, Value] = {"kind": CLUSTER, "requests": requests}
        readings[CLIENT_VIEW] = UNCHECKED  # clients speak gRPC, and Operator HTTP
        readings |= pds_readings(seen, found, self._leader)
        if self._facts.members is not None:
            unstarted = [each for each in self._facts.members.members if not each.name]
            readings["ghosts"] = ", ".join(str(each.id) for each in unstarted)
        if found.stores is None:
            readings["settled"] = False
            return {**readings, "error": found.error} if found.error else readings
        deaf = {part.target for part in seen if part.readings.get("reachable") is False}
        away = frozenset(id_ for id_, name in names.items() if name in deaf)
        # The leader of PD is not new, by what we saw and by whom it has heard of.
        since, now = self._led_since, self._settings.clock.monotonic()
        waits = any(store.state == UNHEARD and store.id not in away for store in self._stores)
        return readings | cluster_readings(
            self._stores,
            names,
            self._facts,
            self._options,
            self._pd_time(),
            settled=not waits and (since is None or now - since >= self._options.settle_s),
            away=away,
        )

    def _pd_time(self) -> datetime:
        """What time it is for the leader of PD, who says when it heard of whom."""
        leader = self._reports.get(self._leader)
        offset_s = leader.answer.offset_s if leader is not None else None
        return self._settings.clock.now() + timedelta(seconds=offset_s or 0.0)
