"""Observation of a live cluster: a store that watches keep up to date, and what is wrong in it."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from operator_protocols.domain.observation import Observation, Seen, Value
from operator_protocols.domain.target import Target
from operator_protocols.errors import ObservationError
from operator_protocols.kit.options import read_options
from operator_protocols.kit.subject import BaseSubject, see_stranger
from operator_protocols.ports import SubjectSettings
from operator_sre.subjects.kubernetes.analysis import (
    EVENTS_KEPT_S,
    Explanation,
    explain,
    find_doubtful_callers,
    find_symptoms,
)
from operator_sre.subjects.kubernetes.connection import Api, StatusError, open_api
from operator_sre.subjects.kubernetes.facts import facts_of
from operator_sre.subjects.kubernetes.invariants import CLUSTER, PROBLEM, invariants
from operator_sre.subjects.kubernetes.pod_logs import PodLogs
from operator_sre.subjects.kubernetes.resources import WATCHED
from operator_sre.subjects.kubernetes.store import ObjectStore, decode
from operator_sre.subjects.kubernetes.symptoms import Symptom
from operator_sre.subjects.kubernetes.watch import Watch

__all__ = ["KubernetesCluster", "Options", "options_from", "target_name"]

SYNC_POLL_S = 0.1
# A whole check may take three times as long as the time-out of one target.
SYNC_TIMEOUTS = 2.0
# So long without a word of the API server, and what the store has is no longer the present.
STALE_S = 15.0
# The processes of a rig: the lab looks after them.
RIG_KINDS = (
    *("container-runtime", "control-plane", "kube-proxy", "kubelet", "load", "machine", "network"),
    "simulator",
)
ANSWER_S_MAX = 3.0
# How often the control plane is asked whether it is ready.
PULSE_S = 3.0
# A change is followed for so long: the longest grace of what a change breaks, and the time that
# endpoints take to follow.
FOLLOW_S = 8.0
EVIDENCE_MAX = 3
# The targets that are always there; others come and go with what is broken.
_STEADY = ("deployment", "statefulset", "daemonset", "cronjob", "node", "resourcequota", "service")
_LEADERS = {
    "kube-scheduler": "scheduler_down",
    "kube-controller-manager": "controller_manager_down",
}


@dataclass(frozen=True, slots=True)
class Options:
    """How a cluster is reached and what of it is watched.

    Without a `kubeconfig` it is $KUBECONFIG, the default file, or the service account of our pod;
    without a `context` the current one. With a `namespace` only that one is watched. `logs` reads
    the logs of pods that fail. A revision is good if it was current for `good_after_s`.
    """

    kubeconfig: str = ""
    context: str = ""
    namespace: str = ""
    logs: bool = True
    good_after_s: float = 300.0


def options_from(given: Mapping[str, Any]) -> Options:
    """The options of a subject; ConfigError for a name or a value that does not fit."""
    return read_options(Options, given, subject="a kubernetes subject")


def target_name(kind: str, namespace: str, name: str) -> str:
    """How a target is named: `shop/deployment/frontend`, `node/node1`."""
    return f"{namespace}/{kind}/{name}" if namespace else f"{kind}/{name}"


class KubernetesCluster(BaseSubject):
    """Workloads, services, claims and nodes of one cluster, and the cluster itself."""

    def __init__(
        self,
        settings: SubjectSettings,
        *,
        connect: Callable[[str, str], Api] = open_api,
    ) -> None:
        self._options = options_from(settings.options)
        super().__init__(settings, invariants())
        self._connect = connect
        self._api: Api | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self.store = ObjectStore(facts_of)
        self.watches: list[Watch] = []
        self.logs = PodLogs()
        self._parts: tuple[Target, ...] = ()
        self._word = asyncio.Event()
        self._stirred = asyncio.Event()
        self._stirred_at = self._checked_at = -math.inf
        self._found: set[tuple[str, str, str, str]] = set()
        self._leads: dict[str, tuple[str, float]] = {}

    def targets(self) -> Sequence[Target]:
        """What it was given, the cluster, and its parts at the last observation."""
        return (*self._list_given(), *self._parts)

    def _list_given(self) -> tuple[Target, ...]:
        """What it was given; for the processes of a rig, the cluster that they form as well."""
        given = tuple(self.settings.targets())
        formed = given and all(each.kind in RIG_KINDS for each in given)
        return (Target(CLUSTER, CLUSTER), *given) if formed else given

    async def observe(self) -> Observation:
        """What is wrong in the store, once it is filled; the cluster alone while it is not."""
        self._checked_at = self.settings.clock.monotonic()
        given = self._list_given()
        if not given:
            raise ObservationError(f"{self.name!r} has no targets.")
        strange = [see_stranger(each) for each in given if each.kind not in (CLUSTER, *RIG_KINDS)]
        strange += [Seen(each.name, {"part_of": "rig"}) for each in given if each.kind in RIG_KINDS]
        clusters = [each.name for each in given if each.kind == CLUSTER]
        try:
            problem = await self._wait_synced(await self._open())
        except ObservationError as error:
            blind = [Seen(name, {"kind": CLUSTER}, str(error)) for name in clusters]
            return self.observation([*blind, *strange])
        whole = [self._see_cluster(name, problem, self._judge_leaders()) for name in clusters]
        if problem:
            # The store is no longer the present, and of what it had nothing is known now.
            return self.observation([*whole, *strange])
        # Everything in the store, with the logs of what fails.
        now = self.settings.clock.now()
        self.store.expire("event", self.settings.clock.monotonic() - EVENTS_KEPT_S)
        symptoms = find_symptoms(self.store, now, self.logs.lines())
        api = self._api if self._options.logs else None
        is_read = False
        if api is not None:
            callers = find_doubtful_callers(self.store, now)
            clock = self.settings.clock
            is_read = await self.logs.read_callers(api, self.store, callers, clock.monotonic())
            is_read = await self.logs.read(api, self.store, symptoms) or is_read
        if is_read:
            symptoms = find_symptoms(self.store, now, self.logs.lines())
        found = {(each.invariant, each.kind, each.namespace, each.name) for each in symptoms}
        if found != self._found:
            # A new finding is checked again when its grace has ended.
            self._found = found
            self._note_change()
        explained = explain(self.store, symptoms, now, self.logs.lines())
        return self.observation([*whole, *strange, *self._see(symptoms, explained)])

    def _note_change(self) -> None:
        self._stirred_at = self.settings.clock.monotonic()
        self._stirred.set()

    async def wait_change(self) -> None:
        """Wait until an object changes that can be broken.

        For some seconds after a change each check may find more: what is broken only when it lasts.
        However long checks take, one of them begins after these seconds.
        """
        if self._checked_at >= self._stirred_at + FOLLOW_S:
            self._stirred.clear()
            await self._stirred.wait()

    async def close(self) -> None:
        """Stop watching."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []
        if self._api is not None:
            await self._api.close()
            self._api = None

    async def _open(self) -> Api:
        """Connect and start to watch, once for each event loop."""
        loop = asyncio.get_running_loop()
        if self._api is not None and self._loop is loop:
            return self._api
        options = self._options
        self._api, self._loop = self._connect(options.kubeconfig, options.context), loop
        self.store = ObjectStore(facts_of)
        self.watches = [
            Watch(
                self._api,
                resource,
                self.store,
                namespace=options.namespace,
                clock=self.settings.clock,
                changed=self._word.set,
                stirred=self._note_change,
            )
            for resource in WATCHED
            if resource.namespaced or not options.namespace or resource.optional
        ]
        self._tasks = [loop.create_task(watch.run()) for watch in self.watches]
        self._tasks.append(loop.create_task(self._feel_pulse(self._api)))
        return self._api

    async def _wait_synced(self, api: Api) -> str:
        """Wait for the first lists; why the API server cannot be asked, or ""."""
        clock = self.settings.clock
        began = clock.monotonic()
        while waiting := [watch for watch in self.watches if not watch.synced]:
            # A large or busy cluster answers late; a cluster that refuses stays so.
            patience = 0.5 if all(watch.problem for watch in waiting) else SYNC_TIMEOUTS
            if clock.monotonic() - began >= patience * self.settings.timeout_s:
                break
            self._word.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(SYNC_POLL_S):
                    await self._word.wait()
        if problem := await _ask_ready(api):
            return problem
        unsynced = [watch for watch in self.watches if not watch.synced]
        if unsynced and all(watch.problem for watch in unsynced):
            raise ObservationError(f"The cluster cannot be read: {unsynced[0].problem}.")
        if unsynced:
            # A large cluster takes a while; that is not known to be broken.
            raise ObservationError(f"The {unsynced[0].resource.plural} are still being listed.")
        return ""

    async def _feel_pulse(self, api: Api) -> None:
        """Have a check follow when the control plane stops or comes back: no watch tells that."""
        was_well = True
        while True:
            await self.settings.clock.sleep(PULSE_S)
            is_well = not await _ask_ready(api) and not self._judge_leaders()
            if is_well != was_well:
                was_well = is_well
                self._note_change()

    def _judge_leaders(self) -> dict[str, str]:
        """Components of the control plane that stopped renewing their lease, and the cause.

        A lease counts from when we saw it change, so that clocks need not agree.
        """
        now, found = self.settings.clock.monotonic(), dict[str, str]()
        for name, cause in _LEADERS.items():
            stored = self.store.find("lease", "kube-system", name)
            if stored is None:
                continue
            spec = decode(stored).get("spec") or {}
            renewed = str(spec.get("renewTime") or "")
            if self._leads.get(name, ("", 0.0))[0] != renewed:
                self._leads[name] = (renewed, now)
            silent_s = now - self._leads[name][1]
            if silent_s > float(spec.get("leaseDurationSeconds") or STALE_S):
                found[cause] = f"{name} has not renewed its lease for {silent_s:.0f} s"
        return found

    def _see_cluster(self, name: str, problem: str, leaders: Mapping[str, str]) -> Seen:
        """The control plane."""
        readings: dict[str, Value] = {"kind": CLUSTER, "reachable": not problem}
        if problem:
            cause = "etcd_down" if "etcd" in problem else "api_server_down"
            readings |= {"cause": cause, f"control_plane_works{PROBLEM}": problem}
        elif leaders:
            cause, why = next(iter(leaders.items()))
            readings |= {"cause": cause, f"control_plane_works{PROBLEM}": why}
        absent = [watch.resource.plural for watch in self.watches if watch.absent]
        if absent:
            readings["not_watched"] = ", ".join(absent)
        return Seen(name, readings)

    def _see(
        self, symptoms: Sequence[Symptom], explained: Mapping[Symptom, Explanation]
    ) -> Iterator[Seen]:
        """Every target with what is configured and what is wrong; notes the targets on the way."""
        readings: dict[str, dict[str, Value]] = {}
        targets: dict[str, Target] = {}
        needs: dict[str, set[str]] = {}

        def add(kind: str, namespace: str, name: str) -> dict[str, Value]:
            target = target_name(kind, namespace, name)
            if target not in readings:
                readings[target] = {"kind": kind}
                targets[target] = Target(target, kind)
                stored = self.store.find(kind, namespace, name)
                readings[target] |= stored.facts.readings if stored is not None else {}
            return readings[target]

        for kind in _STEADY:
            for namespace, name in self.store.of(kind):
                add(kind, namespace, name)
        for symptom in symptoms:
            own = add(symptom.kind, symptom.namespace, symptom.name)
            own.setdefault(f"{symptom.invariant}{PROBLEM}", symptom.detail)
            explanation = explained.get(symptom)
            if explanation is None:
                continue
            place = (explanation.kind, explanation.namespace, explanation.name)
            root = add(*place)
            root.setdefault("cause", explanation.cause)
            if root["cause"] == explanation.cause:
                root.setdefault("cause_detail", "; ".join(explanation.evidence[:EVIDENCE_MAX]))
            here, there = (
                target_name(symptom.kind, symptom.namespace, symptom.name),
                target_name(*place),
            )
            if here != there:
                needs.setdefault(here, set()).add(there)
        self._parts = tuple(
            Target(name, target.kind, depends_on=tuple(sorted(needs.get(name, ()))))
            for name, target in targets.items()
        )
        return (Seen(name, found) for name, found in readings.items())


async def _ask_ready(api: Api) -> str:
    """Why the API server does not serve, or ""; it tells its version without its storage."""
    try:
        async with asyncio.timeout(ANSWER_S_MAX):
            await api.get("/readyz", {})
    except StatusError as problem:
        refused = problem.status in (401, 403, 404)
        return "" if refused else f"the API server is not ready: {problem}"
    except TimeoutError:
        try:
            async with asyncio.timeout(ANSWER_S_MAX):
                await api.get("/version", {})
        except (StatusError, OSError, ValueError, TimeoutError):
            return f"the API server does not answer within {ANSWER_S_MAX:g} s"
        return "the API server answers, but not whether it is ready, which it asks etcd"
    except (OSError, ValueError) as problem:
        return f"the API server does not answer: {str(problem) or type(problem).__name__}"
    return ""
