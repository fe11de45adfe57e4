"""No script gets out of its box; each way out is shown to lead out where there is no box."""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from operator_protocols.domain.action import Outcome
from operator_sre.executor.sandbox import Language
from tests.executor.sandbox.boxes import Boxed, bubblewrap, docker, of_plain_user
from tests.executor.sandbox.probes import PROBES, Probe

# What the engine's own filter lets a container do to itself, older engines some of it; nothing of
# it leads out.
IN_DOCKER = {
    "call what is rarely checked",
    "trace a process",
    "trace its own child",
    "keep memory that belongs to no process",
    "move to all processors",
    "make a socket of a rare family",
    "raise its limits",
    "type into a terminal",
}
CONTROLLED = [probe for probe in PROBES if probe.control]
# One for each wall. The rest of them meets the other boxes in long runs, because a box takes long.
EACH_WALL = {
    "read the operator's state in python",
    "write outside in bash",
    "connect by TCP in python",
    "connect by an abstract socket in python",
    "see processes of the host in python",
    "signal a process of the host in bash",
    "mount in python",
    "make a user namespace in python",
    "become root in python",
}
KINDS = ["with a cgroup", "of a plain user"]
IN_BOXES = [
    pytest.param(
        *(kind, probe),
        id=f"{kind}-{probe}",
        marks=() if kind == KINDS[0] or str(probe) in EACH_WALL else pytest.mark.slow,
    )
    for kind in KINDS
    for probe in PROBES
]
IN_CONTAINERS = [
    pytest.param(probe, id=str(probe), marks=() if str(probe) in EACH_WALL else pytest.mark.slow)
    for probe in PROBES
    if probe.name not in IN_DOCKER
]


@dataclass(frozen=True, slots=True)
class Scene:
    """What lies outside, for a script to reach."""

    words: dict[str, str]
    bystander: subprocess.Popen[bytes]

    def text(self, probe: Probe) -> str:
        """The probe with the names of what is there."""
        text = probe.text
        for name, value in self.words.items():
            text = text.replace(f"@{name}@", value)
        return text


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("outside")
    (folder / "state").write_text("the operator's own")
    tokens = {name: f"{name.lower()}-{secrets.token_hex(8)}" for name in ("SECRET", "MARK")}
    abstract = f"operator-{secrets.token_hex(8)}"
    with (
        socket.create_server(("127.0.0.1", 0)) as tcp,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp,
        socket.socket(socket.AF_UNIX) as unix,
        socket.socket(socket.AF_UNIX) as hidden,
        subprocess.Popen(
            [sys.executable, "-c", _BYSTANDER, tokens["MARK"]],
            stdin=subprocess.PIPE,
            env={"SECRET": tokens["SECRET"]},
            pass_fds=(tcp.fileno(), udp.fileno()),
        ) as bystander,
    ):
        udp.bind(("127.0.0.1", 0))
        for listener, path in ((unix, str(folder / "socket")), (hidden, f"\0{abstract}")):
            listener.bind(path)
            listener.listen()
        assert bystander.stdin is not None
        bystander.stdin.write(f"{tcp.fileno()} {udp.fileno()}\n".encode())
        bystander.stdin.flush()
        words = {
            "STATE": str(folder / "state"),
            "FOLDER": str(folder),
            "TCP": str(tcp.getsockname()[1]),
            "UDP": str(udp.getsockname()[1]),
            "SOCKET": str(folder / "socket"),
            "ABSTRACT": abstract,
            "PID": str(bystander.pid),
            **tokens,
        }
        yield Scene(words, bystander)
        bystander.kill()


# A process of the host: it greets by TCP and answers by UDP, and is there to be seen and signalled.
_BYSTANDER = """
import select, socket, sys
tcp, udp = (socket.socket(fileno=int(word)) for word in input().split())
tcp.listen()
while True:
    for one in select.select([tcp, udp], [], [])[0]:
        if one is tcp:
            tcp.accept()[0].sendall(b"hi")
        else:
            udp.sendto(b"yes", udp.recvfrom(99)[1])
"""


@pytest.fixture(params=KINDS)
def boxed(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Boxed]:
    with (bubblewrap if request.param == KINDS[0] else of_plain_user)(tmp_path) as made:
        yield made
        assert made.left() == []


def test_each_wall_is_tried() -> None:
    assert {str(probe) for probe in PROBES if probe.name not in IN_DOCKER} >= EACH_WALL


@pytest.mark.parametrize("probe", CONTROLLED, ids=str)
def test_outside_of_a_box_each_way_leads_out(probe: Probe, scene: Scene, tmp_path: Path) -> None:
    if probe.as_root and os.geteuid() != 0:
        pytest.skip("only root gets through this even outside")
    program = "/bin/bash" if probe.language is Language.BASH else sys.executable
    (tmp_path / "probe").write_text(scene.text(probe))
    argv = [program, str(tmp_path / "probe")]
    if probe.apart:
        argv = [shutil.which("unshare") or "unshare", "--mount", *argv]
    # In a session of its own, as in a box, so that a terminal of ours is nobody's concern.
    done = subprocess.run(argv, capture_output=True, timeout=60, start_new_session=True)
    assert b"TRIED" in done.stdout
    assert b"ESCAPED" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize(("boxed", "probe"), IN_BOXES, indirect=["boxed"])
@pytest.mark.asyncio
async def test_no_way_leads_out_of_a_box(probe: Probe, scene: Scene, boxed: Boxed) -> None:
    result = await boxed.run(probe.language, scene.text(probe))
    assert result.outcome is Outcome.RAN, result.stderr
    assert "TRIED" in result.stdout, result.stderr
    assert "ESCAPED" not in result.stdout
    assert scene.bystander.poll() is None


@pytest.mark.system
@pytest.mark.timeout(300)
@pytest.mark.parametrize("probe", IN_CONTAINERS)
@pytest.mark.asyncio
async def test_no_way_leads_out_of_a_container(
    probe: Probe, scene: Scene, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    with docker(tmp_path, request.config) as boxed:
        result = await boxed.run(probe.language, scene.text(probe))
        assert result.outcome is Outcome.RAN, result.stderr
        assert "TRIED" in result.stdout, result.stderr
        assert "ESCAPED" not in result.stdout
        assert boxed.left() == []
    assert scene.bystander.poll() is None


@pytest.mark.asyncio
async def test_boxes_do_not_see_each_other(boxed: Boxed) -> None:
    mark = secrets.token_hex(8)
    text = f"""
import glob, os, subprocess, time
open("/tmp/{mark}", "w").write("mine")
seen = [path for path in glob.glob("/tmp/*") + glob.glob("/dev/shm/*")]
print(len(seen), len([pid for pid in os.listdir("/proc") if pid.isdigit()]))
time.sleep(0.2)
"""
    both = await asyncio.gather(*(boxed.run(Language.PYTHON, text) for _ in range(2)))
    assert [result.stdout.split() for result in both] == [["1", "2"]] * 2
