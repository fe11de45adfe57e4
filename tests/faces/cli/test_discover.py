"""What `operator discover` shows of what it leaves out."""

from __future__ import annotations

import pytest

from operator_sre.app.discovery import Discovery
from operator_sre.app.discovery.discover import LeftOut
from operator_sre.faces.cli.discover import ALIKE_MAX, _show


def test_many_servers_with_one_reason_are_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    hidden = [LeftOut(f"a process at 127.0.0.1:{port}", "it is hidden") for port in range(1, 51)]
    few = [LeftOut(f"sshd (pid {pid})", "a part of the machine") for pid in range(ALIKE_MAX)]
    _show(Discovery((), (LeftOut("web (pid 1)", "watched as web"),), (*hidden, *few)))
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if "127.0.0.1" in line] == [
        "a process at 127.0.0.1:1 (and 49 more)  it is hidden"
    ]
    assert sum("a part of the machine" in line for line in lines) == ALIKE_MAX
    assert sum("watched as web" in line for line in lines) == 1
