"""Restarts by docker, systemd and tiup: programs of those names that really restart a part."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from operator_lab.rig import Rig
from operator_protocols.domain.action import Action, Outcome, Result
from operator_protocols.domain.target import Target
from operator_protocols.ports import Job, SubjectSettings
from operator_sre.clock import SystemClock
from operator_sre.subjects.tikv import plugin
from tests.engines.tikv.standin import install
from tests.processes.waiting import processes_in

pytestmark = [pytest.mark.asyncio, pytest.mark.slow, pytest.mark.timeout(300)]

TIMEOUT_S = 5.0
# What each is called with, before the name of what it restarts.
WORDS = {
    "docker": ("docker", "restart", "--time", "30"),
    "systemd": ("systemctl", "restart", "--"),
    "tiup": ("tiup", "cluster", "restart", "shop", "--node"),
}
PROGRAM = """\
#!{python}
import asyncio, sys
from pathlib import Path
from operator_lab.rig import Rig

words, names = sys.argv[1:], {names!r}
before = {before!r}
if tuple(words[: len(before)]) != before or words[len(before)] not in names:
    sys.exit(f"I do not know how to {{words}}")
asyncio.run(Rig.attach(Path({place!r})).restart(names[words[len(before)]]))
"""


@dataclass
class Shell:
    """Runs what it is given, with these programs before all others."""

    programs: Path

    async def run(self, action: Action, job: Job) -> Result:
        """Wait for its end."""
        path = f"{self.programs}{os.pathsep}{os.environ['PATH']}"
        program = self.programs / action.argv[0]
        child = await asyncio.create_subprocess_exec(
            program,
            *action.argv[1:],
            env={**os.environ, "PATH": path},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await child.communicate()
        return Result(Outcome.RAN, child.returncode, out.decode(), err.decode())

    async def recover(self, action: Action, job: Job) -> Result:
        """Nobody asks for that."""
        raise AssertionError(action)


@pytest.fixture(scope="module")
def rig_directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A rig of stand-ins; it ends with the tests, and leaves nothing."""
    place = tmp_path_factory.mktemp("tikv")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", str(install(place / "bin")), prepend=os.pathsep)
        assert plugin.rig is not None
        spec = plugin.rig()
    up = asyncio.run(Rig.up(spec, place / "rig", owned=True))
    yield place / "rig"
    asyncio.run(up.down())
    assert processes_in(place / "rig") == []


def _named(target: Target, by: str) -> str:
    part = {"store": "tikv"}.get(target.kind, target.kind)
    names = {
        "docker": f"shop-{target.name}",
        "systemd": f"{part}-{target.port}.service",
        "tiup": f"127.0.0.1:{target.port}",
    }
    return names[by]


def _program(place: Path, by: str, names: Mapping[str, str], rig: Path) -> None:
    name, *before = WORDS[by]
    text = PROGRAM.format(
        python=sys.executable, names=dict(names), before=tuple(before), place=str(rig)
    )
    (place / name).write_text(text, encoding="utf-8")
    (place / name).chmod(0o755)


@pytest.mark.parametrize("by", sorted(WORDS))
@pytest.mark.parametrize(("tool", "part"), [("restart_store", "store-2"), ("restart_pd", "pd-2")])
async def test_what_was_killed_is_up_again_and_what_serves_is_restarted_too(
    rig_directory: Path, tmp_path: Path, by: str, tool: str, part: str
) -> None:
    rig = Rig.attach(rig_directory)
    _program(tmp_path, by, {_named(one, by): one.name for one in rig.targets()}, rig_directory)

    def targets() -> tuple[Target, ...]:
        known = rig.targets()
        if by != "docker":
            return tuple(known)
        return tuple(replace(one, runs_at=f"docker://{_named(one, by)}") for one in known)

    options = {**rig.manifest().spec.options, "restart_by": by, "tiup_cluster": "shop"}
    shell = Shell(tmp_path)
    settings = SubjectSettings(plugin.name, targets, SystemClock(), TIMEOUT_S, options, str, shell)
    assert plugin.tools is not None
    found = next(one for one in plugin.tools(settings) if one.spec.name == tool)
    before = {one.name: one.process for one in rig.targets()}
    await rig.kill(part)
    for _ in ("dead", "alive"):
        result = await found.call({"target": part}, Job(timeout_s=120.0))
        assert result.ok, result.stderr
        after = {one.name: one.process for one in rig.targets()}
        assert {name for name in after if after[name] != before[name]} == {part}
        before = after
