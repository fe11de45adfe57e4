"""Keeps a store up to date: one list of a resource, then a watch from its resource version on."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import msgspec

from operator_protocols.ports import Clock
from operator_sre.subjects.kubernetes.connection import Api, StatusError
from operator_sre.subjects.kubernetes.resources import Resource
from operator_sre.subjects.kubernetes.store import ObjectStore

__all__ = ["Watch"]

PAGE_OBJECTS = 500
# The server ends a watch by itself; a new one goes on from the same resource version.
WATCH_S = 300
BACKOFF_S_MIN, BACKOFF_S_MAX = 0.2, 5.0
PAGES_MAX = 1_000
GONE = 410
ABSENT = (403, 404)

log = logging.getLogger(__name__)


class _ListMeta(msgspec.Struct):
    resourceVersion: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class _List(msgspec.Struct):
    metadata: _ListMeta
    items: list[dict[str, Any]] | None = None


class _Event(msgspec.Struct):
    type: str
    object: dict[str, Any]


_decode_list = msgspec.json.Decoder(_List).decode
_decode_event = msgspec.json.Decoder(_Event).decode


class Watch:
    """One resource of one cluster, until it is cancelled.

    It calls `changed` after every event, and `stirred` after an event that a check can tell.
    `problem` says why it is behind, "" while it is not; `absent` that the cluster does not serve it
    to us. Nothing is deleted from the store by a lost connection.
    """

    def __init__(
        self,
        api: Api,
        resource: Resource,
        store: ObjectStore,
        *,
        namespace: str,
        clock: Clock,
        changed: Callable[[], None],
        stirred: Callable[[], None] = lambda: None,
    ) -> None:
        self.resource = resource
        self.synced = False
        self.absent = False
        self.problem = ""
        self._api = api
        self._store = store
        self._namespace = namespace
        self._clock = clock
        self._changed = changed
        self._stirred = stirred

    async def run(self) -> None:
        """List, watch, and list again when the server has forgotten where we were."""
        version, backoff_s = "", BACKOFF_S_MIN
        while True:
            try:
                version = version or await self._list()
                self.synced, self.absent = True, False
                version = await self._follow(version)
                self.problem, backoff_s = "", BACKOFF_S_MIN
                continue
            except StatusError as problem:
                self.problem = f"{self.resource.plural}: {problem}"
                if problem.status == GONE:
                    version = ""
                    continue
                if problem.status in ABSENT and self.resource.optional:
                    self.absent = self.synced = True
            except (OSError, ValueError) as problem:
                self.problem = f"{self.resource.plural}: {type(problem).__name__}: {problem}"
            log.debug("%s", self.problem)
            self._changed()
            await self._clock.sleep(backoff_s)
            backoff_s = min(2 * backoff_s, BACKOFF_S_MAX)

    async def _list(self) -> str:
        """Replace what the store knows; returns the resource version of the list."""
        kind, keys = self.resource.kind, set[tuple[str, str]]()
        query = {"limit": str(PAGE_OBJECTS), **self._selection()}
        for _ in range(PAGES_MAX):
            page = _decode_list(await self._api.get(self.resource.path(self._namespace), query))
            for item in page.items or ():
                metadata = item.get("metadata") or {}
                keys.add((str(metadata.get("namespace") or ""), str(metadata.get("name") or "")))
                self._store.put(kind, item, received=self._clock.monotonic())
            if not page.metadata.continue_:
                break
            query["continue"] = page.metadata.continue_
            # A list of thousands must not keep the checks of other subjects waiting.
            await asyncio.sleep(0)
        self._store.keep_only(kind, keys)
        self.problem = ""
        self._changed()
        return page.metadata.resourceVersion

    async def _follow(self, version: str) -> str:
        """Apply events until the server ends the watch; returns where it ended."""
        query = {
            "watch": "true",
            "resourceVersion": version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(WATCH_S),
            **self._selection(),
        }
        path = self.resource.path(self._namespace)
        async for line in self._api.stream(path, query, seconds=WATCH_S):
            event = _decode_event(line)
            if event.type == "ERROR":
                code = event.object.get("code")
                raise StatusError(int(code or 0), str(event.object.get("message"))[:200])
            metadata = event.object.get("metadata") or {}
            version = str(metadata.get("resourceVersion") or version)
            if event.type == "BOOKMARK":
                continue
            if event.type == "DELETED":
                self._store.drop(self.resource.kind, event.object)
                telling = not self.resource.kind.startswith(("event", "lease"))
            else:
                received = self._clock.monotonic()
                telling = self._store.put(self.resource.kind, event.object, received=received)
            if telling:
                self._stirred()
            self.problem = ""
            self._changed()
        return version

    def _selection(self) -> dict[str, str]:
        return {"fieldSelector": self.resource.selector} if self.resource.selector else {}
