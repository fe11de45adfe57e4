"""The closed table of read-only commands, and the short list of what never runs. Data, not code."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["BLOCKED", "READ_ONLY", "Blocked", "Form"]


@dataclass(frozen=True, slots=True)
class Form:
    """One permitted shape of a command: options without a value, options with one, operands.

    `operands` is a pattern each operand must match, or "" when there must be none; the word
    `file` in `reads` means operands are files and have to be readable by policy.
    """

    name: str
    flags: frozenset[str] = frozenset()
    valued: tuple[tuple[str, str], ...] = ()
    operands: str = ""
    reads: str = ""
    example: str = ""


@dataclass(frozen=True, slots=True)
class Blocked:
    """A command name that never runs, and why."""

    name: str
    why: str
    example: str
    needs: str = ""


_NUMBER = r"[0-9]{1,7}"
# No field that shows the environment of a process, for that is where secrets are.
_FIELD = (
    r"(?:args|comm|etime|etimes|lstart|nlwp|pcpu|pgid|pid|pmem|ppid|rss|stat|state|time|uid|user"
    r"|vsz|wchan)=?"
)
_FIELDS = rf"{_FIELD}(?:,{_FIELD}){{0,20}}"
_FILE = r"/[^\x00]{1,1000}"

READ_ONLY: tuple[Form, ...] = (
    Form(
        "ps",
        valued=(("-o", _FIELDS), ("-p", _NUMBER)),
        example="ps -o pid=,stat=,args= -p 4711",
    ),
    Form(
        "cat",
        operands=r"/proc/[0-9]{1,7}/(?:stat|status)|/proc/(?:loadavg|meminfo|uptime)",
        example="cat /proc/4711/stat",
    ),
    Form(
        "tail",
        valued=(("-n", _NUMBER),),
        operands=_FILE,
        reads="file",
        example="tail -n 20 /var/log/app.log",
    ),
    Form(
        "head",
        valued=(("-n", _NUMBER),),
        operands=_FILE,
        reads="file",
        example="head -n 20 /var/log/app.log",
    ),
    Form("ss", flags=frozenset({"-l", "-t", "-n", "-ltn", "-tn"}), example="ss -ltn"),
    Form("df", flags=frozenset({"-h", "-i", "-k"}), example="df -h"),
    Form("free", flags=frozenset({"-h", "-m", "-b"}), example="free -m"),
    Form("uptime", example="uptime"),
    Form("uname", flags=frozenset({"-a", "-r", "-s", "-m"}), example="uname -a"),
    Form("id", flags=frozenset({"-u", "-g", "-n"}), example="id"),
    Form("whoami", example="whoami"),
    Form("pwd", example="pwd"),
    Form("true", example="true"),
)

BLOCKED: tuple[Blocked, ...] = (
    Blocked("mkfs", "It makes a new, empty file system over what is there.", "mkfs /dev/sda"),
    Blocked("shutdown", "It takes the whole machine down.", "shutdown -h now"),
    Blocked("reboot", "It takes the whole machine down.", "reboot"),
    Blocked("poweroff", "It takes the whole machine down.", "poweroff"),
    Blocked("halt", "It takes the whole machine down.", "halt"),
    Blocked(
        "rm",
        "It deletes the root of the file system.",
        "rm -rf /",
        needs=r"(?:/|/\*|--no-preserve-root)",
    ),
    Blocked("dd", "It writes over a whole device.", "dd if=x of=/dev/sda", needs=r"of=/dev/.+"),
    Blocked(
        "chmod",
        "It opens the whole file system to everybody.",
        "chmod -R 777 /",
        needs=r"(?:/|/\*)",
    ),
)
