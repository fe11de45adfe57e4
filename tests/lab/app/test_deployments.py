"""Deployments through the use cases: what is refused before anything is written, and what is told.

The real thing is in the contract suite of deployments; here `docker` is a script that says what it
says where something is missing.
"""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from operator_lab.app.deployments import (
    DeploymentView,
    deploy_down,
    deploy_logs,
    deploy_restart,
    deploy_status,
    deploy_up,
)
from operator_lab.app.rigs import check_rig, no_rig, parts_of, raise_rig, rigs_there_are
from operator_lab.ports import reserve_ports
from operator_lab.rig import Make, attach
from operator_lab.stacks.record import (
    COMPOSE,
    Record,
    is_stack,
    prepare,
    read_record,
    remove,
    write_record,
)
from operator_lab.stacks.target import (
    Compose,
    ComposeMissingError,
    engine_variables,
    find_compose,
    plain,
)
from operator_protocols.domain.stack import ServiceState, ServiceStatus, StackService, StackSpec
from operator_protocols.errors import NotFoundError, OperatorError, RigError, UsageError
from operator_protocols.ports import Plugin
from operator_sre.app.wiring import App
from operator_sre.executor.docker import EngineError
from operator_sre.plugins import find_plugin
from operator_sre.processes.run import Finished
from tests.app.home import opened
from tests.contract.servers import closes, serving
from tests.executor.docker.impostor import answer, listening, says
from tests.processes.waiting import eventually

pytestmark = pytest.mark.asyncio

SECRET = "hunter2-of-the-shell"
SLEEP = shutil.which("sleep")  # where it is before a test changes the PATH


@pytest.fixture
def app(tmp_path: Path) -> Iterator[App]:
    with opened(tmp_path) as app:
        yield app


@pytest.fixture
def ports() -> Iterator[dict[str, int]]:
    """A port for each that the stack of the limiter publishes."""
    stack = find_plugin("ratelimiter").stack
    assert stack is not None
    with reserve_ports(list(stack().ports)) as reserved:
        yield dict(reserved.ports)


