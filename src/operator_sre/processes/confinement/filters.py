"""Filters of system calls, as the programs that the kernel runs before each call."""

from __future__ import annotations

import errno
import struct
from dataclasses import dataclass

from operator_sre.processes.confinement.calls import ASKED, LAST, MISSING, NUMBERS, REFUSED

__all__ = ["Profile", "allow", "fail", "filter_program", "load", "prologue", "step", "when"]

# Offsets into `struct seccomp_data`; on both machines the low half of a word comes first.
NUMBER, ARCH, ARGUMENTS = 0, 4, 16
# Classes of instructions of the classic BPF machine.
LOAD, EQUAL, AT_LEAST, ANY_BIT, AND, RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
JUMP = 0x05
LEAVES = 4
ALLOW, KILL, FAIL, ASK = 0x7FFF0000, 0x80000000, 0x00050000, 0x7FC00000
X32 = 0x40000000
ARCHES = (0xC000003E, 0xC00000B7)
# CLONE_NEW* of cgroup, uts, ipc, user, pid, net, mount and time.
NAMESPACES = 0x7E020080
UNIX, INET, INET6, NETLINK = 1, 2, 10, 16
STREAM, DATAGRAM, RAW, SEQUENCED = 1, 2, 3, 5
SOCKET_TYPE = 0xF
# A datagram could be sent to anybody, and the kernel takes a raw socket of this machine for one.
UNIX_TYPES = (STREAM, SEQUENCED)
# Of each kind of Internet socket: the types whose peers `connect` and `sendto` name. Others
# (SCTP, DCCP, L2TP ...) get their peers in other ways, and load modules of the kernel.
TCP, UDP = 6, 17
# Routes, sockets and generic: without capabilities they only tell.
NETLINK_PROTOCOLS = (0, 4, 16)
NETLINK_FIREWALL = 12
# ICMP and ICMPv6.
ECHO_PROTOCOLS = (1, 58)
RAW_PROTOCOL = 255
# O_WRONLY, O_RDWR, O_CREAT and O_TRUNC.
WRITING = 0x243
AT_EMPTY_PATH = 0x1000
# F_SETOWN, F_SETSIG, F_SETOWN_EX, F_SETLEASE, F_NOTIFY: they signal or delay other processes.
# F_SET_RW_HINT, F_SET_FILE_RW_HINT: they change how a file is kept that is only open to be read.
FCNTL_REFUSED = (8, 10, 15, 1024, 1026, 1036, 1038)
# Options of a socket that lead packets elsewhere than to its peer (IP_HDRINCL, IP_OPTIONS, routing
# and other headers of IPv6), join groups of hosts, or change rules for packets (from 64 on).
IP_LEVEL, IP_OPTIONS_REFUSED, IP_FIREWALL = 0, (3, 4, 35, 39, 42, 46), 64
IPV6_LEVEL = 41
IPV6_OPTIONS_REFUSED = (5, 6, 20, 27, 36, 42, 46, 54, 55, 57, 59, 64, 65)
# SYSLOG_ACTION_CLOSE, _OPEN, _READ_ALL, _SIZE_UNREAD, _SIZE_BUFFER; the others take messages away
# or set what the console shows.
SYSLOG_READS = (0, 1, 3, 9, 10)
# A process that cannot be dumped cannot be weighed, and one whose core may have no bytes is dumped
# to a program all the same, so that neither is changed. The call still reports success.
PR_SET_DUMPABLE, RLIMIT_CORE = 4, 4
LOCK_EX = 2
# IPC_INFO, IPC_STAT and the SHM_, SEM_ and MSG_ forms of both, which only tell.
IPC_READS = (2, 3, 11, 12, 13, 14, 18, 19)
IPC_64 = 0x100
# TIOCSTI, TIOCSCTTY, TIOCLINUX, TIOCCONS, TIOCSETD, FIOSETOWN, SIOCSPGRP; and, marked as reads,
# FS_IOC_SET_ENCRYPTION_POLICY, XFS_IOC_FREE_EOFBLOCKS, _GOINGDOWN and BTRFS_IOC_START_SYNC.
IOCTL_REFUSED = (
    *(0x5412, 0x540E, 0x541C, 0x541D, 0x5423, 0x8901, 0x8902),
    *(0x800C6613, 0x8080583A, 0x8004587D, 0x80089418),
)
# Terminals and pipes, sockets and interfaces, namespaces.
IOCTL_RANGES = ((0x5401, 0x5460), (0x8900, 0x89FF), (0xB701, 0xB708))
FIEMAP = 0xC020660B
# BLKROGET, BLKGETSIZE, BLKRAGET, BLKSSZGET, BLKIOMIN, BLKIOOPT, BLKALIGNOFF, BLKPBSZGET,
# BLKROTATIONAL, HDIO_GETGEO, HDIO_GET_IDENTITY and CDROM_GET_CAPABILITY.
IOCTL_DISKS = (
    *(0x125E, 0x1260, 0x1263, 0x1268, 0x1278, 0x1279, 0x127A, 0x127B, 0x127E),
    *(0x0301, 0x030D, 0x5331),
)
IOCTL_DIRECTION, IOCTL_READS = 0xC0000000, 0x80000000
# What a process may do to itself, named by 0, and not to another: the place of its argument.
OWN_ONLY = {
    "sched_setscheduler": 0,
    "sched_setattr": 0,
    "sched_setparam": 0,
    "sched_setaffinity": 0,
    "setpriority": 1,
    "ioprio_set": 1,
}
# PRIO_USER and IOPRIO_WHO_USER: to these, 0 is every process of the user.
OF_USER = {"setpriority": 2, "ioprio_set": 3}


