"""What Search promises: any text, newest first, soon after it was written."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace

import pytest
import pytest_asyncio
from hypothesis import given, settings
from hypothesis import strategies as st

from operator_protocols.domain.action import Action
from operator_protocols.domain.command import CommandFilter, Query
from operator_protocols.domain.entry import Draft, Entry, Kind
from operator_sre.ledger.history.statistics import parse_query
from tests.contract.clock import HeldClock
from tests.contract.doing import DONE, Doer
from tests.contract.postgres import database_in
from tests.contract.stores import STORES, Home, Ports
from tests.every import every
from tests.processes.waiting import eventually

EVERY = CommandFilter()
LINES = (
    "ls -la /var/log/app.log",
    "python file.py --force",
    "g++ -o main main.cpp  # C++",
    "systemctl restart nginx.service",
    "echo 'it''s \"quoted\"'",
    "curl http://10.0.0.1:8080/health?x=1",
    "echo 🔥",
    "kubectl get pods -n kube-system",
    "docker ps -a",
    "echo Größe ΑΒΓ 日本語",
)


@pytest.fixture(scope="module", params=sorted(STORES))
def kept(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Ports]:
    """One database of each kind with a few commands, for many questions."""
    kind, folder, clock = str(request.param), tmp_path_factory.mktemp("kept"), HeldClock()
    with database_in(kind, folder, request.config):
        ports = STORES[kind](folder, clock)

        async def fill() -> None:
            doer = await Doer.hired(ports, clock)
            for line in LINES:
                await doer.run(line)
            await ports.search.catch_up(entries_max=1000)

        asyncio.run(fill())
        yield ports
        ports.close()


@pytest_asyncio.fixture
async def doer(ports: Ports, clock: HeldClock) -> Doer:
    return await Doer.hired(ports, clock)


async def _found(ports: Ports, text: str, *, limit: int = 50) -> list[str]:
    await ports.search.catch_up(entries_max=1000)
    return [one.command for one in ports.search.commands(parse_query(text), EVERY, limit=limit)]


@every(
    ("text", "lines"),
    [
        ("ls -la", [0]),
        ("-la", [0]),
        ("LS", [0]),
        ("file.py", [1]),
        ("--force", [1]),
        ("force", [1]),
        ("C++", [2]),
        ("main.cpp", [2]),
        ("/var/log/app.log", [0]),
        ("app.log", [0]),
        ("/var/log/app.log.", [0]),
        ("nginx.service", [3]),
        ("nginx", [3]),
        ('"restart nginx.service"', [3]),
        ('"nginx.service restart"', []),
        ("restart nginx.service", [3]),
        ("nginx.service restart", [3]),
        ("rest*", [3]),
        ("rest", []),
        ('"get po"*', [7]),
        ("10.0.0.1", [5]),
        ("10.0.0.1:8080", [5]),
        ("x=1", [5]),
        ("kube-system", [7]),
        ('"quoted"', [4]),
        ("🔥", [6]),
        ("grosse", [9]),
        ("größe", [9]),
        ("GRÖßE", [9]),
        ("grö*", [9]),
        ("日本語", [9]),
        ("αβγ", [9]),
        ("echo", [9, 6, 4]),
        ("echo nginx", []),
        ("AND OR NOT", []),
        ("ls OR nginx", []),
        ("'", [4]),
        ("?", [5]),
    ],
)
def test_people_find_what_they_type(kept: Ports, text: str, lines: list[int]) -> None:
    found = kept.search.commands(parse_query(text), EVERY, limit=50)
    assert [one.command for one in found] == [LINES[place] for place in lines]


HOSTILE = (
    *('"', '""', '"""', "'", "*", "**", "a*b", "(", ")", "AND", "OR", "NOT", "NEAR(a b)", "AND OR"),
    *("AND OR NOT ( *", "words : x", "-", "--", "^", "^a", "+", "{a b} : c", ";", "' OR 1=1 --"),
    *(
        "%",
        "_",
        "\\",
        "\\'",
        "a'b",
        "a:b",
        ":*",
        "'a':*",
        "<->",
        "&",
        "!",
        "|",
        "a & !b",
        "\0",
        "a\0b",
    ),
    *(
        "\ud800",
        "🔥",
        "C++",
        "x" * 10_000,
        "x " * 5000,
        '"' * 999,
        "-" * 9999,
        "é" * 5000,
        "?" * 300,
    ),
    *("a.b.c/d-e_f", "../..", "./x", "/", "SELECT 1; DROP TABLE commands"),
)


