"""Which calls to the kernel a boxed script may not make, as the program that the kernel runs."""

from __future__ import annotations

import errno
import platform
import struct

__all__ = ["DENIED", "program", "supported"]

# Offsets into `struct seccomp_data`; on both machines the low half of a word comes first.
_NUMBER, _ARCH, _ARGUMENTS = 0, 4, 16
# Classes of instructions of the classic BPF machine.
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _KILL, _FAIL = 0x7FFF0000, 0x80000000, 0x00050000
_X32 = 0x40000000
_ARCHES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
# CLONE_NEW* of cgroup, uts, ipc, user, pid, net, mount and time.
_NAMESPACES = 0x7E020080
_FAMILIES = (1, 2, 10)  # unix, IPv4, IPv6; among others, vsock would reach the host of a machine
_TYPED_INTO_A_TERMINAL = (0x5412, 0x541C)  # TIOCSTI, TIOCLINUX

# Name of the call -> its number on x86_64 and on aarch64; None where there is none.
DENIED: dict[str, tuple[int | None, int | None]] = {
    # Other processes.
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "kcmp": (312, 272),
    "pidfd_getfd": (438, 438),
    # File systems and namespaces.
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "move_mount": (429, 429),
    "open_tree": (428, 428),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "unshare": (272, 97),
    "setns": (308, 268),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "fanotify_init": (300, 262),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    # Wide and often broken parts of the kernel.
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "personality": (135, 92),
    "modify_ldt": (154, None),
    "uselib": (134, None),
    # The machine.
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "reboot": (169, 142),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "acct": (163, 89),
    "syslog": (103, 116),
    "iopl": (172, None),
    "ioperm": (173, None),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "clock_adjtime": (305, 266),
    "adjtimex": (159, 171),
    "vhangup": (153, 58),
    # Ways around the limits: memory that belongs to no process, and more than one processor.
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "shmget": (29, 194),
    "msgget": (68, 186),
    "semget": (64, 190),
    "mq_open": (240, 180),
    "sched_setaffinity": (203, 122),
    "mbind": (237, 235),
    "set_mempolicy": (238, 237),
    "migrate_pages": (256, 238),
    "move_pages": (279, 239),
}
_CLONE, _CLONE3 = (56, 220), 435
_SOCKET = (41, 198)
_IOCTL = (16, 29)


def supported(machine: str = "") -> bool:
    """True when there is a program for this kind of machine."""
    return (machine or platform.machine()) in _ARCHES


def program(machine: str = "") -> bytes:
    """The filter as `struct sock_filter` in a row: everything but what is denied is allowed."""
    machine = machine or platform.machine()
    which = list(_ARCHES).index(machine)
    steps = [
        _step(_LOAD, _ARCH),
        _step(_EQUAL, _ARCHES[machine], 1, 0),
        _step(_RETURN, _KILL),  # another machine's calls have other numbers
        _step(_LOAD, _NUMBER),
    ]
    if machine == "x86_64":
        steps += [_step(_AT_LEAST, _X32, 0, 1), _step(_RETURN, _KILL)]
    for numbers in DENIED.values():
        if (number := numbers[which]) is not None:
            steps += [_step(_EQUAL, number, 0, 1), _fail(errno.EPERM)]
    # Its flags lie in memory, where no filter sees them; libraries then use the older call.
    steps += [_step(_EQUAL, _CLONE3, 0, 1), _fail(errno.ENOSYS)]
    steps += _when(_CLONE[which], 0, [_step(_ANY_BIT, _NAMESPACES, 0, 1), _fail(errno.EPERM)])
    steps += _when(_SOCKET[which], 0, _only(_FAMILIES))
    steps += _when(_IOCTL[which], 1, _never(_TYPED_INTO_A_TERMINAL))
    return b"".join([*steps, _step(_RETURN, _ALLOW)])


def _when(number: int, argument: int, steps: list[bytes]) -> list[bytes]:
    """These steps over one argument of a call, then the call is allowed."""
    steps = [_step(_LOAD, _ARGUMENTS + 8 * argument), *steps, _step(_RETURN, _ALLOW)]
    return [_step(_EQUAL, number, 0, len(steps)), *steps]


def _only(values: tuple[int, ...]) -> list[bytes]:
    allowed = [step for one in values for step in (_step(_EQUAL, one, 0, 1), _allow())]
    return [*allowed, _fail(errno.EAFNOSUPPORT)]


def _never(values: tuple[int, ...]) -> list[bytes]:
    return [step for one in values for step in (_step(_EQUAL, one, 0, 1), _fail(errno.EPERM))]


def _step(code: int, value: int, if_so: int = 0, if_not: int = 0) -> bytes:
    return struct.pack("<HBBI", code, if_so, if_not, value)


def _fail(number: int) -> bytes:
    return _step(_RETURN, _FAIL | number)


def _allow() -> bytes:
    return _step(_RETURN, _ALLOW)
