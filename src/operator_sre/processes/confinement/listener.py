"""The descriptor through which the kernel asks about the calls of a confined command."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import select
import struct

from operator_sre.processes.confinement.call import Call
from operator_sre.processes.confinement.calls import name_of

__all__ = ["Listener"]

RECEIVE, SEND, IS_VALID, ADD = 0xC0502100, 0xC0182101, 0x40082102, 0x40182103
SET_FLAGS, SYNC_WAKE_UP = 0x40082104, 1
CONTINUE, ADD_AND_SEND = 1, 2
NOTICE = struct.Struct("<QIIiIQ6Q")
ANSWER = struct.Struct("<QqiI")
ADDED = struct.Struct("<QIIII")


class Listener:
    """Receives calls and sends their answers, until `close`."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        with contextlib.suppress(OSError, ValueError):  # older kernels
            fcntl.ioctl(fd, SET_FLAGS, struct.pack("<Q", SYNC_WAKE_UP))

    def close(self) -> None:
        """Calls that wait fail now, and so do all that the filter asks about."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    @property
    def is_over(self) -> bool:
        """Whether the kernel says that no process has this filter any more. Old ones never do."""
        if self.fd < 0:
            return False
        poller = select.poll()
        poller.register(self.fd, 0)
        return any(events & select.POLLHUP for _, events in poller.poll(0))

    def receive(self) -> Call | None:
        """The next call; None when its process was killed meanwhile. OSError when there are none
        any more."""
        notice = bytearray(NOTICE.size)
        try:
            fcntl.ioctl(self.fd, RECEIVE, notice)
        except OSError as error:
            if error.errno in (errno.EINTR, errno.ENOENT, errno.EAGAIN):
                return None
            raise
        key, thread, _, number, _, _, *arguments = NOTICE.unpack(notice)
        return Call(key, thread, name_of(number), tuple(arguments))

    def is_waiting(self, call: Call) -> bool:
        """Whether a call still waits, so that its thread is no other one by now."""
        try:
            fcntl.ioctl(self.fd, IS_VALID, struct.pack("<Q", call.id))
        except (OSError, ValueError):
            return False
        return True

    def send(self, call: Call, *, value: int = 0, error: int = 0) -> None:
        """Answer a call, which the kernel does not carry out."""
        self._send(call, value, -error, 0)

    def let_go_ahead(self, call: Call) -> None:
        """The kernel carries the call out."""
        self._send(call, 0, 0, CONTINUE)

    def give(self, call: Call, fd: int, *, closes: bool) -> None:
        """Answer with a descriptor of our own, which is closed here."""
        try:
            added = ADDED.pack(call.id, ADD_AND_SEND, fd, 0, os.O_CLOEXEC if closes else 0)
            if self.fd >= 0:
                with contextlib.suppress(OSError):
                    fcntl.ioctl(self.fd, ADD, added)
        finally:
            os.close(fd)

    def _send(self, call: Call, value: int, error: int, flags: int) -> None:
        answer = bytearray(ANSWER.pack(call.id, value, error, flags))
        if self.fd >= 0:
            with contextlib.suppress(OSError):  # it was killed while it waited
                fcntl.ioctl(self.fd, SEND, answer)
