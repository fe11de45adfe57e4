"""The sample in a cluster of others: only its own namespace is made, changed and removed."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
import yaml

from operator_lab.app.rigs import attach_rig, rigs_up
from operator_lab.kubernetes import build, guest
from operator_lab.kubernetes.sample import MANIFESTS
from operator_lab.plan import check_spec
from operator_protocols.errors import RigError, UsageError
from operator_sre.app.wiring import App
from operator_sre.subjects.kubernetes import plugin
from operator_sre.subjects.kubernetes.connection import ChangingApi, StatusError, open_api
from operator_sre.subjects.kubernetes.subject import RIG_KINDS
from tests.app.home import opened
from tests.subjects.kubernetes.api_server import ApiServer

pytestmark = pytest.mark.asyncio

NAMESPACE, MARK = "visitor", "4711"


@asynccontextmanager
async def visiting(server: ApiServer, mark: str = MARK) -> AsyncIterator[guest.Guest]:
    """A guest of the stand-in."""
    async with server.serve() as address, httpx2.AsyncClient(base_url=address) as client:
        yield guest.Guest(client, NAMESPACE, mark)


def with_namespace(**metadata: Any) -> ApiServer:
    """A cluster that has a namespace of this name."""
    server = ApiServer()
    server.put("namespace", {"kind": "Namespace", "metadata": {"name": NAMESPACE, **metadata}})
    return server


async def test_everything_that_is_made_lies_in_the_namespace() -> None:
    server = ApiServer()
    async with visiting(server) as made:
        await made.claim()
        sentence = await made.deploy("shop:2")
    assert {each.path for each in server.changes if each.method == "POST"} == {"/api/v1/namespaces"}
    for kind, table in server.objects.items():
        for place, name in table:
            assert (kind == "namespace" and name == NAMESPACE) or place == NAMESPACE
    images = {
        container["image"]
        for item in server.objects["deployment"].values()
        for container in item["spec"]["template"]["spec"]["containers"]
    }
    assert images == {"shop:2"}
    assert "persistentvolumeclaim" not in server.objects
    assert "storage class" in sentence


async def test_with_a_default_storage_class_the_data_has_a_claim_of_that_class() -> None:
    server = ApiServer()
    server.put(
        "storageclass",
        {"metadata": {"name": "fast", "annotations": {guest.DEFAULT_CLASS: "true"}}},
    )
    async with visiting(server) as made:
        assert await made.deploy("shop:2") == ""
    (claim,) = server.objects["persistentvolumeclaim"].values()
    assert "storageClassName" not in claim["spec"]


@pytest.mark.parametrize("annotations", [{}, {guest.MARK: "of another rig"}])
async def test_a_namespace_of_others_is_neither_used_nor_removed(
    annotations: dict[str, str],
) -> None:
    server = with_namespace(annotations=annotations)
    async with visiting(server) as made:
        with pytest.raises(RigError, match="already has a namespace"):
            await made.claim()
        await made.remove()
    assert (("", NAMESPACE)) in server.objects["namespace"]
    assert not [each for each in server.changes if each.method == "DELETE"]


async def test_the_own_namespace_is_claimed_again_and_removed_by_its_uid() -> None:
    server = with_namespace(annotations={guest.MARK: MARK})
    uid = server.objects["namespace"]["", NAMESPACE]["metadata"]["uid"]
    async with visiting(server) as made:
        await made.claim()
        await made.remove()
        await made.remove()
    assert not server.objects["namespace"]
    (deletion,) = [each for each in server.changes if each.method == "DELETE"]
    assert deletion.body == {"preconditions": {"uid": uid}}


async def test_customers_read_back_what_was_acknowledged_and_count_what_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, is_lost, reports = ApiServer(), asyncio.Event(), list[dict[str, int]]()

    def note(_: Path, text: str) -> None:
        reports.append(json.loads(text))
        if reports[-1]["acknowledged"] >= 4:
            server.orders.clear()
        if reports[-1]["lost"]:
            is_lost.set()

    monkeypatch.setattr(guest, "ORDER_S", 0.0)
    monkeypatch.setattr(guest, "write_atomically", note)
    async with visiting(server) as made:
        task = asyncio.create_task(made.serve_customers(tmp_path / "report.json"))
        async with asyncio.timeout(20):
            await is_lost.wait()
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
    before = [each for each in reports if each["acknowledged"] < 4]
    assert before
    assert {each["lost"] for each in before} == {0}
    assert reports[-1]["failed"] == 0


async def test_an_attached_rig_is_a_sound_plan_and_cleans_up_by_its_own_mark(
    tmp_path: Path,
) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text("")
    assert plugin.attach is not None
    given = {"kubeconfig": str(kubeconfig), "context": "kind-x", "namespace": "visitor"}
    spec, other = plugin.attach(given), plugin.attach(given)
    check_spec(spec)
    assert {each.kind for each in spec.processes} <= set(RIG_KINDS)
    assert spec.options == given
    (customers,) = spec.processes
    (cleanup,) = customers.cleanup
    mark = customers.argv[customers.argv.index("--mark") + 1]
    assert cleanup[cleanup.index("--mark") + 1] == mark
    assert mark not in other.processes[0].argv


@pytest.mark.parametrize(
    "given",
    [
        {"kubeconfig": "/nowhere"},
        {"namespace": "Not A Name"},
        {"namespace": "../x"},
        {"image": "--privileged"},
    ],
)
async def test_what_cannot_be_attached_to_is_refused(
    given: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "kubeconfig").write_text("")
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
    assert plugin.attach is not None
    with pytest.raises(UsageError):
        plugin.attach(given)


async def test_what_never_reached_a_cluster_is_removed_without_asking_it(tmp_path: Path) -> None:
    words = ["--kubeconfig", "/nowhere", "--context", "", "--namespace", "x", "--mark", "1"]
    assert await asyncio.to_thread(guest.main, [str(tmp_path), *words, "--remove"]) == 0
    (tmp_path / guest.REACHED).touch()
    assert await asyncio.to_thread(guest.main, [str(tmp_path), *words, "--remove"]) == 1


async def test_the_sample_of_the_rig_serves_as_it_is() -> None:
    text = (MANIFESTS / "20-shop.yaml").read_text(encoding="utf-8")
    wanted = {
        (item["kind"], item["metadata"]["name"])
        for item in yaml.safe_load_all(text)
        if item["kind"] in ("Deployment", "Service", "ConfigMap")
    }
    found = {
        (item["kind"], item["metadata"]["name"])
        for item in guest.sample_objects("n", "i", with_claim=False)
    }
    assert found == wanted


@pytest.fixture
def bare(tmp_path: Path) -> Iterator[App]:
    """A home without a rig."""
    with opened(tmp_path) as app:
        yield app


KUBECONFIG = """\
apiVersion: v1
kind: Config
current-context: there
contexts: [{name: there, context: {cluster: there, user: me}}]
clusters: [{name: there, cluster: {server: "ADDRESS"}}]
users: [{name: me, user: {}}]
"""


@pytest.mark.parametrize("of", ["the guest", "the subject"])
async def test_the_api_says_what_it_refuses_in_the_words_of_the_server(
    of: str, tmp_path: Path
) -> None:
    async with ApiServer().serve() as address:
        kubeconfig = tmp_path / "kubeconfig"
        kubeconfig.write_text(KUBECONFIG.replace("ADDRESS", address))
        path = "/api/v1/namespaces/none"
        if of == "the guest":
            async with guest.connect(str(kubeconfig), "") as client:
                with pytest.raises(guest.StatusError) as caught:
                    await guest.Guest(client, "none", MARK).ask(path, {}, method="DELETE")
            status, sentence = caught.value.status, str(caught.value)
        else:
            api: ChangingApi = open_api(str(kubeconfig), "there")
            try:
                with pytest.raises(StatusError) as refused:
                    await api.change("DELETE", path, {})
            finally:
                await api.close()
            status, sentence = refused.value.status, str(refused.value)
    assert status == 404
    assert sentence == 'HTTP 404: namespaces "none" not found'


async def test_a_cluster_that_does_not_answer_leaves_no_rig(bare: App, tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(KUBECONFIG.replace("ADDRESS", "http://127.0.0.1:1"))
    given = {"kubeconfig": str(kubeconfig), "image": build.SAMPLE_IMAGE}
    with pytest.raises(RigError, match="customers"):
        await attach_rig(bare, "kubernetes", given)
    assert rigs_up(bare) == []


async def test_only_a_subject_that_can_be_a_guest_is_attached(bare: App) -> None:
    with pytest.raises(UsageError) as caught:
        await attach_rig(bare, "etcd", {})
    assert caught.value.next_step == "It can be: kubernetes."


async def test_the_sample_alone_is_built_without_a_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("shutil.which", lambda _: None)
    with pytest.raises(RigError, match="no `go`") as caught:
        build.build_sample(tell=lambda _: None, stop=threading.Event())
    assert "--image" in caught.value.next_step
