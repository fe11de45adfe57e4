"""What the filter of a confined command decides, on both kinds of machines."""

from __future__ import annotations

import errno

import pytest

from operator_sre.processes.confinement.calls import ASKED, LAST, MISSING, NUMBERS, REFUSED
from operator_sre.processes.confinement.filters import Profile, filter_program
from tests.processes.confinement.filtering import answer

ALLOW, KILL, FAIL, ASK = 0x7FFF0000, 0x80000000, 0x00050000, 0x7FC00000
REFUSES, MISSES = FAIL | errno.EPERM, FAIL | errno.ENOSYS
PRETENDS = FAIL  # with no errno: the call is not made, and its caller is told that it was
ARCHES = (0xC000003E, 0xC00000B7)
# read, write, execve, mmap, close, getdents64 and exit_group.
ORDINARY = ((0, 1, 59, 9, 3, 217, 231), (63, 64, 221, 222, 57, 61, 94))
PROFILES = {
    "plain": Profile(),
    "network": Profile(network=True),
    "all": Profile(
        network=True, processes=True, kernel_log=True, echo=True, firewall=True, disks=True
    ),
}
# Name, arguments, and what is decided for a plain command, one with a network, and one with all.
CASES = [
    ("openat", (0, 0, 0o0), (ALLOW, ALLOW, ASK)),
    ("openat", (0, 0, 0o1), (ASK, ASK, ASK)),
    ("openat", (0, 0, 0o100), (ASK, ASK, ASK)),
    ("openat", (0, 0, 0o1000), (ASK, ASK, ASK)),
    ("clone", (17,), (ASK, ASK, ASK)),
    ("clone", (0x10000000,), (REFUSES, REFUSES, REFUSES)),
    ("socket", (1, 1, 0), (ALLOW, ALLOW, ALLOW)),
    ("socket", (1, 2, 0), (REFUSES, REFUSES, REFUSES)),
    ("socket", (1, 0o2000002, 0), (REFUSES, REFUSES, REFUSES)),
    ("socket", (1, 3, 0), (REFUSES, REFUSES, REFUSES)),
    ("socket", (1, 5, 0), (ALLOW, ALLOW, ALLOW)),
    ("socket", (2, 1, 0), (ASK, ALLOW, ALLOW)),
    ("socket", (2, 1, 6), (ASK, ALLOW, ALLOW)),
    ("socket", (2, 2, 17), (ASK, ALLOW, ALLOW)),
    ("socket", (2, 1, 132), (ASK, REFUSES, REFUSES)),
    ("socket", (2, 5, 132), (ASK, REFUSES, REFUSES)),
    ("socket", (10, 2, 136), (ASK, REFUSES, REFUSES)),
    ("socket", (2, 6, 33), (ASK, REFUSES, REFUSES)),
    ("socket", (10, 0o2000002, 0), (ASK, ALLOW, ALLOW)),
    ("socket", (2, 3, 1), (ASK, REFUSES, ALLOW)),
    ("socket", (2, 3, 6), (ASK, REFUSES, REFUSES)),
    ("socket", (16, 3, 0), (ALLOW, ALLOW, ALLOW)),
    ("socket", (16, 3, 12), (*(FAIL | errno.EPROTONOSUPPORT,) * 2, ALLOW)),
    ("socket", (16, 3, 9), (FAIL | errno.EPROTONOSUPPORT,) * 3),
    ("name_to_handle_at", (), (ALLOW,) * 3),
    ("open_by_handle_at", (), (REFUSES,) * 3),
    ("socket", (17, 3, 0), (FAIL | errno.EAFNOSUPPORT,) * 3),
    ("socket", (40, 1, 0), (FAIL | errno.EAFNOSUPPORT,) * 3),
    ("sendto", (3, 0, 0, 0, 0), (ALLOW, ALLOW, ALLOW)),
    ("sendto", (3, 0, 0, 0, 4096), (ALLOW, ASK, ASK)),
    ("sendto", (3, 0, 0, 0, 1 << 40), (ALLOW, ASK, ASK)),
    ("sendmsg", (3,), (ALLOW, ASK, ASK)),
    ("readlinkat", (), (ALLOW, ALLOW, ASK)),
    ("socketpair", (1, 1), (ALLOW,) * 3),
    ("socketpair", (1, 0o2000005), (ALLOW,) * 3),
    ("socketpair", (1, 2), (REFUSES,) * 3),
    ("socketpair", (1, 3), (REFUSES,) * 3),
    ("socketpair", (2, 1), (FAIL | errno.EAFNOSUPPORT,) * 3),
    ("setsockopt", (3, 1, 7), (ALLOW,) * 3),
    ("setsockopt", (3, 0, 1), (ALLOW,) * 3),
    ("setsockopt", (3, 0, 3), (REFUSES,) * 3),
    ("setsockopt", (3, 0, 4), (REFUSES,) * 3),
    ("setsockopt", (3, 0, 35), (REFUSES,) * 3),
    ("setsockopt", (3, 0, 64), (REFUSES,) * 3),
    ("setsockopt", (3, 0, 1153), (REFUSES,) * 3),
    ("setsockopt", (3, 41, 26), (ALLOW,) * 3),
    ("setsockopt", (3, 41, 57), (REFUSES,) * 3),
    ("setsockopt", (3, 41, 64), (REFUSES,) * 3),
    ("setsockopt", (3, 41, 67), (ALLOW,) * 3),
    ("syslog", (3,), (REFUSES, REFUSES, ALLOW)),
    ("syslog", (2,), (REFUSES,) * 3),
    ("syslog", (5,), (REFUSES,) * 3),
    ("syslog", (8,), (REFUSES,) * 3),
    ("prctl", (4, 0), (PRETENDS,) * 3),
    ("prctl", (38, 1), (ALLOW,) * 3),
    ("setrlimit", (4,), (PRETENDS,) * 3),
    ("setrlimit", (7,), (ALLOW,) * 3),
    ("fallocate", (3, 1, 0, 1), (FAIL | errno.EOPNOTSUPP,) * 3),
    ("prlimit64", (0, 4, 4096), (PRETENDS,) * 3),
    ("prlimit64", (0, 4, 1 << 40), (PRETENDS,) * 3),
    ("prlimit64", (0, 4, 0), (ALLOW,) * 3),
    ("prlimit64", (0, 7, 4096), (ALLOW,) * 3),
    ("prlimit64", (9, 7, 0), (ALLOW,) * 3),
    ("prlimit64", (9, 7, 4096), (REFUSES,) * 3),
    ("prlimit64", (9, 7, 1 << 40), (REFUSES,) * 3),
    ("setpriority", (0, 0), (ALLOW,) * 3),
    ("setpriority", (0, 9), (REFUSES,) * 3),
    ("setpriority", (1, 0), (ALLOW,) * 3),
    ("setpriority", (2, 0), (REFUSES,) * 3),  # every process of the user
    ("ioprio_set", (1, 0), (ALLOW,) * 3),
    ("ioprio_set", (3, 0), (REFUSES,) * 3),
    ("sync", (), (PRETENDS,) * 3),
    ("syncfs", (3,), (PRETENDS,) * 3),
    ("fcntl", (3, 1036), (REFUSES,) * 3),
    ("ioctl", (0, 0x800C6613), (REFUSES,) * 3),  # encrypt a folder, which is marked as a read
    ("ioctl", (0, 0x8004587D), (REFUSES,) * 3),
    ("fcntl", (3, 1), (ALLOW,) * 3),
    ("fcntl", (3, 8), (REFUSES,) * 3),
    ("flock", (3, 1), (ALLOW,) * 3),
    ("flock", (3, 6), (ASK,) * 3),
    ("shmctl", (1, 0x102), (ALLOW,) * 3),
    ("shmctl", (1, 0), (REFUSES,) * 3),
    ("ioctl", (0, 0x5401), (ALLOW,) * 3),
    ("ioctl", (0, 0x5412), (REFUSES,) * 3),
    ("ioctl", (0, 0x80086601), (ALLOW,) * 3),
    ("ioctl", (0, 0x40086602), (REFUSES,) * 3),
    ("ioctl", (0, 0xC020660B), (ALLOW,) * 3),
    ("ioctl", (0, 0x1260), (REFUSES, REFUSES, ALLOW)),  # the size of a disk
    ("ioctl", (0, 0x1277), (REFUSES,) * 3),  # forget what is on it
]


