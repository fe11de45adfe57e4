"""A rig of containers: brought to life, and all that the lab can do to it."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import http.client
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import datetime
from pathlib import Path

from operator_lab.handle import ProcessStatus, RigStatus, RunState
from operator_lab.manifest import HOST, MANIFEST_FILE
from operator_lab.ports import ReservePorts, reserve_ports
from operator_lab.stacks.containers import Containers, Disks, Row, at_once
from operator_lab.stacks.keeper import Kept, keep
from operator_lab.stacks.record import SECRETS_FOLDER, Record, prepare, read_record, remove
from operator_lab.stacks.relay import EVERYBODY, RelayRule, parse_rules
from operator_lab.stacks.target import ComposeTarget, find_compose
from operator_protocols.domain.stack import ServiceState, ServiceStatus, StackSpec
from operator_protocols.domain.target import Access, Process, Target
from operator_protocols.errors import NotFoundError, OperatorError, RigError
from operator_protocols.ports import Ability
from operator_sre.processes.files import write_atomically

__all__ = [
    "RELAY_PORT",
    "RELAY_SECRET",
    "OwnedStackRig",
    "StackRig",
    "change_rules",
    "project_of",
    "raise_stack",
    "rules_of",
]

RELAY_PORT = "RELAY_PORT"
RELAY_SECRET = "relay"
RELAY_S_MAX = 5.0
ANSWER_BYTES_MAX = 1 << 16


def rules_of(record: Record, directory: Path) -> tuple[RelayRule, ...]:
    """What the relay does now; RigError when it does not answer."""
    return parse_rules(_ask(record, directory, "GET", b""))


def change_rules(
    record: Record,
    directory: Path,
    change: Callable[[tuple[RelayRule, ...]], tuple[RelayRule, ...]],
) -> None:
    """Change what it does; it holds when this returns."""
    rules = change(rules_of(record, directory))
    _ask(record, directory, "PUT", json.dumps([asdict(rule) for rule in rules]).encode())


def _ask(record: Record, directory: Path, verb: str, body: bytes) -> bytes:
    asking = http.client.HTTPConnection(HOST, int(record.values[RELAY_PORT]), timeout=RELAY_S_MAX)
    try:
        token = (directory / SECRETS_FOLDER / RELAY_SECRET).read_text(encoding="utf-8")
        asking.request(verb, "/rules", body, {"Authorization": f"Bearer {token}"})
        answer = asking.getresponse()
        reply = answer.read(ANSWER_BYTES_MAX)
    except (OSError, http.client.HTTPException) as problem:
        raise RigError(f"The relay of the stack does not answer: {problem}.") from problem
    finally:
        asking.close()
    if answer.status != http.client.OK:
        raise RigError(f"The relay of the stack refused: status {answer.status}.")
    return reply


WELL_S_MAX = 120.0
DEED_S_MAX = 15.0
POLL_S = 0.1
ANSWER_S_MAX = 1.0
CUTS_FILE = "cuts.json"
STOP_S = "5"
_STATES = {
    ServiceState.PAUSED: RunState.PAUSED,
    ServiceState.EXITED: RunState.EXITED,
    ServiceState.MISSING: RunState.EXITED,
}
_NEVER = {
    Ability.LIMIT: "the limits of a container are fixed when it is created",
    Ability.OCCUPY: "Docker holds the ports of containers",
}


class StackRig:
    """One deployment as a rig. Nothing is checked by making a handle; see `attach`."""

    def __init__(self, directory: Path, *, containers: Containers | None = None) -> None:
        self.directory = directory.absolute()
        self._containers_given = containers

    @classmethod
    def attach(cls, directory: Path) -> StackRig:
        """A rig that was brought up; NotFoundError when there is none."""
        rig = cls(directory)
        rig.record()
        return rig

    @property
    def subject(self) -> str:
        """What it is a copy of."""
        return self.record().spec.subject

    def record(self) -> Record:
        """What is written about it; NotFoundError when it is gone."""
        record = read_record(self.directory)
        if record is None:
            raise NotFoundError(
                f"There is no rig in {str(self.directory)!r}.",
                next_step="Start one with: operator lab up SUBJECT",
            )
        return record

    def targets(self) -> tuple[Target, ...]:
        """Its parts, where they are reached from this machine."""
        record, targets = self.record(), []
        for service in record.spec.services:
            secret = str(self.directory / SECRETS_FOLDER / service.opened_by)
            target = Target(
                name=service.name,
                kind=service.kind,
                host=HOST,
                port=record.port(service.name),
                depends_on=service.depends_on,
                runs_at=f"docker://{record.project}-{service.name}-1",
                endpoints=tuple(
                    endpoint.format_map(record.values) for endpoint in service.endpoints
                ),
                access=Access(password_file=secret) if service.opened_by else None,
            )
            targets.append(target)
        return tuple(targets)

    def own_ports(self) -> Mapping[str, int]:
        """The ports of the host behind which its parts are, by their names."""
        record = self.record()
        return {service.name: record.port(service.name) for service in record.spec.services}

    def require(self, target: str) -> None:
        """NotFoundError where it has no such part."""
        self.record().service(target)

    def status(self) -> RigStatus:
        """Every part with its state, as the engine tells."""
        record = self.record()
        rows = at_once(self._containers().rows())
        processes = []
        for service in record.spec.services:
            row, port = rows.get(service.name), record.port(service.name)
            status = (
                ServiceStatus(service.name, ServiceState.MISSING)
                if row is None
                else row.to_status()
            )
            state = _STATES.get(status.state, RunState.RUNNING)
            exit_code = status.exit_code
            processes.append(
                ProcessStatus(service.name, service.kind, state, port, None, exit_code, 0, "")
            )
        return RigStatus(
            subject=record.spec.subject,
            directory=str(self.directory),
            supervised=True,
            processes=tuple(processes),
        )

    async def down(self) -> None:
        """End everything, with its data, and remove the directory; also twice."""
        record = read_record(self.directory)
        if record is None:
            return
        await ComposeTarget(record, self.directory).down(volumes=True)
        remove(self.directory)

    async def kill(self, target: str) -> None:
        """End a target by SIGKILL; nothing starts it again."""
        await self._must_run(target)
        await self._containers().tell(target, "kill", parameters={"signal": "SIGKILL"})
        await self._until(target, lambda row: row is None or row.state == "exited", DEED_S_MAX)

    async def restart(self, target: str) -> Process:
        """Stop a target if it runs, start it again and wait until it answers."""
        self.require(target)
        containers = self._containers()
        row = (await containers.rows()).get(target)
        if row is None:  # it was removed by hand
            record = self.record()
            await ComposeTarget(record, self.directory, containers=containers).restart(target)
            return await self._well(target)
        if row.state == "paused":
            await containers.tell(target, "unpause")
        await containers.tell(target, "restart", parameters={"t": STOP_S})
        return await self._well(target)

    async def pause(self, target: str) -> None:
        """Freeze a target; its port still accepts, but nothing answers."""
        await self._must_run(target)
        await self._containers().tell(target, "pause")

    async def resume(self, target: str) -> Process:
        """Let a paused target go on and wait until it answers."""
        self.require(target)
        row = await self._containers().row(target)
        if row.state == "paused":
            await self._containers().tell(target, "unpause")
        return await self._well(target)

    async def cut(self, target: str, others: tuple[str, ...] = ()) -> None:
        """Nothing passes between a target and these others (everybody: it leaves its networks)."""
        self._check(target, Ability.CUT, others)
        if others:
            new = tuple(RelayRule(*pair, cut=True) for pair in self._between(target, others))
            await self._change(lambda rules: (*(r for r in rules if r not in new), *new))
            return
        containers = self._containers()
        found = (await containers.inspect(target)).networks
        # Recorded first: the names by which it was known there are lost afterwards.
        known = {name: list(container.aliases or ()) for name, container in found.items()}
        self._write_cuts({**self._cuts(), target: {**self._cuts().get(target, {}), **known}})
        for network in found:
            await containers.leave(target, network)

    async def reconnect(self, target: str, others: tuple[str, ...] = ()) -> None:
        """Everything passes again between them."""
        self.require(target)
        if others:
            pairs = self._between(target, others)
            await self._change(
                lambda rules: tuple(r for r in rules if not (r.cut and (r.to, r.caller) in pairs))
            )
            return
        containers, cuts = self._containers(), self._cuts()
        there = (await containers.inspect(target)).networks
        for network, aliases in cuts.get(target, {}).items():
            if network not in there:
                await containers.join(target, network, [*aliases])
        self._write_cuts({name: cut for name, cut in cuts.items() if name != target})

    async def slow(self, target: str, delay_s: float, others: tuple[str, ...] = ()) -> None:
        """Every message between a target and these others (everybody) takes that much longer."""
        self._check(target, Ability.SLOW, others)
        pairs = self._between(target, others)
        new = tuple(RelayRule(*pair, delay_s=delay_s) for pair in pairs)
        await self._change(
            lambda rules: (*(r for r in rules if r.cut or (r.to, r.caller) not in pairs), *new)
        )

    async def hasten(self, target: str, others: tuple[str, ...] = ()) -> None:
        """No more delay between them."""
        pairs = self._between(target, others)
        await self._change(
            lambda rules: tuple(r for r in rules if r.cut or (r.to, r.caller) not in pairs)
        )

    async def fill(self, target: str, *, left_bytes: int = 0) -> None:
        """Leave only so much room in the volume of a target."""
        self._check(target, Ability.FILL)
        await self._disks().fill(self.record().service(target).disk, left_bytes=left_bytes)

    async def drain(self, target: str) -> None:
        """Give back what was used up."""
        self._check(target, Ability.FILL)
        await self._disks().drain(self.record().service(target).disk)

    async def limit(self, target: str, *, memory_bytes: int = 0, files: int = 0) -> None:
        """RigError: it cannot be done to containers."""
        self._check(target, Ability.LIMIT)

    async def unlimit(self, target: str) -> None:
        """RigError: it cannot be done to containers."""
        self._check(target, Ability.LIMIT)

    async def occupy(self, target: str) -> None:
        """RigError: it cannot be done to containers."""
        self._check(target, Ability.OCCUPY)

    async def vacate(self, target: str) -> None:
        """RigError: it cannot be done to containers."""
        self._check(target, Ability.OCCUPY)

    def unable(self, target: str, ability: Ability, others: tuple[str, ...] = ()) -> str:
        """Why this cannot be done to that target here, or ""."""
        record = self.record()
        service = record.service(target)
        if ability in _NEVER:
            return _NEVER[ability]
        if ability is Ability.FILL and not (service.disk and record.spec.keeper):
            return f"{target!r} has no volume of its own size"
        if others and ability in (Ability.CUT, Ability.SLOW):
            open_ways = [other for other in others if not _is_relayed(record, target, other)]
            ways = ", ".join(open_ways)
            return f"no relay is between {target!r} and {ways}" if open_ways else ""
        if ability is Ability.SLOW and not (record.spec.relay and service.relay):
            return f"no relay is in front of {target!r}"
        return ""

    def damage(self, target: str) -> frozenset[Ability]:
        """What is done to it now, seen in the world and not in a record."""
        return at_once(self._hurt(target))

    async def _hurt(self, target: str) -> frozenset[Ability]:
        record = self.record()
        service = record.service(target)
        row = (await self._containers().rows()).get(target)
        state = None if row is None else row.state
        seen = {
            Ability.KILL: state not in ("running", "paused"),
            Ability.PAUSE: state == "paused",
            Ability.CUT: row is not None and await self._is_off(target),
        }
        found = {ability for ability, is_so in seen.items() if is_so}
        if service.disk and record.spec.keeper:
            try:
                full = await self._disks().full([service.disk])
            except OperatorError:
                full = frozenset()  # without who keeps it there is no volume that could be full
            found |= {Ability.FILL} if full else set()
        if record.spec.relay:
            try:
                rules = await asyncio.to_thread(rules_of, record, self.directory)
            except RigError:
                rules = (RelayRule(target, cut=True),) if service.relay else ()
            about = [rule for rule in rules if target in (rule.to, rule.caller)]
            found |= {Ability.CUT if rule.cut else Ability.SLOW for rule in about}
        return frozenset(found)

    async def _is_off(self, target: str) -> bool:
        return not (await self._containers().inspect(target)).networks

    def _between(self, target: str, others: tuple[str, ...]) -> list[tuple[str, str]]:
        """Who is behind the relay, and who calls, between a target and these others."""
        record = self.record()
        behind = [service.name for service in record.spec.services if service.relay]
        called = [name for name in behind if name != target and (not others or name in others)]
        calls = [(target, other) for other in others or (EVERYBODY,)] if target in behind else []
        return [*calls, *((name, target) for name in called)]

    async def _change(
        self, change: Callable[[tuple[RelayRule, ...]], tuple[RelayRule, ...]]
    ) -> None:
        await asyncio.to_thread(change_rules, self.record(), self.directory, change)

    def _containers(self) -> Containers:
        return self._containers_given or Containers(self.record().project)

    def _disks(self) -> Disks:
        return Disks(self._containers(), self.record().spec.keeper)

    def _check(self, target: str, ability: Ability, others: tuple[str, ...] = ()) -> None:
        if why := self.unable(target, ability, others):
            raise RigError(f"This cannot be done to {target!r}: {why}.")

    async def _must_run(self, target: str) -> None:
        self.require(target)
        row = (await self._containers().rows()).get(target)
        if row is None or row.state != "running":
            raise RigError(
                f"{target!r} is not running.", next_step="Restart it before anything else."
            )

    async def _well(self, target: str) -> Process:
        """Return when it runs and answers, with its process as the engine's machine has it."""
        waited = (ServiceState.HEALTHY, ServiceState.RUNNING)
        await self._until(
            target, lambda row: row is not None and row.to_status().state in waited, WELL_S_MAX
        )
        port, ends = self.record().port(target), time.monotonic() + DEED_S_MAX
        # A target that is cut off runs, and nothing can reach it.
        while not await self._is_off(target) and not await _accepts(port):
            if time.monotonic() > ends:
                raise RigError(f"{target!r} runs and does not answer on port {port}.")
            await asyncio.sleep(POLL_S)
        state = (await self._containers().inspect(target)).state
        return Process(state.pid, datetime.fromisoformat(state.started_at[:19]).timestamp())

    async def _until(
        self, target: str, condition: Callable[[Row | None], bool], wait_s: float
    ) -> None:
        ends = time.monotonic() + wait_s
        while not condition((await self._containers().rows()).get(target)):
            if time.monotonic() > ends:
                raise RigError(f"{target!r} did not reach the expected state within {wait_s:g} s.")
            await asyncio.sleep(POLL_S)

    def _cuts(self) -> dict[str, dict[str, list[str]]]:
        try:
            document = json.loads((self.directory / CUTS_FILE).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return document if isinstance(document, dict) else {}

    def _write_cuts(self, cuts: Mapping[str, Mapping[str, list[str]]]) -> None:
        write_atomically(self.directory / CUTS_FILE, json.dumps(cuts))


def _is_relayed(record: Record, first: str, other: str) -> bool:
    """Whether all traffic between two services passes the relay, which stands before the callee.

    A service calls what it depends on; where neither depends on the other, both call.
    """
    services = record.service(first), record.service(other)
    called = [each for each, caller in (services, services[::-1]) if each.name in caller.depends_on]
    return bool(record.spec.relay) and all(each.relay for each in called or services)


async def _accepts(port: int) -> bool:
    try:
        async with asyncio.timeout(ANSWER_S_MAX):
            _, writer = await asyncio.open_connection(HOST, port)
    except (OSError, TimeoutError):
        return False
    writer.close()
    return True


class OwnedStackRig(StackRig):
    """A rig that ends with its owner at the latest."""

    def __init__(self, directory: Path, kept: Kept) -> None:
        super().__init__(directory)
        self._kept = kept

    async def down(self) -> None:
        """End everything, and who would have ended it."""
        await super().down()
        self._kept.release()


def project_of(subject: str, directory: Path) -> str:
    """The name of the project of a rig: no other directory has the same."""
    digest = hashlib.sha256(str(directory.absolute()).encode()).hexdigest()
    return f"operator-lab-{subject}-{digest[:10]}".lower()


async def raise_stack(
    spec: StackSpec,
    directory: Path,
    *,
    owned: bool,
    given: Mapping[str, str] | None = None,
    reserve: ReservePorts = reserve_ports,
) -> StackRig:
    """Start all of it and wait until it is well; on any failure nothing of it stays."""
    if (directory / MANIFEST_FILE).exists():
        raise RigError(
            f"A rig of {spec.subject!r} is already up in {str(directory)!r}.",
            next_step="Use it, or stop it with: operator lab down",
        )
    compose = await find_compose()  # before anything is written
    project = project_of(spec.subject, directory)
    await Containers(project).reach()
    up = False
    # From its start on the keeper holds it as well.
    with reserve(list(spec.ports)) as reservation:
        record = prepare(spec, directory, project=project, ports=reservation.ports, given=given)
        kept = keep(directory, owned=owned, holding=reservation.files)
        target = ComposeTarget(record, directory, compose=compose)
        try:
            await target.up()
            up = True
        finally:
            if not up:
                with contextlib.suppress(OperatorError):
                    await target.clear()
                    remove(directory)
            if not (up and owned):
                kept.release()
    if read_record(directory) is None:
        raise RigError("The rig was taken down while it was starting.")
    return OwnedStackRig(directory, kept) if owned else StackRig(directory)
