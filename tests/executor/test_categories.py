"""Why a command failed, asked of real commands; and of what other tools say."""

from __future__ import annotations

import errno
import shutil
import subprocess
from pathlib import Path

import pytest

from operator_protocols.domain.action import Outcome
from operator_protocols.domain.category import FailureCategory
from operator_sre.executor.categories import category_of, named_exit
from operator_sre.executor.transports.local import ENVIRONMENT, SHELL
from tests.every import every
from tests.executor.recorded import FLAVOURS
from tests.flavours import flavours_of
from tests.measuring import GROWTH_MAX, growth

TIMEOUT, PERMISSION = FailureCategory.TIMEOUT, FailureCategory.PERMISSION
MISSING, SYNTAX = FailureCategory.NOT_FOUND, FailureCategory.SYNTAX
RUNTIME, RESOURCE = FailureCategory.RUNTIME, FailureCategory.RESOURCE
NETWORK = FailureCategory.NETWORK
COMMAND_S_MAX = 30.0
# Nobody listens there, and nobody can: it needs more than a user has, and is no service's.
CLOSED = "127.0.0.1:1"


def _folder(tmp_path: Path) -> Path:
    """A scratch directory with a few traps in it."""
    for name, text, mode in (
        ("locked", "#!/bin/sh\n", 0o644),
        ("lost", "#!/no/such/interpreter\n", 0o755),
        ("text", "words\n", 0o644),
    ):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(mode)
    (tmp_path / "alien").write_bytes(b"\x7fELF" + bytes(60))
    (tmp_path / "alien").chmod(0o755)
    return tmp_path


def _ran(command: str, folder: Path, tools: Path | None = None) -> tuple[int, str]:
    """How it left and what it said; programs of the folder `tools` come before all others."""
    first = {"PATH": f"{tools}:{ENVIRONMENT['PATH']}"} if tools else {}
    done = subprocess.run(
        [SHELL, "-c", command],
        cwd=folder,
        env={**ENVIRONMENT, **first},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=COMMAND_S_MAX,
        check=False,
    )
    return done.returncode, done.stderr.decode(errors="replace")


def _of(
    command: str, folder: Path, tools: Path | None = None
) -> tuple[int, FailureCategory | None]:
    code, said = _ran(command, folder, tools)
    told = category_of(exit_code=code, outcome=Outcome.RAN, stderr=said, command=command)
    return code % 256 if code >= 0 else 128 - code, told


# A line, its exit code and why it failed, where the shell itself decides; each runs in a real one.
REAL: tuple[tuple[str, int, FailureCategory | None], ...] = (
    ("true", 0, None),
    ("echo 'Permission denied' >&2", 0, None),
    ("false", 1, RUNTIME),
    ("exit 3", 3, RUNTIME),
    ("exit 255", 255, RUNTIME),
    ("no-such-command", 127, MISSING),
    ("/no/such/command", 127, MISSING),
    ("./lost", 127, MISSING),
    ("./locked", 126, PERMISSION),
    (".", 2, RUNTIME),
    ("./alien", 126, SYNTAX),
    ("/tmp", 126, PERMISSION),
    ("kill -9 $$", 137, RESOURCE),
    ("kill -TERM $$", 143, RUNTIME),
    ("kill -INT $$", 130, RUNTIME),
    ("kill -SEGV $$", 139, RUNTIME),
    ("kill -XCPU $$", 152, RESOURCE),
    ("kill -SYS $$", 159, PERMISSION),
    ("kill -ABRT $$", 134, RUNTIME),
    ("cd nosuch", 1, MISSING),
    ("kill -0 4194303", 1, MISSING),
    ("if", 2, SYNTAX),
    ("echo 'open", 2, SYNTAX),
    ("echo word > /dev/full", 1, RESOURCE),
    ("echo 1 > /proc/sys/kernel/osrelease", 1, PERMISSION),
    ("exec 3<>/dev/tcp/127.0.0.1/1", 1, NETWORK),
    ("cat nosuch; exit 7", 7, MISSING),
)


@pytest.mark.parametrize(("command", "code", "why"), REAL, ids=[one[0] for one in REAL])
def test_a_real_command_fails_for_the_right_reason(
    tmp_path: Path, command: str, code: int, why: FailureCategory | None
) -> None:
    got = _of(command, _folder(tmp_path))
    assert got == (code, why), _ran(command, tmp_path)


