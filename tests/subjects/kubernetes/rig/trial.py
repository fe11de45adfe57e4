"""Breaks the real rig as a case says and tells how soon and how rightly Operator sees it."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from operator_lab.kubernetes.build import find_programs
from operator_lab.rig import Rig
from operator_protocols.domain.health import Health
from operator_protocols.domain.observation import Observation
from operator_protocols.domain.target import Target
from operator_protocols.ports import SubjectSettings
from operator_sre.clock import SystemClock
from operator_sre.monitor import findings_of
from operator_sre.subjects.kubernetes.analysis import invariant_specs
from operator_sre.subjects.kubernetes.resources import WATCHED
from operator_sre.subjects.kubernetes.routes_live import SETTLE_S
from operator_sre.subjects.kubernetes.store import decode
from operator_sre.subjects.kubernetes.subject import KubernetesCluster
from tests.subjects.kubernetes.rig.case import RigCase

__all__ = ["Kubectl", "Score", "Trial", "settled"]

CLOCK = SystemClock()
POLL_S = 0.5
DETECTION_S_MAX = 5.0
SEEN_S_MAX = 90.0
# A service has so long until it must have an endpoint.
YOUNG_S = SETTLE_S + 1.0
SETTLED_S_MAX = 120.0
TIMEOUT_S = 20.0
OWN_NAMESPACES = ("shop", "kube-system", "default")


class Kubectl:
    """kubectl of the rig."""

    def __init__(self, directory: Path) -> None:
        programs = find_programs()
        assert programs is not None
        self.kubeconfig = directory / "switch" / "pki" / "kubeconfig"
        self._words = (str(programs.cluster), "kubectl", "--kubeconfig", str(self.kubeconfig))

    async def run(self, *words: str, text: str = "", must: bool = True) -> str:
        """Its output; AssertionError where it fails and `must` not."""
        done = await asyncio.to_thread(
            subprocess.run,
            (*self._words, *words),
            input=text.encode(),
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0 or not must, (words, done.stderr.decode())
        return done.stdout.decode()

    async def read(self, *words: str) -> list[dict[str, Any]]:
        """The objects that `get` finds."""
        found = json.loads(await self.run("get", *words, "-o", "json"))
        items: list[dict[str, Any]] = found.get("items", [found])
        return items


@dataclass(frozen=True, slots=True)
class Score:
    """What came of a case. `detected_s` counts from the API event, `broken_s` from the break."""

    case: RigCase
    detected_s: float | None
    broken_s: float | None
    cause: str
    blamed: str
    others: tuple[str, ...] = ()
    record: Mapping[str, Any] = field(default_factory=dict)

    @property
    def right(self) -> bool:
        """Whether the first cause and the object are right."""
        wanted = self.case.blamed.replace("{namespace}", self.namespace)
        blamed = self.blamed.removeprefix(f"{self.namespace}/")
        return self.cause in self.case.causes and blamed == wanted

    @property
    def soon(self) -> bool:
        """Whether it was detected soon enough."""
        return self.detected_s is not None and self.detected_s <= DETECTION_S_MAX

    @property
    def namespace(self) -> str:
        """The namespace of the case."""
        return f"case-{self.case.name}"


class Trial:
    """The rig, and a subject that watches it as Operator does."""

    def __init__(self, directory: Path) -> None:
        self.kubectl = Kubectl(directory)
        self.rig = Rig.attach(directory)
        options = {"kubeconfig": str(self.kubectl.kubeconfig)}
        target = (Target("cluster", "cluster"),)
        settings = SubjectSettings("c", lambda: target, CLOCK, TIMEOUT_S, options)
        self.subject = KubernetesCluster(settings)
        self._grace = {spec.name: spec.grace_s for spec in invariant_specs()}
        self._since: dict[tuple[str, str], float] = {}

    async def observe(self) -> tuple[Observation, set[tuple[str, str]]]:
        """What is seen, and which invariants are broken at which targets beyond their grace."""
        seen = await self.subject.observe()
        now = CLOCK.monotonic()
        found = {
            (each.invariant, each.target)
            for each in findings_of(self.subject.invariants, seen)
            if each.health is Health.BROKEN
        }
        self._since = {key: self._since.get(key, now) for key in found}
        ripe = {key for key, since in self._since.items() if now - since >= self._grace[key[0]]}
        return seen, ripe

    async def run(self, case: RigCase) -> Score:
        """Break it, wait for the finding, and mend it."""
        namespace = f"case-{case.name}"
        try:
            broken = await self._break(case, namespace)
            return await self._watch(case, namespace, broken)
        finally:
            await self._undo(case, namespace)

    async def _break(self, case: RigCase, namespace: str) -> datetime:
        kubectl, objects = self.kubectl, case.objects
        if case.objects:
            metadata = {"name": namespace, "labels": dict(case.labels)}
            space = {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
            await kubectl.run("apply", "-f", "-", text=json.dumps(space))
            account = ("-n", namespace, "get", "serviceaccount", "default")
            async with asyncio.timeout(SETTLED_S_MAX):
                while not await kubectl.run(*account, must=False):
                    await CLOCK.sleep(POLL_S)
        began = CLOCK.now()
        if objects:
            record = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
            await kubectl.run("-n", namespace, "apply", "-f", "-", text=json.dumps(record))
        if case.change and objects:
            wait = ("wait", "--for=condition=Available", "deploy", "--all", "--timeout=120s")
            await kubectl.run("-n", namespace, *wait)
            # What was rolled out is no part of the break.
            async with asyncio.timeout(SETTLED_S_MAX):
                while await self._is_young(namespace, began):
                    await CLOCK.sleep(POLL_S)
        for words in case.change:
            place = () if words[0] == "-n" or not objects else ("-n", namespace)
            await kubectl.run(*place, *words)
            began = CLOCK.now()
        if case.stop:
            await self.observe()
            began = CLOCK.now()
            await self.rig.kill(case.stop)
        return began

    async def _is_young(self, namespace: str, began: datetime) -> bool:
        """Whether anything of a namespace still starts."""
        _, ripe = await self.observe()
        young = (CLOCK.now() - began).total_seconds() < YOUNG_S
        return young or any(target.startswith(f"{namespace}/") for _, target in ripe)

    async def _watch(self, case: RigCase, namespace: str, broken: datetime) -> Score:
        ends = CLOCK.monotonic() + SEEN_S_MAX
        ours = case.objects and not case.stop
        while CLOCK.monotonic() < ends:
            seen, ripe = await self.observe()
            near = {key for key in ripe if not ours or key[1].startswith(f"{namespace}/")}
            if hits := [target for invariant, target in near if invariant == case.invariant]:
                at = CLOCK.now()
                event = await self._find_event(case, namespace, broken)
                causes = {
                    each.target: str(each.readings["cause"])
                    for each in seen.seen
                    if "cause" in each.readings
                    and (not ours or each.target.endswith(namespace) or namespace in each.target)
                }
                blamed = next((each for each in causes if causes[each] in case.causes), "")
                blamed = blamed or next((each for each in causes if each in hits), hits[0])
                others = tuple(f"{target}: {cause}" for target, cause in causes.items())
                passed = (at - (event or broken)).total_seconds()
                whole = (at - broken).total_seconds()
                record = self._record(namespace, hits)
                return Score(case, passed, whole, causes.get(blamed, ""), blamed, others, record)
            await CLOCK.sleep(POLL_S)
        found = tuple(f"{target}: {invariant}" for invariant, target in sorted(near))
        return Score(case, None, None, "", "", found)

    def _record(self, namespace: str, hits: Sequence[str]) -> dict[str, Any]:
        """What the API had when it was detected: the namespace, and what all namespaces share."""
        subject, now = self.subject, CLOCK.now()
        kept = {
            resource.kind: [
                decode(stored)
                for (place, _), stored in subject.store.of(resource.kind).items()
                if place in ("", namespace)
            ]
            for resource in WATCHED
            if resource.kind not in ("lease", "namespace", "serviceaccount")
        }
        return {
            "now": now.isoformat(),
            "namespace": namespace,
            "hits": sorted(hits),
            "objects": {kind: items for kind, items in kept.items() if items},
            "logs": {namespace: dict(subject.logs.lines().get(namespace, {}))},
        }

    async def _find_event(self, case: RigCase, namespace: str, broken: datetime) -> datetime | None:
        """When the API first had it: the event of the case, or the condition of the node."""
        if case.blamed.startswith("node/"):
            (node,) = await self.kubectl.read("node", case.blamed.removeprefix("node/"))
            (ready,) = (each for each in node["status"]["conditions"] if each["type"] == "Ready")
            return datetime.fromisoformat(ready["lastTransitionTime"])
        if case.lease:
            (lease,) = await self.kubectl.read("-n", "kube-system", "lease", case.lease)
            renewed = datetime.fromisoformat(lease["spec"]["renewTime"])
            return renewed + timedelta(seconds=lease["spec"]["leaseDurationSeconds"])
        if not case.event:
            return None
        times = [
            datetime.fromisoformat(
                each.get("firstTimestamp") or each["metadata"]["creationTimestamp"]
            )
            for each in await self.kubectl.read("-n", namespace, "events")
            if each["reason"] == case.event
        ]
        late = [each for each in times if (broken - each).total_seconds() < 1.0]
        return min(late, default=None)

    async def _undo(self, case: RigCase, namespace: str) -> None:
        if case.stop:
            await self.rig.restart(case.stop)
        for words in case.undo:
            await self.kubectl.run(*words)
        if case.objects:
            gone = ("delete", "namespace", namespace, "--wait=false")
            await self.kubectl.run(*gone)
        volumes = [each for each in case.objects if each["kind"] == "PersistentVolume"]
        for each in volumes:
            await self.kubectl.run("delete", "pv", each["metadata"]["name"], "--wait=false")
        if case.stop or not case.objects:
            await settled(self, OWN_NAMESPACES)

    async def close(self) -> None:
        """Stop watching."""
        await self.subject.close()


async def settled(trial: Trial, namespaces: Sequence[str]) -> None:
    """Wait until nothing is broken in these namespaces, at a node, or at the cluster."""
    places = (*(f"{each}/" for each in (*namespaces, "node")), "cluster")
    async with asyncio.timeout(SETTLED_S_MAX):
        while True:
            _, ripe = await trial.observe()
            if not [key for key in ripe if key[1].startswith(places)]:
                return
            await CLOCK.sleep(POLL_S)
