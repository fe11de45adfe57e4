"""Whom a confined command may signal: its own processes, and those of the boundary it is in."""

from __future__ import annotations

import errno
import os
import re
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from operator_protocols.domain.target import Process
from operator_sre.processes.confinement.call import Call, RefusedError, to_signed
from operator_sre.processes.confinement.calls import SIGNALS
from operator_sre.processes.confinement.remote import (
    comes_from,
    copied_descriptor,
    process_of_thread,
)
from operator_sre.processes.identity import process_of, same

__all__ = ["Signals"]


@dataclass(frozen=True, slots=True)
class Signals:
    """Checks the signals of a command whose first process is `root`.

    It may also signal `others`, with all that came out of them.
    """

    root: int
    others: Sequence[Process] = ()

    def carry_out(self, call: Call) -> bool:
        """Check a signal; True when it is sent or answered, False when the call may go ahead.

        RefusedError when it may not.
        """
        target, which = SIGNALS[call.name]
        number = call.arguments[which] & 0xFFFFFFFF
        if target is None:
            # Signal the process that a descriptor means now; it may mean another one soon.
            with copied_descriptor(process_of_thread(call.thread), call.arguments[0]) as copy:
                text = Path(f"/proc/self/fdinfo/{copy}").read_text()
                found = re.search(r"^Pid:\s*(-?\d+)", text, re.MULTILINE)
                if found is None:
                    raise OSError(errno.EBADF, os.strerror(errno.EBADF))
                pid = int(found[1])
                is_free = number == 0 or pid <= 0 or comes_from(pid, self.root)
                if not is_free and not self._is_among_others(pid):
                    raise RefusedError(errno.EPERM, f"{_signal_name(number)} to process {pid}")
                signal.pidfd_send_signal(copy, number)
            return True
        pid = to_signed(call.arguments[target])
        if pid == 0:
            return False
        if number == 0 and pid > 0:
            os.kill(pid, 0)
            return True
        if pid > 0 and comes_from(pid, self.root):
            return False
        if pid < -1 and os.getsid(-pid) == self.root:
            return False
        if pid > 0 and call.name == "kill" and self.others:
            # Signal what was checked: the number may soon be that of another process.
            pidfd = os.pidfd_open(pid)
            try:
                if self._is_among_others(pid):
                    signal.pidfd_send_signal(pidfd, number)
                    return True
            finally:
                os.close(pidfd)
        who = f"process {pid}" if pid > 0 else "a group of processes"
        raise RefusedError(errno.EPERM, f"{_signal_name(number)} to {who}")

    def _is_among_others(self, pid: int) -> bool:
        """Whether a process is one of the others, or came out of one of them."""
        for other in self.others:
            now = process_of(other.pid)  # after its end the number may mean a stranger
            if now is not None and same(now, other) and comes_from(pid, other.pid):
                return True
        return False


def _signal_name(number: int) -> str:
    is_known = number in signal.valid_signals() and number < signal.SIGRTMIN
    return signal.Signals(number).name if is_known else "a signal"