# The same of programs, each with its name: those that are here run, in every flavour that is here.
# Their exit codes differ, and so do their words; why it failed does not.
TOOLS: tuple[tuple[str, str, FailureCategory], ...] = (
    ("awk", "awk '{' text", SYNTAX),
    ("awk", "awk 'BEGIN { print (1 }' text", SYNTAX),
    ("awk", "awk 'function f(' text", SYNTAX),
    ("awk", "awk '/[/' text", SYNTAX),
    ("awk", "awk '/(/' text", SYNTAX),
    ("awk", "awk 'BEGIN { print \"a' text", SYNTAX),
    ("awk", "awk 'BEGIN { exit 3 }'", RUNTIME),
    ("cat", "cat nosuch", MISSING),
    ("cat", "cat text/inside", MISSING),
    ("cat", "ulimit -n 3; cat < text", RESOURCE),
    ("dd", "dd if=/dev/zero of=/dev/full count=1", RESOURCE),
    ("diff", "diff text nosuch", MISSING),
    ("find", "find nosuch", MISSING),
    ("find", "find . -name", SYNTAX),
    ("grep", "grep -q nothing text", RUNTIME),
    ("grep", "grep word nosuch", MISSING),
    ("grep", "grep '[' text", SYNTAX),
    ("grep", "grep -E '(' text", SYNTAX),
    ("grep", "grep --no-such-option word text", SYNTAX),
    ("head", "ulimit -f 1; head -c 4096 /dev/zero > big", RESOURCE),
    ("ls", "ls nosuch", MISSING),
    ("ls", "ls --no-such-option", SYNTAX),
    ("mkdir", "mkdir /proc/zz", MISSING),
    ("mv", "mv text", SYNTAX),
    ("ps", "ps --no-such-option", SYNTAX),
    ("rm", "rm 'Permission denied'", MISSING),
    ("rm", "rm", SYNTAX),
    ("sed", "sed 's/a' text", SYNTAX),
    ("sed", "sed --no-such-option text", SYNTAX),
    ("sh", "sh -c 'echo ${'", SYNTAX),
    ("sort", "sort nosuch", MISSING),
    ("sort", "sort --no-such-option", SYNTAX),
    ("tar", "tar -tf nosuch.tar", MISSING),
    ("tar", "tar --no-such-option", SYNTAX),
    ("timeout", "timeout 0.1 sleep 5", TIMEOUT),
    ("curl", f"curl -sS http://{CLOSED}/", NETWORK),
    ("curl", f"curl -s http://{CLOSED}/", NETWORK),
    ("curl", "curl -s http://no-such-host.invalid/", NETWORK),
    ("curl", "curl -s 'http://['", SYNTAX),
    ("curl", "curl -sS file:///no/such/file", MISSING),
    ("wget", f"wget -O - http://{CLOSED}/", NETWORK),
    ("ssh", "ssh -o BatchMode=yes -p 1 127.0.0.1 true", NETWORK),
    ("ssh", "ssh -q -o BatchMode=yes -p 1 127.0.0.1 true", NETWORK),
    ("psql", "psql -h 127.0.0.1 -p 1 -c 'select 1'", NETWORK),
    ("git", "git clone /no/such/repository here", MISSING),
    ("git", "git --no-such-option", SYNTAX),
    ("jq", "echo '{' | jq .", SYNTAX),
    ("jq", "jq '.[' text", SYNTAX),
    ("make", "make nosuch", MISSING),
    ("node", 'node -e \'require("fs").readFileSync("nosuch")\'', MISSING),
    ("node", "node -e 'let ='", SYNTAX),
    ("node", "node -e 'require(\"nosuch\")'", MISSING),
    ("perl", "perl -e 'if ('", SYNTAX),
    ("python3", "python3 nosuch.py", MISSING),
    ("python3", "python3 -c 'open(\"nosuch\")'", MISSING),
    ("python3", "python3 -c 'import nosuch'", MISSING),
    ("python3", "python3 -c 'if'", SYNTAX),
    ("python3", "python3 -c '1/0'", RUNTIME),
    ("python3", "python3 -c 'raise MemoryError'", RESOURCE),
    ("python3", "python3 -c 'raise TimeoutError'", TIMEOUT),
    ("python3", 'python3 -c \'import os; os.execv("./locked", ["x"])\'', PERMISSION),
    ("python3", "python3 -c 'import os; os.kill(1, 0) or os.abort()'", RUNTIME),
    (
        "python3",
        "python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", 1))'",
        NETWORK,
    ),
    ("python3", "python3 -c 'import os; os._exit(9)'", RUNTIME),
)


