"""A small process that forks cells: processes that confine themselves and wait for a command.

It runs as a script of its own, with little of the standard library, because what a process has in
memory is what fork has to copy, and exec to clear away before a command can start. So it uses the
modules below `socket` and `signal`. Each cell is a child of the runner.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # only `signal` has a stub
import _socket
import ctypes
import errno
import os
import resource
import struct
import sys

__all__ = ["FAILED", "READY", "SIZE", "START", "main"]

CLONE_PARENT, CLONE_NEWNS, CLONE_NEWUSER = 0x8000, 0x2_0000, 0x1000_0000
MS_NOSUID, MS_NODEV, MS_BIND, MS_REC, MS_SLAVE = 0x2, 0x4, 0x1000, 0x4000, 0x8_0000
PR_SET_PDEATHSIG, PR_SET_SECUREBITS, PR_SET_NO_NEW_PRIVS, PR_CAP_AMBIENT = 1, 28, 38, 47
# A program that root starts has no capabilities for that, and this cannot be undone.
NO_ROOT_LOCKED, AMBIENT_RAISE = 0b11, 2
# Of a filter: it asks a listener, and only a kill ends the waiting for an answer.
LISTENER, WAIT_KILLABLE = 1 << 3, 1 << 5
LANDLOCK_RESTRICT = 446
CALLS = {"x86_64": {"clone": 56, "seccomp": 317}, "aarch64": {"clone": 220, "seccomp": 277}}
CAPABILITY_VERSION = 0x20080522
UMASK = 0o022
REQUEST_BYTES_MAX = 128 * 1024
# A cell's answers: the number of its listener or a negative errno; why a command did not start.
READY = struct.Struct("<i")
FAILED = struct.Struct("<i?")
SIZE = struct.Struct("<I")
# What a cell that has its command waits for.
START = b"!"

# Keeps the interpreter lock through a fork, so that no other thread ever holds it.
_held = ctypes.PyDLL(None, use_errno=True)
_libc = ctypes.CDLL(None, use_errno=True)
_held.syscall.restype = _libc.syscall.restype = ctypes.c_long
_calls = CALLS.get(os.uname().machine, CALLS["x86_64"])
_clone, _seccomp = ctypes.c_long(_calls["clone"]), ctypes.c_long(_calls["seccomp"])
_clone_flags = ctypes.c_long(CLONE_PARENT | _signal.SIGCHLD)
_restrict = ctypes.c_long(LANDLOCK_RESTRICT)
_listening = ctypes.c_uint(LISTENER | WAIT_KILLABLE)


def main(control: _socket.socket) -> None:
    """Fork a cell for each request, until the runner is gone.

    What all cells have in common is done once, here, and so is reading a request like the last one.
    """
    os.umask(UMASK)
    for each in (_signal.SIGPIPE, _signal.SIGXFSZ, _signal.SIGINT):
        _signal.signal(each, _signal.SIG_DFL)
    _set_oom_score(b"1000")  # when memory runs out, it is a command that goes
    known, walls = b"", None
    while True:
        request, descriptors = _receive(control, REQUEST_BYTES_MAX)
        if not request:
            return
        if walls is None or request != known:
            known, walls = request, _Walls(request)
        pid = _held.syscall(_clone, _clone_flags, None, None, None, None, None)
        if pid == 0:
            os.close(control.fileno())
            # The whole life of a cell until it is a command; never returns.
            try:
                line, *rulesets = descriptors
                try:
                    listener = _confine(walls, rulesets)
                except OSError as error:
                    os.write(line, READY.pack(-(error.errno or errno.EPERM)))
                    os._exit(1)
                os.write(line, READY.pack(listener))
                _become(_socket.socket(fileno=line))
            finally:
                os._exit(1)
        for descriptor in descriptors:
            os.close(descriptor)
        control.send(READY.pack(pid if pid > 0 else -ctypes.get_errno()))


class _Walls:
    """A request: limits by their numbers, capabilities that stay, paths to cover and to show.

    Each has a line, and all that follows is the filter of calls.
    """

    def __init__(self, request: bytes) -> None:
        limits, capabilities, covered, shown, program = request.split(b"\n", 4)
        self.limits = []
        for kind, most in (map(int, pair.split(b"=")) for pair in limits.split()):
            _, hard = resource.getrlimit(kind)
            self.limits.append((kind, most if hard == resource.RLIM_INFINITY else min(most, hard)))
        self.capabilities = [*map(int, capabilities.split())]
        self.covered = [bytes.fromhex(path.decode()) for path in covered.split()]
        self.shown = [bytes.fromhex(path.decode()) for path in shown.split()]
        self.program = ctypes.create_string_buffer(program, len(program)) if program else None
        # struct sock_fprog: how many instructions, and where they are.
        address = ctypes.addressof(self.program) if self.program is not None else 0
        self.head = struct.pack("@HP", len(program) // 8, address)


def _receive(line: _socket.socket, size: int) -> tuple[bytes, list[int]]:
    """A message, and the descriptors that come with it."""
    text, extra, _, _ = line.recvmsg(size, _socket.CMSG_SPACE(4 * 3), _socket.MSG_CMSG_CLOEXEC)
    found = [data for _, _, data in extra]
    return text, [*struct.unpack(f"{len(found[0]) // 4}i", found[0])] if found else []


def _confine(walls: _Walls, rulesets: list[int]) -> int:
    """Give up, for ever, all that the walls do not allow; the number of the listener, or -1."""
    _prctl(PR_SET_PDEATHSIG, _signal.SIGKILL)
    os.setsid()
    for kind, most in walls.limits:
        resource.setrlimit(kind, (most, most))
    if walls.program is None:
        _set_oom_score(b"0")
        if walls.covered:
            # Put something empty over files and folders, seen by the command and its children only.
            uid, gid = os.geteuid(), os.getegid()
            if uid == 0:
                _check(_libc.unshare(CLONE_NEWNS))
            else:
                _check(_libc.unshare(CLONE_NEWNS | CLONE_NEWUSER))
                for name, text in (
                    ("setgroups", "deny"),
                    ("uid_map", f"{uid} {uid} 1"),
                    ("gid_map", f"{gid} {gid} 1"),
                ):
                    with open(f"/proc/self/{name}", "w") as file:
                        file.write(text)
            _check(_libc.mount(None, b"/", None, MS_REC | MS_SLAVE, None))
            kept = [(path, os.open(path, os.O_PATH)) for path in walls.shown if os.path.isdir(path)]
            for path in walls.covered:
                if os.path.isdir(path):
                    _check(
                        _libc.mount(
                            b"none", path, b"tmpfs", MS_NOSUID | MS_NODEV, b"size=64k,mode=700"
                        )
                    )
                elif os.path.exists(path):
                    _check(_libc.mount(b"/dev/null", path, None, MS_BIND, None))
            for path, descriptor in kept:
                if not os.path.exists(path):
                    os.makedirs(path, 0o700)
                    _check(
                        _libc.mount(
                            b"/proc/self/fd/%d" % descriptor, path, None, MS_BIND | MS_REC, None
                        )
                    )
                os.close(descriptor)
        if os.geteuid() != 0:
            _prctl(PR_SET_NO_NEW_PRIVS, 1)
        return -1
    # Root keeps these and no others, also for the programs that it starts.
    mask = sum(1 << number for number in walls.capabilities) if os.geteuid() == 0 else 0
    if os.geteuid() == 0:
        _prctl(PR_SET_SECUREBITS, NO_ROOT_LOCKED)
    low, high = mask & 0xFFFFFFFF, mask >> 32
    head = struct.pack("<Ii", CAPABILITY_VERSION, 0)
    _check(_libc.capset(head, struct.pack("<IIIIII", low, low, low, high, high, high)))
    for number in walls.capabilities if mask else ():
        _check(_libc.prctl(PR_CAP_AMBIENT, AMBIENT_RAISE, number, 0, 0))
    _prctl(PR_SET_NO_NEW_PRIVS, 1)
    for ruleset in rulesets:
        _check(_libc.syscall(_restrict, ctypes.c_int(ruleset), ctypes.c_uint(0)))
        os.close(ruleset)
    return _check(_libc.syscall(_seccomp, ctypes.c_uint(1), _listening, walls.head))


def _set_oom_score(text: bytes) -> None:
    try:
        with open("/proc/self/oom_score_adj", "wb", buffering=0) as file:
            file.write(text)
    except OSError:
        pass


def _become(line: _socket.socket) -> None:
    """Wait for a command and its start, and become it; report why when that fails."""
    head, descriptors = _receive(line, SIZE.size)
    if len(head) < SIZE.size or len(descriptors) != 3:
        return  # the runner is gone, or does not need this cell any more
    size = SIZE.unpack(head)[0]
    text = b""
    while len(text) < size:
        part = line.recv(size - len(text))
        if not part:
            return
        text += part
    cwd, cpu_s, count, *words = text.split(b"\0")
    argv, pairs = words[: int(count)], words[int(count) :]
    env = {name: value for name, _, value in (pair.partition(b"=") for pair in pairs)}
    _prctl(PR_SET_PDEATHSIG, 0)  # from here on it ends when the line does
    in_folder = True
    try:
        for place, descriptor in enumerate(descriptors):
            os.dup2(descriptor, place)
        if seconds := int(cpu_s):
            resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
        os.chdir(cwd)
        in_folder = False
        # Become the program, looked for in PATH of the new environment.
        name = argv[0]
        paths = [name]
        if b"/" not in name:
            paths = [
                folder + b"/" + name for folder in env.get(b"PATH", b"/bin:/usr/bin").split(b":")
            ]
        number = errno.ENOENT
        if line.recv(len(START)) != START:
            return  # it is not to start
        for path in paths:
            try:
                os.execve(path, argv, env)  # noqa: S606  that is what it is for
            except OSError as error:
                if error.errno not in (errno.ENOENT, errno.ENOTDIR):
                    number = error.errno or errno.EIO
            except ValueError:
                number = errno.EINVAL
    except OSError as error:
        number = error.errno or errno.EIO
    line.send(FAILED.pack(number, in_folder))


def _prctl(option: int, value: int) -> None:
    """One option of this process."""
    _check(_libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0))


def _check(result: int) -> int:
    """What a function of the C library returned; OSError when it failed."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


if __name__ == "__main__":
    main(_socket.socket(fileno=int(sys.argv[1])))
