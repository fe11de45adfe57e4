"""The real PD decides who is up, who leads and what is done: every invariant breaks and recovers.

Needs what `python -m tests.tools.pd` builds. The quick tests are about that, and build nothing.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from operator_lab.rig import Rig
from operator_sre.subjects.tikv.invariants import invariants_of
from operator_sre.subjects.tikv.options import Options
from operator_sre.subjects.tikv.rig import rig
from tests.engines.tikv.real import real_programs
from tests.engines.tikv.wire import ask
from tests.processes.waiting import processes_in
from tests.subjects.tikv.test_tikv_mending import FAULTS, Ward
from tests.tools import pd as tool

WITHIN_S = 240.0
POLL_S = 0.5
STORE = "store-2"
# So many the small store makes of the first one; PD itself makes a few more.
REGIONS = 90
# What each fault breaks that no other of these does.
BREAKS = {
    "node_kill": ("store_unreachable", "store_disconnected", "store_down", "under_replicated"),
    "stores_kill": ("regions_without_leader",),
    "latency": ("high_latency",),
    "peers_cut": ("peers_unreachable",),
    "disk_pressure": ("low_disk_space",),
    "log_flood": ("log_oversized",),
    "pd_member_kill": ("pd_member_down",),
    "pd_quorum_lost": ("pd_no_leader",),
    "scheduler_left": ("scheduler_left",),
    "leader_imbalance": ("leader_imbalance", "schedulers_idle"),
    "split_ignored": ("operator_stuck",),
}
# What a store has to say of itself for an invariant to break that nothing else on one machine can.
SAYS = {
    "apply_lag": 'apply-wait = "3s"',
    "clock_skew": 'clock-ahead = "90s"',
    "hot_region": "hot-bytes = 50000000",
    "versions_differ": 'version = "8.1.1"',
}
# There is no Prometheus in a rig.
ELSEWHERE = {"prometheus_down", "prometheus_target_missing", "ghost_member", "not_listed"}


@pytest.fixture
def no_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Nothing was ever built, and there is no program but those in the folder."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def _go(folder: Path, *, downloads: str) -> None:
    """A Go that builds anything at once, and downloads what it is told to."""
    program = folder / "go"
    program.write_text(
        "#!/bin/sh\n"
        f"if [ \"$1\" = mod ]; then printf '%s' '{downloads}'; exit 0; fi\n"
        'while [ "$1" != -o ]; do shift; done\n'
        'echo "#!/bin/sh" > "$2"; /bin/chmod +x "$2"\n'
    )
    program.chmod(0o755)


def test_without_go_one_sentence_says_so(
    no_cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert not tool.built()
    assert tool.main() == 1
    *_, said = capsys.readouterr().out.splitlines()
    assert said.startswith("There is no Go to build PD with")
    assert said.endswith("Tests with the real PD are skipped.")
    assert isinstance(real_programs(), str)
    assert not (no_cache / "cache").exists()


def test_a_pd_that_cannot_be_had_or_is_another_is_not_used(no_cache: Path) -> None:
    _go(no_cache, downloads='{"Error": "reading the list: 403 Forbidden"}')
    with pytest.raises(tool.CannotBuild, match=r"cannot be fetched: .*403 Forbidden"):
        tool.build()
    _go(no_cache, downloads='{"Dir": "/", "Sum": "h1:of-somebody-else"}')
    with pytest.raises(tool.CannotBuild, match="not the pinned one"):
        tool.build()
    assert not tool.built()


def test_what_is_built_lies_outside_of_the_tree_and_is_built_once(no_cache: Path) -> None:
    _go(no_cache, downloads=f'{{"Dir": "/", "Sum": "{tool.SUM}"}}')
    place = tool.build()
    assert place == tool.folder() == real_programs()
    assert place.is_relative_to(no_cache / "cache")
    assert sorted(one.name for one in place.iterdir()) == ["pd-server", "tikv-server"]
    (no_cache / "go").unlink()
    assert tool.build() == place


def test_without_go_that_of_debian_builds_it(
    no_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unpack(folder: Path, *packages: str) -> bool:
        assert packages == tool.GO_PACKAGES
        (folder / tool.GO).parent.mkdir(parents=True)
        _go((folder / tool.GO).parent, downloads=f'{{"Dir": "/", "Sum": "{tool.SUM}"}}')
        return True

    monkeypatch.setattr(tool, "unpack", unpack)
    assert tool.build() == real_programs()


def test_every_invariant_is_broken_by_something_here() -> None:
    broken = [name for names in BREAKS.values() for name in names]
    source = (tool.STORE / "settings.go").read_text(encoding="utf-8")
    assert all(f'"{says.partition(" ")[0]}"' in source for says in SAYS.values())
    assert set(BREAKS) <= set(FAULTS)
    assert {*broken, *SAYS, *ELSEWHERE} == {one.name for one in invariants_of(Options())}


@pytest.fixture(scope="module")
def rig_directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Three of the real PD with three stores; it ends with the tests, and leaves nothing."""
    programs = real_programs()
    if isinstance(programs, str):
        pytest.skip(programs)
    place = tmp_path_factory.mktemp("real") / "rig"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", str(programs), prepend=os.pathsep)
        spec = rig()
    up = asyncio.run(Rig.up(spec, place, owned=True))
    asyncio.run(_grown(up))
    yield place
    asyncio.run(up.down())
    assert processes_in(place) == []


