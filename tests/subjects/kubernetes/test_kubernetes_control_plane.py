"""A control plane that stops: it alone is broken, and a check follows at once."""

from __future__ import annotations

import asyncio

import pytest

from tests.subjects.kubernetes.live_objects import (
    moment,
    named,
)
from tests.subjects.kubernetes.watching import (
    TIMEOUT_S,
    Object,
    bakery,
    blamed,
    broken,
    watching,
)

pytestmark = pytest.mark.asyncio


async def test_an_api_server_that_is_not_ready_breaks_the_control_plane_alone() -> None:
    server = bakery()
    async with watching(server) as subject:
        await subject.observe()
        server.ready = False
        seen = await subject.observe()
        assert broken(subject, seen) == {("control_plane_works", "cluster")}
        assert blamed(seen) == {"cluster": "etcd_down"}


async def test_a_server_that_waits_for_its_storage_is_not_blamed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("operator_sre.subjects.kubernetes.subject.ANSWER_S_MAX", 0.2)
    server = bakery()
    async with watching(server) as subject:
        await subject.observe()
        server.hangs = True
        assert blamed(await subject.observe()) == {"cluster": "etcd_down"}


async def test_without_its_api_a_cluster_has_no_other_findings_however_long() -> None:
    server = bakery()
    server.put("pod", _over_deleted())
    async with watching(server) as subject:
        before = await subject.observe()
        assert broken(subject, before)
        server.ready = False
        seen = await subject.observe()
        assert broken(subject, seen) == {("control_plane_works", "cluster")}
        assert {each.target for each in seen.seen} == {"cluster"}
        server.ready = True
        assert broken(subject, await subject.observe()) == broken(subject, before)


def _over_deleted() -> Object:
    """A pod that was to be gone long ago."""
    metadata = named("leftover", deletionTimestamp=moment(300))
    return {"metadata": metadata, "spec": {}, "status": {"phase": "Running"}}


async def test_a_stopped_control_plane_asks_for_a_check(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("operator_sre.subjects.kubernetes.subject.PULSE_S", 0.02)
    monkeypatch.setattr("operator_sre.subjects.kubernetes.subject.FOLLOW_S", 0.0)
    server = bakery()
    async with watching(server) as subject:
        await subject.observe()
        waiting = asyncio.ensure_future(subject.wait_change())
        await asyncio.sleep(0)
        assert not waiting.done()
        server.ready = False
        async with asyncio.timeout(TIMEOUT_S):
            await waiting
