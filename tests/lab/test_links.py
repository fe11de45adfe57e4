"""Links: what is cut lets nothing pass, whoever called, and nothing else is touched."""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import json
import os
import random
import signal
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from operator_lab.links import RESEND_S, Links, Wire, callers, main
from operator_lab.manifest import HOST, LINKS
from operator_lab.rig import Rig, RunState
from operator_lab.rules import (
    EVERYBODY,
    Rule,
    Rules,
    change_rules,
    read_applied,
    read_rules,
    write_applied,
)
from operator_lab.startup import answers
from operator_protocols.errors import NotFoundError, RigError
from operator_protocols.ports import Ability
from tests.lab.conftest import Up
from tests.lab.town import (
    OUTSIDE,
    TOWN,
    port_of,
    process_of_target,
    status_of,
    wrong_about,
)
from tests.processes.waiting import eventually

NAMES = ("ash", "birch", "cedar", "elm")
LINKED = NAMES[:3]
PAIRS = [(a, b) for a in (OUTSIDE, *NAMES) for b in NAMES if a != b]
ALL_PASS = dict.fromkeys(PAIRS, True)
REQUEST = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
REQUESTS = 100
SILENT_S = 0.4


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    """One rig for all these tests; each of them leaves it as it was."""
    rig = asyncio.run(Rig.up(TOWN, tmp_path_factory.mktemp("town") / "rig", owned=False))
    yield rig
    hurt = {name: rig.damage(name) for name in NAMES}
    asyncio.run(rig.down())
    assert not any(hurt.values())