async def _grown(rig: Rig) -> None:
    """Wait until all regions are there, with all copies: nobody should be hurt before that."""
    port = next(one.port for one in rig.targets() if one.kind == "pd")
    url = f"http://127.0.0.1:{port}/pd/api/v1"

    async def count(page: str) -> int:
        told = (await ask(f"{url}/{page}", timeout_s=WITHIN_S)).json()
        return int(told.get("count", -1)) if isinstance(told, dict) else -1

    ends = time.monotonic() + WITHIN_S
    while await count("stats/region") < REGIONS or await count("regions/check/miss-peer"):
        assert time.monotonic() < ends, "the regions do not grow"
        await asyncio.sleep(POLL_S)


async def _until_broken(ward: Ward, *names: str) -> None:
    ends, missing = time.monotonic() + WITHIN_S, set(names)
    while missing:
        broken = ward.broken(await ward.look())
        missing -= {one.invariant for one in broken}
        told = [(one.key, one.detail) for one in broken]
        assert not missing or time.monotonic() < ends, f"{missing} do not break; {told}"
        await asyncio.sleep(POLL_S)


@pytest.mark.slow
@pytest.mark.system
@pytest.mark.asyncio
@pytest.mark.timeout(900)
@pytest.mark.group("real-pd")
@pytest.mark.parametrize("name", BREAKS)
async def test_invariants_break_by_a_fault_and_recover(rig_directory: Path, name: str) -> None:
    ward = Ward(Rig.attach(rig_directory))
    async with ward.hurt(FAULTS[name]):
        await _until_broken(ward, *BREAKS[name])


@pytest.mark.slow
@pytest.mark.system
@pytest.mark.asyncio
@pytest.mark.timeout(900)
@pytest.mark.group("real-pd")
@pytest.mark.parametrize("name", SAYS)
async def test_invariants_break_by_what_a_store_says_and_recover(
    rig_directory: Path, name: str
) -> None:
    ward = Ward(Rig.attach(rig_directory))
    await ward.healthy()
    settings = rig_directory / STORE / "tikv.toml"
    before = settings.read_text(encoding="utf-8")
    try:
        settings.write_text(f"{before}\n[test]\n{SAYS[name]}\n", encoding="utf-8")
        await ward.rig.restart(STORE)
        await _until_broken(ward, name)
    finally:
        settings.write_text(before, encoding="utf-8")
        await ward.rig.restart(STORE)
    await ward.healthy()
