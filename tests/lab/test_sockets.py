"""The sockets of this machine, asked of the kernel and read from its table."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from operator_lab.manifest import HOST
from operator_lab.ports import Ends, callers_sockets, listeners


def _mine() -> set[str]:
    found = set()
    for entry in Path(f"/proc/{os.getpid()}/fd").iterdir():
        try:
            found.add(str(entry.readlink()))
        except OSError:
            continue
    return found


@pytest.mark.parametrize("source", ["kernel", "table"])
def test_who_listens_and_who_called(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if source == "table":

        def silent(*_: object, **__: object) -> None:
            raise OSError("the kernel did not list its sockets")

        monkeypatch.setattr("operator_lab.ports._ask", silent)
    with socket.socket() as holder, socket.socket(socket.AF_INET6) as six:
        for each, host in ((holder, HOST), (six, "::1")):
            try:
                each.bind((host, 0))
                each.listen()
            except OSError:
                continue
            port = each.getsockname()[1]
            (name,) = [name for found, name in listeners() if found == port]
            assert name in _mine()
        with socket.create_connection(holder.getsockname()) as caller:
            ends: Ends = (caller.getsockname()[1], caller.getpeername()[1])
            ((name, found),) = callers_sockets([ends, (1, 1)]).items()
            assert found == ends
            assert name == f"socket:[{os.fstat(caller.fileno()).st_ino}]"
    assert ends[1] not in [port for port, _ in listeners()]
