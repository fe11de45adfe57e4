"""A file that holds secrets is recognised by whatever way its name is written."""

from __future__ import annotations

import fnmatch
import re
import shlex
import string
import subprocess
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operator_protocols.domain.action import Action
from operator_protocols.domain.verdict import Level
from operator_sre.gate import Policy, judge
from operator_sre.gate.grammar.paths import _OF_SYSTEM, _TOLD, Secrets, resolve_path
from tests.every import every

BUILT_IN = Policy().secrets
SOME = Secrets(
    [
        *("/etc/shadow*", "/**/.ssh/**", "/**/*.key", "/**/*secret*", "/**/.docker/config.json"),
        *("/proc/*/environ", "/var/db/**/x", "/**/id_*", "/**/.netrc"),
    ]
)


@pytest.mark.parametrize(
    ("path", "cwd", "expected"),
    [
        ("a", "/srv", "/srv/a"),
        ("../a", "/srv/b", "/srv/a"),
        ("./a/./b//c", "/", "/a/b/c"),
        ("/../../etc", "/srv", "/etc"),
        ("~/.ssh", "/srv", "/home/~/.ssh"),
        ("~web/x", "/srv", "/home/web/x"),
        ("a/", "/srv", "/srv/a"),
        ("/", "/srv", "/"),
        ("a", "", "/a"),
    ],
)
def test_a_path_is_resolved_by_its_text(path: str, cwd: str, expected: str) -> None:
    assert resolve_path(path, cwd) == expected


HELD = [
    *("/etc/shadow", "/etc/shadow-", "/a/.ssh/x", "/a/.ssh", "/b/x.key", "/a/my-secret.txt"),
    *("/h/.docker/config.json", "/proc/1/environ", "/var/db/x", "/var/db/a/b/x", "/a/id_rsa"),
    *(
        "/etc/sh*",
        "/etc/s?adow",
        "/etc/[s]hadow",
        "/*/shadow",
        "/a/.ss*/x",
        "/h/.netrc",
        "/a/*.key",
    ),
    *("/a/*", "/a/*.k?y", "/a/*ecret*", "/a/x.*", "/etc/pam*", "/etc/[[:alpha:]]hadow"),
    *("/etc/sh[!x]dow", "/etc/sh[]a]dow", "/etc/sh[a]]dow", "/etc/sh[[.a.]]dow", "/a/.*/x"),
]
FREE = [
    *("/etc/passwd", "/etc/shado", "/a/ssh/x", "/b/keys", "/proc/1/status", "/docker/config.json"),
    *(
        "/etc/pam*.conf",
        "/etc/*-release",
        "/proc/*/status",
        "/sys/class/*/x",
        "/var/log/*.log",
        "/a/app.log.*",
        "/var/db",
        "/etc",
    ),
]


@every("path", HELD)
def test_secrets_are_held(path: str) -> None:
    assert SOME.holds(path)


@pytest.mark.parametrize("path", FREE)
def test_other_files_are_free(path: str) -> None:
    assert not SOME.holds(path)


@pytest.mark.parametrize(
    ("path", "below"),
    [
        *(("/", True), ("/etc", True), ("/e*c", True), ("/proc/1", True), ("/proc/self", True)),
        *(("/home/web", True), ("/home/~", True), ("/var/db", True), ("/var/log", False)),
        *(("/srv/app", False), ("/etc/nginx", False), ("/usr/share", False)),
    ],
)
def test_what_lies_below_counts_when_all_of_it_is_read(path: str, below: bool) -> None:
    assert SOME.holds(path, below=True) is below


names = st.sampled_from(
    [
        *("etc", "shadow", "shadow-", ".ssh", "id_rsa", "x.key", "proc", "1", "environ", "a"),
        *("my-secret", ".docker", "config.json", "var", "db", "x", ".netrc"),
    ]
)


@given(st.lists(names, min_size=1, max_size=4).map(lambda parts: "/" + "/".join(parts)))
def test_looking_up_finds_the_same_as_trying_every_pattern(path: str) -> None:
    assert SOME.holds(path) is any(fits(path, pattern) for pattern in SOME.patterns)


def fits(path: str, pattern: str) -> bool:
    """The plain meaning of a pattern."""
    inner = re.escape(pattern).replace(r"/\*\*", "(?:/[^/]+)*").replace(r"\*", "[^/]*")
    return re.fullmatch(inner, path) is not None


@given(st.text("etcshadow*?[]/.", min_size=1, max_size=12))
def test_a_glob_that_can_become_a_secret_is_held(glob: str) -> None:
    path = resolve_path(glob, "/etc")
    simple = "[" not in path and "]" not in path
    wild = simple and any(mark in path for mark in "*?") and path.count("/") == 2
    if wild and fnmatch.fnmatchcase("/etc/shadow", path):
        assert BUILT_IN.holds(path)


def an_instance(pattern: str, random: Random) -> str:
    """Some path that fits a pattern of secrets."""
    parts: list[str] = []
    for part in pattern.strip("/").split("/"):
        if part == "**":
            parts += random.sample(["srv", "app", "home", "web", "conf"], k=random.randint(1, 2))
        else:
            filler = "".join(random.choices(string.ascii_lowercase, k=random.randint(1, 3)))
            parts.append(part.replace("*", filler))
    return "/" + "/".join(parts)


