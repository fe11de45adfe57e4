"""What a repair would do to a cluster: the object that it is bound to, and the requests."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from operator_protocols.domain.action import Action, Argument
from operator_protocols.domain.category import FailureCategory
from operator_protocols.kit.tool import Call, RefusedCall
from operator_sre.subjects.kubernetes.connection import NO_QUERY, ChangingApi, StatusError
from operator_sre.subjects.kubernetes.edits import Edit
from operator_sre.subjects.kubernetes.owners import find_field_owner, find_owner
from operator_sre.subjects.kubernetes.resources import WATCHED, Resource

__all__ = ["MANAGER", "ClusterCall", "Plan", "Request", "state_of"]

Object = dict[str, Any]

MANAGER = "operator-sre"
JSON_PATCH = "application/json-patch+json"
RESOURCES: Mapping[str, Resource] = {each.kind: each for each in WATCHED}
# What runs the cluster itself is for people, except for its DNS.
SYSTEM_NAMESPACES = frozenset({"kube-system", "kube-public", "kube-node-lease"})


@dataclass(frozen=True, slots=True)
class Request:
    """One change as it is sent; a patient one again and again while a budget does not allow it."""

    method: str
    path: str
    body: Mapping[str, Any] | Sequence[Any]
    content: str = "application/json"
    is_patient: bool = False

    async def send(self, api: ChangingApi, *, dry: bool) -> Object:
        """Send it; RefusedCall with the words of the API server."""
        query = {"fieldManager": MANAGER} if self.method in ("POST", "PATCH") else {}
        query |= {"fieldValidation": "Strict"} if query else {}
        query |= {"dryRun": "All"} if dry else {}
        body = self.body
        if dry and isinstance(body, Mapping) and self.method == "DELETE":
            # Of a deletion that has a body the server ignores the query, and deletes.
            body = {**body, "dryRun": ["All"]}
        try:
            text = await api.change(self.method, self.path, body, query=query, content=self.content)
        except StatusError as problem:
            raise refusal_of(problem) from problem
        answer: Object = json.loads(text or b"{}")
        return answer

    async def send_soon(self, api: ChangingApi) -> bool:
        """Send it for good; False where it has to wait for a disruption budget."""
        try:
            await self.send(api, dry=False)
        except RefusedCall as refused:
            if self.is_patient and refused.category is FailureCategory.RESOURCE:
                return False
            raise
        return True


@dataclass(frozen=True, slots=True)
class Plan:
    """What would be done to the object that was read, in words, and what undoes it."""

    item: Object
    requests: tuple[Request, ...]
    sentence: str
    expected: str = ""
    undo: Action | None = None
    data: Mapping[str, str | int | bool] = field(default_factory=dict)

    @property
    def binding(self) -> dict[str, str]:
        """What a permit is bound to."""
        return {"uid": str(self.item["metadata"]["uid"]), "state": state_of(self.item)}


@dataclass(frozen=True, slots=True)
class ClusterCall(Call):
    """A call under way, and the cluster. With a `namespace` nothing outside of it is changed."""

    api: ChangingApi
    now: datetime
    namespace: str = ""
    good_after_s: float = 300.0

    def undone_by(self, tool: str, **arguments: Argument) -> Action:
        """What undoes this call, at the same target."""
        target = self.text("target")
        return Action(tool, {"target": target, **arguments}, target=target)

    def place(self, *kinds: str, system: bool = False) -> tuple[str, str, str]:
        """Kind, namespace and name of the target, if it is of one of these kinds."""
        target = self.text("target")
        *spaces, kind, name = ("", "", *target.split("/"))[-max(2, target.count("/") + 1) :]
        namespace = spaces[-1] if spaces else ""
        if kind not in kinds or not name or len(spaces) > 1:
            raise RefusedCall(
                f"{target[:80]!r} is no {' or '.join(kinds)}; it is named as shop/deployment/web.",
                FailureCategory.NOT_FOUND,
            )
        if RESOURCES[kind].namespaced != bool(namespace):
            raise RefusedCall(f"{target[:80]!r} lacks its namespace.", FailureCategory.NOT_FOUND)
        if self.namespace and namespace != self.namespace:
            raise RefusedCall(
                f"Only the namespace {self.namespace!r} may be changed.", FailureCategory.PERMISSION
            )
        if namespace in SYSTEM_NAMESPACES and not system:
            raise RefusedCall(
                f"Operator changes nothing in {namespace!r} but the DNS.",
                FailureCategory.PERMISSION,
            )
        return kind, namespace, name

    async def read(self, kind: str, namespace: str, name: str) -> Object:
        """One object as it is now; RefusedCall where it is not there or is being deleted."""
        try:
            text = await self.api.get(f"{RESOURCES[kind].path(namespace)}/{name}", {})
        except StatusError as problem:
            raise refusal_of(problem) from problem
        found: Object = json.loads(text)
        if found["metadata"].get("deletionTimestamp"):
            raise RefusedCall(f"{name} is being deleted.")
        return {**found, "kind": kind}

    async def list(
        self, kind: str, namespace: str, query: Mapping[str, str] = NO_QUERY
    ) -> list[Object]:
        """The objects of a kind in a namespace."""
        try:
            text = await self.api.get(RESOURCES[kind].path(namespace), query)
        except StatusError as problem:
            raise refusal_of(problem) from problem
        items: list[Object] = json.loads(text).get("items") or []
        return items

    def change(
        self,
        item: Object,
        fields: Mapping[tuple[str, ...], Any],
        sentence: str,
        *,
        undo: Action | None = None,
        declared: bool = True,
    ) -> Plan:
        """New values of fields; RefusedCall with a diff where someone else looks after them.

        A field that is not `declared` is none that an owner would put back.
        """
        metadata = item["metadata"]
        edit = Edit(item, fields)
        if not edit.changed:
            raise RefusedCall(f"{metadata['name']} already has these values; nothing to change.")
        owner = (find_owner(item) or find_field_owner(item, edit.changed)) if declared else ""
        if owner:
            raise RefusedCall(
                f"{metadata['name']} is not changed behind its owner, {owner}. "
                f"Proposal for the owner:\n{edit.diff()}",
                FailureCategory.PERMISSION,
            )
        resource = RESOURCES[str(item["kind"])]
        path = f"{resource.path(str(metadata.get('namespace') or ''))}/{metadata['name']}"
        request = Request("PATCH", path, edit.patch(), JSON_PATCH)
        return Plan(item, (request,), sentence, edit.diff(), undo, {"diff": edit.diff()})

    def require_same(self, plan: Plan) -> Plan:
        """The plan, if its object is what the call was approved for."""
        for name, now in plan.binding.items():
            approved = self.text(name)
            if approved and approved != now and not _is_same_state(name, approved, now):
                raise RefusedCall(
                    f"{plan.item['metadata']['name']} has changed since this was proposed; "
                    "propose it again."
                )
        return replace(plan, data={"changed": True, **plan.data})


def state_of(item: Object) -> str:
    """The version of an object, and a digest of everything in it but its status.

    A status changes all the time at what is broken, and says nothing of what was configured.
    """
    metadata = item["metadata"]
    kept = {
        "spec": item.get("spec"),
        "labels": metadata.get("labels"),
        "annotations": metadata.get("annotations"),
        "owners": metadata.get("ownerReferences"),
    }
    text = json.dumps(kept, sort_keys=True).encode()
    return f"{metadata.get('resourceVersion', '')}.{hashlib.sha256(text).hexdigest()[:16]}"


def _is_same_state(name: str, approved: str, now: str) -> bool:
    """Whether only the status changed in between."""
    return name == "state" and approved.rpartition(".")[2] == now.rpartition(".")[2]


def refusal_of(problem: StatusError) -> RefusedCall:
    """What the API server refused, in its own words."""
    category = {
        401: FailureCategory.PERMISSION,
        403: FailureCategory.PERMISSION,
        404: FailureCategory.NOT_FOUND,
        422: FailureCategory.SYNTAX,
        429: FailureCategory.RESOURCE,
    }.get(problem.status, FailureCategory.RUNTIME)
    return RefusedCall(f"The API server refuses: {problem}", category)
