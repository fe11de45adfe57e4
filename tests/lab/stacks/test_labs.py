"""The labs that come with us, up on a real engine by their own files, in images of this machine."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import operator_ratelimiter
from operator_lab.app.deployments import (
    deploy_down,
    deploy_logs,
    deploy_restart,
    deploy_status,
    deploy_up,
)
from operator_lab.app.rigs import break_rig, faults_of, heal_all, rig_down, rig_up
from operator_lab.ports import reserve_ports
from operator_protocols.domain.health import Health
from operator_protocols.domain.stack import ServiceState
from operator_sre.app.wiring import App
from operator_sre.plugins import find_plugin
from operator_sre.subjects.ratelimiter.rig import server_path
from tests.app.home import opened
from tests.engines.dockerd import PrivateEngine
from tests.engines.tikv.real import real_programs
from tests.lab.stacks.engines import engine_to_publish, on_path
from tests.lab.stacks.images import make_image, python_files, serving_image, waiting_image

pytestmark = [
    pytest.mark.asyncio,
    pytest.mark.slow,
    pytest.mark.system,
    pytest.mark.timeout(1800),
    pytest.mark.group("stacks"),
]

SEEN_S_MAX, LOOK_EVERY_S = 180.0, 1.0
PYTHON = "python:3.12.8-slim-bookworm"
PACKAGES = (
    *("annotated_doc", "annotated_types", "anyio", "click", "fastapi", "h11", "idna"),
    *("opentelemetry", "prometheus_client", "pydantic", "pydantic_core", "sniffio", "starlette"),
    *("typing_extensions", "typing_inspection", "uvicorn", "valkey"),
)
# What the health check of the store asks, without a client of its own.
CLI = """\
#!/bin/sh
printf 'AUTH %s\\r\\n%s\\r\\n' "$REDISCLI_AUTH" "$1" | nc -w 2 127.0.0.1 6379
"""


@pytest.fixture
def engine(pytestconfig: pytest.Config) -> Iterator[PrivateEngine]:
    """An engine of our own with what both labs have; this process is in its network."""
    patch = pytest.MonkeyPatch()
    engine = engine_to_publish(pytestconfig)
    try:
        with engine.entered(), on_path(engine, patch):
            make_image(engine, "busybox:1.36.1")
            pages = {"/-/ready": "ok", "/api/v1/query": json.dumps(_all_up())}
            serving_image(engine, "prom/prometheus:v2.53.3", 9090, pages)
            serving_image(engine, "grafana/grafana:11.4.0", 3000, {"/api/health": "ok"})
            yield engine
    finally:
        engine.end()


def _all_up() -> dict[str, object]:
    """What Prometheus says when it is asked whether every store answers it."""
    stores = [f"store-{number}:20180" for number in (1, 2, 3)]
    series = [
        {"metric": {"instance": each, "operator_reading": "up"}, "value": [0, "1"]}
        for each in stores
    ]
    return {"status": "success", "data": {"resultType": "vector", "result": series}}


def _limiter_images(engine: PrivateEngine) -> None:
    source = Path(operator_ratelimiter.__file__).parent
    ours: dict[str, Path | str] = {
        f"/app/operator_ratelimiter/{path.relative_to(source)}": path
        for path in source.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    entry = json.dumps(["python", "-m", "operator_ratelimiter"])
    changes = ["ENV PYTHONPATH=/app", f"ENTRYPOINT {entry}"]
    files = {**python_files(PACKAGES), **ours}
    make_image(engine, "operator-lab/ratelimiter:0.1.0", files, changes=changes)
    store: dict[str, Path | str] = {"/bin/redis-server": Path(server_path()), "/bin/redis-cli": CLI}
    make_image(engine, "redis:7.4.1-bookworm", store)


def _tikv_images(engine: PrivateEngine, programs: Path) -> None:
    bash = shutil.which("bash")
    assert bash is not None
    for image, program in (("pd", "pd-server"), ("tikv", "tikv-server")):
        files: dict[str, Path | str] = {"/bin/bash": Path(bash), f"/{program}": programs / program}
        entry = json.dumps([f"/{program}"])
        make_image(engine, f"pingcap/{image}:v8.5.5", files, changes=[f"ENTRYPOINT {entry}"])
    make_image(engine, PYTHON, python_files())
    waiting_image(engine, "operator-lab/go-ycsb:1.0.1", "go-ycsb")


async def test_the_limiter_is_deployed_looked_after_and_gone(
    engine: PrivateEngine, tmp_path: Path
) -> None:
    _limiter_images(engine)
    stack = find_plugin("ratelimiter").stack
    assert stack is not None
    with opened(tmp_path) as app, reserve_ports(list(stack().ports)) as reserved:
        given = [f"{name}={port}" for name, port in reserved.ports.items()]
        view = await deploy_up(app, "ratelimiter", project="mine", given=given)
        assert view.well
        states = {each.name: each.state for each in view.services}
        assert states["node-1"] is states["store"] is states["grafana"] is ServiceState.HEALTHY
        assert states["load"] is ServiceState.RUNNING
        assert (await deploy_up(app, "ratelimiter", project="mine")).ports == view.ports

        told = await deploy_logs(app, "ratelimiter", service="node-2", lines=3, project="mine")
        assert told
        assert all(line.startswith("node-2 | ") for line in told)
        rows = {row["Names"][0]: row for row in engine.ask("GET", "/containers/json")}
        engine.ask("POST", f"/containers/{rows['/mine-node-3-1']['Id']}/kill")
        seen = await deploy_status(app, "ratelimiter", project="mine")
        assert not seen.well
        again = await deploy_restart(app, "ratelimiter", service="node-3", project="mine")
        assert again.well

        grafana = Path(view.secrets["grafana"]).read_text()
        assert grafana not in json.dumps([engine.inspect(row["Id"]) for row in rows.values()])
        assert await deploy_down(app, "ratelimiter", project="mine", volumes=True) == "mine"
        assert engine.ask("GET", "/containers/json?all=true") == []
        assert not engine.ask("GET", "/volumes")["Volumes"]
        assert not Path(view.directory).exists()


async def _until(app: App, invariant: str, *, broken: bool) -> None:
    """Look at the pace of a monitor until this is broken somewhere, or nowhere."""
    ends = time.monotonic() + SEEN_S_MAX
    monitor, controls = app.engine().pipeline.monitor, app.controls("tikv")
    while True:
        findings = (await monitor.check(controls.subject)).findings
        about = [one for one in findings if one.invariant == invariant]
        bad = [one for one in about if one.health is not Health.HEALTHY]
        if about and bool(bad) is broken:
            return
        assert time.monotonic() < ends, [f"{one.target}: {one.detail}" for one in about]
        await asyncio.sleep(LOOK_EVERY_S)


async def test_tikv_is_a_rig_whose_store_is_killed_and_comes_back(
    engine: PrivateEngine, tmp_path: Path
) -> None:
    programs = real_programs()
    if isinstance(programs, str):
        pytest.skip(programs)
    _tikv_images(engine, programs)
    with opened(tmp_path) as app:
        try:
            view = await rig_up(app, "tikv", make="compose")
            assert {one.name for one in view.targets} >= {"pd-1", "pd-2", "pd-3", "store-1"}
            known = {one.name: one for one in faults_of(app, "tikv")}
            assert known["node_kill"].available
            assert known["disk_pressure"].available
            await _until(app, "store_disconnected", broken=False)
            hit = await break_rig(app, "tikv", "node_kill", target="store-2", seed=1)
            await _until(app, "store_disconnected", broken=True)
            assert [one.target for one in await heal_all(app, "tikv", target=None)] == [hit]
            await _until(app, "store_disconnected", broken=False)
        finally:
            await rig_down(app, "tikv")
        assert engine.ask("GET", "/containers/json?all=true") == []


# What each of them is done by: a signal, the freezer, the network of the engine, the relay, a file.
TRIED = ("node_kill", "node_pause", "network_isolation", "latency", "disk_pressure")


async def test_trials_on_it_come_to_their_right_ends_and_leave_nothing(
    engine: PrivateEngine, tmp_path: Path
) -> None:
    programs = real_programs()
    if isinstance(programs, str):
        pytest.skip(programs)
    _tikv_images(engine, programs)
    before = {one["Id"] for one in engine.ask("GET", "/networks")}
    wrong: dict[str, object] = {}
    for fault in TRIED:
        trial = _tried(tmp_path, fault)
        score, facts = trial["score"], trial["facts"]
        if facts["state"] != "done" or not score["ended_right"] or score["harm"]:
            wrong[fault] = (facts["state"], facts["why"], facts["tickets"], score)
        assert engine.ask("GET", "/containers/json?all=true") == []
        assert not engine.ask("GET", "/volumes")["Volumes"]
        assert {one["Id"] for one in engine.ask("GET", "/networks")} == before
    assert not wrong


def _tried(home: Path, fault: str) -> dict[str, Any]:
    """One trial by the command that everybody has, in the network of the engine."""
    operator = [str(Path(sys.executable).with_name("operator")), "--home", str(home)]
    words = ["--subject", "tikv", "--fault", fault, "--name", fault]
    subprocess.run([*operator, "eval", "run", *words], check=True, capture_output=True)
    shown = subprocess.run(
        [*operator, "eval", "show", fault, "--json"], check=True, capture_output=True
    )
    (trial,) = json.loads(shown.stdout)["trials"]
    assert isinstance(trial, dict)
    return trial
