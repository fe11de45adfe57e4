"""A stand-in for a rig: its sample in a stand-in for the API, and processes that are names."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from operator_lab.kubernetes.sample import manifests
from operator_protocols.domain.target import Target
from operator_protocols.ports import Ability, Scene
from operator_sre.subjects.kubernetes.rig import NODES
from operator_sre.subjects.kubernetes.shop import CLIENTS_FILE
from tests.subjects.kubernetes.api_server import ApiServer
from tests.subjects.kubernetes.live_objects import node

Object = dict[str, Any]

PROCESSES = {
    "switch": "network",
    **dict.fromkeys(("etcd", "apiserver", "controllers", "scheduler"), "control-plane"),
    **{f"node{index}": "machine" for index in range(1, NODES + 1)},
    "node2-runtime": "container-runtime",
    "node2-kubelet": "kubelet",
    "customers": "load",
}


@dataclass
class Processes:
    """The abilities of a rig that faults of a cluster use."""

    wounds: dict[str, set[Ability]] = field(default_factory=dict)

    async def kill(self, target: str) -> None:
        """It is gone."""
        self.wounds.setdefault(target, set()).add(Ability.KILL)

    async def restart(self, target: str) -> None:
        """It runs."""
        self.wounds.pop(target, None)

    async def pause(self, target: str) -> None:
        """It is frozen."""
        self.wounds.setdefault(target, set()).add(Ability.PAUSE)

    async def resume(self, target: str) -> None:
        """It goes on."""
        self.wounds.pop(target, None)

    def damage(self, target: str) -> frozenset[Ability]:
        """What was done to it."""
        return frozenset(self.wounds.get(target, ()))


class ReadyServer(ApiServer):
    """Every Deployment has the pods that it asks for."""

    def put(self, kind: str, item: Any) -> None:
        """Create or change an object, as its controller would have it soon."""
        if kind == "deployment":
            count = item["spec"].get("replicas", 1)
            counts = ("replicas", "readyReplicas", "updatedReplicas")
            item = {**item, "status": dict.fromkeys(counts, count)}
        super().put(kind, item)


@dataclass
class Stage:
    """A scene, and what is behind it. `serves` is what customers find."""

    server: ApiServer
    scene: Scene
    processes: Processes
    orders: dict[str, set[str]]
    serves: bool = True

    def configured(self) -> Object:
        """What people configured of every object; pods of the sample come and go."""
        found: Object = {}
        for kind, items in self.server.objects.items():
            for (namespace, name), item in items.items():
                if kind == "pod" and (item["metadata"].get("labels") or {}).get("app"):
                    continue
                metadata = item["metadata"]
                kept = {key: metadata.get(key) or {} for key in ("labels", "annotations")}
                spec = {
                    key: value for key, value in (item.get("spec") or {}).items() if value != []
                }
                found[f"{kind}/{namespace}/{name}"] = (kept, spec, item.get("data"))
        return found


def sample(server: ApiServer) -> None:
    """The objects of the rig."""
    for path in manifests():
        for item in yaml.safe_load_all(path.read_text(encoding="utf-8")):
            server.put(item["kind"].lower(), item)
    for index in range(1, NODES + 1):
        server.put("node", node(f"node{index}"))
    owner = {"kind": "ReplicaSet", "apiVersion": "apps/v1", "name": "backend-1", "controller": True}
    apps = ("backend", "frontend", "database", "worker")
    for name, number in ((name, number) for name in apps for number in (1, 2)):
        metadata = {
            "name": f"{name}-{number}",
            "namespace": "shop",
            "labels": {"app": name},
            "ownerReferences": [owner],
        }
        server.put("pod", {"metadata": metadata, "spec": {"nodeName": "node2"}})


@asynccontextmanager
async def stage(folder: Path) -> AsyncIterator[Stage]:
    """The rig of a test."""
    server = ReadyServer()
    sample(server)
    switch = folder / "switch"
    (switch / "pki").mkdir(parents=True)
    processes = Processes()
    targets = tuple(
        Target(name, kind, data_dir=str(folder / name)) for name, kind in PROCESSES.items()
    )
    customers = next(each for each in targets if each.name == "customers")
    scene = Scene(customers, targets, processes)  # type: ignore[arg-type]
    made = Stage(server, scene, processes, {"kept": set()})

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        method, target = head.split(" ")[:2]
        _, _, key = target.partition("key=")
        kept = made.orders["kept"]
        status, body = "200 OK", str(len(kept))
        if not made.serves:
            status = "502 Bad Gateway"
        elif method == "POST":
            kept.add(key)
        elif key and key not in kept:
            status = "404 Not Found"
        writer.write(f"HTTP/1.1 {status}\r\nConnection: close\r\n\r\n{body}\n".encode())
        await writer.drain()
        writer.close()

    shop = await asyncio.start_server(answer, "127.0.0.1", 0)
    (switch / CLIENTS_FILE).write_text(str(shop.sockets[0].getsockname()[1]))
    async with shop, server.serve() as address:
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": {"server": address}}],
            "users": [{"name": "u", "user": {}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "c",
        }
        (switch / "pki" / "kubeconfig").write_text(yaml.safe_dump(config))
        yield made
