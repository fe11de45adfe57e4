"""What can be done to a rig besides its links: seen in the world, undone without a trace."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import socket
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from operator_lab.abilities import Breakable
from operator_lab.handle import Handle, manifest_of
from operator_lab.limits import AVAILABLE, is_lowered, lower, raise_again
from operator_lab.manifest import HOST
from operator_lab.rig import Rig
from operator_lab.startup import answers
from operator_protocols.errors import NotFoundError, PortTakenError, RigError
from operator_protocols.ports import (
    Abilities,
    Ability,
    Cut,
    Fill,
    Kill,
    Limit,
    Occupy,
    Pause,
    Slow,
)
from operator_sre.processes.identity import alive, is_paused, process_of, tree_of
from tests.lab.town import TOWN, port_of, process_of_target, status_of, target_of
from tests.processes.waiting import eventually

NAMES = ("ash", "birch", "cedar", "elm")
VOLUME_BYTES = 8 << 20


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    """One rig for all these tests; each of them leaves it as it was."""
    rig = asyncio.run(Rig.up(TOWN, tmp_path_factory.mktemp("town") / "rig", owned=False))
    yield rig
    hurt = {name: rig.damage(name) for name in NAMES}
    asyncio.run(rig.down())
    assert not any(hurt.values())


async def _asked(rig: Rig, name: str, path: str) -> bool:
    """Whether a target does what is asked, several times if the machine is busy."""
    for _ in range(5):
        if await answers(rig.manifest().ports[name], path=path):
            return True
    return False


def test_a_rig_can_do_all_that_faults_are_made_of(town: Rig) -> None:
    for part in (Abilities, Kill, Pause, Cut, Slow, Fill, Limit, Occupy):
        assert isinstance(town, part)
    assert isinstance(town, Breakable)
    assert isinstance(town, Handle)
    assert manifest_of(town.directory) == town.manifest()
    assert [town.damage(name) for name in NAMES] == [frozenset()] * 4
    assert town.unable("ash", Ability.FILL) == "'ash' has no volume of its own size"
    assert not any(town.unable("cedar", ability) for ability in Ability)


@pytest.mark.asyncio
async def test_a_stranger_is_refused_by_every_ability(town: Rig) -> None:
    verbs: list[Callable[[str], Awaitable[object]]] = [
        *(town.kill, town.restart, town.pause, town.resume, town.fill, town.drain),
        *(town.limit, town.unlimit, town.occupy, town.vacate),
    ]
    for name in ("oak", "links", "../ash", ""):
        for verb in verbs:
            with pytest.raises(NotFoundError, match="ash, birch, cedar, elm"):
                await verb(name)
        with pytest.raises(NotFoundError):
            town.damage(name)
        with pytest.raises(NotFoundError):
            town.unable(name, Ability.KILL)


@pytest.mark.asyncio
async def test_what_needs_a_running_target_says_so(town: Rig) -> None:
    await town.kill("elm")
    assert town.damage("elm") == {Ability.KILL}
    for deed in (town.kill("elm"), town.pause("elm"), town.resume("elm")):
        with pytest.raises(RigError, match=r"'elm' is not running\. Restart it"):
            await deed
    with pytest.raises(RigError, match=r"'elm' is not running"):
        await town.limit("elm", files=9)
    await town.unlimit("elm")
    await town.restart("elm")
    assert town.damage("elm") == frozenset()


@pytest.mark.asyncio
async def test_hurt_is_seen_in_the_world_whoever_did_it(town: Rig) -> None:
    process = process_of_target(town, "elm")
    os.kill(process.pid, signal.SIGSTOP)
    await eventually(lambda: is_paused(process))
    assert town.damage("elm") == {Ability.PAUSE}
    os.kill(process.pid, signal.SIGCONT)
    await eventually(lambda: town.damage("elm") == frozenset())
    _, hard = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)
    before = resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (50, hard))
    assert town.damage("elm") == {Ability.LIMIT}
    resource.prlimit(process.pid, resource.RLIMIT_NOFILE, before)
    os.kill(process.pid, signal.SIGKILL)
    await eventually(lambda: town.damage("elm") == {Ability.KILL})
    with socket.socket() as stranger:
        stranger.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        stranger.bind((HOST, town.manifest().ports["elm"]))
        stranger.listen()
        assert town.damage("elm") == {Ability.KILL, Ability.OCCUPY}
    await town.restart("elm")
    assert town.damage("elm") == frozenset()


@pytest.mark.asyncio
async def test_a_full_volume_is_full_for_its_process_alone(town: Rig) -> None:
    if why := town.unable("cedar", Ability.FILL):
        pytest.skip(why)
    volume = Path(target_of(town, "cedar").data_dir)
    assert os.statvfs(volume).f_blocks * os.statvfs(volume).f_frsize == VOLUME_BYTES
    assert await _asked(town, "cedar", "/write")
    assert (volume / "written").stat().st_size == 64 << 10
    (volume / "written").unlink()
    await town.fill("cedar")
    assert town.damage("cedar") == {Ability.FILL}
    assert not await answers(town.manifest().ports["cedar"], path="/write")
    assert await _asked(town, "cedar", "/health")
    (town.directory / "ash" / "proof").write_bytes(bytes(1 << 20))
    await town.drain("cedar")
    assert town.damage("cedar") == frozenset()
    assert await _asked(town, "cedar", "/write")
    assert [each.name for each in volume.iterdir()] == ["written"]


@pytest.mark.asyncio
@pytest.mark.parametrize("left_bytes", [0, 4096, 1 << 20])
async def test_filling_leaves_what_was_asked_for(town: Rig, left_bytes: int) -> None:
    if why := town.unable("cedar", Ability.FILL):
        pytest.skip(why)
    volume = target_of(town, "cedar").data_dir
    await town.fill("cedar", left_bytes=left_bytes)
    await town.fill("cedar", left_bytes=left_bytes)
    figures = os.statvfs(volume)
    left = figures.f_bavail * figures.f_frsize
    assert left_bytes - figures.f_frsize <= left <= left_bytes
    assert Ability.FILL in town.damage("cedar")
    # Somebody else may make room as well.
    max(Path(volume).iterdir(), key=lambda each: each.stat().st_size).unlink()
    assert town.damage("cedar") == frozenset()
    await town.drain("cedar")


@pytest.mark.asyncio
async def test_files_are_taken_away_and_given_back(town: Rig) -> None:
    if why := town.unable("ash", Ability.LIMIT):
        pytest.skip(why)
    process = process_of_target(town, "ash")
    before = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)
    reader, writer = await asyncio.open_connection(HOST, town.manifest().ports["ash"])

    async def opens() -> bool:
        writer.write(b"GET /open HTTP/1.1\r\nHost: x\r\n\r\n")
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        await reader.readexactly(length)
        return b" 200 " in head

    assert await opens()
    await town.limit("ash", files=3)
    assert town.damage("ash") == {Ability.LIMIT}
    assert not await opens()
    await town.limit("ash", files=4)
    await town.unlimit("ash")
    assert await opens()
    assert resource.prlimit(process.pid, resource.RLIMIT_NOFILE) == before
    assert town.damage("ash") == frozenset()
    assert process_of_target(town, "ash") == process
    writer.close()
    await writer.wait_closed()


@pytest.mark.asyncio
async def test_memory_is_taken_away_until_it_is_given_back_or_started_anew(town: Rig) -> None:
    if why := town.unable("birch", Ability.LIMIT):
        pytest.skip(why)
    assert await _asked(town, "birch", "/grow")
    await town.limit("birch", memory_bytes=384 << 20)
    assert town.damage("birch") == {Ability.LIMIT}
    assert not await answers(town.manifest().ports["birch"], path="/grow")
    await town.unlimit("birch")
    assert await _asked(town, "birch", "/grow")
    await town.limit("birch", memory_bytes=384 << 20)
    await town.restart("birch")
    assert town.damage("birch") == frozenset()
    assert await _asked(town, "birch", "/grow")
    for files, memory_bytes in ((0, 0), (-1, 0), (0, -1)):
        with pytest.raises(RigError, match="A limit is"):
            await town.limit("birch", files=files, memory_bytes=memory_bytes)


@pytest.mark.asyncio
async def test_limits_reach_everything_that_came_out_of_a_process(tmp_path: Path) -> None:
    if not AVAILABLE:
        pytest.skip("only Linux can change the limits of a running process")
    shell = await asyncio.create_subprocess_exec(
        *("sh", "-c", "sleep 300 & wait"), start_new_session=True
    )
    process, me = process_of(shell.pid), process_of(os.getpid())
    assert process is not None
    assert me is not None
    await eventually(lambda: tree_of(shell.pid))
    (child,) = tree_of(shell.pid)
    assert not is_lowered(child, me)
    lower(tmp_path, process, {"nofile": 40})
    assert is_lowered(process, me)
    assert is_lowered(child, me)
    raise_again(tmp_path, process)
    assert not is_lowered(process, me)
    assert not is_lowered(child, me)
    os.killpg(shell.pid, signal.SIGKILL)
    await shell.wait()


@pytest.mark.asyncio
async def test_a_taken_port_keeps_its_owner_away_until_it_is_free(town: Rig) -> None:
    before = process_of_target(town, "birch")
    await town.occupy("birch")
    assert not alive(before)
    assert town.damage("birch") == {Ability.KILL, Ability.OCCUPY}
    assert await answers(town.manifest().ports["birch"])
    # It is reached through the link, as everything that listens there.
    assert await answers(port_of(town, "birch"))
    with pytest.raises(PortTakenError, match="was taken"):
        await town.restart("birch")
    await town.vacate("birch")
    assert town.damage("birch") == {Ability.KILL}
    await town.restart("birch")
    assert town.damage("birch") == frozenset()
    await town.vacate("birch")
    assert town.damage("birch") == frozenset()


@pytest.mark.asyncio
async def test_a_stranger_ended_by_somebody_else_is_gone(town: Rig) -> None:
    await town.occupy("elm")
    (stranger,) = [each for each in town.status().processes if each.kind == "other"][-1:]
    assert stranger.process is not None
    os.kill(stranger.process.pid, signal.SIGKILL)
    await eventually(lambda: town.damage("elm") == {Ability.KILL})
    await town.restart("elm")
    assert status_of(town, "elm").state == "running"


@pytest.mark.asyncio
async def test_any_signal_reaches_a_target_and_each_child_of_it(town: Rig) -> None:
    assert town.children("ash") == ()
    assert town.signal("ash", signal.SIGSTOP) == "ash"
    await eventually(lambda: town.damage("ash") == {Ability.PAUSE})
    # Without a child the target itself is meant.
    assert town.signal("ash", signal.SIGCONT, child=7) == "ash"
    await eventually(lambda: town.damage("ash") == frozenset())
    town.signal("ash", signal.SIGKILL)
    await eventually(lambda: Ability.KILL in town.damage("ash"))
    with pytest.raises(RigError, match="not running"):
        town.signal("ash", signal.SIGTERM)
    await town.restart("ash")


@pytest.mark.asyncio
async def test_processes_and_file_sizes_are_limited_too(town: Rig) -> None:
    if why := town.unable("ash", Ability.LIMIT):
        pytest.skip(why)
    process = process_of_target(town, "ash")
    kinds = (resource.RLIMIT_NPROC, resource.RLIMIT_FSIZE)
    before = [resource.prlimit(process.pid, each) for each in kinds]
    await town.limit("ash", processes=1, file_bytes=1 << 30)
    assert resource.prlimit(process.pid, resource.RLIMIT_NPROC)[0] == 1
    assert resource.prlimit(process.pid, resource.RLIMIT_FSIZE)[0] == 1 << 30
    assert town.damage("ash") == {Ability.LIMIT}
    await town.unlimit("ash")
    assert [resource.prlimit(process.pid, each) for each in kinds] == before
