"""Ways out of a box. Each says TRIED when it runs and ESCAPED when it gets out.

Words in `@` stand for what the scene of a test has: a file, a port, a process.
"""

from __future__ import annotations

from dataclasses import dataclass

from operator_sre.executor.sandbox import Language

__all__ = ["PROBES", "Probe"]


@dataclass(frozen=True, slots=True)
class Probe:
    """One way out. `control` runs it outside first, where it has to get through.

    `as_root` ones get through outside only as root; `apart` runs them where nothing is changed.
    """

    name: str
    language: Language
    text: str
    control: bool = True
    as_root: bool = False
    apart: bool = False

    def __str__(self) -> str:
        return f"{self.name} in {self.language}"


_PYTHON_HEAD = """
import ctypes, errno, fcntl, glob, os, platform, resource, signal, socket, sys
print("TRIED", flush=True)
libc = ctypes.CDLL(None, use_errno=True)
def escaped(*what): print("ESCAPED", *what, flush=True)
def number(intel, arm): return intel if platform.machine() == "x86_64" else arm
def attempt(deed):
    try:
        return deed()
    except (OSError, MemoryError, ValueError) as error:
        print("failed:", error, flush=True)
"""


def _python(name: str, text: str, **more: bool) -> Probe:
    return Probe(name, Language.PYTHON, _PYTHON_HEAD + text, **more)


def _bash(name: str, text: str, **more: bool) -> Probe:
    return Probe(name, Language.BASH, f"echo TRIED\n{text}\n", **more)


