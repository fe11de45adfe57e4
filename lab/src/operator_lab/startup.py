"""Bring a rig to life or leave nothing: claim its directory, start, wait, clean up on failure.

A process is ready when it lives and its port answers, and no other process holds that port.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import subprocess
import time
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from operator_lab.builders import find_built
from operator_lab.cgroups import group_name, remove_groups
from operator_lab.limits import mount_volumes, sized_volumes
from operator_lab.load import STATS_FILE
from operator_lab.manifest import (
    HOST,
    LINKS,
    LOAD,
    MANIFEST_FILE,
    Layout,
    Volumes,
    own_home,
    port_keys,
    read_manifest,
    write_manifest,
)
from operator_lab.plan import (
    alone_in,
    check_spec,
    choose_homes,
    clear,
    make_places,
    plan,
    take,
    unprivileged_user,
)
from operator_lab.ports import ReservePorts, is_taken, listens
from operator_lab.rules import read_applied
from operator_protocols.domain.rig import ProcessSpec, RigSpec
from operator_protocols.domain.target import Process
from operator_protocols.errors import PortTakenError, RigError
from operator_sre.processes.control import Control, Launched, base_environment, launch, reap
from operator_sre.processes.files import last_line
from operator_sre.processes.identity import alive
from operator_sre.processes.mounts import unmount_below, unmount_orphans
from operator_sre.processes.supervision import ChildState, read_state, write_orders

__all__ = [
    "answers",
    "raise_rig",
    "retire",
    "start_process",
    "wait_linked",
    "wait_links",
    "wait_ready",
]

READY_POLL_S = 0.02
KNOCK_S_MAX = 1.0
LINKS_S_MAX = 15.0
STATUS_LINE_BYTES_MAX = 4096
_TAKEN_WORDS = ("address already in use", "address in use", "eaddrinuse", "could not bind")


async def wait_ready(layout: Layout, spec: ProcessSpec, *, process: Process) -> None:
    """Return when it answers; PortTakenError or RigError, with its last words, when it will not."""
    ports = [layout.manifest.ports[key] for key in port_keys(spec)]
    log = layout.log(spec.name)
    ends = time.monotonic() + spec.ready_s_max
    while time.monotonic() < ends:
        # Asked before knocking: an answer counts only if it was alive to give it.
        if not alive(process):
            raise _describe_exit(spec.name, ports=ports, log=log)
        if spec.ready_path or not spec.ready_argv:
            is_ready = await answers(ports[0], path=spec.ready_path)
        else:
            is_ready = not await Control(layout.directory).check(spec.name)
        if is_ready:
            mine = listens(process, ports[0])
            if mine is None or mine or (spec.ready_argv and not is_taken(ports[0])):
                return
            if alive(process):
                raise PortTakenError(
                    f"Another process answers on port {ports[0]} of {spec.name!r}."
                )
        await asyncio.sleep(READY_POLL_S)
    raise RigError(
        f"{spec.name!r} did not answer within {spec.ready_s_max:g} s; its log ends with "
        f"{last_line(log)!r}."
    )


async def wait_links(layout: Layout) -> None:
    """Return when the links are laid; PortTakenError or RigError when they cannot be."""
    ends = time.monotonic() + LINKS_S_MAX
    while time.monotonic() < ends:
        if read_applied(layout.directory) is not None:
            return
        state = read_state(layout.directory)
        if state is not None and state.child(LINKS).state is ChildState.EXITED:
            break
        await asyncio.sleep(READY_POLL_S)
    ports = list(layout.manifest.links.values())
    raise _describe_exit(LINKS, ports=ports, log=layout.log(LINKS))


async def wait_linked(layout: Layout, spec: ProcessSpec) -> None:
    """Return when a process that is ready is reached through its links as well."""
    ends = time.monotonic() + LINKS_S_MAX
    while time.monotonic() < ends:
        if await answers(layout.manifest.public_port(spec.name)):
            return
        await asyncio.sleep(READY_POLL_S)
    raise RigError(f"{spec.name!r} cannot be reached through its link.")


async def answers(port: int, *, path: str = "", within_s: float = KNOCK_S_MAX) -> bool:
    """Whether something answers: HTTP 200 for the path, or an accepted connection without one."""
    try:
        async with asyncio.timeout(within_s):
            reader, writer = await asyncio.open_connection(HOST, port, limit=STATUS_LINE_BYTES_MAX)
            try:
                if not path:
                    return True
                ask = f"GET {path} HTTP/1.1\r\nHost: {HOST}:{port}\r\nConnection: close\r\n\r\n"
                writer.write(ask.encode())
                line = await reader.readline()
            finally:
                writer.close()
    except (OSError, TimeoutError, ValueError):
        return False
    return line.startswith(b"HTTP/1.") and line.split(b" ")[1:2] == [b"200"]


def _describe_exit(name: str, *, ports: list[int], log: Path) -> RigError:
    line = last_line(log)
    sentence = f"{name!r} exited during startup; its log ends with {line!r}."
    # A process that was quicker may have ended since, so the last output counts as well.
    held = [port for port in ports if is_taken(port)]
    if held or any(word in line.lower() for word in _TAKEN_WORDS):
        return PortTakenError(f"Port {(held or ports)[0]} was taken: {sentence}")
    return RigError(sentence)


ATTEMPTS_MAX = 3
LOAD_READY_S_MAX = 10.0
HELD_S_MAX = 5.0
REMOVALS_MAX, REMOVAL_S = 20, 0.1
CLEANUP_S_MAX = 180.0
POLL_S = 0.01
LINK_MARK = ">"


async def raise_rig(
    spec: RigSpec, directory: Path, *, owned: bool, reserve: ReservePorts
) -> Launched:
    """Start everything and wait until it answers; on any failure nothing of it stays."""
    check_spec(spec)
    try:
        unmount_orphans()
        directory.parent.mkdir(parents=True, exist_ok=True)
        before = read_manifest(directory)
        if before is not None and not before.live:
            await _end(directory)
            await _clean_up(directory)
        async with alone_in(directory.parent):
            left_over = take(spec, directory)
        if left_over:
            await _end(directory)
            _clear(directory)
    except OSError as problem:
        raise _unusable(directory, problem) from problem
    launched: Launched | None = None
    try:
        launched = await _attempts(spec, directory, owned=owned, reserve=reserve)
    except OSError as problem:
        raise _unusable(directory, problem) from problem
    finally:
        if launched is None:
            await _through(retire(directory))
    return launched


async def retire(directory: Path) -> None:
    """End every process of a rig and remove its directory; nothing happens when there is none."""
    if not (directory / MANIFEST_FILE).exists():
        return
    for left in reversed(range(REMOVALS_MAX)):
        await _end(directory)
        await _clean_up(directory)
        try:
            _remove(directory)
        except FileNotFoundError:
            return
        except OSError as problem:
            # A process that was still starting writes there; now it can be found and stopped.
            if problem.errno == errno.ENOTEMPTY and left:
                await asyncio.sleep(REMOVAL_S)
                continue
            raise RigError(
                f"All processes in {str(directory)!r} are stopped, but it cannot be removed: "
                f"{problem.strerror or problem}.",
                next_step="Remove it by hand.",
            ) from problem
        return


async def _attempts(
    spec: RigSpec, directory: Path, *, owned: bool, reserve: ReservePorts
) -> Launched:
    keys = [key for process in spec.processes for key in port_keys(process)]
    linked = [key for process in spec.processes if process.linked for key in port_keys(process)]
    names = [*keys, *(f"{LINK_MARK}{key}" for key in linked)]
    for left in reversed(range(ATTEMPTS_MAX)):
        try:
            # From its launch on the supervisor holds it as well.
            with reserve(names) as reservation:
                ports = {key: reservation.ports[key] for key in keys}
                links = {key: reservation.ports[f"{LINK_MARK}{key}"] for key in linked}
                return await _attempt(
                    directory, owned=owned, ports=ports, links=links, holding=reservation.files
                )
        except PortTakenError:
            if not left:
                raise
        _clear(directory)
    raise RigError("There was no attempt to start the rig.")


async def _attempt(
    directory: Path,
    *,
    owned: bool,
    ports: Mapping[str, int],
    links: Mapping[str, int],
    holding: Sequence[int],
) -> Launched:
    """Start everything once, on these ports."""
    manifest = read_manifest(directory)
    if manifest is None:
        raise RigError(f"{str(directory)!r} was removed while the rig was starting.")
    spec = manifest.spec
    is_confined = any(process.unprivileged for process in spec.processes)
    user = unprivileged_user() if is_confined else None
    homes = choose_homes(spec, user)
    built = find_built(spec)
    manifest = replace(manifest, ports=ports, links=links, homes=homes, built=built)
    # Written before anything is made outside of the directory, to be found after a crash.
    write_manifest(directory, manifest)
    layout = Layout(directory, manifest)
    make_places(layout, user)
    volumes, no_volumes = mount_volumes(layout, user, owned=owned)
    orders = plan(layout, env=base_environment(os.environ), user=user)
    private = sized_volumes(layout) if volumes is Volumes.PRIVATE else ()
    write_orders(directory, orders, volumes=private, removes=list(homes.values()))
    launched = await launch(directory, owned=owned, holding=holding)
    up = False
    try:
        if volumes is Volumes.PRIVATE:
            state = read_state(directory)
            no_volumes = "" if state is None else state.unmounted
            volumes = Volumes.PLAIN if no_volumes else volumes
        await _start_all(layout)
        manifest = replace(manifest, supervisor=launched.supervisor)
        write_manifest(directory, replace(manifest, volumes=volumes, no_volumes=no_volumes))
        up = True
    finally:
        if not up:
            await _through(_abandon(directory, launched))
    return launched


async def _start_all(layout: Layout) -> None:
    """Start each process as soon as what it needs is ready; the load when all are."""
    spec = layout.manifest.spec
    ready = {process.name: asyncio.Event() for process in spec.processes}
    linked = asyncio.Event()

    async def start(process: ProcessSpec) -> None:
        for need in process.depends_on:
            await ready[need].wait()
        await start_process(layout, process)
        if process.linked:
            await linked.wait()
            await wait_linked(layout, process)
        ready[process.name].set()

    async def start_links() -> None:
        if layout.manifest.links:
            await wait_links(layout)
        linked.set()

    work = [start_links(), *(start(process) for process in spec.processes)]
    tasks = [asyncio.create_task(each) for each in work]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    if spec.load is not None:
        await _start_load(layout.directory)


async def start_process(layout: Layout, spec: ProcessSpec) -> Process:
    """Start one process that does not run and wait until it answers."""
    log = layout.log(spec.name)
    try:
        state = await Control(layout.directory).start(spec.name)
    except RigError as problem:
        line = last_line(log)
        is_named = repr(line) in problem.message or line in problem.message
        raise (
            problem if is_named else RigError(f"{problem.message} It ends with {line!r}.")
        ) from None
    process = state.child(spec.name).process
    if process is None:
        raise RigError(f"{spec.name!r} was started but is not running.")
    await wait_ready(layout, spec, process=process)
    return process


async def _start_load(directory: Path) -> None:
    """Start the load and wait until it counts."""
    state = await Control(directory).start(LOAD)
    process = state.child(LOAD).process
    ends = time.monotonic() + LOAD_READY_S_MAX
    stats = own_home(directory, LOAD) / STATS_FILE
    while process is not None and alive(process) and time.monotonic() < ends:
        if stats.exists():
            return
        await asyncio.sleep(POLL_S)
    line = last_line(own_home(directory, LOAD) / f"{LOAD}.log")
    raise RigError(f"The load of the rig did not start; its log ends with {line!r}.")


async def _abandon(directory: Path, launched: Launched) -> None:
    await _end(directory)
    await launched.wait_until_gone(HELD_S_MAX)


async def _end(directory: Path) -> None:
    """End all processes of a rig, by its supervisor if that still listens."""
    state = read_state(directory)
    if state is None:
        return
    if alive(state.supervisor):
        # A supervisor that hangs or is paused is killed below, together with its children.
        with contextlib.suppress(RigError):
            await Control(directory).down()
    await reap(directory)


async def _clean_up(directory: Path) -> None:
    """Remove what the processes of a rig made elsewhere; RigError where that fails."""
    manifest = read_manifest(directory)
    if manifest is None:
        return
    layout = Layout(directory, manifest)
    for spec in manifest.spec.processes:
        for argv in spec.cleanup:
            words = [layout.fill(spec, word) for word in argv]
            done = await asyncio.to_thread(
                subprocess.run,
                words,
                env=base_environment(os.environ),
                capture_output=True,
                timeout=CLEANUP_S_MAX,
                check=False,
            )
            if done.returncode != 0:
                lines = done.stderr.decode(errors="replace").strip().splitlines()
                raise RigError(
                    f"What {spec.name!r} made elsewhere could not be removed: "
                    f"{lines[-1] if lines else 'no reason was given'}",
                    next_step=f"Run operator lab down again, or remove {str(directory)!r} by hand.",
                )


def _remove(directory: Path) -> None:
    _clear(directory)
    # The manifest goes last: without it the directory could not be recognised next time.
    (directory / MANIFEST_FILE).unlink(missing_ok=True)
    directory.rmdir()


def _clear(directory: Path) -> None:
    """Unmount and remove everything of the rig but its manifest, also what lies elsewhere."""
    manifest = read_manifest(directory)
    homes = {} if manifest is None else manifest.homes
    remove_groups(group_name(directory))
    unmount_below([directory, *map(Path, homes.values())])
    clear(directory, homes)


async def _through(work: Coroutine[None, None, None]) -> None:
    """Carry work to its end although we are cancelled meanwhile; it is bounded by itself."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as problem:
            cancelled = problem
    if cancelled is not None:
        raise cancelled


def _unusable(directory: Path, problem: OSError) -> RigError:
    return RigError(
        f"The rig cannot be made in {str(directory)!r}: {problem.strerror or problem}.",
        next_step="Choose a directory that you can write to, with --home.",
    )
