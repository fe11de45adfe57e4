"""Certificates, names, disks, memory and units, asked of real ones where there are any."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from operator_protocols.domain.action import Action, Outcome, Result
from operator_protocols.ports import Job
from operator_sre.executor.jobs import Spool
from operator_sre.executor.programs import Programs
from operator_sre.executor.transports.local import LocalShell
from operator_sre.subjects.declarative.probes.machine import process_there
from operator_sre.subjects.declarative.probes.place import Blind, Place
from operator_sre.subjects.declarative.probes.there import read_end, run_there, see_file
from tests.contract.servers import unused_port
from tests.subjects.certificates import certificate
from tests.subjects.declarative.diagnosing import diagnose
from tests.subjects.declarative.test_http import _secure
from tests.subjects.declarative.trying import Tried, described

pytestmark = pytest.mark.asyncio


def asking(
    folder: Path, probe: str, holds: str = "it.ok", more: str = "", **given: object
) -> Tried:
    text = (
        f"name: a\ntargets: {{t: {{kind: k{more}}}}}\nprobes: {{it: {probe}}}\n"
        f"invariants: {{i: {{holds: '{holds}'}}}}\n"
    )
    return described(folder, text, **{"timeout_s": 10.0, **given})


async def test_a_certificate_is_read_and_never_believed_when_it_is_rejected(tmp_path: Path) -> None:
    good = certificate(tmp_path, name="shop.test", days=20)
    expired = certificate(tmp_path, name="old.test", days=-1)
    probe = "{certificate: {name: %s}}"
    async with _secure(good) as port:
        more = f", port: {port}, access: {{ca_file: {good}}}"
        tried = asking(tmp_path, probe % "shop.test", "it.certificate_days > 30", more)
        readings = (await tried.seen()).readings
        days = readings["it.certificate_days"]
        assert isinstance(days, float)
        assert 19 < days <= 20
        assert (readings["it.trusted"], readings["it.subject"]) == (True, "shop.test")
        assert (await diagnose(tried)).cause == "certificate_expiring"
        seen = await asking(tmp_path, probe % "else.test", more=more).seen()
        assert (seen.readings["it.trusted"], seen.readings["it.up"]) == (False, True)
        assert seen.readings["cause.certificate_name_differs"] is True
    async with _secure(expired) as port:
        more = f", port: {port}, access: {{ca_file: {expired}}}"
        tried = asking(tmp_path, probe % "old.test", "it.certificate_days > 30", more)
        assert (await diagnose(tried)).cause == "certificate_expired"
    with unused_port() as dead:
        seen = await asking(tmp_path, probe % "x", more=f", port: {dead}").seen()
        assert seen.readings["it.up"] is False


async def test_a_name_is_resolved_or_not(tmp_path: Path) -> None:
    seen = await asking(tmp_path, "{dns: {name: localhost}}").seen()
    assert "127.0.0.1" in str(seen.readings["it.addresses"])
    seen = await asking(tmp_path, "{dns: {address: 10.9.9.9}}", more=", host: localhost").seen()
    assert "not 10.9.9.9" in str(seen.readings["it.error"])
    tried = asking(tmp_path, "{dns: {name: no-such-host.invalid}}")
    assert (await diagnose(tried)).cause == "name_not_resolved"


async def test_disks_and_memory_are_those_of_the_machine(tmp_path: Path) -> None:
    shell = LocalShell(Programs(Spool(tmp_path / "spool")))
    readings = (await asking(tmp_path, "{disk: {path: /}}", commands=shell).seen()).readings
    used, size = readings["it.used_percent"], readings["it.size_bytes"]
    assert isinstance(used, float)
    assert isinstance(size, int)
    assert 0 <= used <= 100
    assert size > 1 << 20
    readings = (await asking(tmp_path, "{memory: }", commands=shell).seen()).readings
    total = next(
        int(line.split()[1]) * 1024
        for line in Path("/proc/meminfo").read_text().splitlines()
        if line.startswith("MemTotal")
    )
    assert readings["it.total_bytes"] == total
    load, cores = readings["it.load_per_core"], readings["it.cores"]
    assert isinstance(load, float)
    assert isinstance(cores, int)
    assert cores >= 1


class Recorded:
    """A shell that answers as a real machine did, by the first words of a command."""

    def __init__(self, answers: Mapping[str, Result]) -> None:
        self.answers = answers

    async def run(self, action: Action, job: Job) -> Result:
        line = " ".join(action.argv)
        return next(answer for words, answer in self.answers.items() if words in line)

    async def recover(self, action: Action, job: Job) -> Result:
        raise AssertionError(action)


def said(text: str, code: int = 0) -> Result:
    return Result(Outcome.RAN, code, text if not code else "", text if code else "")


FAILED = """\
Result=exit-code
NRestarts=5
LoadState=loaded
ActiveState=failed
SubState=failed
UnitFileState=enabled
"""


async def test_a_unit_says_how_it_is(tmp_path: Path) -> None:
    failed = Recorded({"show": said(FAILED)})
    readings = (
        await asking(tmp_path, "{systemd: {unit: x.service}}", commands=failed).seen()
    ).readings
    assert (readings["it.ok"], readings["it.state"], readings["it.restarts"]) == (
        False,
        "failed",
        5,
    )
    assert readings["it.error"] == "x.service is failed (exit-code)"
    well = Recorded({"show": said(FAILED.replace("failed", "active"))})
    tried = asking(tmp_path, "{systemd: {unit: x.service}}", commands=well)
    assert (await tried.seen()).readings["it.ok"] is True
    none = Recorded({"show": said("LoadState=not-found\nActiveState=inactive\n")})
    tried = asking(tmp_path, "{systemd: {unit: x.service}}", commands=none)
    assert (await tried.seen()).readings["it.error"] == "there is no unit x.service"
    listed = Recorded(
        {"--failed": said("a.service loaded failed failed A\nb.timer loaded failed x\n")}
    )
    readings = (await asking(tmp_path, "{systemd: }", commands=listed).seen()).readings
    assert (readings["it.failed"], readings["it.units"]) == (2, "a.service, b.timer")
    off = Recorded({"systemctl": said("System has not been booted with systemd", 1)})
    assert "not been booted" in (await asking(tmp_path, "{systemd: }", commands=off).seen()).problem


async def test_files_and_processes_of_another_place_are_read_by_commands(tmp_path: Path) -> None:
    shell = LocalShell(Programs(Spool(tmp_path / "spool")))
    tried = asking(tmp_path, "{disk: }", commands=shell)
    place = Place(tried.targets[0], tried.settings, 10.0)
    (tmp_path / "log").write_text("one\ntwo\n")
    found = await see_file(place, str(tmp_path / "log"))
    assert found is not None
    assert (found.size_bytes, found.is_regular) == (8, True)
    assert await see_file(place, str(tmp_path / "none")) is None
    assert await read_end(place, str(tmp_path / "log"), 4) == b"two\n"
    (tmp_path / "pid").write_text(str(os.getpid()))
    process = await process_there(place, str(tmp_path / "pid"))
    assert process is not None
    assert (process.pid, process.state in "RSD") == (os.getpid(), True)
    assert process.rss_bytes > 1 << 20
    # A pid file that is older than the process of its number names another process.
    os.utime(tmp_path / "pid", (1.0, 1.0))
    assert await process_there(place, str(tmp_path / "pid")) is None
    with pytest.raises(Blind, match="does not judge its command SAFE"):
        await run_there(place, "touch", str(tmp_path / "ran"))
    assert not (tmp_path / "ran").exists()