@pytest.mark.parametrize("column", [0, 1])
@pytest.mark.parametrize("name", sorted(PROFILES))
class TestOf:
    """One profile on one kind of machine."""

    def test_each_call_is_decided_as_listed(self, column: int, name: str) -> None:
        code = filter_program(PROFILES[name], column)
        listed = dict.fromkeys(REFUSED, REFUSES) | dict.fromkeys(MISSING, MISSES)
        listed |= dict.fromkeys(ASKED, ASK)
        numbered = {NUMBERS[one][column]: decision for one, decision in listed.items()}
        numbered |= dict.fromkeys(ORDINARY[column], ALLOW)
        decided = {number: answer(code, number or 0, ARCHES[column]) for number in numbered}
        assert {**decided, None: 0} == {**numbered, None: 0}
        assert len(decided) > 80

    def test_arguments_decide(self, column: int, name: str) -> None:
        code = filter_program(PROFILES[name], column)
        for one, arguments, decisions in CASES:
            number = NUMBERS[one][column]
            assert number is not None
            wanted = decisions[("plain", "network", "all").index(name)]
            assert answer(code, number, ARCHES[column], *arguments) == wanted, (one, arguments)

    def test_calls_of_tomorrow_are_missing_and_those_of_others_kill(
        self, column: int, name: str
    ) -> None:
        code = filter_program(PROFILES[name], column)
        assert answer(code, LAST + 1, ARCHES[column]) == MISSES
        assert answer(code, 469, ARCHES[column]) == MISSES
        assert answer(code, 0, ARCHES[1 - column]) == KILL
        assert answer(code, 5, 0x40000003) == KILL
        if column == 0:
            assert answer(code, 0x40000000 | 1, ARCHES[0]) == KILL
