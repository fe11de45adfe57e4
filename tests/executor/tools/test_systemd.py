"""The tools for services say that they cannot work where there is no systemd."""

from __future__ import annotations

from pathlib import Path

import pytest

from operator_protocols.domain.action import Outcome
from operator_protocols.ports import Job
from operator_sre.executor.jobs import Spool
from operator_sre.executor.programs import Programs
from operator_sre.executor.tools import host
from operator_sre.executor.tools.host import ServiceTool, service_tools


@pytest.mark.asyncio
async def test_without_systemd_it_is_unsupported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host, "SYSTEMD", tmp_path / "none")
    for tool in service_tools(Programs(Spool(tmp_path / "spool")), lambda service: True):
        assert isinstance(tool, ServiceTool)
        result = await tool.call({"service": "nginx"}, Job("j", 5.0))
        assert result.outcome is Outcome.REFUSED
        assert result.stderr.startswith("unsupported: this machine does not run systemd.")
        assert result.data == {"unsupported": "systemd"}
    assert not (tmp_path / "runner").exists(), "nothing was started"


def test_where_systemd_runs_or_another_systemctl_is_named_it_is_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = Programs(Spool(tmp_path / "spool"))

    def supported(**more: str) -> list[bool]:
        tools = service_tools(programs, lambda service: True, **more)
        return [tool.is_supported for tool in tools if isinstance(tool, ServiceTool)]

    monkeypatch.setattr(host, "SYSTEMD", tmp_path)
    assert supported() == [True] * 3
    monkeypatch.setattr(host, "SYSTEMD", tmp_path / "none")
    assert supported() == [False] * 3
    assert supported(systemctl="/opt/systemctl") == [True] * 3
