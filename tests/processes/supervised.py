"""What a test asks about the processes of a supervisor."""

from __future__ import annotations

from operator_protocols.domain.target import Process
from operator_sre.processes.control import Control
from operator_sre.processes.supervision import Child, ChildState, read_state
from tests.processes.test_run import STUBBORN
from tests.processes.waiting import eventually

__all__ = ["ESCAPING", "SLEEP", "child_of", "exited", "process_of_child", "supervisor_of"]

SLEEP = ["sleep", "300"]
ESCAPING = STUBBORN["forks twice and ignores TERM"]


def child_of(control: Control, name: str) -> Child:
    state = read_state(control.directory)
    assert state is not None
    return state.child(name)


def process_of_child(control: Control, name: str) -> Process:
    process = child_of(control, name).process
    assert process is not None
    return process


def supervisor_of(control: Control) -> Process:
    state = read_state(control.directory)
    assert state is not None
    return state.supervisor


async def exited(control: Control, name: str) -> None:
    await eventually(lambda: child_of(control, name).state is ChildState.EXITED)
