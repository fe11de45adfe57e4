"""From what listens on this machine to proposed subjects, each with why and what it still needs."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from operator_protocols.errors import OperatorError
from operator_sre.app.discovery.handshake import Heard, ask
from operator_sre.app.discovery.kinds import IGNORED, KINDS, WEB, Kind
from operator_sre.app.discovery.kubeconfigs import read_contexts
from operator_sre.app.discovery.listeners import Listener, add_containers, read_listeners
from operator_sre.app.discovery.pack_copy import has_pack
from operator_sre.app.discovery.remote_hosts import RemoteHost, read_host
from operator_sre.app.subjects import subject_of

if TYPE_CHECKING:
    from operator_sre.app.wiring import App
    from operator_sre.executor.transports.ssh import SshSettings

__all__ = ["Discovery", "LeftOut", "Proposal", "discover"]

QUESTIONS_AT_ONCE = 20
DISCOVER_S_MAX = 25.0
TLS_PORTS = (443, 8443)
CLUSTERS = "kubernetes"
HOST = "host"
HIDDEN = "only its own machine reaches it; run discover there, or watch it with runs_at"
NAME_CHARS_MAX = 40
_ODD = re.compile(r"[^A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class Proposal:
    """A subject that would watch what was found.

    `plugin` is a built-in subject; otherwise `pack`, or "" for a plain description. `grant` is what
    an administrator of the system runs first, where Operator needs a credential. A subject that
    finds its targets itself has `options` instead. `runs_at` is where another machine is reached
    over ssh, and `is_remote` says that it runs on one.
    """

    name: str
    kind: str
    places: tuple[str, ...]
    why: tuple[str, ...]
    plugin: str = ""
    target: str = ""
    pack: str = ""
    unit: str = ""
    program: str = ""
    grant: str = ""
    path: str = ""
    status: int = 0
    cluster: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    runs_at: str = ""
    is_remote: bool = False


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A server that is not proposed, and why."""

    source: str
    why: str


@dataclass(frozen=True, slots=True)
class Discovery:
    """New subjects, the servers that are watched already, and those left out."""

    proposals: tuple[Proposal, ...]
    watched: tuple[LeftOut, ...]
    left_out: tuple[LeftOut, ...]


async def discover(
    app: App,
    *,
    ports: Sequence[int] = (),
    hosts: Sequence[str] = (),
    root: Path = Path("/"),
    ssh: SshSettings | None = None,
) -> Discovery:
    """Read what runs here and ask each server once. Nothing is changed, and nothing recorded.

    With `ports` only servers at these are considered. `hosts` are read over ssh as well. Files are
    looked for below `root`.
    """
    remote = await asyncio.gather(*(read_host(app, each, ssh=ssh) for each in hosts))
    listeners = await add_containers(await asyncio.to_thread(read_listeners))
    listeners += [each for host in remote for each in host.listeners]
    listeners = [each for each in listeners if not ports or each.port in ports]
    known, machines = _find_watched(app)
    watched = [
        LeftOut(each.source, f"watched as {known[_place(each.host, each.port)]}")
        for each in listeners
        if _place(each.host, each.port) in known
    ]
    new = [each for each in listeners if _place(each.host, each.port) not in known]
    places, loop = asyncio.Semaphore(QUESTIONS_AT_ONCE), asyncio.get_running_loop()
    ends = loop.time() + DISCOVER_S_MAX

    async def recognise(listener: Listener) -> tuple[Listener, Kind | None, Heard | None, str]:
        async with places:
            if loop.time() > ends:
                return listener, None, None, f"not asked: {DISCOVER_S_MAX:g} s had passed"
            return (listener, *await _recognise(listener))

    found = await asyncio.gather(*map(recognise, new))
    names = {subject.name for subject in app.config.subjects}
    away = {host.name for host in remote}
    proposals = [
        replace(each, is_remote=each.places[0].rpartition(":")[0] in away)
        for each in _propose(found, names)
    ]
    names |= {each.name for each in proposals}
    proposals += _propose_hosts(remote, machines, names)
    watched += [
        LeftOut(f"the host {host.address}", f"watched as {machines[host.address]}")
        for host in remote
        if host.address in machines
    ]
    proposals += [] if ports else _propose_clusters(app, names, root)
    left_out = [
        LeftOut(f"the host {host.address}", host.problem) for host in remote if host.problem
    ]
    left_out += [
        LeftOut(f"{each.source} of {host.name}", HIDDEN)
        for host in remote
        for each in host.hidden
        if not ports or each.port in ports
    ]
    left_out += [LeftOut(each.source, why) for each, kind, _, why in found if kind is None]
    running = {each.kind for each in proposals} | {
        subject.plugin for subject in app.config.subjects
    }
    left_out += [] if ports else _configured_only(root, running | names)
    return Discovery(tuple(proposals), tuple(watched), tuple(left_out))


def _find_watched(app: App) -> tuple[dict[tuple[str, int | None], str], dict[str, str]]:
    """The addresses of all targets, and the hosts, that are watched already, with their subject."""
    known: dict[tuple[str, int | None], str] = {}
    machines: dict[str, str] = {}
    for name in app.subjects():
        try:
            targets = subject_of(app, name).targets()
        except OperatorError:  # `operator health` says what is wrong with it
            continue
        for target in targets:
            if target.runs_at and target.kind == HOST:
                machines[target.runs_at] = name
            if target.port is not None and (not target.runs_at or target.host != "127.0.0.1"):
                known[_place(target.host, target.port)] = name
    return known, machines


