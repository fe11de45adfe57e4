"""Notifying as a use case: status, tests, and failures that stop nobody."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from operator_protocols.errors import MissingExtraError, ObservationError, UsageError
from operator_sre.app.notices import (
    ChannelStatus,
    Tried,
    notify_status,
    run_notices,
    send_notices,
    send_test,
)
from tests.app.home import opened
from tests.contract.samples import violation
from tests.notify.sink import sink
from tests.processes.waiting import eventually

pytestmark = pytest.mark.asyncio

NOTIFY = '[notify]\nurls_file = "urls"\ngroup_s = 0\n'


async def test_a_slow_or_broken_address_holds_up_no_other(tmp_path: Path) -> None:
    with sink() as good, sink() as bad, opened(tmp_path, NOTIFY) as app:
        bad.refuse = 1000
        (tmp_path / "urls").write_text(f"{bad.url()}\n{good.url()}\n")
        work = asyncio.ensure_future(run_notices(app))
        await eventually(lambda: len(app.store.cursors.find()) == 2)
        await app.store.tickets.open([violation(detail="password=hunter2hunter2")])
        await eventually(lambda: good.came and len(bad.paths) >= 2)
        await app.store.tickets.open([violation("node-2")])
        await eventually(lambda: len(good.came) == 2)
        assert bad.came == []
        assert "hunter2" not in str(good.came)
        # It has come before it is written down that it was sent.
        await eventually(lambda: sorted(one.sent for one in notify_status(app)) == [0, 2])
        assert all(one.holder and one.configured for one in notify_status(app))
        work.cancel()
        await asyncio.wait([work])
        assert {one.holder for one in notify_status(app)} == {""}
        (tmp_path / "urls").write_text(good.url())
        assert [one.configured for one in notify_status(app)] == [True, False]
        assert isinstance(notify_status(app)[0], ChannelStatus)


async def test_a_test_message_says_where_it_was_not_taken(tmp_path: Path) -> None:
    with sink() as people, opened(tmp_path, NOTIFY) as app:
        (tmp_path / "urls").write_text(f"{people.url()}\nnosuch://x\n")
        good, bad = await send_test(app)
        assert people.titles == ["Operator: test notification"]
        assert (good.problem, bad) == ("", Tried(bad.name, "the address is not valid"))


async def test_who_has_no_addresses_is_told_so_and_nobody_else_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(logging.getLogger("operator_sre"), "propagate", True)
    with opened(tmp_path) as app:
        await send_notices(app)
        assert notify_status(app) == []
        with pytest.raises(UsageError, match=r"\[notify\] urls_file"):
            await run_notices(app)
    with opened(tmp_path, NOTIFY) as app:
        with pytest.raises(ObservationError, match="cannot be read"):
            await run_notices(app)
        await send_notices(app)
        assert "notifications are not sent" in caplog.text
        (tmp_path / "urls").write_text("# nobody\n")
        with pytest.raises(UsageError, match="contains no URL"):
            await send_test(app)


async def test_a_missing_extra_is_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with opened(tmp_path, NOTIFY) as app:
        (tmp_path / "urls").write_text("json://127.0.0.1/")
        with pytest.raises(MissingExtraError, match="the extra 'notify'"):
            await run_notices(app)
