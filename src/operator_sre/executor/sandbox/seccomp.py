"""Which calls to the kernel a boxed script may not make, as the program that the kernel runs."""

from __future__ import annotations

import errno

from operator_sre.processes.confinement.calls import NUMBERS, UNNEEDED, machine_index
from operator_sre.processes.confinement.filters import (
    ANY_BIT,
    ARGUMENTS,
    EQUAL,
    INET,
    INET6,
    NAMESPACES,
    UNIX,
    allow,
    fail,
    load,
    prologue,
    step,
    when,
)

__all__ = ["DENIED", "is_supported", "program"]

_FAMILIES = (UNIX, INET, INET6)  # among others, vsock would reach the host of a machine
_TYPED_INTO_A_TERMINAL = (0x5412, 0x541C)  # TIOCSTI, TIOCLINUX

_DENIED = (
    *UNNEEDED,
    # Other processes.
    "ptrace",
    "process_vm_readv",
    "process_vm_writev",
    # File systems and namespaces.
    "mount",
    "umount2",
    "pivot_root",
    "chroot",
    "unshare",
    "setns",
    "name_to_handle_at",
    # The machine.
    "reboot",
    "syslog",
    "sethostname",
    "setdomainname",
    "settimeofday",
    "clock_settime",
    "clock_adjtime",
    "adjtimex",
    "sched_setaffinity",
)
# Name of the call -> its number on x86_64 and on aarch64; None where there is none.
DENIED = {name: NUMBERS[name] for name in _DENIED}


def is_supported(machine: str = "") -> bool:
    """True when there is a program for this kind of machine."""
    return machine_index(machine) is not None


def program(machine: str = "") -> bytes:
    """The filter as `struct sock_filter` in a row: everything but what is denied is allowed."""
    which = machine_index(machine) or 0

    def number(name: str) -> int:
        found = NUMBERS[name][which]
        assert found is not None, name
        return found

    steps = prologue(which)
    for numbers in DENIED.values():
        if (denied := numbers[which]) is not None:
            steps += when(denied, [fail(errno.EPERM)])
    # Its flags lie in memory, where no filter sees them; libraries then use the older call.
    steps += when(number("clone3"), [fail(errno.ENOSYS)])
    namespaces = [load(ARGUMENTS), step(ANY_BIT, NAMESPACES, 0, 1), fail(errno.EPERM), allow()]
    steps += when(number("clone"), namespaces)
    families = [each for family in _FAMILIES for each in (step(EQUAL, family, 0, 1), allow())]
    steps += when(number("socket"), [load(ARGUMENTS), *families, fail(errno.EAFNOSUPPORT)])
    typing = [
        each
        for value in _TYPED_INTO_A_TERMINAL
        for each in (step(EQUAL, value, 0, 1), fail(errno.EPERM))
    ]
    steps += when(number("ioctl"), [load(ARGUMENTS + 8), *typing, allow()])
    return b"".join([*steps, allow()])
