"""Packs and probes of machines: units under a real systemd, containers of a real Docker engine."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from operator_protocols.domain.action import Action, Result
from operator_protocols.ports import Job, Shell
from tests.engines.dockerd import Engine, docker_engine
from tests.engines.systemd import Systemd, running_systemd
from tests.models.world import WELL
from tests.subjects.declarative.diagnosing import diagnose
from tests.subjects.declarative.probes.test_host import asking
from tests.subjects.declarative.servers import local_shell
from tests.subjects.declarative.test_packs import PACKS
from tests.subjects.declarative.test_real_servers import broken, until, until_broken
from tests.subjects.declarative.trying import Tried, described

pytestmark = [pytest.mark.asyncio, pytest.mark.system, pytest.mark.timeout(300)]
_SERVICE = "[Unit]\nDefaultDependencies=no\nStartLimitIntervalSec=0\n[Service]\n"
UNITS = {
    "mine.service": f"{_SERVICE}ExecStart=/bin/sh -c 'echo ERROR one; exec sleep 1000'\n",
    "crashing.service": f"{_SERVICE}ExecStart=/bin/false\nRestart=always\nRestartSec=50ms\n",
}


class Elsewhere:
    """A shell whose commands are changed on their way, so that they get to a private place."""

    def __init__(self, shell: Shell, change: Callable[[Sequence[str]], Sequence[str]]) -> None:
        self._shell, self._change = shell, change

    async def run(self, action: Action, job: Job) -> Result:
        there = Action.program(self._change(action.argv), target=action.target)
        return await self._shell.run(there, job)

    async def recover(self, action: Action, job: Job) -> Result:
        return await self._shell.recover(action, job)


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Systemd]:
    with running_systemd(tmp_path, UNITS) as made:
        yield made


def inside(machine: Systemd, folder: Path) -> Elsewhere:
    return Elsewhere(local_shell(folder), lambda argv: machine.inside(*argv))


async def test_a_unit_of_systemd_that_runs_crashes_stops_and_crashes_again(
    machine: Systemd, tmp_path: Path
) -> None:
    def pack(unit: str) -> Tried:
        text = PACKS["systemd-services"].text.replace("@NAME@", unit)
        return described(tmp_path, text, commands=inside(machine, tmp_path))

    async def causes(tried: Tried) -> tuple[str, str]:
        found = await diagnose(tried, **{tried.targets[0].name: WELL})
        return found.cause, found.choice

    machine.run("systemctl", "start", "mine.service")
    tried = pack("mine")
    await until_broken(tried, set())
    machine.run("systemctl", "kill", "--signal=KILL", "mine.service")
    await until_broken(tried, {"unit_is_active"})
    assert await causes(tried) == ("unit_crashed", "restart_node(mine-1)")
    machine.run("systemctl", "restart", "mine.service")
    await until_broken(tried, set())
    machine.run("systemctl", "stop", "mine.service")
    await until_broken(tried, {"unit_is_active"})
    assert await causes(tried) == ("unit_stopped", "escalate")
    machine.run("systemctl", "start", "crashing.service")
    tried = pack("crashing")

    async def is_crashing() -> bool:
        return "unit_is_stable" in await broken(tried)

    await until(is_crashing, "systemd has restarted it five times")
    cause, choice = await causes(tried)
    assert (cause, choice) == ("unit_crashes_again", "escalate")


async def test_failed_units_and_the_journal_of_one(machine: Systemd, tmp_path: Path) -> None:
    shell = inside(machine, tmp_path)
    machine.run("systemctl", "start", "mine.service")

    async def journal(matches: str) -> dict[str, object]:
        probe = f"{{journald: {{unit: mine.service, within: 10m, matches: {matches}}}}}"
        return dict((await asking(tmp_path, probe, "it.lines < 9", commands=shell).seen()).readings)

    async def is_written() -> bool:
        return (await journal("ERROR")).get("it.newest") == "ERROR one"

    await until(is_written, "its line is in the journal")
    assert (await journal("FATAL"))["it.lines"] == 0
    failed = asking(tmp_path, "{systemd: {}}", commands=shell)
    assert (await failed.seen()).readings["it.failed"] == 0
    machine.run("systemctl", "kill", "--signal=KILL", "mine.service")

    async def is_failed() -> bool:
        return (await failed.seen()).readings.get("it.units") == "mine.service"

    await until(is_failed, "the unit is listed as failed")
    seen = await asking(tmp_path, "{systemd: {unit: none.service}}", commands=shell).seen()
    assert "there is no unit none.service" in str(seen.readings["it.error"])


@pytest.fixture
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    made = docker_engine(request.config)
    yield made
    made.clean()


async def test_containers_that_run_stop_crash_and_are_missing(
    engine: Engine, tmp_path: Path
) -> None:
    def asked(argv: Sequence[str]) -> Sequence[str]:
        return [argv[0], "--host", engine.url, *argv[1:]] if argv[0] == "docker" else argv

    shell = Elsewhere(local_shell(tmp_path), asked)
    name = engine.name()
    text = PACKS["docker-host"].text.replace("@NAME@", name)

    async def find() -> tuple[str, str]:
        found = await diagnose(described(tmp_path, text, commands=shell), **{name: WELL})
        return found.cause, found.choice

    made = engine.run("/bin/sh", "-c", "trap 'exit 0' TERM; while :; do sleep 0.1; done", name=name)
    assert await broken(described(tmp_path, text, commands=shell)) == set()
    readings = await asking(tmp_path, f"{{docker: {{container: {name}}}}}", commands=shell).seen()
    assert readings.readings["it.ok"] is True
    assert str(readings.readings["it.image"]).startswith(engine.image.partition(":")[0])
    engine.ask("POST", f"/containers/{made}/pause")
    assert await find() == ("container_paused", "escalate")
    engine.ask("POST", f"/containers/{made}/unpause")
    engine.ask("POST", f"/containers/{made}/stop?t=20")
    assert await find() == ("container_stopped", "escalate")
    engine.ask("POST", f"/containers/{made}/start")
    engine.ask("POST", f"/containers/{made}/kill?signal={signal.SIGKILL.name}")
    engine.ask("POST", f"/containers/{made}/wait")
    assert await find() == ("container_crashed", f"start({name})")
    engine.remove(made)
    assert await find() == ("container_missing", "escalate")
    seen = await asking(tmp_path, f"{{docker: {{container: {name}}}}}", commands=shell).seen()
    assert seen.readings["it.state"] == "missing"
    dead = Elsewhere(
        local_shell(tmp_path), lambda argv: ["docker", "--host=unix:///none", *argv[1:]]
    )
    seen = await asking(tmp_path, "{docker: }", commands=dead).seen()
    assert "docker does not answer" in seen.problem