def _place(host: str, port: int | None) -> tuple[str, int | None]:
    return ("127.0.0.1" if host in ("localhost", "::1") else host, port)


async def _recognise(listener: Listener) -> tuple[Kind | None, Heard | None, str]:
    """The kind of a listener with what it answered, or why it is left out."""
    for pattern, role in IGNORED.items():
        if not listener.container and re.fullmatch(pattern, listener.program):
            return None, None, role
    if any("operator_sre" in word or word.endswith("/operator") for word in listener.words):
        return None, None, "a part of Operator"
    image = listener.image.rpartition("/")[2].partition(":")[0]
    named = next((kind for kind in KINDS if kind.runs(image or listener.program)), None)
    unknown = not listener.program or bool(listener.image and named is None)
    guessed = next((kind for kind in KINDS if unknown and listener.port in kind.ports), None)
    kind = named or guessed
    hidden = "its process is hidden from this user; run discover as its user, or as root"
    if kind is None:
        unnamed = "an unknown program; describe it with: operator subjects init"
        return None, None, unnamed if listener.program else hidden
    if not kind.asks:
        # A name tells enough; a usual port alone does not.
        return (kind, None, "") if named else (None, None, hidden)
    if listener.port in TLS_PORTS and kind.asks == "http":
        step = "it uses TLS; describe it with: operator subjects init, and access: {tls: true}"
        return None, None, step
    heard = await ask(listener, kind.asks)
    if heard is None:
        return None, None, f"it does not answer as {kind.name} does on this port"
    return kind, heard, ""


def _propose(
    found: Sequence[tuple[Listener, Kind | None, Heard | None, str]], taken: Iterable[str]
) -> list[Proposal]:
    """One subject for each system; the members of a cluster are one."""
    proposals: list[Proposal] = []
    names = set(taken)
    for listener, kind, heard, _ in found:
        if kind is None:
            continue
        why = [listener.source]
        if heard is not None and heard.path:
            why.append(f"GET {heard.path} answers {heard.status}")
        elif heard is not None:
            why.append(f"it answers as {kind.name}" + (" and wants a password" * heard.locked))
        cluster = heard.cluster if heard else ""
        same = next((each for each in proposals if cluster and each.cluster == cluster), None)
        if same is not None:
            proposals[proposals.index(same)] = Proposal(
                same.name,
                same.kind,
                (*same.places, listener.place),
                (*same.why, *why),
                plugin=kind.plugin,
                target=kind.target,
                cluster=cluster,
            )
            continue
        plain = listener.container or (listener.unit if kind.name == WEB else "") or kind.name
        name = _ODD.sub("-", plain).strip("-") or kind.name
        name = name if name not in names and kind.name != WEB else f"{name}-{listener.port}"
        names.add(name)
        needs = kind.grant and (heard is None or heard.locked)
        proposals.append(
            Proposal(
                name=name,
                kind=kind.name,
                places=(listener.place,),
                why=tuple(why),
                plugin=kind.plugin,
                target=kind.target,
                pack=kind.pack if has_pack(kind.pack) else "",
                unit=listener.unit,
                program=listener.program,
                grant=kind.grant if needs else "",
                path=heard.path if heard else "",
                status=heard.status if heard else 0,
                cluster=cluster,
            )
        )
    return proposals


def _propose_hosts(
    hosts: Iterable[RemoteHost], watched: Mapping[str, str], taken: Iterable[str]
) -> list[Proposal]:
    """A subject for each host that answered and is not watched yet."""
    names, proposals = set(taken), []
    for host in hosts:
        if host.problem or host.address in watched:
            continue
        plain = _ODD.sub("-", host.name).strip("-")[:NAME_CHARS_MAX] or HOST
        name = plain if plain not in names else f"{HOST}-{plain}"
        names.add(name)
        count = len(host.listeners) + len(host.hidden)
        why = f"it can be reached over ssh; {count} other server{'s' * (count != 1)} listen there"
        place = host.address
        proposals.append(
            Proposal(name, HOST, (place,), (why,), pack="linux-host", runs_at=place, is_remote=True)
        )
    return proposals


def _propose_clusters(app: App, taken: Iterable[str], root: Path) -> list[Proposal]:
    """A subject for each cluster of a kubeconfig that is not watched yet."""
    home = root / str(Path.home()).lstrip("/")
    watched = {
        subject.options.get("context")
        for subject in app.config.subjects
        if subject.plugin == CLUSTERS
    }
    names, proposals = set(taken), []
    for context in read_contexts(home, None if root == Path("/") else ""):
        if context.name in watched:
            continue
        plain = _ODD.sub("-", context.name).strip("-")[:NAME_CHARS_MAX] or CLUSTERS
        name = plain if plain not in names else f"{CLUSTERS}-{plain}"
        names.add(name)
        proposals.append(
            Proposal(
                name=name,
                kind=CLUSTERS,
                places=(context.server,),
                why=(f"the context {context.name!r} of {context.file}",),
                plugin=CLUSTERS,
                options={"kubeconfig": context.file, "context": context.name},
            )
        )
    return proposals


def _configured_only(root: Path, running: set[str]) -> list[LeftOut]:
    """Systems with configuration files here that do not listen now."""
    return [
        LeftOut(f"{kind.name} is configured in /{file}", "it does not run on this machine now")
        for kind in KINDS
        if kind.name not in running
        for file in kind.files
        if (root / file).exists()
    ]