@dataclass(frozen=True, slots=True)
class Profile:
    """Which calls a command may make beyond reading files.

    `network`: sockets of the Internet, whose peers the guard checks; `processes`: the guard opens
    what the kernel shows about other processes; `kernel_log`: the messages of the kernel; `echo`:
    raw sockets for echo requests; `firewall`: questions about the rules for packets; `disks`: the
    guard opens disks to read, for the programs that may.
    """

    network: bool = False
    processes: bool = False
    kernel_log: bool = False
    echo: bool = False
    firewall: bool = False
    disks: bool = False


def step(code: int, value: int, if_so: int = 0, if_not: int = 0) -> bytes:
    """One instruction."""
    return struct.pack("<HBBI", code, if_so, if_not, value)


def load(offset: int) -> bytes:
    """Load one word of the call."""
    return step(LOAD, offset)


def fail(number: int) -> bytes:
    """The call fails with this errno."""
    return step(RETURN, FAIL | number)


def allow() -> bytes:
    """The call goes ahead."""
    return step(RETURN, ALLOW)


def prologue(column: int) -> list[bytes]:
    """Kill a process that uses calls of another architecture; then load the number."""
    steps = [load(ARCH), step(EQUAL, ARCHES[column], 1, 0), step(RETURN, KILL), load(NUMBER)]
    if column == 0:
        steps += [step(AT_LEAST, X32, 0, 1), step(RETURN, KILL)]
    return steps


def when(number: int, steps: list[bytes]) -> list[bytes]:
    """These steps decide one call, and must end with a decision."""
    return [step(EQUAL, number, 0, len(steps)), *steps]


def filter_program(profile: Profile, column: int) -> bytes:
    """The filter of a confined command, as `struct sock_filter` in a row."""
    ask = step(RETURN, ASK)
    # All options except the ones to reach another host or change packet rules.
    below = [step(AT_LEAST, IP_FIREWALL, 0, 1), fail(errno.EPERM), allow()]
    version4 = [_argument(2), *_never(IP_OPTIONS_REFUSED), *below]
    version6 = [_argument(2), *_never(IPV6_OPTIONS_REFUSED), allow()]
    levels = [*when(IP_LEVEL, version4), *when(IPV6_LEVEL, version6), allow()]
    # What only tells: by the range it is in, or because the kernel marks it as a read.
    steps = [_argument(1), *_never(IOCTL_REFUSED)]
    for number in IOCTL_DISKS if profile.disks else ():
        steps += [step(EQUAL, number, 0, 1), allow()]
    for first, last in IOCTL_RANGES:
        steps += [step(AT_LEAST, first, 0, 2), step(AT_LEAST, last + 1, 1, 0), allow()]
    steps += [step(EQUAL, FIEMAP, 0, 1), allow()]
    steps += [step(AND, IOCTL_DIRECTION), step(EQUAL, IOCTL_READS, 0, 1), allow()]
    ioctl = [*steps, fail(errno.EPERM)]
    decisions: dict[str, list[bytes]] = {
        **{name: [fail(errno.EPERM)] for name in REFUSED},
        **{name: [fail(errno.ENOSYS)] for name in MISSING},
        **{name: [ask] for name in ASKED},
        "socket": _sockets(profile),
        "ioctl": ioctl,
        "fcntl": [_argument(1), *_never(FCNTL_REFUSED), allow()],
        "flock": [_argument(1), step(ANY_BIT, LOCK_EX, 0, 1), ask, allow()],
        "clone": [_argument(0), step(ANY_BIT, NAMESPACES, 0, 1), fail(errno.EPERM), ask],
        "fallocate": [fail(errno.EOPNOTSUPP)],  # it takes room beyond the limit of a file's size
        "prctl": [_argument(0), step(EQUAL, PR_SET_DUMPABLE, 0, 1), fail(0), allow()],
        "setrlimit": [_argument(0), step(EQUAL, RLIMIT_CORE, 0, 1), fail(0), allow()],
        "setsockopt": [_argument(1), *levels],
        "sync": [fail(0)],  # all disks would have to write for it
        "syncfs": [fail(0)],
        "syslog": [_argument(0), *_only(SYSLOG_READS)],
    }
    if not profile.kernel_log:
        decisions["syslog"] = [fail(errno.EPERM)]
    opens_for_it = profile.processes or profile.disks
    opening = [ask] if opens_for_it else [step(ANY_BIT, WRITING, 0, 1), ask, allow()]
    decisions["open"] = [_argument(1), *opening]
    decisions["openat"] = [_argument(2), *opening]
    if profile.processes:
        shown = ("readlink", "readlinkat", "stat", "lstat", "newfstatat", "statx")
        decisions |= {name: [ask] for name in shown}
        # What they ask with this flag is about a file that they have open.
        for name, place in (("newfstatat", 3), ("statx", 2)):
            decisions[name] = [_argument(place), step(ANY_BIT, AT_EMPTY_PATH, 0, 1), allow(), ask]
    pair = [_argument(1), step(AND, SOCKET_TYPE), *_only(UNIX_TYPES)]
    decisions["socketpair"] = [_argument(0), *when(UNIX, pair), fail(errno.EAFNOSUPPORT)]
    if profile.network:
        decisions |= {name: [ask] for name in ("sendmsg", "sendmmsg")}
        # An address is a pointer: either half of it tells that there is one.
        address = [_argument(4), step(EQUAL, 0, 1, 0), ask]
        high = [load(ARGUMENTS + 8 * 4 + 4), step(EQUAL, 0, 1, 0), ask, allow()]
        decisions["sendto"] = [*address, *high]
    masked = step(AND, ~IPC_64 & 0xFFFFFFFF)
    for name, place in (("shmctl", 1), ("semctl", 2), ("msgctl", 1)):
        decisions[name] = [_argument(place), masked, *_only(IPC_READS)]
    for name, place in OWN_ONLY.items():
        own = [_argument(0), *_never((OF_USER[name],)), allow()] if name in OF_USER else [allow()]
        decisions[name] = [_argument(place), step(EQUAL, 0, 1, 0), fail(errno.EPERM), *own]
    # Limits of another process may be read, not set. New ones are a pointer: either half tells.
    own = [_argument(1), step(EQUAL, RLIMIT_CORE, 0, 1), fail(0), allow()]
    setting = [_argument(0), *when(0, own), fail(errno.EPERM)]
    low = [_argument(2), step(EQUAL, 0, len(setting), 0), *setting]
    high = [load(ARGUMENTS + 8 * 2 + 4), step(EQUAL, 0, len(setting), 0), *setting]
    decisions["prlimit64"] = [*low, *high, allow()]
    numbered = {NUMBERS[name][column]: steps for name, steps in decisions.items()}
    known = sorted((number, steps) for number, steps in numbered.items() if number is not None)
    newer = [step(AT_LEAST, LAST + 1, 0, 1), fail(errno.ENOSYS)]
    return b"".join([*prologue(column), *newer, *_search(known)])