HERE = [one for one in TOOLS if shutil.which(one[0], path=ENVIRONMENT["PATH"])]


@pytest.mark.parametrize(("tool", "command", "why"), HERE, ids=[one[1] for one in HERE])
def test_a_tool_fails_for_the_right_reason_in_every_flavour(
    tmp_path: Path, tool: str, command: str, why: FailureCategory
) -> None:
    programs = flavours_of(tool, tmp_path)
    assert programs
    for flavour, program in programs.items():
        folder = tmp_path / f"in-{flavour}"
        folder.mkdir()
        code, told = _of(command, _folder(folder), program.parent)
        assert (told, code != 0) == (why, True), (
            flavour,
            code,
            _ran(command, folder, program.parent),
        )


@every(("about", "flavours"), FLAVOURS.items())
def test_every_flavour_of_a_tool_is_understood_also_where_it_is_not_installed(
    about: tuple[str, FailureCategory], flavours: tuple[tuple[str, int, str], ...]
) -> None:
    command, why = about
    told = {
        flavour: category_of(exit_code=code, outcome=Outcome.RAN, stderr=said, command=command)
        for flavour, code, said in flavours
    }
    assert told == dict.fromkeys(told, why)


def test_a_usage_shown_after_a_failure_is_not_its_reason() -> None:
    for said, why in (
        ("Error: dial tcp 127.0.0.1:1: connect: connection refused\nUsage: x [flags]", NETWORK),
        ("Error: it broke\nUsage:\n  x [flags]\n\nFlags:\n  -h, --help   help for x", RUNTIME),
        ("x: Error response from daemon: Conflict.\nSee 'x run --help'.", RUNTIME),
        ("how it is used: never", RUNTIME),
    ):
        assert category_of(exit_code=1, outcome=Outcome.RAN, stderr=said) is why


# What tools say that need a world of their own.
SAID: tuple[tuple[str, int, FailureCategory], ...] = (
    ("git@example: Permission denied (publickey).\n", 255, PERMISSION),
    ("Host key verification failed.\n", 255, PERMISSION),
    ("kex_exchange_identification: read: Connection reset by peer\n", 255, NETWORK),
    ("curl: (28) Operation timed out after 1001 milliseconds\n", 28, NETWORK),
    ("curl: (22) The requested URL returned error: 404\n", 22, RUNTIME),
    ("Unit nosuch.service could not be found.\n", 4, MISSING),
    ("Failed to restart x.service: Interactive authentication required.\n", 1, PERMISSION),
    ("Failed to restart x.service: Access denied\nSee system logs for details.\n", 4, PERMISSION),
    ('Error from server (NotFound): pods "x" not found\n', 1, MISSING),
    ('Error from server (Forbidden): pods is forbidden: User "x" cannot list\n', 1, PERMISSION),
    ("error: timed out waiting for the condition on pods/x\n", 1, TIMEOUT),
    ("Error response from daemon: No such container: x\n", 1, MISSING),
    ("Could not connect to Redis at 127.0.0.1:1: Connection refused\n", 1, NETWORK),
    ('psql: error: FATAL:  database "x" does not exist\n', 2, MISSING),
    ("FATAL:  sorry, too many clients already\n", 2, RESOURCE),
    ("sudo: a password is required\n", 1, PERMISSION),
    ("terminate called after throwing 'std::bad_alloc'\n", 134, RESOURCE),
    ("dd: error writing 'x': No space left on device\n", 1, RESOURCE),
    ("cp: error writing 'x': Disk quota exceeded\n", 1, RESOURCE),
    ("OSError: [Errno 28] it is full, they say\n", 1, RESOURCE),
    ("PermissionError: [Errno 13] Permission denied: 'No such file or directory'\n", 1, PERMISSION),
    ("socket.gaierror: [Errno -2] it has no such name\n", 1, NETWORK),
    ("Error: it broke (os error 2)\n", 101, MISSING),
    ("Error: listen EADDRINUSE: it is taken\n", 1, RESOURCE),
    ("bash: ./x: /bin/nosuch: bad interpreter: No such file or directory\n", 126, MISSING),
    ("bash: /bin/ls: Argument list too long\n", 126, RESOURCE),
    (
        "ls: error while loading shared libraries: libc.so.6: failed to map segment from shared "
        "object\n",
        127,
        RESOURCE,
    ),
    ("bash: fork: retry: Resource temporarily unavailable\n", 254, RESOURCE),
    ("Permission denied\nit is about something else: Connection refused\n", 1, NETWORK),
    ("Permission denied\nthree lines of thanks\n", 1, PERMISSION),
)


