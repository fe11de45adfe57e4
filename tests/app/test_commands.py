"""A person's command as a use case: what is told of it before, and what is remembered after."""

from __future__ import annotations

from pathlib import Path

import pytest

from operator_protocols.domain.permit import Approval
from operator_sre.app.commands import Execution, Wanted, execute_command, foresee_command
from operator_sre.app.outlook import Outlook, document_of, facts_of, outlook_of_request
from operator_sre.app.wiring import look_at_app
from operator_sre.config import load_config
from operator_sre.controls import MACHINE
from operator_sre.gate import Way
from tests.app.home import opened
from tests.contract.samples import approval

pytestmark = pytest.mark.asyncio


def _nobody(asked: Approval) -> None:
    raise AssertionError(f"nobody is to be asked: {asked}")


async def test_what_was_foreseen_is_what_becomes_of_it(tmp_path: Path) -> None:
    with opened(tmp_path) as app:
        look, change = Wanted("echo hi"), Wanted("mkdir zz", str(tmp_path))
        assert [foresee_command(app, one).way for one in (look, change)] == [
            *(Way.RUNS, Way.PROPOSES),
        ]
        ran = await execute_command(app, look, on_request=_nobody)
        assert isinstance(ran, Execution)
        assert (ran.ran, ran.exit_code, ran.result.stdout) == (True, 0, "hi\n")
        refused = await execute_command(app, change, on_request=_nobody)
        assert (refused.ran, refused.exit_code) == (False, 4)
        (entry,) = app.store.entries.newest(limit=1)
        assert entry.seq == refused.seq
        assert set(entry.payload) == {"action", "level", "risk", "permit", "result"}


async def test_what_it_says_is_heard_while_it_runs_without_secrets(tmp_path: Path) -> None:
    secret = "AKIA" + "Q3EGRZ7TYUPLMN4X"
    wanted = Wanted(f"echo aws_access_key_id = {secret}; echo careful >&2; printf end")
    heard: list[tuple[int, bytes]] = []
    began: list[int] = []

    def watch(number: int, data: bytes) -> bool:
        heard.append((number, data))
        return True

    with opened(tmp_path) as app:
        ran = await execute_command(
            app, wanted, on_request=_nobody, watch=watch, began=lambda _: began.append(len(heard))
        )
        command = app.store.commands.get(ran.command)
    said = b"".join(data for number, data in heard if number == 1)
    assert (secret.encode() in said, said.decode()) == (False, ran.result.stdout)
    assert said.endswith(b"]\nend")
    assert (2, b"careful\n") in heard
    assert began == [0], "it is told once, before anything is heard"
    assert command is not None
    assert (command.exit_code, command.seq < ran.seq) == (0, True)


async def test_a_home_that_is_only_looked_at_is_not_made(tmp_path: Path) -> None:
    flags = {"home": str(tmp_path / "home")}
    config = load_config(flags=flags, environ={}, cwd=tmp_path)
    with look_at_app(config) as app:
        outlook = foresee_command(app, Wanted("uptime"))
        assert isinstance(outlook, Outlook)
        assert (outlook.subject, outlook.may_change) == (MACHINE, "nothing: read-only")
    assert list(tmp_path.iterdir()) == []


async def test_an_environment_that_is_not_ours_is_not_made_up(tmp_path: Path) -> None:
    with opened(tmp_path) as app:
        outlook = outlook_of_request(approval(), app.surroundings)
    assert (outlook.environment, outlook.uid, outlook.host) == ({}, None, "worker-1")
    facts = dict(facts_of(outlook, "ticket 1"))
    assert facts["requester"].endswith("through agent worker-1, ticket 1")
    assert not facts["variables"]
    assert document_of(outlook)["way"] is Way.ASKS