@every("text", HOSTILE)
def test_no_text_is_too_strange(kept: Ports, text: str) -> None:
    query = parse_query(text)
    assert len(kept.search.commands(query, EVERY, limit=5)) <= 5
    assert len(kept.search.entries(query, limit=5)) <= 5
    (found,) = kept.search.commands(parse_query("nginx.service"), EVERY, limit=5)
    assert found.command == "systemctl restart nginx.service"


@settings(max_examples=150, deadline=None)
@given(
    text=st.text(max_size=60)
    | st.lists(st.sampled_from([*HOSTILE[:60], *LINES]), max_size=4).map(" ".join)
)
def test_a_search_never_raises(kept: Ports, text: str) -> None:
    query = Query(text, ()) if not text.strip() else parse_query(text)
    found = kept.search.commands(query, EVERY, limit=3)
    assert len(found) <= 3
    kept.search.entries(query, limit=3)


@settings(max_examples=60, deadline=None)
@given(place=st.integers(0, len(LINES) - 1), data=st.data())
def test_every_word_of_a_command_finds_it(kept: Ports, place: int, data: st.DataObject) -> None:
    words = data.draw(st.lists(st.sampled_from(LINES[place].split()), min_size=1, max_size=4))
    query = parse_query(" ".join(words).replace('"', " ") or "echo")
    found = [one.command for one in kept.search.commands(query, EVERY, limit=99)]
    assert LINES[place] in found or not any(char.isalnum() for char in query.text)


@pytest.mark.asyncio
async def test_command_context_and_output_are_searched_together(ports: Ports, doer: Doer) -> None:
    action = Action.shell("systemctl restart web", reasoning="The balancer lost it.")
    await doer.run(action, replace(DONE, stdout="Started The Web.", stderr="Warning: slow disk"))
    for text in ("web balancer started slow", '"slow disk"', '"balancer lost it"', "warning"):
        assert await _found(ports, text) == ["systemctl restart web"], text
    assert await _found(ports, '"web balancer"') == []


@pytest.mark.asyncio
async def test_refused_commands_are_found(ports: Ports, doer: Doer) -> None:
    await doer.refuse(Action.shell("mkfs /dev/sda", reasoning="a fresh start"))
    assert await _found(ports, "mkfs fresh") == ["mkfs /dev/sda"]


@pytest.mark.asyncio
async def test_a_running_command_is_found_and_its_output_when_it_has_ended(
    ports: Ports, doer: Doer
) -> None:
    intent, _ = await doer.begin("tail -n 5 /var/log/app.log")
    assert await _found(ports, "app.log") == ["tail -n 5 /var/log/app.log"]
    assert await _found(ports, "catastrophe") == []
    await ports.intents.end(intent, replace(DONE, stdout="catastrophe in /var/log/app.log"))
    assert await _found(ports, "catastrophe") == ["tail -n 5 /var/log/app.log"]
    assert await _found(ports, "app.log") == ["tail -n 5 /var/log/app.log"], "once, not twice"


@pytest.mark.asyncio
async def test_both_ends_of_an_output_are_searched(ports: Ports, doer: Doer) -> None:
    output = "alpha " + "noise " * 5000 + "omega"
    await doer.run("journalctl", replace(DONE, stdout=output))
    assert await _found(ports, "alpha omega noise") == ["journalctl"]


@pytest.mark.asyncio
async def test_findings_are_newest_first_in_pages(ports: Ports, doer: Doer) -> None:
    seqs = [await doer.run(f"df -h /data{number}") for number in range(7)][::-1]
    await ports.search.catch_up(entries_max=1000)
    query = parse_query("df data*")
    first = ports.search.commands(query, EVERY, limit=3)
    rest = ports.search.commands(query, EVERY, limit=99, before=first[-1].seq)
    assert [one.seq for one in [*first, *rest]] == seqs


