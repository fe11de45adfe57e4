"""When a rule speaks of a command, and when it does not."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from operator_protocols.domain.verdict import Level
from operator_sre.gate.policy import PolicyRule
from operator_sre.gate.policy.rule import Index, compile_expression
from operator_sre.shell.line import parse
from operator_sre.shell.words import Simple, literal
from tests.every import every


def _speaks(line: str, *, level: Level = Level.REVIEW, cwd: str = "", **conditions: Any) -> bool:
    rule = PolicyRule("one", level, "Because.", origin="policy.yaml", **conditions)
    index = Index([rule])
    return any(index.speaking(simple, cwd) for simple in parse(line).commands)


OPEN: list[tuple[dict[str, Any], list[str], list[str]]] = [
    ({"command": ("rm",)}, ["rm", "/bin/rm x", "./rm"], ["rmdir", "ls rm"]),
    ({"command": ("mkfs*",)}, ["mkfs", "mkfs.ext4 x", "/sbin/mkfs.xfs"], ["xmkfs"]),
    (
        {"command": ("git",), "subcommand": ("push",)},
        ["git push", "git -C /x push", "git -c a=b -C x push", "git --no-pager push"],
        ["git log push", "git pushx", "git"],
    ),
    (
        {"command": ("docker",), "subcommand": ("compose up|down", "rm")},
        ["docker compose up", "docker compose -f x.yml down", "docker --context c rm"],
        ["docker compose ps", "docker up", "docker compose"],
    ),
    ({"command": ("k",), "subcommand": ("delete ns/*",)}, ["k delete ns/a"], ["k delete pod/a"]),
    (
        {"command": ("rm",), "options": ("-r", "--recursive")},
        ["rm -r x", "rm -rf x", "rm -fr x", "rm --recursive x", "rm --recurs x"],
        ["rm -f x", "rm x", "rm -- -r", "rm --r x"],
    ),
    ({"command": ("x",), "options": ("--set",)}, ["x --set", "x --set=1"], ["x --sets", "x -s"]),
    ({"command": ("find",), "options": ("-delete",)}, ["find . -delete"], ["find . -deleted"]),
    (
        {"command": ("m",), "without": ("-n", "--dry-run")},
        ["m x", "m -nx", "m --dry x"],
        ["m -n x", "m --dry-run", "m --dry-run=client"],
    ),
    ({"command": ("dd",), "operand": "of=/dev/.*"}, ["dd of=/dev/x"], ["dd of=x", "dd xof=/dev/x"]),
    (
        {"command": ("x",), "subcommand": ("a",), "operand": "a"},
        ["x a a", "x a b a"],
        ["x a", "x b a"],
    ),
    (
        {"command": ("rm",), "path": ("/", "/etc", "/home/*")},
        [
            "rm /",
            "rm //",
            "rm /*",
            "rm /etc/",
            "rm /usr/../etc",
            "rm ~",
            "rm ~/",
            "rm $HOME",
            "rm /et?",
            "rm --x=/etc",
            "rm < /etc",
            "rm /etc/*",
        ],
        ["rm /etc/x", "rm etc", "rm /tmp/*", "rm ~/x", "rm $OTHER"],
    ),
    ({"redirect": "/dev/sd.*"}, ["x > /dev/sda", "x >> /dev/sdb", "> /dev/sda"], ["x < /dev/sda"]),
    ({"redirect": "/dev/tcp/.*"}, ["x < /dev/tcp/a/1", "x <> /dev/tcp/a/1"], ["x /dev/tcp/a/1"]),
    ({"regex": r"^a b\b"}, ["a b", "a 'b'", "a   b c"], ["a bc", "x a b", "a; b"]),
    ({"command": ("sh",), "piped": True}, ["x | sh"], ["sh", "sh | x"]),
    ({"command": ("sh",), "piped": False}, ["sh"], ["x | sh"]),
]


@every(
    ("conditions", "line", "expected"),
    [
        *((one, line, True) for one, lines, _ in OPEN for line in lines),
        *((one, line, False) for one, _, lines in OPEN for line in lines),
    ],
)
def test_an_open_rule_speaks_when_what_it_asks_for_is_there(
    conditions: dict[str, Any], line: str, expected: bool
) -> None:
    assert _speaks(line, **conditions) is expected


def test_relative_paths_are_taken_from_where_the_command_runs() -> None:
    conditions: dict[str, Any] = {"command": ("rm",), "path": ("/etc", "/etc/shadow")}
    assert _speaks("rm shadow", cwd="/etc", **conditions)
    assert _speaks("rm ../etc", cwd="/srv", **conditions)
    assert not _speaks("rm shadow", cwd="/srv", **conditions)
    assert not _speaks("rm shadow", **conditions)


def test_rights_are_a_condition() -> None:
    rule = PolicyRule("one", Level.REVIEW, "Because.", command=("x",), privileged=True)
    for privileged in (True, False):
        simple = Simple((literal("x"),), privileged=privileged)
        assert bool(Index([rule]).speaking(simple)) is privileged


# What feeds a command, or writes, although its word looks like a descriptor or like nothing.
FED = [
    *("<<< 1", "<<<2", "<<< -", "<<< /dev/null", "<<< /dev/stdout", "< 1", "< 2", "< -", "<&3"),
    *("<> /dev/null", "0<<< 1", "> 1", ">> 2", "> -", "&> 1", ">| 2", "0>&1", "< /dev/stdout"),
]
CLOSED: list[tuple[dict[str, Any], list[str], list[str]]] = [
    (
        {"command": ("x",)},
        ["x", "/usr/bin/x", "x 2>/dev/null", "x 2>&1", "x < /dev/null", "x <&-", "x &> /dev/null"],
        ["x a", "x -a", "/tmp/x", "y | x"],
    ),
    ({"command": ("x",), "piped": True}, ["y | x"], ["x", "x <<< 1", "y | x < 1"]),
    *(
        ({"command": ("x",), **more}, [], [f"x {one}" for one in FED])
        for more in ({}, {"piped": False})
    ),
    ({"command": ("/opt/x",)}, ["/opt/x"], ["x", "/usr/bin/x", "/tmp/x"]),
    (
        {"command": ("x",), "subcommand": ("get",), "options": ("-a", "-b", "--json")},
        ["x get", "x get -a", "x get -ab", "x -b get --json", "x get --json=1"],
        ["x", "x -a v get", "x get y", "x get -c", "x get -abc", "x get --jso", "x get -- -c"],
    ),
    (
        {"command": ("x",), "operand": "[a-z]+"},
        ["x", "x a", "x a b"],
        ["x a 1", "x a -f", "x a*", "x $A", "x $(id)", 'x "$A"', "x a > f", "x a < f", "A=1 x a"],
    ),
    (
        {"command": ("x",), "regex": "x -[a-c] [0-9]+"},
        ["x -a 1"],
        ["x -a 1 2", "y x -a 1", "x -d 1"],
    ),
    ({"command": ("x",), "path": ("/srv/**",)}, ["x /srv/a", "x"], ["x /etc/a", "x /srv/a /etc/b"]),
]


@every(
    ("conditions", "line", "expected"),
    [
        *((one, line, True) for one, lines, _ in CLOSED for line in lines),
        *((one, line, False) for one, _, lines in CLOSED for line in lines),
    ],
)
def test_a_safe_rule_speaks_only_when_nothing_else_is_there(
    conditions: dict[str, Any], line: str, expected: bool
) -> None:
    assert _speaks(line, level=Level.SAFE, **conditions) is expected


def test_a_safe_rule_never_speaks_of_what_needs_other_rights() -> None:
    rule = PolicyRule("one", Level.SAFE, "Because.", command=("x",))
    assert Index([rule]).speaking(Simple((literal("x"),)))
    assert not Index([rule]).speaking(Simple((literal("x"),), privileged=True))


@given(st.text(max_size=30))
def test_an_expression_compiles_or_says_why_not(source: str) -> None:
    told = "nothing"
    try:
        compile_expression(source, trusted=False).search("a b")
    except ValueError as error:
        told = str(error)
    assert told


@given(st.text(alphabet="abrm-/ =~*$'\"|;<>.", max_size=60))
def test_no_command_is_too_strange_for_the_rules(line: str) -> None:
    from operator_sre.gate.policy import built_in

    spoken = [built_in().speaking(simple, "/") for simple in parse(line).commands]
    assert Level.SAFE not in {rule.level for rules in spoken for rule in rules}
