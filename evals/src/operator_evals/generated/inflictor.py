"""Primitives done to a rig that is up, each with what undoes it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pwd
import shutil
import signal
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from operator_evals.generated.case import WHOLE, Kind, Primitive
from operator_evals.generated.config_file import replace_port, write_setting
from operator_evals.generated.hostility import Hostility
from operator_evals.generated.servers import Seat, Server, Undo, nothing_to_undo, servers_of
from operator_evals.generated.surface import AdminCommand, Setting, Surface, surface_of
from operator_lab.ports import reserve_ports
from operator_lab.rig import Rig
from operator_protocols.errors import RigError
from operator_protocols.ports import Ability

__all__ = ["Inflictor", "seats_of"]

RESTART_S_MAX = 6.0
COPY_BYTES_MAX = 64 << 20
OTHERS = "nobody"
PLACES_MAX = 2_000


def seats_of(rig: Rig) -> dict[str, Seat]:
    """Where each part of a rig is."""
    layout = rig.layout()
    manifest = layout.manifest
    return {
        process.name: Seat(
            name=process.name,
            kind=process.kind,
            own_port=manifest.ports[process.name],
            public_port=manifest.public_port(process.name),
            home=layout.home(process.name),
            password_file=""
            if process.access is None
            else layout.fill(process, process.access.password_file),
        )
        for process in manifest.spec.processes
    }


class Inflictor:
    """Does primitives to one rig. Made before anything is broken, while files can be read."""

    def __init__(self, rig: Rig, *, scratch: Path, stand_in: bool = False) -> None:
        self._rig = rig
        self._spec = rig.manifest().spec
        self._stand_in = stand_in
        self._seats = seats_of(rig)
        self.servers: Mapping[str, Server] = (
            {} if stand_in else servers_of(self._spec.processes, self._seats)
        )
        self._scratch = scratch
        self._hostility = Hostility(rig, scratch)
        self._copies = 0

    async def surface(self) -> Surface:
        """What the rig and its servers show."""
        settings: dict[str, list[Setting]] = {}
        commands: dict[str, list[AdminCommand]] = {}
        for name, server in self.servers.items():
            settings[name] = list(await server.settings())
            commands[name] = list(await server.commands())
        plain = surface_of(self._spec, stand_in=self._stand_in)
        return plain.with_server(settings, commands)

    async def inflict(self, primitive: Primitive) -> tuple[str, Undo]:
        """Do it; what was done exactly, and what undoes it. RigError where it is refused."""
        target, given = primitive.target, primitive.arguments
        match primitive.kind:
            case Kind.SIGNAL:
                return self._signal(target, str(given["signal"]), int(given["child"]))
            case Kind.SETTING:
                name, value = str(given["name"]), str(given["value"])
                return await self._set(target, name, value, now=given["when"] == "now")
            case Kind.ADMIN:
                server = self.servers[target]
                undo = await server.execute(str(given["command"]), str(given["about"]))
                return primitive.sentence, undo
            case Kind.FILE:
                return await self._damage_file(primitive)
            case Kind.PORT if given["action"] == "taken":
                await self._rig.occupy(target)
                return f"the port of {target} is taken", partial(self._vacate, target)
            case Kind.PORT:
                return await self._move_port(target)
            case Kind.LINK:
                return await self._damage_link(primitive)
            case Kind.LIMIT:
                options = {"memory": "memory_bytes", "file_size": "file_bytes"}
                resource = str(given["resource"])
                most = {options.get(resource, resource): int(given["value"])}
                await self._rig.limit(target, **most)
                return primitive.sentence, partial(self._rig.unlimit, target)
            case Kind.DISK:
                await self._rig.fill(target, left_bytes=int(given["left_bytes"]))
                return primitive.sentence, partial(self._rig.drain, target)
            case Kind.CLIENTS:
                action, count = str(given["action"]), int(given["count"])
                return primitive.sentence, self._hostility.begin(target, action, count)

    async def stop(self) -> None:
        """End what runs beside the rig."""
        await self._hostility.stop()

    def _signal(self, target: str, name: str, child: int) -> tuple[str, Undo]:
        number = getattr(signal, f"SIG{name}")
        hit = self._rig.signal(target, number, child=None if child < 0 else child)

        async def undo() -> None:
            with contextlib.suppress(RigError):
                self._rig.signal(target, signal.SIGCONT, child=None if child < 0 else child)
                return
            await self._restart(target)

        return f"SIG{name} to {hit}", undo

    async def _set(self, target: str, name: str, value: str, *, now: bool) -> tuple[str, Undo]:
        if now:
            undo = await self.servers[target].change(name, value)
            return f"{name} of {target} is set to {value!r}", undo
        file = self._config(target)
        before = await asyncio.to_thread(file.read_bytes)
        await asyncio.to_thread(write_setting, file, name, value)
        await self._restart(target)

        async def put_back() -> None:
            await asyncio.to_thread(file.write_bytes, before)
            await self._restart(target)

        return f"{name} = {value!r} in {file.name} of {target}, and a restart", put_back

    async def _move_port(self, target: str) -> tuple[str, Undo]:
        with contextlib.ExitStack() as kept:
            reservation = kept.enter_context(reserve_ports([target]))
            port = reservation.ports[target]
            if not replace_port(self._config(target), self._seats[target].own_port, port):
                raise RigError(f"The file of {target!r} names no port.")
            await self._restart(target)
            kept.pop_all()

        async def give_back() -> None:
            reservation.release()

        return f"{target} listens on port {port}", give_back

    async def _damage_link(self, primitive: Primitive) -> tuple[str, Undo]:
        target, other = primitive.target, str(primitive.arguments["other"])
        others = () if other == WHOLE else (other,)
        amount = float(primitive.arguments["amount"])
        match primitive.arguments["action"]:
            case "cut":
                await self._rig.cut(target, others)
                return primitive.sentence, partial(self._rig.reconnect, target, others)
            case "slow":
                await self._rig.slow(target, amount, others)
            case _:
                await self._rig.lose(target, amount, others)
        return primitive.sentence, partial(self._rig.hasten, target, others)

    async def _damage_file(self, primitive: Primitive) -> tuple[str, Undo]:
        target, given = primitive.target, primitive.arguments
        place = await asyncio.to_thread(self._place, primitive)
        action = str(given["action"])
        copy = self._scratch / f"copy-{self._copies}"
        self._copies += 1
        undo: Undo = nothing_to_undo
        if await asyncio.to_thread(_size, place) <= COPY_BYTES_MAX:
            await asyncio.to_thread(_copy, place, copy)
            again = bool(given["restart"])
            undo = partial(self._put_back, target, place, copy, again=again)
        try:
            await asyncio.to_thread(_damage, place, action)
        except OSError as problem:
            raise RigError(f"{place.name!r} cannot be damaged: {problem.strerror}.") from problem
        if given["restart"]:
            await self._restart(target)
        return f"{action} {str(place)!r} of {target}", undo

    def _place(self, primitive: Primitive) -> Path:
        """The file or folder that is meant; in a volume the one at that share of its listing."""
        target, given = primitive.target, primitive.arguments
        if path := str(given["path"]):
            place = self._seats[target].home / path
            if not place.exists():
                raise RigError(f"{path!r} of {target!r} is not there.")
            return place
        layout = self._rig.layout()
        volume = layout.data(layout.manifest.process(target))
        depth = int(given["depth"])
        found = sorted(
            each
            for each in list(volume.rglob("*"))[:PLACES_MAX]
            if len(each.relative_to(volume).parts) == depth and not each.is_symlink()
        )
        if not found:
            raise RigError(f"The volume of {target!r} has nothing so deep.")
        return found[int(float(given["at"]) * len(found))]

    async def _put_back(self, target: str, place: Path, copy: Path, *, again: bool) -> None:
        await asyncio.to_thread(_restore, place, copy)
        if again or Ability.KILL in self._rig.damage(target):
            await self._restart(target)

    async def _vacate(self, target: str) -> None:
        await self._rig.vacate(target)
        await self._restart(target)

    async def _restart(self, target: str) -> None:
        """Stop and start it; that it does not come up again may be what is wanted."""
        with contextlib.suppress(RigError, TimeoutError):
            await asyncio.wait_for(self._rig.restart(target), RESTART_S_MAX)

    def _config(self, target: str) -> Path:
        part = next(
            part for part in surface_of(self._spec).parts if part.name == target and part.config
        )
        file = self._seats[target].home / part.config
        if not file.exists():
            raise RigError(f"{part.config!r} of {target!r} is not there.")
        return file


def _damage(place: Path, action: str) -> None:
    is_folder = place.is_dir()
    match action:
        case "remove" if is_folder:
            shutil.rmtree(place)
        case "remove":
            place.unlink()
        case "empty" | "truncate" if is_folder:
            children = sorted(place.iterdir())
            # To truncate a folder is to lose the second half of it.
            for child in children if action == "empty" else children[len(children) // 2 :]:
                if child.is_dir() and not child.is_symlink():
                    shutil.rmtree(child)
                else:
                    child.unlink()
        case "empty":
            os.truncate(place, 0)
        case "truncate":
            os.truncate(place, place.stat().st_size // 2)
        case "chown":
            other = pwd.getpwnam(OTHERS)
            owner = place.stat().st_uid
            # A file of that other account is given to root.
            to = (0, 0) if owner == other.pw_uid else (other.pw_uid, other.pw_gid)
            os.chown(place, *to)
        case _:
            place.chmod(0o555 if is_folder else 0o444)


def _size(place: Path) -> int:
    files = place.rglob("*") if place.is_dir() else [place]
    return sum(each.stat().st_size for each in files if each.is_file())


def _copy(place: Path, copy: Path) -> None:
    if place.is_dir():
        shutil.copytree(place, copy, symlinks=True)
    else:
        shutil.copy2(place, copy)
    for source, made in [(place, copy), *((e, copy / e.relative_to(place)) for e in _below(place))]:
        owner = source.lstat()
        os.chown(made, owner.st_uid, owner.st_gid, follow_symlinks=False)


def _restore(place: Path, copy: Path) -> None:
    if place.is_dir():
        shutil.rmtree(place)
    place.unlink(missing_ok=True)
    _copy(copy, place)


def _below(place: Path) -> list[Path]:
    return list(place.rglob("*")) if place.is_dir() else []
