"""Repairs of a cluster: bound to the object as it was proposed, tried first, and undone."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from importlib.resources import files
from typing import Any

import pytest
import yaml

from operator_protocols.domain.tool import Prepared
from operator_sre.subjects.kubernetes.resources import WATCHED
from operator_sre.subjects.kubernetes.tools import KNOWLEDGE
from tests.subjects.kubernetes.api_server import Change
from tests.subjects.kubernetes.live_objects import NAMESPACE
from tests.subjects.kubernetes.tool_bench import (
    CASES,
    PATCHED,
    Case,
    Object,
    cluster,
    every_case,
    found,
    hands,
)

pytestmark = pytest.mark.asyncio


async def test_every_tool_has_a_case_and_the_subject_has_every_tool() -> None:
    assert {each.tool for each in CASES} == set(KNOWLEDGE.tools)


def without_dry_run(body: Any) -> Any:
    """The body of a request as it is sent for good."""
    if not isinstance(body, dict):
        return body
    return {name: value for name, value in body.items() if name != "dryRun"}


@every_case
async def test_a_proposal_changes_nothing_and_a_call_tries_before_it_changes(given: Case) -> None:
    server = cluster()
    before = deepcopy(server.objects)
    async with hands(server) as ours:
        prepared = await ours.prepare(given)
        assert not prepared.flaws
        assert server.objects == before
        assert prepared.arguments["uid"] == found(server, given)["metadata"]["uid"]
        assert ours.kept() == []
        tried = len(server.changes)
        assert tried > 0
        result = await ours.call(given, prepared)
    assert result.exit_code == 0, result.stderr
    assert result.data["changed"] is True
    dry, kept = server.changes[tried : 2 * tried], server.changes[2 * tried :]
    assert [each.dry for each in dry] == [True] * tried
    assert [(each.method, each.path, each.body) for each in kept] == [
        (each.method, each.path, without_dry_run(each.body)) for each in dry
    ]
    assert server.objects != before


@every_case
async def test_what_was_configured_otherwise_since_the_proposal_is_not_touched(given: Case) -> None:
    server = cluster()
    async with hands(server) as ours:
        prepared = await ours.prepare(given)
        changed = deepcopy(found(server, given))
        changed["metadata"].setdefault("labels", {})["by"] = "a colleague"
        server.put(given.kind, changed)
        before = deepcopy(server.objects)
        result = await ours.call(given, prepared)
    assert "has changed since" in result.stderr
    assert ours.kept() == []
    assert server.objects == before


@every_case
async def test_an_object_that_was_made_anew_is_not_touched(given: Case) -> None:
    server = cluster()
    async with hands(server) as ours:
        prepared = await ours.prepare(given)
        again = deepcopy(found(server, given))
        again["metadata"]["uid"] = "another"
        server.put(given.kind, again)
        for item in server.objects["replicaset"].values():
            item["metadata"]["ownerReferences"][0]["uid"] = "another"
        result = await ours.call(given, prepared)
    assert result.exit_code != 0
    assert ours.kept() == []


@every_case
async def test_a_new_status_alone_does_not_void_an_approval(given: Case) -> None:
    server = cluster()
    async with hands(server) as ours:
        prepared = await ours.prepare(given)
        changed = deepcopy(found(server, given))
        changed.setdefault("status", {})["observedGeneration"] = 4
        server.put(given.kind, changed)
        result = await ours.call(given, prepared)
    assert result.exit_code == 0, result.stderr


# A Job that runs again is a new object, and its name is taken once it was made.
CHANGING = [each for each in CASES if each.tool != "rerun_job"]


@pytest.mark.parametrize("given", CHANGING, ids=[each.id for each in CHANGING])
async def test_a_change_in_between_the_reading_and_the_writing_wins(given: Case) -> None:
    server = cluster()

    def meddle(change: Change) -> None:
        if not change.dry:
            theirs = deepcopy(found(server, given))
            theirs["metadata"]["labels"] = {"by": "a colleague"}
            if "eviction" in change.path:
                theirs["metadata"]["uid"] = "another"
            server.put(given.kind, theirs)

    async with hands(server) as ours:
        prepared = await ours.prepare(given)
        server.meddle = meddle
        result = await ours.call(given, prepared)
    assert result.exit_code != 0
    assert found(server, given)["metadata"]["labels"] == {"by": "a colleague"}


@every_case
async def test_what_the_server_refuses_to_try_is_not_sent(given: Case) -> None:
    server = cluster()
    async with hands(server) as ours:
        await ours.prepare(given)
        first = server.changes[-1]
        server.refuses[first.method, first.path] = (403, "denied by a webhook")
        prepared = await ours.prepare(given)
        result = await ours.call(given, Prepared())
    assert "denied by a webhook" in prepared.flaws[0]
    assert "denied by a webhook" in result.stderr
    assert ours.kept() == []


REVERSIBLE = [each for each in CASES if KNOWLEDGE.tools[each.tool].reversible]


@pytest.mark.parametrize("given", REVERSIBLE, ids=[each.id for each in REVERSIBLE])
async def test_an_undo_gives_back_what_was(given: Case) -> None:
    server = cluster()
    before = deepcopy(found(server, given)["spec"])
    async with hands(server) as ours:
        undo = (await ours.do(given)).undo
        assert undo is not None
        assert undo.tool == KNOWLEDGE.tools[given.tool].undo
        assert found(server, given)["spec"] != before
        if given.tool == "undo_rollout":
            # As the controller does it: the earlier revision becomes the newest one.
            server.objects["replicaset"][NAMESPACE, "web-h1"]["metadata"]["annotations"] = {
                "deployment.kubernetes.io/revision": "3"
            }
            found(server, given)["metadata"]["annotations"] = {
                "deployment.kubernetes.io/revision": "3"
            }
        back = Case(undo.tool, undo.arguments, given.kind, given.key)
        result = await ours.do(back)
    assert result.exit_code == 0, result.stderr
    assert found(server, given)["spec"] == before


OWNERS: Mapping[str, Object] = {
    "Argo CD": {"annotations": {"argocd.argoproj.io/tracking-id": "shop:apps/Deployment"}},
    "Flux": {"labels": {"kustomize.toolkit.fluxcd.io/name": "shop"}},
    "Helm": {"annotations": {"meta.helm.sh/release-name": "shop"}},
    "Cluster shop": {
        "ownerReferences": [
            {"kind": "Cluster", "apiVersion": "db.example/v1", "name": "shop", "controller": True}
        ]
    },
    "kpt": {"labels": {"app.kubernetes.io/managed-by": "kpt"}},
}


@pytest.mark.parametrize(
    ("given", "owner"),
    [*((PATCHED[0], owner) for owner in OWNERS), *((each, "Helm") for each in PATCHED[1:])],
    ids=lambda each: each if isinstance(each, str) else each.id,
)
async def test_what_somebody_else_looks_after_gets_a_diff_instead(given: Case, owner: str) -> None:
    server = cluster()
    metadata = found(server, given)["metadata"]
    for name, value in OWNERS[owner].items():
        metadata[name] = {**metadata.get(name, {}), **value} if isinstance(value, dict) else value
    async with hands(server) as ours:
        (flaw,) = (await ours.prepare(given)).flaws
        result = await ours.call(given, Prepared())
    assert owner in flaw
    assert "\n+ " in flaw
    assert result.exit_code != 0
    assert server.changes == []


MANAGERS = (
    ("argocd-controller", "Apply", True),
    ("kubectl", "Apply", True),
    ("helm", "Update", True),
    ("my-operator", "Update", True),
    ("kubectl-client-side-apply", "Update", False),
    ("kubectl-edit", "Update", False),
    ("kubectl-patch", "Update", False),
    ("kube-controller-manager", "Update", False),
    ("operator-sre", "Update", False),
)


@pytest.mark.parametrize(
    ("given", "manager", "operation", "is_refused"),
    [
        *((PATCHED[0], *each) for each in MANAGERS),
        *((each, *MANAGERS[0]) for each in PATCHED[1:]),
    ],
)
async def test_a_field_belongs_to_who_will_set_it_again(
    given: Case, manager: str, operation: str, *, is_refused: bool
) -> None:
    server = cluster()
    fields: Object = {"f:spec": {f"f:{name}": {} for name in found(server, given)["spec"]}}
    deeper = {
        "f:spec": {
            "f:template": {"f:spec": {"f:containers": {}}},
            "f:replicas": {},
            "f:selector": {},
            "f:ports": {},
            "f:hard": {"f:pods": {}},
        }
    }
    for each in (fields, deeper):
        found(server, given)["metadata"]["managedFields"] = [
            {"manager": manager, "operation": operation, "fieldsV1": each},
            {"manager": "status-writer", "operation": "Apply", "subresource": "status"},
            {"manager": "other", "operation": "Apply", "fieldsV1": {"f:metadata": {}}},
        ]
    async with hands(server) as ours:
        prepared = await ours.prepare(given)
    assert bool(prepared.flaws) == is_refused, prepared
    if is_refused:
        assert manager in prepared.flaws[0]


@every_case
async def test_with_a_namespace_nothing_outside_of_it_is_changed(given: Case) -> None:
    server = cluster()
    async with hands(server, namespace="other") as ours:
        (flaw,) = (await ours.prepare(given)).flaws
    assert "'other'" in flaw
    assert server.changes == []


async def test_a_revision_is_good_once_it_was_current_for_long_enough() -> None:
    server = cluster()
    server.objects["replicaset"][NAMESPACE, "web-h1"]["status"] = {}
    given = CASES[0]
    async with hands(server, good_after_s=2999.0) as ours:
        assert not (await ours.prepare(given)).flaws
    async with hands(server, good_after_s=3001.0) as ours:
        assert (await ours.prepare(given)).flaws


async def test_a_repeated_call_does_nothing_twice() -> None:
    for given in CASES:
        server = cluster()
        async with hands(server) as ours:
            prepared = await ours.prepare(given)
            first = await ours.call(given, prepared)
            after = deepcopy(server.objects)
            second = await ours.call(given, prepared)
        assert first.exit_code == 0
        assert second.exit_code != 0, given.id
        assert server.objects == after, given.id


async def test_an_eviction_waits_for_the_disruption_budget() -> None:
    server = cluster()
    given = next(each for each in CASES if each.tool == "drain_node")
    path = f"/api/v1/namespaces/{NAMESPACE}/pods/web-2/eviction"

    async with hands(server) as ours:
        prepared = await ours.prepare(given)
        tried = len(server.changes)
        server.refuses_once = {path: (429, "the disruption budget needs 1 healthy pod")}
        result = await ours.call(given, prepared)
    assert result.exit_code == 0, result.stderr
    kept = [each.path for each in server.changes[tried:] if not each.dry]
    assert kept.count(path) == 2
    assert (NAMESPACE, "web-2") not in server.objects["pod"]


async def test_the_roles_grant_what_the_tools_do_and_nothing_else() -> None:
    sent: set[tuple[str, str, str]] = set()
    verbs = {"PATCH": "patch", "POST": "create", "DELETE": "delete"}
    groups = {each.plural: each.group for each in WATCHED}
    for given in CASES:
        server = cluster()
        async with hands(server) as ours:
            await ours.do(given)
        for change in server.changes:
            parts = change.path.split("/namespaces/")[-1].split("/")
            rest = parts[1:] if "/namespaces/" in change.path else change.path.split("/")[3:]
            name = f"{rest[0]}/{rest[2]}" if len(rest) > 2 else rest[0]
            sent.add((groups[rest[0]], name, verbs[change.method]))
    granted = set()
    for role in ("repair", "repair-nodes"):
        text = (files("operator_sre.subjects.kubernetes") / "roles" / f"{role}.yaml").read_text()
        for rule in yaml.safe_load(text)["rules"]:
            for group in rule["apiGroups"]:
                granted |= {
                    (group, name, verb) for name in rule["resources"] for verb in rule["verbs"]
                }
    assert sent == granted


async def test_no_tool_reads_a_secret_or_deletes_anything_but_a_pod() -> None:
    for given in CASES:
        server = cluster()
        async with hands(server) as ours:
            await ours.do(given)
        assert not [each for each in server.requests if "secret" in each.lower()]
        deleted = [each.path for each in server.changes if each.method == "DELETE"]
        assert all("/pods/" in each for each in deleted)