@every(("said", "code", "why"), SAID)
def test_what_a_tool_says_counts_after_its_exit_code(
    said: str, code: int, why: FailureCategory
) -> None:
    assert category_of(exit_code=code, outcome=Outcome.RAN, stderr=said) is why
    for number, always in ((124, TIMEOUT), (137, RESOURCE), (143, RUNTIME), (139, RUNTIME)):
        assert category_of(exit_code=number, outcome=Outcome.RAN, stderr=said) is always


def test_what_we_ended_ourselves_is_no_lack_of_anything() -> None:
    for code in (137, 143, 124, None, 1):
        told = category_of(exit_code=code, outcome=Outcome.TIMED_OUT, stderr="Permission denied")
        assert told is TIMEOUT
        for outcome in (Outcome.CANCELLED, Outcome.REFUSED, Outcome.UNKNOWN):
            assert category_of(exit_code=code, outcome=outcome, stderr="Killed") is None


@pytest.mark.parametrize(
    ("number", "why"),
    [
        *((errno.ENOENT, MISSING), (errno.ENOTDIR, MISSING), (errno.EACCES, PERMISSION)),
        *((errno.EPERM, PERMISSION), (errno.ENOEXEC, SYNTAX), (errno.E2BIG, RESOURCE)),
        *((errno.ENOMEM, RESOURCE), (errno.EAGAIN, RESOURCE), (errno.EMFILE, RESOURCE)),
        *((errno.ENOSPC, RESOURCE), (errno.EDQUOT, RESOURCE), (errno.ECONNREFUSED, NETWORK)),
        (errno.EILSEQ, RUNTIME),
    ],
)
def test_why_it_could_not_start_counts_before_everything_it_says(
    number: int, why: FailureCategory
) -> None:
    for code in (126, 127, 1):
        told = category_of(
            exit_code=code, outcome=Outcome.RAN, stderr="command not found", start_errno=number
        )
        assert told is why


def test_a_number_of_one_program_means_nothing_from_another() -> None:
    def silent(command: str, code: int) -> FailureCategory | None:
        return category_of(exit_code=code, outcome=Outcome.RAN, stderr="", command=command)

    assert silent("curl -s x", 7) is NETWORK
    assert silent("sudo /usr/bin/curl -s x", 7) is NETWORK
    assert silent("cd /x && LANG=C curl -s x", 7) is NETWORK
    assert silent("curl -s x | grep 7", 7) is RUNTIME
    assert silent("echo curl", 7) is RUNTIME
    assert silent("ssh -q node-1 true", 255) is NETWORK
    assert silent("ping -c 1 node-1", 1) is NETWORK
    assert silent("wget -q http://node-1/", 4) is NETWORK
    assert silent("timeout 5 sleep 9", 143) is TIMEOUT
    assert silent("timeout -k 1 5 sleep 9", 137) is TIMEOUT
    assert silent("sleep 9", 143) is RUNTIME
    assert silent("", 255) is RUNTIME


def test_a_signal_is_a_signal_however_it_is_told() -> None:
    for told in (-9, 137):
        assert category_of(exit_code=told, outcome=Outcome.RAN, stderr="") is RESOURCE
        assert named_exit(told) == "killed (137)"


@pytest.mark.parametrize(
    ("code", "words"),
    [
        *((0, "succeeded (0)"), (1, "exit code 1"), (124, "timed out (124)")),
        *((126, "cannot be run (126)"), (127, "command not found (127)")),
        *((130, "interrupted (130)"), (137, "killed (137)"), (143, "asked to stop (143)")),
        *((152, "exceeded its CPU time (152)"), (138, "ended by SIGUSR1 (138)")),
        *((200, "exit code 200"), (255, "exit code 255"), (None, "no exit code")),
    ],
)
def test_an_exit_code_has_a_name(code: int | None, words: str) -> None:
    assert named_exit(code) == words


def test_hostile_text_costs_next_to_nothing() -> None:
    for piece in ("[errno ", "E", "curl: (", "a\n", "try '", "needs ", "\n"):

        def read(size: int, piece: str = piece) -> None:
            said = (piece * size)[:size]
            assert category_of(exit_code=1, outcome=Outcome.RAN, stderr=said) is RUNTIME

        for size in (100, 4000, 500_000):
            assert growth(read, size) <= GROWTH_MAX, (piece, size)
