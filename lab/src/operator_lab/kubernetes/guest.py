"""The sample application in a cluster of others: a namespace of its own, steady customers, and its
removal. Nothing outside of that namespace is changed.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from operator_lab.kubernetes.build import SAMPLE_IMAGE
from operator_lab.kubernetes.sample import MANIFESTS
from operator_protocols.errors import OperatorError, RigError
from operator_sre.processes.files import write_atomically
from operator_sre.subjects.kubernetes.connection import ChangingApi, StatusError, open_api
from operator_sre.subjects.kubernetes.resources import WATCHED

__all__ = ["Guest", "main", "sample_objects"]

Object = dict[str, Any]

MARK = "operator-lab/mark"
MANAGER = "operator-lab"
REACHED = "reached"
APPLY = "application/apply-patch+yaml"
DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
READY_S_MAX, GONE_S_MAX, POLL_S = 150.0, 120.0, 1.0
ORDER_S = 0.2
ERRORS = (StatusError, OSError, TimeoutError)
_PATHS = {each.kind: each for each in WATCHED}
# What of the sample belongs to the whole cluster is left out.
_OWN = frozenset({"ConfigMap", "Deployment", "PersistentVolumeClaim", "Service"})


def sample_objects(namespace: str, image: str, *, with_claim: bool) -> Iterator[Object]:
    """The sample for a namespace; without a default storage class its data ends with the pod."""
    text = (MANIFESTS / "20-shop.yaml").read_text(encoding="utf-8")
    for item in yaml.safe_load_all(text):
        kind = item["kind"]
        if kind not in _OWN or (kind == "PersistentVolumeClaim" and not with_claim):
            continue
        item["metadata"]["namespace"] = namespace
        if kind == "PersistentVolumeClaim":
            del item["spec"]["storageClassName"]
        elif kind == "Service":
            item["spec"].pop("type", None)
            for port in item["spec"]["ports"]:
                port.pop("nodePort", None)
        elif kind == "Deployment":
            pod = item["spec"]["template"]["spec"]
            for container in pod["containers"]:
                container |= {"image": image, "imagePullPolicy": "IfNotPresent"}
            if not with_claim:
                for volume in pod.get("volumes", ()):
                    volume.pop("persistentVolumeClaim")
                    volume["emptyDir"] = {}
        yield item


class Guest:
    """One namespace of a cluster; `mark` tells that it is ours."""

    def __init__(self, api: ChangingApi, namespace: str, mark: str) -> None:
        self._api = api
        self.namespace = namespace
        self._mark = mark
        self._path = f"/api/v1/namespaces/{namespace}"

    async def _read(self, path: str) -> Object:
        found: Object = json.loads(await self._api.get(path, {}))
        return found

    async def _own_namespace(self) -> Object | None:
        """Our namespace; None where there is none, or where it is not ours."""
        try:
            found = await self._read(self._path)
        except StatusError as problem:
            if problem.status == 404:
                return None
            raise
        marks = found["metadata"].get("annotations") or {}
        return found if marks.get(MARK) == self._mark else None

    async def claim(self) -> None:
        """Make the namespace; RigError where another one has its name."""
        metadata = {"name": self.namespace, "annotations": {MARK: self._mark}}
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
        try:
            await self._api.change("POST", "/api/v1/namespaces", body)
        except StatusError as problem:
            if problem.status != 409:
                raise
            found = await self._own_namespace()
            if found is None or found["metadata"].get("deletionTimestamp"):
                raise RigError(
                    f"The cluster already has a namespace {self.namespace!r}; it is not touched.",
                    next_step="Choose another name with --namespace.",
                ) from None

    async def deploy(self, image: str) -> str:
        """Apply the sample; a sentence where its data does not outlive the pod, or ""."""
        classes = await self._read(_PATHS["storageclass"].path())
        with_claim = any(
            (each["metadata"].get("annotations") or {}).get(DEFAULT_CLASS) == "true"
            for each in classes.get("items") or ()
        )
        for item in sample_objects(self.namespace, image, with_claim=with_claim):
            path = _PATHS[item["kind"].lower()].path(self.namespace)
            query = {"fieldManager": MANAGER}
            name = item["metadata"]["name"]
            await self._api.change("PATCH", f"{path}/{name}", item, query=query, content=APPLY)
        if with_claim:
            return ""
        return "The cluster has no default storage class: orders are lost when the database moves."

    async def wait_ready(self) -> None:
        """Until every Deployment has all its pods; RigError with what the pods say."""
        ends = time.monotonic() + READY_S_MAX
        while True:
            path = _PATHS["deployment"].path(self.namespace)
            items = (await self._read(path)).get("items") or ()
            short = [
                each["metadata"]["name"]
                for each in items
                if (each.get("status") or {}).get("availableReplicas", 0) < each["spec"]["replicas"]
            ]
            if items and not short:
                return
            if time.monotonic() > ends:
                raise RigError(f"{', '.join(short)} did not start: {await self._why_unready()}")
            await asyncio.sleep(POLL_S)

    async def _why_unready(self) -> str:
        pods = (await self._read(_PATHS["pod"].path(self.namespace))).get("items") or ()
        reasons = set()
        for pod in pods:
            status = pod.get("status") or {}
            for state in status.get("containerStatuses") or ():
                reasons.add(str(((state.get("state") or {}).get("waiting") or {}).get("reason")))
            for each in status.get("conditions") or ():
                if each.get("status") == "False" and each.get("reason") == "Unschedulable":
                    reasons.add(str(each.get("message")))
        reasons -= {"None"}
        if any("Image" in each for each in reasons):
            return "the nodes do not have the image of the sample and cannot pull it"
        return "; ".join(sorted(reasons))[:300] or "the pods are not ready"

    async def serve_customers(self, report: Path) -> None:
        """Write steadily through the API server, and read back what was acknowledged."""
        orders = f"{self._path}/services/frontend:http/proxy/orders"
        kept: list[str] = []
        counts = {"sent": 0, "failed": 0, "acknowledged": 0, "read_back": 0, "lost": 0}
        while True:
            counts["sent"] += 1
            key = f"{self._mark}-{counts['sent']}"
            try:
                await self._api.change("POST", orders, {}, query={"key": key})
                kept.append(key)
            except ERRORS:
                counts["failed"] += 1
            counts["acknowledged"] = len(kept)
            if kept and counts["sent"] % 2 == 0:
                again = kept[counts["read_back"] % len(kept)]
                counts["read_back"] += 1
                try:
                    await self._api.get(orders, {"key": again})
                except StatusError as problem:
                    counts["lost"] += problem.status == 404
                except (OSError, TimeoutError):
                    pass  # not known to be lost
            write_atomically(report, json.dumps(counts))
            await asyncio.sleep(ORDER_S)

    async def remove(self) -> None:
        """Delete the namespace and wait until it is gone; nothing where it is not ours."""
        ends = time.monotonic() + GONE_S_MAX
        while (found := await self._own_namespace()) is not None:
            metadata = found["metadata"]
            if time.monotonic() > ends:
                raise RigError(f"The namespace {self.namespace!r} is still being deleted.")
            if not metadata.get("deletionTimestamp"):
                only = {"preconditions": {"uid": metadata["uid"]}}
                with contextlib.suppress(StatusError):
                    await self._api.change("DELETE", self._path, only)
            await asyncio.sleep(POLL_S)


async def _run(given: argparse.Namespace) -> None:
    api = open_api(given.kubeconfig, given.context)
    guest = Guest(api, given.namespace, given.mark)
    try:
        if given.remove:
            await guest.remove()
            return
        await api.get("/version", {})
        write_atomically(given.directory / REACHED, "")
        await guest.claim()
        if lossy := await guest.deploy(given.image or SAMPLE_IMAGE):
            sys.stderr.write(f"{lossy}\n")
        await guest.wait_ready()
        write_atomically(given.directory / "ready", "")
        await guest.serve_customers(given.directory / "report.json")
    finally:
        await api.close()


def main(words: Sequence[str] | None = None) -> int:
    """Be the sample and its customers, or remove them."""
    parser = argparse.ArgumentParser(prog="guest", description=__doc__)
    parser.add_argument("directory", type=Path)
    for option in ("kubeconfig", "context", "namespace", "mark"):
        parser.add_argument(f"--{option}", required=True)
    parser.add_argument("--image", default="")
    parser.add_argument("--remove", action="store_true")
    given = parser.parse_args(words)
    if given.remove and not (given.directory / REACHED).exists():
        return 0  # what never reached the cluster made nothing there
    try:
        asyncio.run(_run(given))
    except OperatorError as problem:
        sys.stderr.write(f"{problem.message}\n")
        return 1
    except ERRORS as problem:
        sys.stderr.write(f"The cluster does not do it: {problem}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