@pytest.mark.asyncio
async def test_a_scan_comes_in_pages_too(ports: Ports, doer: Doer) -> None:
    seqs = [await doer.run("echo 🔥") for _ in range(4)][::-1]
    first = ports.search.commands(parse_query("🔥"), EVERY, limit=3)
    rest = ports.search.commands(parse_query("🔥"), EVERY, limit=99, before=first[-1].seq)
    assert [one.seq for one in [*first, *rest]] == seqs


@pytest.mark.asyncio
async def test_findings_can_be_filtered(ports: Ports, doer: Doer, clock: HeldClock) -> None:
    good = await doer.run(Action.shell("df -h", target="a"))
    bad = await doer.fail(Action.shell("df -h", target="b"))
    await ports.search.catch_up(entries_max=1000)

    def found(**where: str) -> list[int]:
        wanted = CommandFilter(**where)  # type: ignore[arg-type]
        return [one.seq for one in ports.search.commands(parse_query("df"), wanted, limit=9)]

    assert found() == [bad, good]
    assert found(target="a") == [good]
    assert found(outcome="failed") == [bad]
    assert found(run="run-2") == []


async def _entries(ports: Ports, text: str, **where: int | str) -> list[int]:
    await ports.search.catch_up(entries_max=1000)
    found = ports.search.entries(parse_query(text), limit=50, **where)  # type: ignore[arg-type]
    return [one.seq for one in found]


@pytest.mark.asyncio
async def test_every_entry_is_searched_by_its_text(ports: Ports) -> None:
    deep = {"a": [{"b": "the pump stutters"}, 4711], "c": {"d": None, "e": True}}
    one = await ports.journal.append(Draft(Kind.REASONING, deep, ticket=1, run="run-a"))
    two = await ports.journal.append(Draft(Kind.PROOF, {"detail": "It pumps."}, run="run-b"))
    assert await _entries(ports, "pump stutters") == [one.seq]
    assert await _entries(ports, "4711") == [one.seq]
    assert await _entries(ports, "proof") == [two.seq]
    assert await _entries(ports, "pumps") == [two.seq], "a full stop is no part of a word"
    assert await _entries(ports, "pump*") == [two.seq, one.seq]
    assert await _entries(ports, "run-a") == [one.seq]
    assert await _entries(ports, "pump*", ticket=1) == [one.seq]
    assert await _entries(ports, "pump*", run="run-b") == [two.seq]
    (entry,) = ports.search.entries(parse_query("stutters"), limit=9)
    assert isinstance(entry, Entry)
    assert entry == ports.entries.get(one.seq)


@pytest.mark.asyncio
async def test_words_that_are_no_text_do_not_stop_the_index(ports: Ports) -> None:
    await ports.journal.append(Draft(Kind.REASONING, {"x": "\ud800\0 \x1b", "y": "z" * 300_000}))
    last = await ports.journal.append(Draft(Kind.REASONING, {"x": "afterwards"}))
    assert await _entries(ports, "afterwards") == [last.seq]


@pytest.mark.asyncio
async def test_the_index_is_filled_by_itself_within_a_second(ports: Ports, doer: Doer) -> None:
    await doer.run("df -h")
    await eventually(lambda: not ports.search.behind())
    assert len(ports.search.commands(parse_query("df"), EVERY, limit=9)) == 1


@pytest.mark.asyncio
async def test_whoever_searches_right_away_finds_it_all_the_same(home: Home) -> None:
    one, other = home.open(), home.open()
    for number in range(3):
        entry = await one.journal.append(Draft(Kind.REASONING, {"x": f"word{number}"}))
        assert await _entries(other, f"word{number}") == [entry.seq]


@pytest.mark.asyncio
async def test_two_who_index_at_once_index_once(home: Home) -> None:
    one, other = home.open(), home.open()
    for number in range(1200):
        await one.journal.append(Draft(Kind.REASONING, {"x": f"word{number} all"}))
    await asyncio.gather(
        *(ports.search.catch_up(entries_max=5000) for ports in (one, other, one, other))
    )
    found = one.search.entries(parse_query("all"), limit=5000)
    assert [entry.seq for entry in found] == list(range(1200, 0, -1))


@pytest.mark.asyncio
async def test_an_empty_ledger_is_searched_in_vain(ports: Ports) -> None:
    assert await ports.search.catch_up(entries_max=10) == 0
    assert ports.search.entries(parse_query("x"), limit=9) == []
    assert ports.search.commands(parse_query("🔥"), EVERY, limit=9) == []