Programs = Callable[..., None]


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Programs:
    """Put programs of these names, and no others, on the PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nobody.sock")

    def put(**scripts: str) -> None:
        for name, script in scripts.items():
            place = folder / name.replace("_", "-")
            place.write_text(f"#!/bin/sh\n{script}\n")
            place.chmod(0o755)

    return put


async def test_what_is_missing_is_told_and_nothing_is_written(app: App, programs: Programs) -> None:
    cases: tuple[tuple[dict[str, str], str], ...] = (
        ({}, "there is no command 'docker'"),
        ({"docker": "echo \"docker: 'compose' is not a docker command.\" >&2; exit 1"}, "plug-in"),
        ({"docker_compose": "echo 1.29.2"}, "docker-compose 1.29.2 is too old"),
        ({"docker": "exit 1", "docker_compose": "echo nonsense"}, "plug-in 'compose' is not"),
    )
    for scripts, said in cases:
        programs(**scripts)
        with pytest.raises(ComposeMissingError) as refused:
            await deploy_up(app, "ratelimiter")
        if said not in refused.value.message:
            raise AssertionError((said, refused.value.message))
        assert "https://docs.docker.com/" in refused.value.next_step
    assert not (app.config.home / "deployments").exists()
    for make in (None, "compose"):
        if make or no_rig(find_plugin("tikv")):
            with pytest.raises(RigError):
                await raise_rig("tikv", app.rig_directory("tikv"), make=make, owned=False)
    assert not app.rig_directory("tikv").exists()


async def test_compose_is_found_as_a_plugin_first_and_gets_no_secrets(
    programs: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", SECRET)
    programs(docker_compose="echo 2.26.1-4")
    assert (await find_compose()).version == "2.26.1-4"
    programs(docker='[ "$1" = compose ] && echo v2.40.3')
    found = await find_compose()
    assert found.words[-1] == "compose"
    assert found.version == "2.40.3"
    assert SECRET not in found.environment.values()
    assert "DOCKER_HOST" in engine_variables(found.environment)


async def test_settings_that_make_no_sense_are_refused_first(app: App, programs: Programs) -> None:
    programs(docker="echo 2.40.3")
    cases = (
        (["GRAFANA_PORT"], "is not a setting"),
        (["NOBODY=1"], "has no setting 'NOBODY'"),
        (["GRAFANA_PORT=http"], "must be a port"),
        (["GRAFANA_PORT=0"], "must be a port"),
        (["GRAFANA_PORT=9090"], "Two services use the port 9090"),
        (["LOAD_PER_S=3'\nX=1"], "may not have this value"),
    )
    for given, said in cases:
        with pytest.raises(UsageError, match=said):
            await deploy_up(app, "ratelimiter", given=given)
    for project in ("Loud", "-x", "a/b", "..", ""):
        with pytest.raises(UsageError, match="cannot be the name"):
            await deploy_up(app, "ratelimiter", project=project)
    with pytest.raises(UsageError, match="has no stack") as refused:
        await deploy_up(app, "etcd")
    assert "ratelimiter, tikv" in refused.value.next_step
    with pytest.raises(NotFoundError):
        await deploy_up(app, "nobody")
    assert not list((app.config.home / "deployments").glob("*"))


async def test_a_port_that_somebody_holds_is_named(
    app: App, programs: Programs, ports: dict[str, int]
) -> None:
    programs(docker="echo 2.40.3")
    async with serving(closes) as port:
        given = [f"{name}={chosen}" for name, chosen in {**ports, "GRAFANA_PORT": port}.items()]
        with pytest.raises(RigError, match=rf"GRAFANA_PORT \({port}\)") as refused:
            await deploy_up(app, "ratelimiter", given=given)
    assert "--set GRAFANA_PORT=PORT" in refused.value.next_step
    assert not list((app.config.home / "deployments").glob("*"))


async def test_what_is_not_deployed_is_not_found_and_is_down(app: App) -> None:
    assert await deploy_down(app, "ratelimiter") is None
    for asked in (
        deploy_status(app, "ratelimiter"),
        deploy_logs(app, "ratelimiter", service=None, lines=5),
        deploy_restart(app, "ratelimiter", service=None, project="mine"),
    ):
        with pytest.raises(NotFoundError, match="deployed"):
            await asked


async def test_without_an_engine_nothing_is_written(
    app: App, programs: Programs, ports: dict[str, int]
) -> None:
    programs(docker="echo 2.40.3")
    given = [f"{name}={port}" for name, port in ports.items()]
    with pytest.raises(EngineError, match="No Docker engine answers at"):
        await deploy_up(app, "ratelimiter", given=given)
    assert await deploy_down(app, "ratelimiter") is None
    with pytest.raises(EngineError, match="No Docker engine answers at"):
        await raise_rig("tikv", app.rig_directory("tikv"), make="compose", owned=False)
    assert not list((app.config.home / "deployments").glob("*"))
    assert not app.rig_directory("tikv").exists()


async def test_what_is_broken_off_leaves_nothing(
    app: App,
    programs: Programs,
    ports: dict[str, int],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setattr("operator_lab.stacks.target.QUIET_S", 0.01)
    said = tmp_path / "said"
    script = f'case "$*" in *version*) echo 2.40.3;; *" up "*) echo up >> {said}; exec {SLEEP} 60;;'
    programs(docker=f"{script} *) echo $* >> {said};; esac")
    given = [f"{name}={port}" for name, port in ports.items()]
    async with listening(says(answer(b"[]"))) as socket:
        monkeypatch.setenv("DOCKER_HOST", f"unix://{socket}")
        for starting in (
            deploy_up(app, "ratelimiter", given=given),
            raise_rig("ratelimiter", app.rig_directory("ratelimiter"), make="compose", owned=False),
        ):
            said.write_text("")
            work = asyncio.ensure_future(starting)
            await eventually(lambda: "up" in said.read_text().split("\n"))
            work.cancel()
            with pytest.raises(asyncio.CancelledError):
                await work
            assert " down " in said.read_text()
    assert not list((app.config.home / "deployments").glob("*"))
    assert not app.rig_directory("ratelimiter").exists()


async def test_a_failure_is_told_in_the_words_of_compose(
    app: App, programs: Programs, ports: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    failing = "echo 'Error: manifest for x not found' >&2; exit 18"
    given = [f"{name}={port}" for name, port in ports.items()]
    programs(docker=f'[ "$2" = version ] && {{ echo 2.40.3; exit; }}; {failing}')
    async with listening(says(answer(b"[]"))) as socket:
        with monkeypatch.context() as now:
            now.setenv("DOCKER_HOST", f"unix://{socket}")
            with pytest.raises(RigError, match="manifest for x not found") as told:
                await deploy_up(app, "ratelimiter", project="mine", given=given)
    assert "operator deploy local down ratelimiter --project mine" in told.value.next_step
    (directory,) = (app.config.home / "deployments").glob("*")
    assert is_stack(directory)
    kept = read_record(directory)
    assert kept is not None
    assert kept.project == "mine"
    assert {name: int(kept.values[name]) for name in ports} == ports
    with pytest.raises(NotFoundError, match="is one of 'ratelimiter'"):
        await deploy_status(app, "tikv", project="mine")
    with pytest.raises(OperatorError, match="No Docker engine answers"):
        await deploy_status(app, "ratelimiter", project="mine")


async def test_a_record_says_all_and_passwords_are_kept_from_others(tmp_path: Path) -> None:
    service = StackService("store", "store", "STORE_PORT", endpoints=("a:1",), depends_on=("b",))
    spec = StackSpec("any", "/x", (service,), {"STORE_PORT": 7}, secrets=("word",))
    record = prepare(spec, tmp_path / "it", project="any", ports={"STORE_PORT": 9})
    word = (tmp_path / "it/secrets/word").read_text()
    assert len(word) >= 32
    assert record.port("store") == 9
    assert record == read_record(tmp_path / "it")
    assert prepare(spec, tmp_path / "it", project="any", ports={"STORE_PORT": 9}) == record
    assert (tmp_path / "it/secrets/word").read_text() == word, "its data is opened by this one"
    for place in (tmp_path / "it", tmp_path / "it/secrets"):
        assert place.stat().st_mode & 0o077 == 0
    told = (tmp_path / "it/rig.json").read_text() + (tmp_path / "it/values.env").read_text()
    assert word not in told
    assert json.loads((tmp_path / "it/rig.json").read_text())["rig"] == COMPOSE
    with pytest.raises(NotFoundError, match="no target 'stor'"):
        record.service("stor")
    assert attach(tmp_path / "it").own_ports() == {"store": 9}
    write_record(tmp_path / "it", Record(spec, "any", record.values, ("store",)))
    remove(tmp_path / "it")
    remove(tmp_path / "it")
    assert read_record(tmp_path / "it") is None
    (tmp_path / "rig.json").write_text('{"rig": "compose"}')
    with pytest.raises(RigError, match="cannot read"):
        read_record(tmp_path)


async def test_a_view_is_well_when_all_of_it_is() -> None:
    well = ServiceStatus("a", ServiceState.HEALTHY)
    view = DeploymentView("any", "any", "/x", (well,), {}, {})
    assert view.well
    for state in (ServiceState.UNHEALTHY, ServiceState.EXITED, ServiceState.MISSING):
        ill = ServiceStatus("b", state)
        assert not DeploymentView("any", "any", "/x", (well, ill), {}, {}).well
    assert not DeploymentView("any", "any", "/x", (), {}, {}).well


async def test_what_compose_says_is_one_plain_line() -> None:
    said = b"\x1b[31mone\x1b[0m\r\n two \n"
    assert (
        Compose.last_words(Finished(1, b"", said, 0, 0, timed_out=False, duration_s=0.0))
        == "one / two"
    )
    assert "without output" in Compose.last_words(Finished(1, b"", b"", 0, 0, False, 0.0))
    assert plain("\x1b[2Knode | x") == "node | x"


async def test_a_rig_is_made_of_what_there_is(tmp_path: Path) -> None:
    tikv = find_plugin("tikv")
    assert no_rig(tikv) == "", "containers can be had, as far as can be told without Docker"
    assert {one.kind for one in parts_of(tikv)} >= {"pd", "store"}
    assert "tikv" in rigs_there_are()
    with pytest.raises(UsageError, match="cannot be made of 'wood'"):
        await raise_rig("tikv", tmp_path / "x", make="wood", owned=False)
    with pytest.raises(UsageError, match=f"no rig of {Make.COMPOSE}"):
        await raise_rig("etcd", tmp_path / "x", make="compose", owned=False)
    nothing = Plugin("nothing", "It has no rig.", tikv.subject)
    assert no_rig(nothing) == "it has no rig"
    with pytest.raises(UsageError, match="has no rig"):
        check_rig(nothing)
    check_rig(find_plugin("etcd"))