def _search(decisions: list[tuple[int, list[bytes]]]) -> list[bytes]:
    """Find the decision about a call by halves.

    The kernel tries a new filter on the number of every call, so that a long row would be slow.
    """
    if len(decisions) <= LEAVES:
        return [*(each for number, steps in decisions for each in when(number, steps)), allow()]
    middle = len(decisions) // 2
    lower, upper = _search(decisions[:middle]), _search(decisions[middle:])
    return [step(AT_LEAST, decisions[middle][0], 0, 1), step(JUMP, len(lower)), *lower, *upper]


def _argument(place: int) -> bytes:
    return load(ARGUMENTS + 8 * place)


def _never(values: tuple[int, ...]) -> list[bytes]:
    return [each for value in values for each in (step(EQUAL, value, 0, 1), fail(errno.EPERM))]


def _only(values: tuple[int, ...], otherwise: int = errno.EPERM) -> list[bytes]:
    found = [each for value in values for each in (step(EQUAL, value, 0, 1), allow())]
    return [*found, fail(otherwise)]


def _sockets(profile: Profile) -> list[bytes]:
    """Streams of this machine, questions to the kernel, and the Internet where it is declared."""
    kind = [_argument(1), step(AND, SOCKET_TYPE)]
    firewall = (NETLINK_FIREWALL,) if profile.firewall else ()
    # As a kernel answers that has been built without them, which programs are prepared for.
    missing = errno.EPROTONOSUPPORT
    protocols = [_argument(2), *_only((*NETLINK_PROTOCOLS, *firewall), missing)]
    steps = [_argument(0), *when(UNIX, [*kind, *_only(UNIX_TYPES)]), *when(NETLINK, protocols)]
    internet = [step(RETURN, ASK)]
    if profile.network:
        echo = ECHO_PROTOCOLS if profile.echo else ()
        raw = (*echo, *((RAW_PROTOCOL,) if profile.firewall else ()))
        internet = list(kind)
        for each, known in ((STREAM, (0, TCP)), (DATAGRAM, (0, UDP, *ECHO_PROTOCOLS)), (RAW, raw)):
            internet += when(each, [_argument(2), *_only(known)])
        internet.append(fail(errno.EPERM))
    for family in (INET, INET6):
        steps += when(family, internet)
    return [*steps, fail(errno.EAFNOSUPPORT)]
