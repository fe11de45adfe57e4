"""What happens in a healthy cluster every day, and must open no ticket."""

from __future__ import annotations

import asyncio
import json

from tests.subjects.kubernetes.rig.objects import (
    container,
    deployment,
    http,
    job,
    pod,
    probe,
    service,
)
from tests.subjects.kubernetes.rig.trial import CLOCK, POLL_S, Kubectl, Trial

__all__ = ["run_calm"]

NAMESPACE = "calm"
_SLOW = container(
    env=[
        {"name": "DATABASE_URL", "value": "http://database.shop:8080"},
        {"name": "START_S", "value": "20"},
    ],
    readinessProbe=probe(**http()),
)
# A program that prints its version and ends.
_IMPORT = job("import", pod(container("-version", image="lab.local/coredns:1", ports=[])))


async def _work(kubectl: Kubectl) -> None:
    """Rollouts, scaling, a slow start, a Job, a drained node, and a removed namespace."""
    shop, wait = ("-n", "shop"), "--timeout=180s"
    await kubectl.run("create", "namespace", NAMESPACE)
    objects = [deployment("slow", pod(_SLOW)), service("slow"), _IMPORT]
    record = {"apiVersion": "v1", "kind": "List", "items": objects}
    await kubectl.run("-n", NAMESPACE, "apply", "-f", "-", text=json.dumps(record))
    names = ("deploy/frontend", "deploy/backend", "deploy/worker")
    await kubectl.run(*shop, "rollout", "restart", *names)
    for name in names:
        await kubectl.run(*shop, "rollout", "status", name, wait)
    for replicas in ("4", "1", "2"):
        await kubectl.run(*shop, "scale", "deploy/backend", f"--replicas={replicas}")
        await kubectl.run(*shop, "rollout", "status", "deploy/backend", wait)
    await kubectl.run("-n", NAMESPACE, "rollout", "status", "deploy/slow", wait)
    await kubectl.run("-n", NAMESPACE, "wait", "--for=condition=Complete", "job/import", wait)
    drain = ("drain", "node2", "--ignore-daemonsets", "--delete-emptydir-data", wait)
    await kubectl.run(*drain)
    for name in names:
        await kubectl.run(*shop, "rollout", "status", name, wait)
    await kubectl.run("uncordon", "node2")
    await kubectl.run("delete", "namespace", NAMESPACE, wait)


async def run_calm(trial: Trial) -> set[tuple[str, str]]:
    """Every invariant that was broken beyond its grace meanwhile, which must be none."""
    work, found = asyncio.create_task(_work(trial.kubectl)), set[tuple[str, str]]()
    try:
        while not work.done():
            found |= (await trial.observe())[1]
            await CLOCK.sleep(POLL_S)
        await work
    finally:
        work.cancel()
    return found
