"""What Patterns promise: people's patterns by name, counted and hidden, and nothing lost."""

from __future__ import annotations

import pytest

from operator_protocols.domain.entry import Kind
from operator_protocols.domain.pattern import Pattern, PatternNote
from operator_protocols.errors import ConflictError
from tests.contract.stores import Home, Ports

pytestmark = pytest.mark.asyncio

MINE = Pattern(
    "restart-service",
    ("systemctl restart {service}", "systemctl status {service}"),
    category="services",
    preconditions={"venv_required": False, "os": "linux"},
    placeholders=("service",),
    contexts=("it hangs",),
    made_by="ada",
)


async def test_a_pattern_comes_back_as_it_was_made(home: Home) -> None:
    ports = home.open()
    assert list(ports.patterns.notes()) == []
    await ports.patterns.create(MINE, by="ada")
    home.close()
    note = PatternNote(MINE.name, MINE, hidden=False, uses=0)
    assert list(home.open().patterns.notes()) == [note]


async def test_a_name_is_taken_once(ports: Ports) -> None:
    await ports.patterns.create(MINE, by="ada")
    with pytest.raises(ConflictError, match="restart-service"):
        await ports.patterns.create(MINE, by="bob")
    entries = [one.kind for one in ports.entries.after(0, limit=9)]
    assert entries == [Kind.PATTERN_CREATED]


async def test_uses_are_counted_with_who_and_what(ports: Ports) -> None:
    await ports.patterns.create(MINE, by="ada")
    for _ in range(3):
        await ports.patterns.use(MINE.name, lines=["systemctl restart x"], level="review", by="bob")
    (note,) = ports.patterns.notes()
    assert note.uses == 3
    last = ports.entries.newest(limit=1)[0]
    assert (last.kind, last.actor.id, last.actor.type) == (Kind.PATTERN_USED, "bob", "user")
    assert last.payload == {
        "name": MINE.name,
        "lines": ["systemctl restart x"],
        "level": "review",
    }


async def test_a_hidden_pattern_stays_in_the_ledger_and_leaves_its_name(ports: Ports) -> None:
    await ports.patterns.create(MINE, by="ada")
    await ports.patterns.hide(MINE.name, reason="old", by="ada")
    (note,) = ports.patterns.notes()
    assert (note.pattern, note.hidden) == (MINE, True)
    await ports.patterns.create(MINE, by="ada")
    (note,) = ports.patterns.notes()
    assert (note.hidden, note.uses) == (False, 0)
    kinds = [one.kind for one in ports.entries.after(0, limit=9)]
    assert kinds == [Kind.PATTERN_CREATED, Kind.PATTERN_DELETED, Kind.PATTERN_CREATED]


async def test_what_was_learned_can_be_used_and_hidden_without_being_made(ports: Ports) -> None:
    await ports.patterns.use("df-h-12ab", lines=["df -h /"], level="safe", by="ada")
    await ports.patterns.hide("ps-9f00", reason="", by="ada")
    assert list(ports.patterns.notes()) == [
        PatternNote("df-h-12ab", None, hidden=False, uses=1),
        PatternNote("ps-9f00", None, hidden=True, uses=0),
    ]
