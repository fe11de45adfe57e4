"""The five minutes of docs/declarative.md, exactly as they are written there."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from operator_protocols.domain.health import Health
from operator_sre.clock import SystemClock
from operator_sre.store import open_store
from operator_sre.subjects.declarative import cause, description, lever
from operator_sre.subjects.declarative.probes.kinds import PROBES
from tests.contract.servers import unused_port
from tests.e2e.home import Running
from tests.e2e.waiting import eventually
from tests.processes.runners import end_runner
from tests.subjects.declarative.trying import described

DOCUMENT = Path(__file__).parents[3] / "docs" / "declarative.md"
_BLOCK = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND_S_MAX = 60.0


@dataclass(frozen=True, slots=True)
class Block:
    """One piece of the document that a reader types or writes."""

    language: str
    words: str
    text: str

    @property
    def file(self) -> str:
        return self.words.strip().removeprefix("file=") if "file=" in self.words else ""


def blocks(port: int) -> list[Block]:
    """What stands in the five minutes, on a port that is free here."""
    text = DOCUMENT.read_text().split("## Five minutes")[1].split("\n## ")[0]
    assert "8080" in text
    return [Block(*found) for found in _BLOCK.findall(text.replace("8080", str(port)))]


class Reader:
    """Somebody who does what the document says, in a folder of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.shop = folder / "shop"
        self.environ = {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "OPERATOR_HOME": str(folder / "home"),
            "OPERATOR_STABLE_S": "1",
        }
        self.running: list[Running] = []
        self.said: list[str] = []

    def follow(self, block: Block) -> None:
        if block.file:
            (self.shop / block.file).write_text(block.text)
        elif "background" in block.words:
            self.running.append(self.start(block.text))
        else:
            self.said.append(self.ask(block.text))

    def start(self, line: str) -> Running:
        """A line that goes on."""
        file = self.shop / f"process-{len(self.running)}.log"
        with file.open("wb") as log:
            popen = subprocess.Popen(
                ["sh", "-c", f"exec {line}"],
                cwd=self.shop,
                env={**os.environ, **self.environ},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        return Running(popen, file, line.split())

    def ask(self, line: str) -> str:
        """What a line says, when it succeeds."""
        done = subprocess.run(
            ["sh", "-e", "-c", line],
            cwd=self.shop if self.shop.exists() else self.folder,
            env={**os.environ, **self.environ},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=COMMAND_S_MAX,
            check=False,
        )
        assert done.returncode == 0, (line, done.stdout, done.stderr)
        return done.stdout

    def looked(self) -> bool:
        """It was looked at, and all was well; asking the command would cost more than waiting."""
        file = self.folder / "home" / "operator.db"
        if not file.exists():
            return False
        store = open_store(file, clock=SystemClock())
        try:
            seen = store.observations.newest("shop", limit=1)
        finally:
            store.close()
        return bool(seen) and seen[0].of("shop-1").readings.get("page.ok") is True

    def is_healthy(self, subject: str) -> bool | None:
        """Whether every invariant of a subject was checked and held."""
        file = self.folder / "home" / "operator.db"
        if not file.exists():
            return None
        store = open_store(file, clock=SystemClock())
        try:
            found = store.conditions.of(subject)
        finally:
            store.close()
        return (bool(found) and all(each.health is Health.HEALTHY for each in found)) or None

    @property
    def pid(self) -> int:
        return int((self.shop / "shop.pid").read_text())

    def end(self) -> None:
        for one in self.running:
            one.end()
        if (self.shop / "shop.pid").exists():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
        end_runner(self.folder / "home" / "runner")


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    made = Reader(tmp_path)
    yield made
    made.end()


def test_a_reader_comes_from_nothing_to_a_repaired_failure(reader: Reader) -> None:
    with unused_port() as port:
        steps = blocks(port)
    waits: dict[str, Callable[[], bool]] = {
        "operator subjects test": lambda: listens(port),
        "kill": reader.looked,
        "operator tickets list": lambda: "resolved" in reader.running[0].said,
    }
    pids: list[int] = []
    for block in steps:
        for begin, ready in waits.items():
            if block.text.startswith(begin):
                eventually(partial(_true, ready), f"before {begin}", within_s=60.0)
                pids.append(reader.pid)
        reader.follow(block)
    assert len(pids) == len(waits), "every step was there"
    told = "".join(reader.said)
    assert "added   [subjects.shop]" in told
    assert "shop is healthy." in told
    assert "runs without approval" in told
    assert "the shop is not open: " in told
    assert "restart_node" in told.partition("the shop is not open")[2]
    assert pids[1] != reader.pid
    assert listens(port)


def _true(ready: Callable[[], bool]) -> bool | None:
    return ready() or None


def listens(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.parametrize("place", range(3))
def test_every_probe_in_the_reference_is_one(tmp_path: Path, place: int) -> None:
    reference = DOCUMENT.read_text().split("### Probes")[1].split("### Invariants")[0]
    found = [text for language, _, text in _BLOCK.findall(reference) if language == "yaml"]
    assert len(found) == 3
    probes = "".join(f"  {line}\n" for line in found[place].splitlines())
    name = found[place].partition(":")[0]
    tried = described(
        tmp_path,
        f"name: a\ntargets: {{t: {{kind: web, port: 1}}}}\nprobes:\n{probes}"
        f"invariants: {{i: {{holds: {name}.up}}}}\n",
    )
    assert tried.targets[0].name == "t"


def test_the_causes_of_the_reference_are_read(tmp_path: Path) -> None:
    reference = DOCUMENT.read_text().split("## The file")[1]
    text = [text for language, _, text in _BLOCK.findall(reference) if language == "yaml"][-1]
    read = "{read: {queue: queue, workers: workers}}"
    tried = described(
        tmp_path,
        f"name: a\ntargets: {{t: {{kind: web, port: 1}}}}\nprobes: {{page: {{http: {read}}}}}\n"
        f"{text}levers: {{start_workers: {{command: [start]}}}}\n",
    )
    (lever,) = tried.tools
    assert lever.spec.ends == ("workers_gone",)


def test_every_key_of_a_description_is_in_the_reference() -> None:
    text = DOCUMENT.read_text().split("## The file")[1]
    keys = {
        *description.SECTIONS,
        *description.INVARIANT_KEYS,
        *description.TARGET_KEYS,
        *description.ACCESS_KEYS,
        *cause.CAUSE_KEYS,
        *lever.LEVER_KEYS,
        *lever.PARAMETER_KEYS,
        *lever.REQUIRED_KEYS,
        *(key for kind in PROBES.values() for key in kind.keys),
    }
    assert [key for key in sorted(keys) if not re.search(rf"`{key}\b", text)] == []
    assert [kind for kind in PROBES if f"**{kind}**" not in text] == []
