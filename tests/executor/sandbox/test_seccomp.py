"""The filter is run here as the kernel runs it, for both kinds of machines."""

from __future__ import annotations

import errno

import pytest

from operator_sre.executor.sandbox.seccomp import DENIED, is_supported, program
from operator_sre.processes.confinement.calls import REFUSED, UNNEEDED
from tests.processes.confinement.filtering import answer

ALLOW, KILL, FAIL = 0x7FFF0000, 0x80000000, 0x00050000
ARCHES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
ALLOWED = {"read": (0, 63), "execve": (59, 221), "kill": (62, 129), "openat": (257, 56)}


@pytest.mark.parametrize("machine", sorted(ARCHES))
class TestOf:
    """One kind of machine."""

    def test_every_denied_call_fails(self, machine: str) -> None:
        which, arch = ARCHES[machine]
        code = program(machine)
        numbers = [row[which] for row in DENIED.values()]
        assert len(set(numbers) - {None}) > 50
        for number in numbers:
            if number is not None:
                assert answer(code, number, arch) == FAIL | errno.EPERM

    def test_ordinary_calls_are_allowed(self, machine: str) -> None:
        which, arch = ARCHES[machine]
        for numbers in ALLOWED.values():
            assert answer(program(machine), numbers[which], arch) == ALLOW

    def test_calls_of_another_machine_are_killed(self, machine: str) -> None:
        which, _ = ARCHES[machine]
        for arch in (0x40000003, 0x40000028, 0):
            assert answer(program(machine), ALLOWED["read"][which], arch) == KILL

    def test_a_process_with_a_namespace_of_its_own_fails(self, machine: str) -> None:
        which, arch = ARCHES[machine]
        clone, code = (56, 220)[which], program(machine)
        assert answer(code, clone, arch, 0x01200011) == ALLOW
        for flag in (0x10000000, 0x00020000, 0x40000000, 0x20000000, 0x02000000, 0x80):
            assert answer(code, clone, arch, flag | 0x11) == FAIL | errno.EPERM
        assert answer(code, 435, arch) == FAIL | errno.ENOSYS

    def test_only_common_families_of_sockets_are_made(self, machine: str) -> None:
        which, arch = ARCHES[machine]
        for family in range(64):
            made = answer(program(machine), (41, 198)[which], arch, family, 1) == ALLOW
            assert made is (family in (1, 2, 10))

    def test_nobody_types_into_a_terminal(self, machine: str) -> None:
        which, arch = ARCHES[machine]
        ioctl, code = (16, 29)[which], program(machine)
        assert answer(code, ioctl, arch, 0, 0x5412) == FAIL | errno.EPERM
        # The kernel looks at the lower half only, and so does the filter.
        assert answer(code, ioctl, arch, 0, 0x1_0000_5412) == FAIL | errno.EPERM
        assert answer(code, ioctl, arch, 0, 0x5413) == ALLOW


def test_the_short_pointers_of_intel_are_killed() -> None:
    assert answer(program("x86_64"), 0x40000000 | 101, ARCHES["x86_64"][1]) == KILL


def test_what_neither_needs_is_refused_to_sandboxes_and_to_commands() -> None:
    assert {"bpf", "kexec_load", "memfd_create", "quotactl"} <= {*UNNEEDED}
    assert {*UNNEEDED} <= {*REFUSED} & {*DENIED}


def test_there_is_none_for_other_machines() -> None:
    assert is_supported("x86_64")
    assert is_supported("aarch64")
    assert not is_supported("riscv64")
