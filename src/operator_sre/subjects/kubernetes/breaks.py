"""How a fault of the rig is done, undone and judged: a fault is a row of steps. Before the first
step every object of the sample is noted: healing puts back what the fault or an agent changed.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from operator_protocols.errors import OperatorError, RigError
from operator_protocols.ports import Ability, CorrectOutcome, Fault, Scene
from operator_sre.subjects.kubernetes.connection import HttpApi, StatusError, open_api
from operator_sre.subjects.kubernetes.facts import controller_of
from operator_sre.subjects.kubernetes.resources import WATCHED, Resource
from operator_sre.subjects.kubernetes.shop import Shop

__all__ = [
    "Break",
    "Create",
    "Delete",
    "Drain",
    "Kill",
    "Object",
    "Patch",
    "Pause",
    "Reboot",
    "Replace",
    "Step",
    "Unplug",
    "control",
    "fault",
]

Object = dict[str, Any]

NAMESPACE = "shop"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"
# Faults are changes that people make by hand.
MANAGER = "kubectl-patch"
REVISION = "deployment.kubernetes.io/revision"
SETTLED_S_MAX = 60.0
POLL_S = 0.5
TRIES_MAX = 5
NUDGE = "operator-lab/tried-at"
# What of the sample is noted before a fault, and put back after it.
_SAMPLE = ("configmap", "deployment", "service")
_HOOK = "validatingwebhookconfiguration"
_RESOURCES = {
    **{each.kind: each for each in WATCHED},
    _HOOK: Resource(
        _HOOK, "validatingwebhookconfigurations", "admissionregistration.k8s.io", namespaced=False
    ),
}


@dataclass(frozen=True, slots=True)
class Patch:
    """Change an object, as `kubectl patch` does; by server-side apply for an `applier`."""

    kind: str
    name: str
    body: Object
    namespace: str = NAMESPACE
    applier: str = ""


@dataclass(frozen=True, slots=True)
class Create:
    """Make an object in the namespace of the sample; healing deletes it."""

    item: Object


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete an object; healing makes it again. What has a finalizer stays."""

    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class Replace:
    """Delete one pod of a workload, so that its controller makes another."""

    app: str


@dataclass(frozen=True, slots=True)
class Kill:
    """End a process of the rig by SIGKILL; nothing starts it again."""

    process: str


@dataclass(frozen=True, slots=True)
class Pause:
    """Freeze a process of the rig."""

    process: str


@dataclass(frozen=True, slots=True)
class Unplug:
    """Cut the cable of a node."""

    node: str


@dataclass(frozen=True, slots=True)
class Drain:
    """Cordon a node, evict its pods, and let it take pods again when they run elsewhere."""

    node: str


@dataclass(frozen=True, slots=True)
class Reboot:
    """End a node and everything on it, and start it again."""

    node: str


Step = Patch | Create | Delete | Replace | Kill | Pause | Unplug | Drain | Reboot


@dataclass(frozen=True, slots=True)
class Break:
    """A fault as data. `truths` are the causes that rightly explain it, as `cause@object`; the
    first invariant of `breaks` identifies it. Where pods are simulated, what `needs_pods` cannot be
    done.
    """

    name: str
    sentence: str
    breaks: tuple[str, ...]
    truths: tuple[str, ...]
    steps: tuple[Step, ...]
    end: CorrectOutcome = CorrectOutcome.MITIGATED
    needs_pods: bool = True
    kind: str = field(init=False, default="load")  # the customers


