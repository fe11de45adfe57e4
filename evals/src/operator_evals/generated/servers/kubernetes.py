"""A cluster: every field of the manifests of its sample, its pods, and the cables of its nodes."""

from __future__ import annotations

import asyncio
import http.client
import json
import ssl
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlsplit

import yaml

from operator_evals.generated.servers.server import ASK_S_MAX, Seat, Undo, nothing_to_undo
from operator_evals.generated.surface import AdminCommand, Setting, SettingType
from operator_lab.kubernetes.sample import manifests
from operator_protocols.errors import RigError

__all__ = ["KubernetesServer", "fields_of"]

Object = dict[str, Any]

PATHS = {
    "ConfigMap": "/api/v1/namespaces/{}/configmaps",
    "Deployment": "/apis/apps/v1/namespaces/{}/deployments",
    "Pod": "/api/v1/namespaces/{}/pods",
    "Service": "/api/v1/namespaces/{}/services",
}
# What people write into a manifest; the rest of an object is who it is.
PARTS = ("spec", "data")
TRIES_MAX = 5


class KubernetesServer:
    """The API server of a rig, asked as its administrator through the switch."""

    def __init__(self, seat: Seat, nodes: Sequence[str]) -> None:
        self._switch = seat.home.parent / "switch"
        self._name = seat.name
        self._nodes = nodes

    async def settings(self) -> Sequence[Setting]:
        """Every value in the manifests of the sample, as `NAMESPACE/KIND/NAME:PATH`."""
        return [setting for item in _sample() for setting in fields_of(item)]

    async def change(self, name: str, value: str) -> Undo:
        """Give a field of an object another value of the same type."""
        part, _, path = name.partition(":")
        namespace, kind, own = part.split("/")
        place = f"{_path(kind, namespace)}/{own}"
        before = await self._replace(place, path, value)

        async def undo() -> None:
            await self._replace(place, path, before)

        return undo

    async def commands(self) -> Sequence[AdminCommand]:
        """Pods can be deleted and cables be cut."""
        apps = sorted({item["metadata"]["name"] for item in _sample("Deployment")})
        return (
            *(AdminCommand("delete_pods", f"shop/deployment/{app}") for app in apps),
            *(AdminCommand("cut_cable", node, reversible=True) for node in self._nodes),
        )

    async def execute(self, command: str, about: str) -> Undo:
        """One of them."""
        if command == "cut_cable":
            await self._set_cable(about, "down")

            async def undo() -> None:
                await self._set_cable(about, "up")

            return undo
        selector = quote(f"app={about.rpartition('/')[2]}")
        await self._ask("DELETE", f"{_path('pod', 'shop')}?labelSelector={selector}")
        return nothing_to_undo

    async def takes_writes(self) -> bool | None:
        """It has no such role: customers write to the sample."""
        return None

    async def _replace(self, place: str, path: str, value: Any) -> Any:
        """Set a field, and return what it was; a controller may have written in between."""
        words = path.split("/")
        for left in reversed(range(TRIES_MAX)):
            item = await self._ask("GET", place)
            above: Any = item
            for word in words[:-1]:
                above = above[int(word)] if isinstance(above, list) else above.get(word)
                if above is None:
                    raise RigError(f"{place} has no {path}.")
            key: Any = int(words[-1]) if isinstance(above, list) else words[-1]
            before = above[key] if isinstance(above, list) else above.get(key)
            above[key] = _like(before, value)
            try:
                await self._ask("PUT", place, item)
            except _ConflictError:
                if not left:
                    raise
                continue
            return before
        raise RigError(f"{place} changes all the time.")

    async def _set_cable(self, node: str, state: str) -> None:
        process = await asyncio.create_subprocess_exec(
            *("nsenter", f"--net={self._switch / 'net'}", "--", "ip", "link", "set", node, state),
            stderr=asyncio.subprocess.DEVNULL,
        )
        if await process.wait():
            raise RigError(f"The cable of {node} cannot be set {state}.")

    async def _ask(self, method: str, path: str, body: Object | None = None) -> Object:
        def ask() -> tuple[int, bytes]:
            text = (self._switch / "pki" / "kubeconfig").read_text(encoding="utf-8")
            config = yaml.safe_load(text)
            cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
            url = urlsplit(cluster["server"])
            line: http.client.HTTPConnection
            if url.scheme == "https":
                trust = ssl.create_default_context(cafile=cluster["certificate-authority"])
                trust.load_cert_chain(user["client-certificate"], user["client-key"])
                line = http.client.HTTPSConnection(
                    url.hostname or "", url.port, timeout=ASK_S_MAX, context=trust
                )
            else:
                line = http.client.HTTPConnection(url.hostname or "", url.port, timeout=ASK_S_MAX)
            try:
                content = None if body is None else json.dumps(body)
                line.request(method, path, content, {"Content-Type": "application/json"})
                answer = line.getresponse()
                return answer.status, answer.read()
            finally:
                line.close()

        try:
            status, content = await asyncio.to_thread(ask)
            found: Object = json.loads(content or b"{}")
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise RigError(f"{self._name} did not answer: {type(error).__name__}.") from None
        if status >= 400:
            why = f"{self._name} refused: {str(found.get('message') or status)[:200]}."
            raise _ConflictError(why) if status == 409 else RigError(why)
        return found


class _ConflictError(RigError):
    """The object was changed since it was read."""


def fields_of(item: Object) -> Iterator[Setting]:
    """Every value of an object that people wrote, with its type."""
    metadata = item["metadata"]
    part = f"{metadata.get('namespace', '')}/{item['kind'].lower()}/{metadata['name']}"

    def walk(value: Any, path: tuple[str, ...]) -> Iterator[Setting]:
        if isinstance(value, Mapping):
            for key in sorted(value):
                # A key with a slash cannot be written in a path, and is a label of Kubernetes.
                if "/" not in key:
                    yield from walk(value[key], (*path, key))
        elif isinstance(value, list):
            for number, each in enumerate(value):
                yield from walk(each, (*path, str(number)))
        else:
            types = {bool: SettingType.BOOL, int: SettingType.INTEGER}
            shown = str(value).lower() if isinstance(value, bool) else str(value)
            kind = types.get(type(value), SettingType.TEXT)
            low = 0.0 if kind is SettingType.INTEGER else None
            yield Setting(f"{part}:{'/'.join(path)}", kind, shown, low=low, live=True)

    for name in PARTS:
        if name in item:
            yield from walk(item[name], (name,))


def _sample(*kinds: str) -> Iterator[Object]:
    """The objects of the sample's own namespace."""
    for path in manifests():
        for item in yaml.safe_load_all(path.read_text(encoding="utf-8")):
            if item["kind"] in (kinds or PATHS) and item["metadata"].get("namespace") == "shop":
                yield item


def _path(kind: str, namespace: str) -> str:
    found = next(path for name, path in PATHS.items() if name.lower() == kind)
    return found.format(namespace)


def _like(before: Any, value: Any) -> Any:
    """A text as a value of the type that the field has."""
    if not isinstance(value, str) or isinstance(before, str):
        return value
    if isinstance(before, bool):
        return value == "true"
    return int(value) if isinstance(before, int) else value
