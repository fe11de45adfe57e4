"""The machines of a rig: a switch that all are plugged into, and nodes, each in namespaces of its
own. Nothing of them is visible in the network or the mounts of this machine, and the kernel removes
all of a machine when the process that holds it ends.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from operator_lab.cgroups import make_groups, remove_groups
from operator_lab.kubernetes.sample import NODE_PORT

__all__ = ["API_PORT", "SWITCH", "main", "node_address", "pod_network"]

SWITCH = "10.99.0.1"
API_PORT = 6443
REGISTRY_PORT = 5000
CONNECT_S_MAX = 1.0
NEWNS, NEWPID, NEWNET = 0x0002_0000, 0x2000_0000, 0x4000_0000
MS_BIND, MS_REC, MS_PRIVATE, MS_SHARED = 0x1000, 0x4000, 0x4_0000, 0x10_0000
MS_RDONLY, MS_REMOUNT = 0x1, 0x20
PR_SET_PDEATHSIG = 1
RELAY_BYTES = 65_536
# Where the programs of a node write although they are configured otherwise.
_OWN_PLACES = ("/run", "/var/lib", "/var/log")
_SHARED_SETTINGS = ("/proc/sys/fs", "/proc/sys/kernel", "/proc/sys/vm")
# What the kubelet demands of the whole kernel. It finds files with these values instead of the
# settings of this machine, which would otherwise be changed for good.
_KERNEL_SETTINGS = {
    "kernel/keys/root_maxbytes": "25000000",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
}
_LIBC = ctypes.CDLL(None, use_errno=True)


def node_address(index: int) -> str:
    """The address of a node, counted from 1."""
    return f"10.99.0.{10 + index}"


def pod_network(index: int) -> str:
    """The network of the pods of a node."""
    return f"10.244.{index}.0/24"


def unshare(flags: int) -> None:
    """Leave these namespaces for new ones."""
    if _LIBC.unshare(flags) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"unshare: {os.strerror(number)}")


def ip(*words: str, within: Path | None = None) -> None:
    """One command of iproute2, here or in another network."""
    prefix = [] if within is None else ["nsenter", f"--net={within}", "--"]
    subprocess.run([*prefix, "ip", *words], check=True)


def hold_switch(directory: Path, port: int, clients: int, nodes: int) -> None:
    """Be the switch, and relay ports of this machine: `port` to the API server behind it, `clients`
    to the sample application at any node.
    """
    net = directory / "net"
    net.unlink(missing_ok=True)
    listener = socket.create_server(("127.0.0.1", port), backlog=128)
    counter = socket.create_server(("127.0.0.1", clients), backlog=128)
    unshare(NEWNET)
    ip("link", "set", "lo", "up")
    ip("link", "add", "br0", "type", "bridge")
    ip("addr", "add", f"{SWITCH}/24", "dev", "br0")
    ip("link", "set", "br0", "up")
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
    for index in range(1, nodes + 1):
        ip("route", "add", pod_network(index), "via", node_address(index))
    net.symlink_to(f"/proc/{os.getpid()}/ns/net")
    asyncio.run(_serve(listener, counter, [node_address(each) for each in range(1, nodes + 1)]))


async def _serve(listener: socket.socket, counter: socket.socket, addresses: Sequence[str]) -> None:
    registry = await asyncio.start_server(_answer_as_registry, SWITCH, REGISTRY_PORT)
    relay = await asyncio.start_server(partial(_relay, [(SWITCH, API_PORT)]), sock=listener)
    nodes = [(address, NODE_PORT) for address in addresses]
    shop = await asyncio.start_server(partial(_relay, nodes), sock=counter)
    async with registry, relay, shop:
        await relay.serve_forever()


async def _relay(
    places: Sequence[tuple[str, int]], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Pass a connection on to the first place that accepts it, until either side ends it."""
    for host, port in places:
        try:
            async with asyncio.timeout(CONNECT_S_MAX):
                behind, ahead = await asyncio.open_connection(host, port)
            break
        except (OSError, TimeoutError):
            continue
    else:
        writer.close()
        return

    async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while part := await source.read(RELAY_BYTES):
                sink.write(part)
                await sink.drain()
        sink.close()

    await asyncio.gather(pump(reader, ahead), pump(behind, writer))