PROBES = (
    _python(
        "read /etc/shadow", "attempt(lambda: escaped(open('/etc/shadow').read(4)))", as_root=True
    ),
    _bash("read /etc/shadow", "head -c 4 /etc/shadow && echo ESCAPED", as_root=True),
    _python("read the operator's state", "attempt(lambda: escaped(open('@STATE@').read()))"),
    _bash("read the operator's state", "cat '@STATE@' && echo ESCAPED"),
    _bash(
        "read the state through the first process",
        "cat /proc/1/root'@STATE@' && echo ESCAPED",
        control=False,
    ),
    _python(
        "read the environment of others",
        """
for path in glob.glob("/proc/[0-9]*/environ"):
    attempt(lambda: b"@SECRET@" in open(path, "rb").read() and escaped(path))
""",
    ),
    _bash(
        "read the environment of others",
        "cat /proc/[0-9]*/environ 2>/dev/null | grep -qa '@SECRET@' && echo ESCAPED",
    ),
    _python("write outside", "attempt(lambda: open('@FOLDER@/x', 'w') and escaped())"),
    _bash("write outside", "echo x > '@FOLDER@/y' && echo ESCAPED"),
    _python(
        "write where programs lie",
        """
for folder in ("/", "/usr", "/usr/bin", "/etc", "/dev", "/script", "/inputs", "/run", "/var"):
    attempt(lambda: open(folder + "/operator-probe", "w") and escaped(folder))
""",
        control=False,
    ),
    _bash(
        "write where programs lie",
        "for d in / /usr /usr/bin /etc /dev /script /inputs; do"
        " echo x 2>/dev/null > $d/operator-probe && echo ESCAPED $d; done; true",
        control=False,
    ),
    _python(
        "connect by TCP",
        "attempt(lambda: escaped(socket.create_connection(('127.0.0.1', @TCP@), 5).recv(2)))",
    ),
    _bash("connect by TCP", "exec 9<>/dev/tcp/127.0.0.1/@TCP@ && echo ESCAPED"),
    _python(
        "connect by UDP",
        """
near = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
near.settimeout(5)
near.connect(("127.0.0.1", @UDP@))
attempt(lambda: near.send(b"hello") and escaped(near.recv(9)))
""",
    ),
    _python(
        "connect by a socket in a folder",
        "attempt(lambda: socket.socket(socket.AF_UNIX).connect('@SOCKET@') or escaped())",
    ),
    _python(
        "connect by an abstract socket",
        "attempt(lambda: socket.socket(socket.AF_UNIX).connect('\\0@ABSTRACT@') or escaped())",
    ),
    _python(
        "send by a raw socket",
        "attempt(lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1) and escaped())",
        as_root=True,
    ),
    _python(
        "make a socket of a rare family",
        """
for family in (16, 17, 38, 40):
    attempt(lambda: socket.socket(family, socket.SOCK_RAW if family < 30 else 1) and escaped())
""",
        as_root=True,
    ),
    _python(
        "see processes of the host",
        """
for path in glob.glob("/proc/[0-9]*/cmdline"):
    attempt(lambda: b"@MARK@" in open(path, "rb").read() and escaped(path))
""",
    ),
    _bash(
        "see processes of the host",
        "all=$(cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' ')\n"
        "[[ $all == *'@MARK@'* ]] && echo ESCAPED",
    ),
    _bash("signal a process of the host", "kill -0 @PID@ && echo ESCAPED"),
    _python(
        "signal whoever started it",
        """
os.getppid() == @PID@ and escaped()
for pid in (os.getppid(), 1):
    attempt(lambda: os.kill(pid, signal.SIGKILL))
""",
        control=False,
    ),
    _python("trace a process", "libc.ptrace(0, 0, 0, 0) == 0 and escaped()"),
    _python(
        "trace its own child",
        """
pid = os.fork()
if pid == 0:
    signal.pause()
libc.ptrace(16, pid, 0, 0) == 0 and escaped()
os.kill(pid, signal.SIGKILL)
""",
    ),
    _python(
        "mount",
        "libc.mount(b'none', b'/tmp', b'tmpfs', 0, None) == 0 and escaped()",
        as_root=True,
        apart=True,
    ),
    _bash("mount", "mount -t tmpfs none /tmp && echo ESCAPED", as_root=True, apart=True),
    _python("make a user namespace", "libc.unshare(0x10000000) == 0 and escaped()"),
    _bash("make a user namespace", "unshare --user --map-root-user true && echo ESCAPED"),
    _python(
        "make a user namespace with a process",
        """
pid = libc.syscall(number(56, 220), 0x10000000 | 17, 0, 0, 0, 0)
if pid == 0:
    os._exit(0)
pid > 0 and escaped()
""",
    ),
    _python(
        "change the root",
        "libc.chroot(b'/') == 0 and escaped()",
        as_root=True,
    ),
    _python("become root", "attempt(lambda: os.setuid(0) or escaped())", as_root=True),
    _python(
        "keep a key in the kernel",
        "libc.syscall(number(248, 217), b'user', b'probe', b'x', 1, -1) > 0 and escaped()",
    ),
    _python(
        "call what is rarely checked",
        """
for intel, arm in ((321, 280), (298, 241), (425, 425), (323, 282), (304, 265), (175, 105)):
    libc.syscall(number(intel, arm), -1, 0, 0, 0, 0)
    if ctypes.get_errno() != errno.EPERM:
        escaped(intel, ctypes.get_errno())
""",
        as_root=True,
    ),
    _python(
        "keep memory that belongs to no process",
        "libc.syscall(number(319, 279), b'probe', 0) >= 0 and escaped()",
    ),
    _python(
        "write what governs the kernel",
        """
for path in ("/proc/sys/kernel/hostname", "/proc/sys/vm/drop_caches", "/proc/sysrq-trigger"):
    attempt(lambda: open(path, "w") and escaped(path))
""",
        as_root=True,
    ),
    _bash(
        "write what governs the kernel",
        ": > /proc/sys/vm/drop_caches && echo ESCAPED",
        as_root=True,
    ),
    _python(
        "type into a terminal",
        """
if os.fork() == 0:
    os.setsid()
    main, side = os.openpty()
    attempt(lambda: fcntl.ioctl(side, 0x540E, 0))
    attempt(lambda: (fcntl.ioctl(side, 0x5412, b"x"), escaped()))
    os._exit(0)
os.wait()
""",
        as_root=True,
    ),
    _python(
        "raise its limits",
        """
soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
attempt(lambda: resource.setrlimit(resource.RLIMIT_CORE, (1, 1)) or escaped())
attempt(lambda: resource.setrlimit(resource.RLIMIT_NPROC, (9999, 9999)) or escaped())
""",
        as_root=True,
    ),
    _python(
        "move to all processors",
        "attempt(lambda: os.sched_setaffinity(0, range(os.cpu_count())) or escaped())",
    ),
    _python(
        "reach the Docker socket",
        """
for path in ("/var/run/docker.sock", "/run/docker.sock", "/run/containerd/containerd.sock"):
    os.path.exists(path) and escaped(path)
""",
        control=False,
    ),
    _bash(
        "reach the Docker socket",
        "for s in /var/run/docker.sock /run/docker.sock; do [ -e $s ] && echo ESCAPED; done; true",
        control=False,
    ),
    _python(
        "read the memory of the machine",
        """
for path in ("/dev/mem", "/proc/kcore", "/dev/kmsg", "/dev/vda", "/dev/sda"):
    attempt(lambda: open(path, "rb").read(1) and escaped(path))
""",
        control=False,
    ),
)
