"""Patterns as people make, fill in and drop them."""

from __future__ import annotations

import getpass
from collections.abc import Iterator
from pathlib import Path

import pytest

from operator_protocols.domain.entry import Kind
from operator_protocols.errors import ConflictError, NotFoundError, UsageError
from operator_sre.app.history import (
    FilledPattern,
    create_pattern,
    delete_pattern,
    list_patterns,
    show_pattern,
    use_pattern,
)
from operator_sre.app.persons import signed_in
from operator_sre.app.wiring import App
from tests.app.home import SUBJECTS, opened
from tests.contract.doing import Doer

pytestmark = pytest.mark.asyncio


@pytest.fixture
def app(tmp_path: Path) -> Iterator[App]:
    with opened(tmp_path, SUBJECTS) as one:
        yield one


async def test_a_pattern_belongs_to_who_made_it(app: App) -> None:
    made = await create_pattern(app, "mine", ["df -h {path}"], context="the disk is full")
    assert made.made_by == signed_in() == getpass.getuser()
    assert (made.placeholders, made.category) == (("path",), "disk")
    assert show_pattern(app, "mine") == made
    assert list_patterns(app, like="a full disk") == [made]
    assert list_patterns(app, like="coffee") == []


async def test_people_come_before_what_was_learned(app: App) -> None:
    doer = await Doer.hired(app.store, app.clock)
    for _ in range(3):
        await doer.run("free -m")
    await doer.fail("df -h /x")
    await doer.run("df -h /y")
    await create_pattern(app, "mine", ["df -h {path}"])
    mine, learned = list_patterns(app)
    assert (mine.name, mine.learned, mine.success_rate) == ("mine", False, 0.5)
    assert (learned.lines, learned.learned, learned.uses) == (("free -m",), True, 3)


async def test_using_one_judges_every_line_records_it_and_runs_nothing(app: App) -> None:
    await create_pattern(app, "mine", ["tail -n 5 {log}", "touch {file}"])
    values = {"log": "/var/log/a", "file": "/tmp/$(reboot)"}
    filled: FilledPattern = await use_pattern(app, "mine", values)
    assert filled.lines == ("tail -n 5 /var/log/a", "touch '/tmp/$(reboot)'")
    assert [verdict.level for verdict in filled.verdicts] == ["safe", "review"]
    assert filled.level == "review"
    entry = app.store.entries.newest(limit=1)[0]
    assert (entry.kind, entry.payload["level"]) == (Kind.PATTERN_USED, "review")
    assert show_pattern(app, "mine").uses == 1
    kinds = {one.kind for one in app.store.entries.after(0, limit=99)}
    assert not kinds & {Kind.PERMIT_MINTED, Kind.TOOL_CALL, Kind.VERDICT}


async def test_a_subjects_own_policy_can_be_asked(app: App) -> None:
    await create_pattern(app, "mine", ["check_port(target={target})", "tail -n 5 {log}"])
    values = {"target": "node-1", "log": "/srv/shop/node-1.log"}
    plain = await use_pattern(app, "mine", values)
    assert [verdict.level for verdict in plain.verdicts] == ["blocked", "safe"]
    asked = await use_pattern(app, "mine", values, subject="shop")
    assert [verdict.level for verdict in asked.verdicts] == ["safe", "safe"]
    with pytest.raises(NotFoundError, match="nosuch"):
        await use_pattern(app, "mine", values, subject="nosuch")


async def test_what_is_deleted_can_be_made_again(app: App) -> None:
    await create_pattern(app, "mine", ["df -h"])
    with pytest.raises(ConflictError):
        await create_pattern(app, "mine", ["df -i"])
    await delete_pattern(app, "mine", reason="old")
    with pytest.raises(NotFoundError):
        show_pattern(app, "mine")
    with pytest.raises(NotFoundError):
        await delete_pattern(app, "mine", reason="again")
    await create_pattern(app, "mine", ["df -i"])
    assert show_pattern(app, "mine").lines == ("df -i",)


@pytest.mark.parametrize(
    ("name", "lines", "says"),
    [
        ("", ["ls"], "name of a pattern"),
        ("Übel", ["ls"], "name of a pattern"),
        ("x" * 64, ["ls"], "name of a pattern"),
        ("x", [], "1 to 20 lines"),
        ("x", ["ls"] * 21, "1 to 20 lines"),
        ("x", [" "], "is empty"),
        ("x", ["a\nb"], "not plain text"),
        ("x", ["x" * 5000], "too long"),
        ("x", ["echo '{a}'"], "inside quotes"),
    ],
)
async def test_what_cannot_be_a_pattern_is_told(
    app: App, name: str, lines: list[str], says: str
) -> None:
    with pytest.raises(UsageError, match=says):
        await create_pattern(app, name, lines)
    assert list_patterns(app) == []