async def _answer_as_registry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A stand-in for an image registry: it has no image, and `private/` asks for a login."""
    with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        head = await reader.readuntil(b"\r\n\r\n")
        private = b"/v2/private/" in head.partition(b"\r\n")[0]
        status = "401 Unauthorized" if private else "404 Not Found"
        code = "UNAUTHORIZED" if private else "MANIFEST_UNKNOWN"
        body = f'{{"errors":[{{"code":"{code}","message":"{code.lower()}"}}]}}'.encode()
        login = 'WWW-Authenticate: Basic realm="lab"\r\n' if private else ""
        fields = f"{login}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        writer.write(f"HTTP/1.1 {status}\r\n{fields}Connection: close\r\n\r\n".encode() + body)
        await writer.drain()
    writer.close()


def hold_node(
    directory: Path, switch: Path, pause: Path, index: int, nodes: int, group: str
) -> int:
    """Be a node: its network, its mounts, its processes; returns when its first process ends."""
    name, peer = f"node{index}", f"node{index}"
    (directory / "init").unlink(missing_ok=True)
    # The switch may have ended, and another process may have its number.
    if (switch / "net").stat().st_ino == Path("/proc/self/ns/net").stat().st_ino:
        raise SystemExit("the switch does not run")
    unshare(NEWNET)
    ip("link", "set", "lo", "up")
    switch_pid = (switch / "net").readlink().parts[2]
    # A killed node may have left its end in the switch for a moment.
    with contextlib.suppress(subprocess.CalledProcessError):
        quiet = ["nsenter", f"--net={switch / 'net'}", "--", "ip", "link", "del", peer]
        subprocess.run(quiet, check=True, stderr=subprocess.DEVNULL)
    ip("link", "add", "eth0", "type", "veth", "peer", "name", peer, "netns", switch_pid)
    ip("link", "set", peer, "master", "br0", "up", within=switch / "net")
    ip("addr", "add", f"{node_address(index)}/24", "dev", "eth0")
    ip("link", "set", "eth0", "up")
    ip("route", "add", "default", "via", SWITCH)
    for other in range(1, nodes + 1):
        if other != index:
            ip("route", "add", pod_network(other), "via", node_address(other))
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
    make_groups(group)
    unshare(NEWNS | NEWPID)
    child = os.fork()
    if child == 0:
        _become_first(pause, (directory.parent, pause.parent))
    (directory / "init").write_text(str(child))
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: os.kill(child, signal.SIGKILL))
    with contextlib.suppress(ChildProcessError):
        os.waitpid(child, 0)
    (directory / "init").unlink(missing_ok=True)
    remove_groups(group)
    sys.stderr.write(f"{name} has ended\n")
    return 0


def _become_first(pause: Path, kept: Sequence[Path]) -> None:
    """The first process of a node: it dies with its holder, and all others with it.

    Of this machine's own places only the `kept` directories are visible in the node.
    """
    _LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    try:
        # Apart from this machine first, and then shared among the containers of the node.
        _mount(None, "/", None, MS_REC | MS_PRIVATE)
        _mount(None, "/", None, MS_REC | MS_SHARED)
        _mount("proc", "/proc", "proc", 0)
        for place in (Path(each).resolve() for each in _OWN_PLACES):
            if place.is_dir():
                _hide(place, [each for each in kept if each.resolve().is_relative_to(place)])
        # What belongs to no namespace is that of this machine.
        for folder in _SHARED_SETTINGS:
            _mount(folder, folder, None, MS_BIND | MS_REC)
            _mount(None, folder, None, MS_REMOUNT | MS_BIND | MS_RDONLY)
        for setting, value in _KERNEL_SETTINGS.items():
            shown = Path("/run", setting.replace("/", "-"))
            shown.write_text(f"{value}\n")
            if Path("/proc/sys", setting).exists():
                _mount(str(shown), f"/proc/sys/{setting}", None, MS_BIND)
        os.execv(pause, [str(pause)])  # noqa: S606  it becomes the first process of the node
    except OSError as problem:
        sys.stderr.write(f"{problem}\n")
        sys.stderr.flush()
        os._exit(1)


def _hide(place: Path, kept: Sequence[Path]) -> None:
    """Make a place of this machine empty in this node, except for the directories to keep."""
    opened = [(each.resolve(), os.open(each, os.O_PATH | os.O_DIRECTORY)) for each in kept]
    _mount("tmpfs", str(place), "tmpfs", 0)
    for each, handle in opened:
        each.mkdir(parents=True, exist_ok=True)
        _mount(f"/proc/self/fd/{handle}", str(each), None, MS_BIND | MS_REC)
        os.close(handle)


def _mount(source: str | None, place: str, kind: str | None, flags: int) -> None:
    words = [None if each is None else os.fsencode(each) for each in (source, place, kind)]
    if _LIBC.mount(*words, ctypes.c_ulong(flags), None) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{os.strerror(number)}: mount {place}")


def main(words: Sequence[str] | None = None) -> int:
    """Hold one machine of a rig."""
    parser = argparse.ArgumentParser(prog="namespaces", description=__doc__)
    parser.add_argument("role", choices=("switch", "node"))
    parser.add_argument("directory", type=Path)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--clients", type=int, default=0, help="The port of the sample.")
    parser.add_argument("--nodes", type=int, required=True)
    parser.add_argument("--index", type=int, default=0)
    parser.add_argument("--switch", type=Path)
    parser.add_argument("--pause", type=Path)
    parser.add_argument("--group", default="", help="The control group of a node.")
    given = parser.parse_args(words)
    if given.role == "switch":
        hold_switch(given.directory, given.port, given.clients, given.nodes)
        return 0
    return hold_node(
        given.directory, given.switch, given.pause, given.index, given.nodes, given.group
    )


if __name__ == "__main__":
    sys.exit(main())
