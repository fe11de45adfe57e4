"""The history of commands as people ask for it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import pytest_asyncio

from operator_protocols.domain.action import Action
from operator_protocols.domain.command import CommandFilter
from operator_protocols.domain.entry import Draft, Kind
from operator_protocols.errors import NotFoundError, StoreError, UsageError
from operator_sre.app.history import (
    CommandView,
    Failures,
    FoundCommands,
    FoundEntries,
    Statistics,
    failures,
    list_commands,
    parse_filter,
    search_commands,
    search_entries,
    show_command,
    show_output,
    statistics,
    venv_report,
)
from operator_sre.app.wiring import App
from tests.app.home import opened
from tests.contract.doing import DONE, Doer

pytestmark = pytest.mark.asyncio

EVERY = CommandFilter()


@pytest.fixture
def app(tmp_path: Path) -> Iterator[App]:
    with opened(tmp_path) as one:
        yield one


@pytest_asyncio.fixture
async def doer(app: App) -> Doer:
    return await Doer.hired(app.store, app.clock)


async def test_what_was_just_written_is_found(app: App, doer: Doer) -> None:
    for number in range(3):
        seq = await doer.run(f"touch /tmp/file{number}")
        found: FoundCommands = await search_commands(app, f"file{number}", EVERY, limit=9)
        assert ([one.seq for one in found.commands], found.behind) == ([seq], 0)


async def test_entries_are_found_by_ticket_and_run(app: App) -> None:
    drafts = [Draft(Kind.REASONING, {"x": "pump"}, ticket=n, run=f"run-{n}") for n in (1, 2)]
    one, two = [await app.store.journal.append(draft) for draft in drafts]
    found: FoundEntries = await search_entries(app, "pump", limit=9)
    assert (found.entries, found.behind) == ((two, one), 0)
    assert (await search_entries(app, "pump", limit=9, ticket=1)).entries == (one,)
    assert (await search_entries(app, "pump", limit=9, run="run-2")).entries == (two,)
    assert (await search_entries(app, "pump", limit=9, before=two.seq)).entries == (one,)


async def test_a_disk_that_is_full_keeps_nobody_from_reading(
    app: App, doer: Doer, monkeypatch: pytest.MonkeyPatch
) -> None:
    seq = await doer.run("df -h")
    await app.store.search.catch_up(entries_max=1000)

    async def full(*, entries_max: int) -> int:
        raise StoreError("disk full")

    monkeypatch.setattr(type(app.store.search), "catch_up", lambda self, **how: full(**how))
    found = await search_commands(app, "df", EVERY, limit=9)
    assert [one.seq for one in found.commands] == [seq]


async def test_looking_for_nothing_is_an_error(app: App) -> None:
    with pytest.raises(UsageError):
        await search_commands(app, "  ", EVERY, limit=9)
    with pytest.raises(UsageError):
        await search_entries(app, "", limit=9)


async def test_a_command_names_its_environment(app: App, doer: Doer) -> None:
    seq = await doer.run(".venv/bin/pip install x")
    assert list_commands(app, EVERY, limit=9).commands[0].venv == ".venv"
    assert show_command(app, seq).command.venv == ".venv"


async def test_the_whole_output_is_named_while_it_lies_in_the_spool(app: App, doer: Doer) -> None:
    digest, output = hashlib.sha256(b"everything").hexdigest(), app.config.home / "output"
    output.write_bytes(b"everything")
    app.spool.keep(output, digest)
    said = replace(DONE, stdout="everything", stdout_sha256=digest, stderr_sha256="gone")
    view: CommandView = show_command(app, await doer.run("cat /x", said))
    assert Path(view.stdout_file).read_bytes() == b"everything"
    assert view.stderr_file == ""


async def test_the_whole_output_comes_without_its_secrets(
    app: App, doer: Doer, tmp_path: Path
) -> None:
    secret = "AKIA" + "Q3EGRZ7TYUPLMN4X"
    text = f"{'many words' * 9_000}\naws_access_key_id = {secret}\n".encode()
    digest = hashlib.sha256(text).hexdigest()
    (tmp_path / "output").write_bytes(text)
    app.spool.keep(tmp_path / "output", digest)
    heard: list[tuple[int, bytes]] = []

    def show(number: int, data: bytes) -> bool:
        heard.append((number, data))
        return True

    show_output(app, await doer.run("cat /x", replace(DONE, stdout_sha256=digest)), show)
    said = b"".join(data for _, data in heard)
    assert ({number for number, _ in heard}, secret.encode() in said) == ({1}, False)
    assert said.startswith(b"many words" * 9_000)
    gone = await doer.run("cat /x", replace(DONE, stdout_sha256=digest, stderr_sha256="gone"))
    with pytest.raises(NotFoundError, match=f"command {gone} is not on this machine"):
        show_output(app, gone, show)


async def test_a_command_that_never_was_is_told(app: App) -> None:
    with pytest.raises(NotFoundError, match="7"):
        show_command(app, 7)


async def test_figures_are_about_what_is_wanted(app: App, doer: Doer) -> None:
    for _ in range(3):
        await doer.run(Action.shell("df -h", target="a"))
    await doer.fail(Action.shell("free -m", target="b"), exit_code=2)
    await doer.fail(Action.shell("free -m", target="b"), exit_code=2)
    await doer.run("python x.py")
    figures: Statistics = statistics(app, EVERY)
    assert figures.attempts == 6
    assert [one.command for one in figures.success_patterns] == ["df -h"]
    assert [one.lines for one in figures.failure_patterns] == [("free -m",)]
    assert statistics(app, parse_filter(app, target="b")).attempts == 2
    failed: Failures = failures(app, EVERY)
    assert [(one.category, one.count) for one in failed.by_category] == [("runtime", 2)]
    assert failures(app, parse_filter(app, target="a")).by_category == ()
    assert [one.program for one in venv_report(app, EVERY, limit=9)] == ["python"]


@pytest.mark.parametrize(
    ("text", "ago"),
    [("30m", timedelta(minutes=30)), ("2h", timedelta(hours=2)), ("9999w", timedelta(weeks=9999))],
)
async def test_a_time_ago_is_understood(app: App, text: str, ago: timedelta) -> None:
    since = parse_filter(app, since=text).since
    assert since is not None
    assert abs(datetime.now(UTC) - ago - since) < timedelta(minutes=1)


@pytest.mark.parametrize("text", ["2026-03-04", "2026-03-04T12:00", "2026-03-04T12:00:00+02:00"])
async def test_a_date_is_understood_and_has_a_zone(app: App, text: str) -> None:
    since = parse_filter(app, since=text).since
    assert since is not None
    assert since.tzinfo is not None


@pytest.mark.parametrize("text", ["soon", "1y", "99999w", "-1h", "2026-13-01"])
async def test_what_is_no_time_is_told(app: App, text: str) -> None:
    with pytest.raises(UsageError, match="is not a valid time"):
        parse_filter(app, since=text)