FOLDERS = (
    *(
        "/var/log",
        "/var/log/nginx",
        "/srv/app/logs",
        "/srv/app",
        "/tmp",
        "/etc",
        "/etc/systemd/system",
    ),
    *(
        "/etc/nginx/conf.d",
        "/etc/kubernetes",
        "/home/web",
        "/home/web/.ssh",
        "/var/lib/docker",
        "/opt",
    ),
    *("/var/lib/docker/containers", "/srv/secrets", "/home/web/.aws", "/var/log/journal", "/run"),
)
GLOBS = (
    *(
        "*",
        "*.log",
        "*.log.1",
        "*.log-*",
        "*.gz",
        "app*.log",
        "b*",
        "*.conf",
        "*.json",
        "*.1",
        "?*",
    ),
    *(
        "*.service",
        "syslog*",
        "messages-*",
        "*.txt",
        "*.y*ml",
        "*error*",
        "[a-f]*.log",
        "*.log.*.gz",
    ),
)


def test_a_glob_is_free_only_if_no_secret_can_be_among_its_files() -> None:
    """Among logs a file may sound like a secret by a part of its name; the system's are its own."""
    random = Random(5)
    wrong = []
    for folder in FOLDERS:
        for glob in GLOBS:
            path = f"{folder}/{glob}"
            if BUILT_IN.holds(path):
                continue
            for pattern in BUILT_IN.patterns:
                name = an_instance(pattern, random).rpartition("/")[2]
                file = f"{folder}/{name}"
                if not fnmatch.fnmatchcase(name, glob) or name.startswith("."):
                    continue
                by_part = "*" in pattern.rpartition("/")[2] and not pattern.endswith("**")
                told = by_part and _TOLD.fullmatch(path)
                of_system = pattern.startswith("/**") and _OF_SYSTEM.fullmatch(path)
                if fits(file, pattern) and not told and not of_system:
                    wrong.append(f"{path} may become {file}, by {pattern}")
    assert not wrong, "\n".join(wrong)


@every(
    ("path", "held"),
    [
        *[("/var/log/*.log", False), ("/var/log/*/*.log", False), ("/var/log/*.log.1", False)],
        *[("/srv/app/logs/*.log", False), ("/var/log/nginx/*.gz", False), ("/var/log/b*", True)],
        *[("/var/log/*", True), ("/var/log/*.1", True), ("/home/web/.ssh/*.log", True)],
        *[("/srv/secrets/*.log", True), ("/home/*/.ssh/*.log", True), ("/var/*/*.log", True)],
        *[("/etc/kubernetes/*.conf", True), ("/var/lib/docker/containers/*/*.log", True)],
    ],
)
def test_globs_of_logs(path: str, held: bool) -> None:
    assert BUILT_IN.holds(path) is held


def a_sign(letter: str, random: Random) -> str:
    """A pattern of the shell for one letter of a name."""
    if not letter.isalnum():
        return random.choice(
            ["?", f"[{letter}]", "[!,a]", "[^x]", shlex.quote(letter), f"\\{letter}"]
        )
    kind = "alpha" if letter.isalpha() else "digit"
    near = letter if letter in "aA0" else chr(ord(letter) - 1)
    return random.choice(
        [
            *("?", f"[{letter}]", f"[{near}-{letter}]", f"[]{letter}]", f"[{letter}_.]", "*", "?"),
            *(f"[[:{kind}:]]", "[[:alnum:]]", "[![:space:]]", "[^[:space:]]", "[!,]", "[^,]"),
            *(
                f"[[={letter}=]]",
                f"[[.{letter}.]]",
                f'[,"]"{letter}]',
                f"[,\\]{letter}]",
                f'"{letter}"',
            ),
        ]
    )


def a_glob(path: str, random: Random) -> str:
    """A word that the shell may turn into a path; a dot at the beginning of a name stays one."""
    signs: list[str] = []
    for at, letter in enumerate(path):
        fixed = letter == "/" or (letter == "." and path[at - 1] == "/")
        signs.append(letter if fixed or random.random() < 0.75 else a_sign(letter, random))
    start = path.rindex("/") + 1 + (path[path.rindex("/") + 1] == ".")
    if random.random() < 0.3 and len(path) - start > 1:  # any part of the name may be left out
        first, last = sorted(random.sample(range(start, len(path) + 1), k=2))
        signs[first:last] = ["*"]
    return "".join(signs)


def test_no_glob_that_the_shell_may_turn_into_a_secret_is_safe() -> None:
    random = Random(7)
    patterns = [one for one in BUILT_IN.patterns if not one.startswith(("/inet", "/dev"))]
    cases = [(one, a_glob(one, random)) for p in patterns for one in [an_instance(p, random)] * 4]
    checks = "\n".join(
        f"[[ {shlex.quote(path)} == {glob} ]] || echo {path}" for path, glob in cases
    )
    run = subprocess.run(["bash"], input=checks, capture_output=True, text=True, check=False)
    assert (run.stdout, run.stderr) == ("", "")  # all of them do become what they were made from
    policy = Policy()
    safe = [
        f"{glob} for {path}"
        for path, glob in cases
        if judge(Action.shell(f"cat {glob}"), policy, person=True).level is Level.SAFE
    ]
    assert not safe, "\n".join(safe)
