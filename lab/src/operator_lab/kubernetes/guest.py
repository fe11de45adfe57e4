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
from typing import TYPE_CHECKING, Any

import yaml

from operator_lab.kubernetes.build import SAMPLE_IMAGE
from operator_lab.kubernetes.sample import MANIFESTS
from operator_protocols.errors import MissingExtraError, OperatorError, RigError
from operator_sre.processes.files import write_atomically

if TYPE_CHECKING:
    from httpx2 import AsyncClient

__all__ = ["Guest", "StatusError", "connect", "main", "sample_objects"]

Object = dict[str, Any]

MARK = "operator-lab/mark"
MANAGER = "operator-lab"
REACHED = "reached"
APPLY = "application/apply-patch+yaml"
DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
READY_S_MAX, GONE_S_MAX, POLL_S = 150.0, 120.0, 1.0
ORDER_S = 0.2
ANSWER_S_MAX, CONNECT_S_MAX = 30.0, 5.0
ERROR_CHARS_MAX = 200
_PATHS = {
    "ConfigMap": "/api/v1/namespaces/{}/configmaps",
    "Deployment": "/apis/apps/v1/namespaces/{}/deployments",
    "PersistentVolumeClaim": "/api/v1/namespaces/{}/persistentvolumeclaims",
    "Pod": "/api/v1/namespaces/{}/pods",
    "Service": "/api/v1/namespaces/{}/services",
}
CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
# What of the sample belongs to the whole cluster is left out.
_OWN = frozenset({"ConfigMap", "Deployment", "PersistentVolumeClaim", "Service"})


class StatusError(Exception):
    """The API answered with an error."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"HTTP {status}: {message}")
        self.status = status


ERRORS = (StatusError, OSError, TimeoutError)


def connect(kubeconfig: str, context: str) -> AsyncClient:
    """A client for a context of a kubeconfig; the current context without one."""
    try:
        import httpx2
        from lightkube import KubeConfig
        from lightkube.config.client_adapter import AsyncClient as KubernetesClient
        from lightkube.config.client_adapter import ConnectionParams
        from lightkube.core.exceptions import ConfigError
    except ImportError:
        raise MissingExtraError("kubernetes", needed_for="A rig in a cluster") from None
    try:
        found = KubeConfig.from_file(kubeconfig)
        chosen = found.get(context_name=context) if context else found.get()
        if chosen is None:
            raise RigError(f"{kubeconfig!r} has no current context.")
        timeout = httpx2.Timeout(ANSWER_S_MAX, connect=CONNECT_S_MAX)
        return KubernetesClient(chosen, ConnectionParams(timeout=timeout, trust_env=False))
    except (ConfigError, ValueError, KeyError, TypeError) as problem:
        raise RigError(f"{kubeconfig!r} cannot be used: {problem}.") from problem


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

    def __init__(self, client: AsyncClient, namespace: str, mark: str) -> None:
        self._client = client
        self.namespace = namespace
        self._mark = mark
        self._path = f"/api/v1/namespaces/{namespace}"

    async def ask(
        self,
        path: str,
        body: Object | None = None,
        *,
        method: str = "GET",
        content: str = "application/json",
        **query: str,
    ) -> Object:
        """One answer. StatusError where the API refuses, OSError where it is not reached."""
        import httpx2

        more: Object = {}
        if body is not None:
            more = {"content": json.dumps(body), "headers": {"Content-Type": content}}
        try:
            answer = await self._client.request(method, path, params=query, **more)
        except httpx2.HTTPError as problem:
            raise ConnectionError(f"{type(problem).__name__}: {problem}") from problem
        try:
            found = json.loads(answer.text or "{}")
        except ValueError:
            found = {}
        if answer.status_code >= 400:
            message = (found.get("message") if isinstance(found, dict) else "") or answer.text
            raise StatusError(answer.status_code, message[:ERROR_CHARS_MAX])
        return found if isinstance(found, dict) else {}

    async def _own_namespace(self) -> Object | None:
        """Our namespace; None where there is none, or where it is not ours."""
        try:
            found = await self.ask(self._path)
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
            await self.ask("/api/v1/namespaces", body, method="POST")
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
        classes = await self.ask(CLASSES)
        with_claim = any(
            (each["metadata"].get("annotations") or {}).get(DEFAULT_CLASS) == "true"
            for each in classes.get("items") or ()
        )
        for item in sample_objects(self.namespace, image, with_claim=with_claim):
            path = f"{_PATHS[item['kind']].format(self.namespace)}/{item['metadata']['name']}"
            await self.ask(path, item, method="PATCH", content=APPLY, fieldManager=MANAGER)
        if with_claim:
            return ""
        return "The cluster has no default storage class: orders are lost when the database moves."

    async def wait_ready(self) -> None:
        """Until every Deployment has all its pods; RigError with what the pods say."""
        ends = time.monotonic() + READY_S_MAX
        while True:
            path = _PATHS["Deployment"].format(self.namespace)
            items = (await self.ask(path)).get("items") or ()
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
        pods = (await self.ask(_PATHS["Pod"].format(self.namespace))).get("items") or ()
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
                await self.ask(orders, {}, method="POST", key=key)
                kept.append(key)
            except ERRORS:
                counts["failed"] += 1
            counts["acknowledged"] = len(kept)
            if kept and counts["sent"] % 2 == 0:
                again = kept[counts["read_back"] % len(kept)]
                counts["read_back"] += 1
                try:
                    await self.ask(orders, key=again)
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
                    await self.ask(self._path, only, method="DELETE")
            await asyncio.sleep(POLL_S)


async def _run(given: argparse.Namespace) -> None:
    client = connect(given.kubeconfig, given.context)
    guest = Guest(client, given.namespace, given.mark)
    try:
        if given.remove:
            await guest.remove()
            return
        await guest.ask("/version")
        write_atomically(given.directory / REACHED, "")
        await guest.claim()
        if lossy := await guest.deploy(given.image or SAMPLE_IMAGE):
            sys.stderr.write(f"{lossy}\n")
        await guest.wait_ready()
        write_atomically(given.directory / "ready", "")
        await guest.serve_customers(given.directory / "report.json")
    finally:
        await client.aclose()


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
