"""Settings, indexes, dead rows and logs of a real server are mended, and nothing else is."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from operator_protocols.domain.category import FailureCategory
from operator_protocols.kit.tool import RefusedCall
from operator_protocols.ports import Job
from operator_sre.subjects.postgres.scenes import append_setting, remove_setting
from operator_sre.subjects.postgres.session import home_of
from operator_sre.subjects.postgres.tools import (
    FILE_ERRORS,
    ServerCall,
    create_index,
    disable_setting,
    vacuum_table,
)
from tests.subjects.postgres.watching import Watch, eventually

pytestmark = [pytest.mark.asyncio, pytest.mark.slow]

TABLE = "public.accounts"


def _config(watch: Watch, name: str) -> Path:
    home = home_of(watch.target(name), "postgresql.conf")
    assert home is not None
    return home / "postgresql.conf"


async def test_a_line_that_makes_no_sense_becomes_a_comment_and_the_rest_is_loaded(
    watch: Watch,
) -> None:
    file = _config(watch, "replica")
    before = file.read_text()
    async with watch.hurt("bad_configuration", "replica") as fault:
        seen, _ = await watch.broken("bad_configuration", "replica")
        name = seen.of("replica").readings["configuration_error_name"]
        assert name == "work_mem"
        result = await watch.call("disable_setting", target="replica", name=name)
        assert result.ok, result.stderr
        assert file.read_text() == f"{before}# work_mem = '9 parsecs'\n"
        assert await watch.over(fault) == ""
        await watch.healthy()
        # What makes sense is not ours to take out.
        again = await watch.call("disable_setting", target="replica", name="work_mem")
        assert (again.ok, again.category) == (False, FailureCategory.NOT_FOUND)
        sound = await watch.call("disable_setting", target="replica", name="max_connections")
        assert (sound.ok, sound.category) == (False, FailureCategory.NOT_FOUND)
    file.write_text(before)


async def test_of_two_errors_one_is_taken_out_and_nothing_is_loaded(watch: Watch) -> None:
    line = "jit = 'perhaps'"
    file = _config(watch, "replica")
    before = file.read_text()
    append_setting(watch.target("replica"), line)
    try:
        async with watch.hurt("bad_configuration", "replica"):
            result = await watch.call("disable_setting", target="replica", name="work_mem")
            assert not result.ok
            assert "more errors" in result.stderr
            async with watch.owner("replica") as session:
                assert "jit" in str(await session.ask(FILE_ERRORS)) or line in file.read_text()
    finally:
        remove_setting(watch.target("replica"), line)
        file.write_text(before)
    await watch.call("reload", target="replica")
    await watch.healthy()


async def test_the_index_that_is_missing_is_created_while_everybody_goes_on(watch: Watch) -> None:
    async with watch.hurt("missing_index", "primary") as fault:
        seen, _ = await watch.broken("missing_index", "primary")
        table = seen.of("primary").readings["scanned_table"]
        assert table == TABLE
        wrong = await watch.call("create_index", target="primary", table=TABLE, column="nobody")
        assert (wrong.ok, wrong.category) == (False, FailureCategory.NOT_FOUND)
        at_replica = await watch.call("create_index", target="replica", table=table)
        assert "is a replica" in at_replica.stderr
        result = await watch.call("create_index", target="primary", table=table)
        assert result.ok, result.stderr
        assert result.data == {"table": TABLE, "column": "owner"}
        assert await watch.over(fault) == ""
        await watch.healthy()
        # There is nothing left that would tell which column is meant.
        again = await watch.call("create_index", target="primary", table=table)
        assert not again.ok
        assert "Name the column" in again.stderr
    async with watch.owner("primary") as session:
        await session.do("DROP INDEX IF EXISTS accounts_owner_idx")
        await session.do("CREATE INDEX IF NOT EXISTS accounts_owner ON accounts (owner)")


async def test_a_table_is_vacuumed_now_and_from_now_on(watch: Watch) -> None:
    async with watch.hurt("vacuum_off", "primary") as fault:
        seen, _ = await watch.broken("dead_tuples", "primary")
        table = seen.of("primary").readings["dead_tuples_table"]
        nowhere = await watch.call("vacuum_table", target="primary", table='public.a"; --')
        assert (nowhere.ok, nowhere.category) == (False, FailureCategory.NOT_FOUND)
        result = await watch.call("vacuum_table", target="primary", table=table)
        assert result.ok, result.stderr
        assert result.data == {"table": TABLE, "was_off": True}

        async def clean() -> bool:
            return await watch.over(fault) == ""

        await eventually(clean)


async def test_a_log_begins_anew_and_nothing_of_it_is_lost(watch: Watch) -> None:
    log = Path(watch.target("replica").log)
    async with watch.hurt("log_flood", "replica") as fault:
        await watch.broken("log_size", "replica")
        size = log.stat().st_size
        result = await watch.call("rotate_log", target="replica")
        assert result.ok, result.stderr
        assert await watch.over(fault) == ""
        with gzip.open(log.with_name(str(result.data["copy"]))) as kept:
            assert len(kept.read()) >= size
        await watch.healthy()


async def test_each_of_them_refuses_with_a_reason(watch: Watch) -> None:
    far = watch.target("primary")
    given = {"table": "no.where", "name": "x", "column": ""}
    call = ServerCall(given, Job(timeout_s=5.0), watch.settings, far)
    async with watch.owner("primary") as session:
        for act in (create_index, disable_setting, vacuum_table):
            with pytest.raises(RefusedCall) as refused:
                await act(call, session)
            assert refused.value.category is FailureCategory.NOT_FOUND