class _Cluster:
    """The cluster of a scene."""

    def __init__(self, scene: Scene, api: HttpApi) -> None:
        self.scene, self.api = scene, api
        self.switch = _switch_of(scene)
        self.shop = Shop(self.switch)
        self.simulated = not scene.of_kind("machine")

    async def read(self, kind: str, name: str, namespace: str = NAMESPACE) -> Object | None:
        """An object; None where there is none."""
        try:
            text = await self.api.get(f"{_RESOURCES[kind].path(namespace)}/{name}", {})
        except StatusError as problem:
            if problem.status == 404:
                return None
            raise
        found: Object = json.loads(text)
        return found

    async def list(self, kind: str, namespace: str = NAMESPACE) -> list[Object]:
        """The objects of a kind."""
        items: list[Object] = json.loads(
            await self.api.get(_RESOURCES[kind].path(namespace), {})
        ).get("items")
        return [{**each, "kind": kind} for each in items or ()]

    async def change(
        self, method: str, path: str, body: Object, *, content: str = "application/json"
    ) -> Object:
        """Change something as people do."""
        query = {} if method == "DELETE" else {"fieldManager": MANAGER}
        found: Object = json.loads(
            await self.api.change(method, path, body, query=query, content=content) or b"{}"
        )
        return found

    async def do(self, step: Step) -> None:
        """One step of a fault."""
        rig = self.scene.rig
        match step:
            case Patch():
                path = f"{_RESOURCES[step.kind].path(step.namespace)}/{step.name}"
                if not step.applier:
                    await self.change("PATCH", path, step.body, content=STRATEGIC)
                    return
                query = {"fieldManager": step.applier, "force": "true"}
                await self.api.change("PATCH", path, step.body, query=query, content=APPLY)
            case Create():
                kind = str(step.item["kind"]).lower()
                await self.change("POST", _RESOURCES[kind].path(NAMESPACE), step.item)
            case Delete():
                path = f"{_RESOURCES[step.kind].path(NAMESPACE)}/{step.name}"
                await self.change("DELETE", path, {"kind": "DeleteOptions", "apiVersion": "v1"})
            case Replace():
                pods = [
                    each
                    for each in await self.list("pod")
                    if _app_of(each) == step.app and "deletionTimestamp" not in each["metadata"]
                ]
                if not pods:
                    raise RigError(f"{step.app} has no pod.")
                path = f"{_RESOURCES['pod'].path(NAMESPACE)}/{pods[0]['metadata']['name']}"
                await self.change("DELETE", path, {"kind": "DeleteOptions", "apiVersion": "v1"})
            case Kill():
                await rig.kill(step.process)
            case Pause():
                await rig.pause(step.process)
            case Unplug():
                await self.link(step.node, "down")
            case Drain():
                await self.drain(step.node)
            case Reboot():
                await rig.kill(step.node)
                await self.start_processes()

    async def link(self, node: str, state: str) -> None:
        """Set the plug of a node in the switch up or down."""
        process = await asyncio.create_subprocess_exec(
            *("nsenter", f"--net={self.switch / 'net'}", "--", "ip", "link", "set", node, state),
            stderr=asyncio.subprocess.PIPE,
        )
        _, error = await process.communicate()
        if process.returncode:
            raise RigError(f"The cable of {node} cannot be set {state}: {error.decode().strip()}.")

    async def drain(self, node: str) -> None:
        """What `kubectl drain` and `kubectl uncordon` do."""
        place = f"{_RESOURCES['node'].path()}/{node}"
        await self.change("PATCH", place, {"spec": {"unschedulable": True}}, content=STRATEGIC)
        try:
            for pod in await self.list("pod"):
                metadata, spec = pod["metadata"], pod["spec"]
                bound = any("persistentVolumeClaim" in each for each in spec.get("volumes") or ())
                if spec.get("nodeName") != node or bound or not controller_of(pod)[0]:
                    continue
                name = {"name": metadata["name"], "namespace": NAMESPACE}
                body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": name}
                path = f"{_RESOURCES['pod'].path(NAMESPACE)}/{metadata['name']}/eviction"
                await self.change("POST", path, body)
                await self.settle()
        finally:
            back = {"spec": {"unschedulable": None}}
            await self.change("PATCH", place, back, content=STRATEGIC)

    async def settle(self) -> None:
        """Wait until every workload has all its pods, but not for ever."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SETTLED_S_MAX):
                while await self.find_unready():  # noqa: ASYNC110  only the API server knows
                    await asyncio.sleep(POLL_S)

    async def start_processes(self) -> None:
        """Every process of the rig runs, each after its dependencies."""
        rig = self.scene.rig
        for target in self.scene.targets:
            damage = rig.damage(target.name)
            if Ability.PAUSE in damage:
                await rig.resume(target.name)
            if Ability.KILL in damage:
                await rig.restart(target.name)

    async def note(self, steps: Sequence[Step]) -> dict[str, str]:
        """Every object that a fault or an agent may change, as it is now."""
        noted = [each for kind in _SAMPLE for each in await self.list(kind)]
        noted += await self.list("node", "")
        for step in steps:
            if isinstance(step, Patch) and (
                step.namespace != NAMESPACE or step.kind not in (*_SAMPLE, "node")
            ):
                found = await self.read(step.kind, step.name, step.namespace)
                noted += [] if found is None else [{**found, "kind": step.kind}]
        return {_key_of(each): json.dumps(_plain(each)) for each in noted}

    async def put_back(self, notes: Mapping[str, str], steps: Sequence[Step]) -> None:
        """Make every noted object what it was, and delete what was created."""
        for step in reversed(steps):
            if isinstance(step, Create):
                await self.remove(step.item)
        for text in notes.values():
            for left in reversed(range(TRIES_MAX)):
                try:
                    await self._restore(json.loads(text))
                    break
                except StatusError as problem:
                    # A controller has written a status in between.
                    if problem.status != 409 or not left:
                        raise
        # A controller that was refused often waits for minutes until it tries again.
        for item in await self.list("replicaset"):
            wanted = item["spec"].get("replicas", 1)
            if (item.get("status") or {}).get("readyReplicas", 0) < wanted:
                note = {"metadata": {"annotations": {NUDGE: item["metadata"]["resourceVersion"]}}}
                path = f"{_RESOURCES['replicaset'].path(NAMESPACE)}/{item['metadata']['name']}"
                with contextlib.suppress(StatusError):
                    await self.change("PATCH", path, note, content=STRATEGIC)

    async def _restore(self, item: Object) -> None:
        """Make an object what it was, with nothing of what others changed."""
        kind, metadata = item["kind"], item["metadata"]
        namespace, name = str(metadata.get("namespace") or ""), metadata["name"]
        now = await self.read(kind, name, namespace)
        if now is not None and _plain({**now, "kind": kind}) == item:
            return
        body = {key: value for key, value in item.items() if key != "kind"}
        if now is None:
            await self.change("POST", _RESOURCES[kind].path(namespace), body)
            return
        there = now["metadata"].get("annotations") or {}
        # What the cluster itself notes stays.
        own = there if kind == "node" else [key for key in there if key == REVISION]
        notes = {key: there[key] for key in own}
        body["metadata"] = {
            **metadata,
            "resourceVersion": now["metadata"]["resourceVersion"],
            "annotations": {**(metadata.get("annotations") or {}), **notes},
            # One empty entry removes who owns which field.
            "managedFields": [{}],
        }
        await self.change("PUT", f"{_RESOURCES[kind].path(namespace)}/{name}", body)

    async def remove(self, item: Object) -> None:
        """Delete an object that was created, whatever keeps it."""
        kind, name = str(item["kind"]).lower(), item["metadata"]["name"]
        path = f"{_RESOURCES[kind].path(NAMESPACE)}/{name}"
        body = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"}
        with contextlib.suppress(StatusError):
            if item["metadata"].get("finalizers"):
                free = {"metadata": {"finalizers": None}}
                await self.change("PATCH", path, free, content="application/merge-patch+json")
            await self.change("DELETE", path, body)

    async def find_unready(self) -> str:
        """A workload of the sample that lacks pods of its present template, or ""."""
        for item in await self.list("deployment"):
            name, status = item["metadata"]["name"], item.get("status") or {}
            wanted = int(item["spec"].get("replicas", 1))
            if not wanted:
                return f"{name} has no replicas"
            counts = [int(status.get(key) or 0) for key in ("readyReplicas", "updatedReplicas")]
            seen = status.get("observedGeneration") == item["metadata"].get("generation")
            if not seen or counts != [wanted] * 2 or status.get("replicas") != wanted:
                return f"{name} has {counts[0]} of {wanted} pods ready"
        return ""

    async def judge(self, row: Break) -> str:
        """What is still wrong: a value of the fault, a workload, or what a customer sees."""
        for process in self.scene.targets:
            wounds = self.scene.rig.damage(process.name) & {Ability.KILL, Ability.PAUSE}
            if wounds:
                return f"{process.name} is still affected by: {', '.join(sorted(wounds))}"
        for step in row.steps:
            if isinstance(step, Create):
                kind, name = str(step.item["kind"]).lower(), step.item["metadata"]["name"]
                if await self.read(kind, name) is not None:
                    return f"{kind} {name} is there"
            elif isinstance(step, Delete) and step.kind in _SAMPLE:
                if await self.read(step.kind, step.name) is None:
                    return f"{step.kind} {step.name} is missing"
            elif isinstance(step, Patch) and step.kind != "namespace":
                # A rule of the namespace is no fault: what violates it is.
                now = await self.read(step.kind, step.name, step.namespace)
                if now is not None and _has(now, step.body):
                    return f"{step.kind} {step.name} is as it was broken"
        if unready := await self.find_unready():
            return unready
        return "" if self.simulated else await self.shop.serves()


def fault(row: Break) -> Fault:
    """A row as a fault: whatever it hits, it is done to the cluster of the customers."""

    async def inject(scene: Scene) -> Mapping[str, str]:
        async with _open(scene) as cluster:
            notes = await cluster.note(row.steps)
            for step in row.steps:
                await cluster.do(step)
        return notes

    async def heal(scene: Scene) -> None:
        async with _open(scene) as cluster:
            for step in row.steps:
                if isinstance(step, Unplug):
                    await cluster.link(step.node, "up")
            await cluster.start_processes()
            await cluster.put_back(scene.notes, row.steps)

    async def oracle(scene: Scene) -> str:
        async with _open(scene) as cluster:
            return await cluster.judge(row)

    def unavailable(scene: Scene) -> str:
        if not any(each.name == "switch" for each in scene.targets):
            return "it is for the rig's own cluster"
        if row.needs_pods and not scene.of_kind("machine"):
            return "it needs pods that run, and the nodes of this rig are simulated"
        return ""

    named = (row.name, row.sentence, row.kind, row.breaks)
    return Fault(*named, inject, heal, oracle, row.end, unavailable)


def control(row: Break) -> Fault:
    """What happens every day; its oracle says what is not well afterwards."""
    made = fault(row)

    async def oracle(scene: Scene) -> str:
        async with _open(scene) as cluster:
            await cluster.settle()
            return await cluster.find_unready() or await cluster.shop.serves()

    return replace(made, oracle=oracle)


@contextlib.asynccontextmanager
async def _open(scene: Scene) -> AsyncIterator[_Cluster]:
    """The cluster with a connection of its own; RigError for what it refuses."""
    try:
        api = open_api(str(_switch_of(scene) / "pki" / "kubeconfig"), "")
    except OperatorError as problem:
        raise RigError(f"The cluster cannot be reached: {problem}") from problem
    try:
        yield _Cluster(scene, api)
    except (StatusError, OSError, TimeoutError) as problem:
        raise RigError(f"The cluster does not do it: {problem}.") from problem
    finally:
        await api.close()


def _switch_of(scene: Scene) -> Path:
    return Path(scene.of("switch").data_dir)


def _app_of(pod: Object) -> str:
    return str((pod["metadata"].get("labels") or {}).get("app") or "")


def _key_of(item: Object) -> str:
    metadata = item["metadata"]
    return f"{metadata.get('namespace', '')}/{item['kind']}/{metadata['name']}"


def _plain(item: Object) -> Object:
    """What people configured of an object, without what the cluster writes into it."""
    metadata = item["metadata"]
    kept = {name: metadata[name] for name in ("name", "namespace", "labels") if name in metadata}
    notes = dict(metadata.get("annotations") or {})
    notes.pop(REVISION, None)
    if item["kind"] == "node":
        # Conditions put annotations and taints of their own on a node.
        notes = {}
        spec = dict(item.get("spec") or {})
        spec["taints"] = [
            each for each in spec.get("taints") or () if "kubernetes.io/" not in each["key"]
        ]
        item = {**item, "spec": spec}
    return {
        "kind": item["kind"],
        "metadata": {**kept, **({"annotations": notes} if notes else {})},
        **{key: item[key] for key in ("spec", "data", "binaryData") if key in item},
    }


def _has(now: Any, wanted: Any) -> bool:
    """Whether an object has the values of a patch; what the patch removes must be gone."""
    if isinstance(wanted, Mapping):
        if not isinstance(now, Mapping):
            return False
        return all(
            key not in now if value is None else _has(now.get(key), value)
            for key, value in wanted.items()
        )
    if isinstance(wanted, list):
        rest = now if isinstance(now, list) else []
        return all(any(_has(each, part) for each in rest) for part in wanted)
    return bool(now == wanted)
