"""A process of ours leaves its starter's family, and takes in what others abandon."""

from __future__ import annotations

import subprocess
import sys

import pytest

_SCRIPT = """
import os, sys, time
from operator_sre.processes.background import adopt_orphans, detach
before = os.getpid(), os.getsid(0)
detach()
adopt_orphans()
read, write = os.pipe()
if os.fork() == 0:
    middle = os.getpid()
    if os.fork() == 0:
        while os.getppid() == middle:
            time.sleep(0.001)
        os.write(write, str(os.getppid()).encode())
    os._exit(0)
parent = int(os.read(read, 20))
now = os.getpid(), os.getsid(0)
print(now[0] != before[0], now[0] == now[1] != before[1], parent == now[0])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets a process take in orphans")
def test_it_is_nobodys_child_and_orphans_are_its_own() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT], capture_output=True, text=True, timeout=30, check=True
    )
    assert done.stdout.split() == ["True", "True", "True"]