class _Line:
    """A standing connection from outside."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection((HOST, port), timeout=20)

    def __enter__(self) -> _Line:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def ask(self) -> bytes:
        """Send a request and return what comes back within a moment; TimeoutError for silence."""
        self._socket.settimeout(SILENT_S)
        self._socket.sendall(REQUEST)
        said = self._socket.recv(4096)
        while not said.endswith(b"ok"):  # the answer may come in parts
            said += self._socket.recv(4096)
        return said

    def ends(self) -> bool:
        """Whether it is closed by the other side."""
        self._socket.settimeout(8)
        try:
            return self._socket.recv(4096) == b""
        except ConnectionResetError:
            return True


@pytest.mark.asyncio
async def test_whole_and_linked_on_every_port(town: Rig) -> None:
    assert await wrong_about(town, ALL_PASS) == []
    manifest = town.manifest()
    assert set(manifest.links) == {"ash", "ash:peer", "birch", "cedar"}
    assert not set(manifest.links.values()) & set(manifest.ports.values())
    assert port_of(town, "ash") == manifest.links["ash"]
    assert port_of(town, "elm") == manifest.ports["elm"]
    assert await answers(manifest.links["ash:peer"], path="/health")
    assert status_of(town, LINKS).state is RunState.RUNNING
    assert LINKS not in [target.name for target in town.targets()]


@pytest.mark.asyncio
async def test_a_cut_silences_what_stands_and_what_comes(town: Rig) -> None:
    port = port_of(town, "ash")
    with _Line(port) as stands, _Line(port_of(town, "birch")) as other:
        assert b"200" in stands.ask()
        await town.cut("ash")
        assert town.damage("ash") == {Ability.CUT}
        with pytest.raises(TimeoutError):
            stands.ask()
        with _Line(port) as comes:
            with pytest.raises(TimeoutError):
                comes.ask()
            assert b"200" in other.ask()
            # The process itself is well and knows nothing.
            assert await answers(town.manifest().ports["ash"], path="/health")
            await town.reconnect("ash")
            assert stands.ends()
            assert comes.ends()
        assert b"200" in other.ask()
    assert await answers(port, path="/health")


@pytest.mark.asyncio
@pytest.mark.parametrize("anew", [True, False], ids=["new", "standing"])
@pytest.mark.parametrize(("one", "two"), [("ash", "birch"), ("elm", "cedar"), ("cedar", "elm")])
async def test_a_cut_between_two_holds_whoever_called_and_for_nobody_else(
    town: Rig, one: str, two: str, anew: bool
) -> None:
    assert await wrong_about(town, ALL_PASS, anew=anew) == []
    await town.cut(one, (two,))
    # What is not linked is called directly.
    expected = {pair: set(pair) != {one, two} or pair[1] not in LINKED for pair in PAIRS}
    assert await wrong_about(town, expected, anew=anew) == []
    await town.reconnect(one, (two,))
    assert await wrong_about(town, ALL_PASS) == []


@pytest.mark.asyncio
@pytest.mark.parametrize("seed", range(3))
async def test_any_set_of_cuts_lets_pass_exactly_what_it_does_not_name(
    town: Rig, seed: int
) -> None:
    rng = random.Random(seed)
    whole: set[str] = set()
    pairs: set[frozenset[str]] = set()
    for _ in range(rng.randint(1, 3)):
        one, two = rng.sample(LINKED, 2)
        if rng.random() < 0.3:
            await town.cut(one)
            whole.add(one)
        else:
            await town.cut(one, (two,))
            pairs.add(frozenset((one, two)))
    expected = {
        (a, b): not (b in LINKED and (whole & {a, b} or frozenset((a, b)) in pairs))
        for a, b in PAIRS
    }
    assert await wrong_about(town, expected) == []
    hurt = {name for name in NAMES if town.damage(name)}
    assert hurt == whole | set(itertools.chain.from_iterable(pairs))
    for name in rng.sample(LINKED, 3):
        await town.reconnect(name)
    assert await wrong_about(town, ALL_PASS) == []


@pytest.mark.asyncio
async def test_rules_outlive_a_restart_of_the_target(town: Rig) -> None:
    await town.cut("birch", ("ash",))
    await town.restart("birch")
    expected = {("ash", "birch"): False, (OUTSIDE, "birch"): True}
    assert await wrong_about(town, expected) == []
    await town.reconnect("birch")
    assert await wrong_about(town, ALL_PASS) == []


@pytest.mark.asyncio
async def test_slow_delays_both_ways_in_order_and_only_between_these(town: Rig) -> None:
    await town.slow("ash", 0.2)
    assert town.damage("ash") == {Ability.SLOW}
    reader, writer = await asyncio.open_connection(HOST, port_of(town, "ash"))
    begun = time.monotonic()
    writer.write(REQUEST)
    await asyncio.wait_for(reader.readuntil(b"200 OK"), 30)
    one_s = time.monotonic() - begun
    assert one_s >= 0.4
    begun = time.monotonic()
    # Many messages on one line wait at the same time, not one after the other.
    for _ in range(REQUESTS):
        writer.write(REQUEST)
        await writer.drain()
    answered = 0
    text = b""
    while answered < REQUESTS:
        text += await asyncio.wait_for(reader.read(1 << 16), 30)
        answered = text.count(b"200 OK")
    took_s = time.monotonic() - begun
    # One after the other they would take as many times as long.
    assert took_s < one_s * REQUESTS / 2
    writer.close()
    await writer.wait_closed()
    assert await answers(port_of(town, "birch"), path="/health")
    await town.slow("ash", 0.01)
    assert [rule.delay_s for rule in (read_applied(town.directory) or Rules()).rules] == [0.01]
    await town.hasten("ash")
    assert town.damage("ash") == frozenset()


@pytest.mark.asyncio
async def test_a_slow_pair_is_slow_for_nobody_else(town: Rig) -> None:
    await town.slow("ash", 5.0, ("birch",))
    expected = {pair: set(pair) != {"ash", "birch"} for pair in PAIRS}
    assert await wrong_about(town, expected) == []
    assert town.damage("ash") == town.damage("birch") == {Ability.SLOW}
    await town.hasten("birch", ("ash",))
    assert await wrong_about(town, ALL_PASS) == []


@pytest.mark.asyncio
async def test_a_dead_target_refuses_as_it_would_without_a_link(town: Rig) -> None:
    port = port_of(town, "ash")
    await town.kill("ash")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((HOST, port), timeout=20)
    os.kill(process_of_target(town, "birch").pid, signal.SIGKILL)
    await eventually(lambda: _refuses(port_of(town, "birch")))
    await town.restart("birch")
    await town.restart("ash")
    assert await answers(port, path="/health")


def _refuses(port: int) -> bool:
    try:
        socket.create_connection((HOST, port), timeout=20).close()
    except ConnectionRefusedError:
        return True
    except OSError:
        return False
    return False


@pytest.mark.asyncio
async def test_bad_wishes_are_told_in_one_sentence(town: Rig) -> None:
    for verb in (town.cut, town.reconnect, town.hasten):
        with pytest.raises(NotFoundError, match="no target 'oak'"):
            await verb("oak")
        with pytest.raises(NotFoundError, match="no target 'oak'"):
            await verb("elm", ("oak",))
        with pytest.raises(RigError, match="'elm' has no link"):
            await verb("elm")
        with pytest.raises(RigError, match="itself"):
            await verb("ash", ("ash",))
    for delay_s in (0.0, -1.0, 3600.0, float("nan")):
        with pytest.raises(RigError, match="A delay is"):
            await town.slow("ash", delay_s)
    assert town.unable("elm", Ability.CUT) == town.unable("elm", Ability.SLOW) != ""
    assert town.unable("ash", Ability.CUT) == ""


@pytest.mark.asyncio
async def test_links_that_died_are_seen_and_cut_everything(up: Up) -> None:
    rig = await up(TOWN)
    links = status_of(rig, LINKS).process
    assert links is not None
    os.kill(links.pid, signal.SIGKILL)
    await eventually(lambda: status_of(rig, LINKS).state is RunState.EXITED)
    assert rig.damage("ash") == {Ability.CUT}
    assert rig.damage("elm") == frozenset()
    with pytest.raises(RigError, match="'links' is not running"):
        await rig.cut("ash")
    await rig.restart("ash")


def test_rules_are_about_pairs() -> None:
    cut = Rule("a", "b", cut=True)
    assert cut.holds("a", "b")
    assert cut.holds("b", "a")
    assert not cut.holds("", "a")
    assert Rule("a").other == EVERYBODY
    rules = Rules(3, (cut, Rule("a", delay_s=1.0), Rule("c", delay_s=2.0)))
    assert rules.between("b", "a") == (True, 1.0)
    assert rules.between("c", "a") == (False, 2.0)
    assert rules.between("", "b") == (False, 0.0)
    assert rules.of("b") == (cut,)
    assert cut.about("b", ("a", "x"))
    assert not cut.about("b", ("x",))


def test_rules_survive_their_files(tmp_path: Path) -> None:
    (tmp_path / LINKS).mkdir()
    assert read_rules(tmp_path) == Rules()
    assert read_applied(tmp_path) is None
    written = change_rules(tmp_path, lambda rules: (*rules, Rule("a", cut=True)))
    written = change_rules(tmp_path, lambda rules: (*rules, Rule("b", "a", delay_s=0.5)))
    assert read_rules(tmp_path) == written
    assert (written.number, len(written.rules)) == (2, 2)
    write_applied(tmp_path, written)
    assert read_applied(tmp_path) == written
    (tmp_path / LINKS / "rules.json").write_text("[]")
    with pytest.raises(RigError, match="cannot be read"):
        read_rules(tmp_path)


@pytest.mark.asyncio
@pytest.mark.parametrize("delay_s", [0.0, 0.05])
async def test_every_byte_arrives_whatever_the_pace(delay_s: float) -> None:
    """A sink that reads slowly, several megabytes, and a half-closed line."""
    sent = random.Random(7).randbytes(6 << 20)
    got = hashlib.sha256()

    async def sink(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1 << 18):
            got.update(data)
        writer.write(got.digest())
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(sink, HOST, 0)
    port = server.sockets[0].getsockname()[1]
    loop = asyncio.get_running_loop()

    wires: set[Wire] = set()

    def accept() -> asyncio.Protocol:
        wire = Wire(port, opened=lambda each: each.rule(cut=False, delay_s=delay_s))
        wires.add(wire)
        wire.ended = wires.discard
        return wire.caller

    link = await loop.create_server(accept, HOST, 0)
    reader, writer = await asyncio.open_connection(*link.sockets[0].getsockname())
    writer.write(sent)
    writer.write_eof()
    assert await asyncio.wait_for(reader.read(), 30) == hashlib.sha256(sent).digest()
    writer.close()
    await writer.wait_closed()
    await eventually(lambda: not wires)
    link.close()
    server.close()


def test_who_called_is_found_by_the_sockets_of_the_rig(town: Rig) -> None:
    with socket.create_connection((HOST, port_of(town, "ash"))) as ours:
        ends = (ours.getsockname()[1], ours.getpeername()[1])
        assert callers(town.directory, NAMES, [ends]) == {}
        assert callers(town.directory, NAMES, [(1, 1)]) == {}


@pytest.mark.asyncio
async def test_a_port_that_is_taken_ends_the_links(tmp_path: Path) -> None:
    (tmp_path / LINKS).mkdir()
    with socket.socket() as holder:
        holder.bind((HOST, 0))
        holder.listen()
        link = {"target": "a", "listen": holder.getsockname()[1], "to": 1}
        links = Links(tmp_path, targets=["a"], links=[link])
        with pytest.raises(OSError, match="address already in use"):
            await links.serve()
        assert links.count() == 0
        config = tmp_path / "config.json"
        record = {"directory": str(tmp_path), "targets": ["a"], "links": [link]}
        config.write_text(json.dumps(record))
        words = (main.__module__, "--config", str(config))
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", *words), stderr=asyncio.subprocess.PIPE
        )
        _, said = await process.communicate()
    assert process.returncode == 1
    assert b"cannot be created" in said
    assert b"Traceback" not in said
    assert read_applied(tmp_path) is None


def test_a_lost_message_is_sent_again_later_and_most_pass() -> None:
    wire = Wire(1, opened=lambda wire: None)
    assert wire.resend_s() == 0.0
    wire.rule(cut=True, delay_s=0.0)  # it is not dialled
    wire.loss = 0.25
    waits = [wire.resend_s() for _ in range(2_000)]
    assert 0.15 < sum(wait > 0 for wait in waits) / len(waits) < 0.35
    assert min(wait for wait in waits if wait) == RESEND_S
    assert max(waits) > RESEND_S


@pytest.mark.asyncio
async def test_a_lossy_link_delivers_all_in_order_and_ends_with_hasten(town: Rig) -> None:
    await town.lose("ash", 0.3)
    assert town.damage("ash") == {Ability.SLOW}
    assert Rules(1, (Rule("ash", loss=0.3),)).loss("", "ash") == 0.3
    assert await answers(port_of(town, "birch"), path="/health")
    reader, writer = await asyncio.open_connection(HOST, port_of(town, "ash"))
    for _ in range(REQUESTS):
        writer.write(REQUEST)
    text = b""
    while text.count(b"200 OK") < REQUESTS:
        text += await asyncio.wait_for(reader.read(1 << 16), 60)
    writer.close()
    await writer.wait_closed()
    for share in (0.0, 1.0, -1.0):
        with pytest.raises(RigError, match="share of lost messages"):
            await town.lose("ash", share)
    await town.hasten("ash")
    assert town.damage("ash") == frozenset()


def test_who_called_is_looked_up_only_where_it_matters(tmp_path: Path) -> None:
    links = Links(tmp_path, targets=("a", "b", "c"), links=())
    for rules, asking in (
        ((), ""),
        ((Rule("a", "b", cut=True),), "ab"),
        # Whoever called, nothing passes to it; who it called itself must be known.
        ((Rule("a", cut=True),), "bc"),
        ((Rule("a", "b", cut=True), Rule("c", cut=True)), "ab"),
    ):
        links._rules = Rules(1, rules)
        assert [name for name in "abc" if links._asks_who(name)] == list(asking)
