"""What passes everything on: at once, late or not at all, as who has the word says."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from operator_lab.ports import reserve_ports
from operator_lab.stacks.record import Record
from operator_lab.stacks.relay import EVERYBODY, Relay, RelayRule, main, parse_rules
from operator_lab.stacks.rig import RELAY_PORT, RELAY_SECRET, change_rules, rules_of
from operator_protocols.domain.stack import StackSpec
from operator_protocols.errors import RigError
from tests.processes.waiting import eventually

pytestmark = pytest.mark.asyncio

HOST = "127.0.0.1"
SILENT_S, LATE_S = 0.15, 0.1
WORDS = 40


@dataclass
class Wired:
    """A relay in front of a server that says everything twice."""

    record: Record
    directory: Path
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def said(self, word: str) -> str:
        """What comes back."""
        self.writer.write(f"{word}\n".encode())
        return (await self.reader.readline()).decode().strip()

    async def change(self, rules: Callable[[tuple[RelayRule, ...]], tuple[RelayRule, ...]]) -> None:
        """Change what the relay does."""
        await asyncio.to_thread(change_rules, self.record, self.directory, rules)


async def _twice(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while line := await reader.readline():
            writer.write(line.strip() * 2 + b"\n")
        writer.close()
        await writer.wait_closed()


async def _resolve(name: str) -> str:
    return {"near": HOST, "far": "127.0.0.9"}[name]


@asynccontextmanager
async def _wired(folder: Path) -> AsyncIterator[Wired]:
    reserved = reserve_ports(["server", "relay", "control"])
    ports = reserved.ports
    (folder / "secrets").mkdir()
    (folder / "secrets" / RELAY_SECRET).write_text("sesame")
    relay = Relay(token="sesame", resolve=_resolve)
    servers = [
        await asyncio.start_server(_twice, HOST, ports["server"]),
        await relay.serve(HOST, ports["relay"], (HOST, ports["server"])),
        await relay.control(HOST, ports["control"]),
    ]
    reader, writer = await asyncio.open_connection(HOST, ports["relay"])
    record = Record(StackSpec("any", "", ()), "any", {RELAY_PORT: str(ports["control"])})
    try:
        yield Wired(record, folder, reader, writer)
    finally:
        reserved.release()
        writer.close()
        for server in servers:
            server.close()
        await eventually(lambda: relay.wires == 0 and len(asyncio.all_tasks()) == 1)


async def test_rules_hold_for_whom_they_name_and_end_when_they_are_gone(tmp_path: Path) -> None:
    async with _wired(tmp_path) as wired:
        assert await wired.said("a") == "aa"
        await wired.change(lambda rules: (*rules, RelayRule(HOST, "far", cut=True)))
        assert await wired.said("b") == "bb", "it is not the one that was named"
        late = RelayRule(HOST, "near", delay_s=LATE_S)
        await wired.change(lambda rules: (late,))
        begun = time.monotonic()
        assert await wired.said("c") == "cc"
        assert time.monotonic() - begun >= 2 * LATE_S, "there and back"
        await wired.change(lambda rules: (RelayRule(HOST, EVERYBODY, cut=True),))
        silent = asyncio.ensure_future(wired.said("d"))
        await asyncio.wait([silent], timeout=SILENT_S)
        assert not silent.done()
        await wired.change(lambda rules: ())
        assert await silent == "dd"
        assert await asyncio.to_thread(rules_of, wired.record, wired.directory) == ()


async def test_what_follows_closely_is_as_late_as_the_first_and_no_later(tmp_path: Path) -> None:
    async with _wired(tmp_path) as wired:
        await wired.change(lambda rules: (RelayRule(HOST, "near", delay_s=SILENT_S),))
        begun, later = time.monotonic(), asyncio.get_running_loop().call_later
        for number in range(WORDS):
            # Each is sent before the one before it has come through.
            later(number * SILENT_S / WORDS, wired.writer.write, b"%d\n" % number)
        told = [(await wired.reader.readline()).strip()]
        first_s = time.monotonic() - begun
        told += [(await wired.reader.readline()).strip() for _ in range(WORDS - 1)]
        assert told == [b"%d" % number * 2 for number in range(WORDS)]
        assert first_s >= 2 * SILENT_S
        assert time.monotonic() - begun < first_s * WORDS / 2, "they went one by one"


async def test_only_who_has_the_word_changes_rules(tmp_path: Path) -> None:
    async with _wired(tmp_path) as wired:
        (tmp_path / "secrets" / RELAY_SECRET).write_text("open")
        with pytest.raises(RigError, match="refused: status 403"):
            await wired.change(lambda rules: ())
    with pytest.raises(RigError, match="does not answer"):
        await asyncio.to_thread(rules_of, wired.record, wired.directory)


async def test_what_is_no_rule_is_refused() -> None:
    assert parse_rules(b'[{"to": "store"}]') == (RelayRule("store"),)
    for text, why in (
        (b"{}", "a list"),
        (b"[1]", "mapping"),
        (b'[{"from": "x"}]', "from"),
        (b'[{"to": "x", "delay_s": 61}]', "at most 60 s"),
        (b"[[", "value"),
    ):
        with pytest.raises(ValueError, match=why):
            parse_rules(text)


async def test_words_that_make_no_sense_end_it(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--relay", "6379", "--control", "1", "--token-file", "x"])
    assert "does not look like PORT=HOST:PORT" in capsys.readouterr().err
