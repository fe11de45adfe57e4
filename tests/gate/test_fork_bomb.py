"""Fork bombs in every spelling are blocked; a loop that waits is not one."""

from __future__ import annotations

from itertools import product
from random import Random

from operator_protocols.domain.action import Action
from operator_protocols.domain.verdict import Level
from operator_sre.gate import Policy, judge
from operator_sre.gate.fork_bomb import FORK_BOMB, is_fork_bomb
from tests.every import every, expect_each
from tests.measuring import GROWTH_MAX, growth

NAMES = (":", "bomb", "b", "f1", ".", "_", "fork-bomb", "@", "ls")
HEADS = ("{}()", "{} ()", "{} ( )", "function {}", "function {}()")
BODIES = (
    "{}|{}&",
    "{} | {} &",
    "{} & {} &",
    "{}& {}&",
    "{} 1|{} 2 &",
    "echo; {}|{}&",
    "({}|{})&",
    "sleep 0; {} | {} & wait",
    "while :; do {} & done",
    "'{}'|\\{}&",
    "$FUNCNAME|$FUNCNAME& : {}{}",
    "${{FUNCNAME[0]}} | {} & : {}",
    "$({} & {})",
)
GROUPS = (
    "{{ {} }};{}",
    "{{ {}\n}}\n{}",
    "{{ {}; }} && {}",
    "({});{}",
    "{{\n{}\n}}\n{} &",
    "{{ {}; }}; {} x",
)
WRAPPERS = (
    "{}",
    "bash -c '{}'",
    'sh -c "{}"',
    "eval '{}'",
    "sudo bash -c '{}'",
    "true; {}",
    "nohup {} &",
)
OTHERS = (
    "$0|$0&",
    "$0 & $0 &",
    "./$0|./$0&",
    "bash $0 | bash $0 &",
    "while true; do bash & done",
    "while :; do :& done",
    "until false; do (yes > /dev/null) & done",
    "for ((;;)); do cat & done",
    "while [ 1 ]; do ./x & done",
    "perl -e 'fork while fork'",
    "perl -e 'fork while 1'",
    "perl -e 'while(1){fork}'",
    "perl5.36 -MPOSIX -e 'fork() while 1'",
    "ruby -e 'fork while fork'",
    "ruby -e 'loop { fork }'",
    "ruby -e 'loop do fork end'",
    "python3 -c 'import os\nwhile True: os.fork()'",
    "python -c 'import os; [os.fork() for i in iter(int, 1)]'",
    "php -r 'while(1) pcntl_fork();'",
    "echo 'int main(){while(1)fork();}' | gcc -xc - -o /tmp/x && /tmp/x",
    "a(){ b|b& }; b(){ a; }; a",
    "a(){ b; }; b(){ c & c & }; c(){ a; }; a",
)
REVIEWED = (
    "while ps -p 123 >/dev/null; do :; done",
    "while true; do :; done",
    "while :; do :; done",
    "while ! curl -sf localhost:8080/health; do :; done",
    "until curl -sf localhost:8080/health; do :; done",
    "until [ -e /tmp/ready ]; do :; done",
    "while pgrep -x nginx; do :; done",
    "while true; do curl -s localhost:9090/metrics & sleep 1; done",
    "f(){ sleep 1; }; f & f & wait",
    "f() { f; }; f",
    "retry(){ curl -sf localhost && return; sleep 1; retry; }; retry",
    "walk(){ for d in $1/*; do walk $d; done; }; walk /srv",
    "a(){ b|b& }; b(){ echo; }; a",
    "git commit -m 'fork while testing'",
    "make -j4 & make test",
    "f(){ f|f& }",
)


def _level(line: str) -> Level:
    return judge(Action.shell(line), Policy()).level


def test_generated_fork_bombs_are_blocked() -> None:
    spellings = list(product(NAMES, HEADS, BODIES, GROUPS, WRAPPERS))
    chosen = Random(11).sample(spellings, 1500)

    def check(name: str, head: str, body: str, group: str, wrapper: str) -> None:
        called = group.format(body.format(name, name), name)
        line = wrapper.format(f"{head.format(name)}{' ' if head[0] == 'f' else ''}{called}")
        verdict = judge(Action.shell(line), Policy())
        assert (verdict.level, FORK_BOMB in verdict.rules) == (Level.BLOCKED, True), line

    expect_each(chosen, check)


@every("line", OTHERS)
def test_other_ways_to_fork_without_an_end_are_blocked(line: str) -> None:
    assert _level(line) is Level.BLOCKED


@every("line", REVIEWED)
def test_what_waits_or_ends_is_left_to_a_person(line: str) -> None:
    assert _level(line) is Level.REVIEW


def test_what_only_tells_of_one_is_safe() -> None:
    assert _level("echo ':(){ :|:& };:'") is Level.SAFE
    assert _level("ls | :") is Level.SAFE


def test_a_long_line_takes_no_longer_than_its_length() -> None:
    for hostile in ("a()", "function ", "while :; do ", "f(){", "$0|", "a|a& ", "((", "fork "):

        def read(size: int, hostile: str = hostile) -> None:
            is_fork_bomb((hostile * size)[:size])

        assert growth(read, 2048) <= GROWTH_MAX, hostile
