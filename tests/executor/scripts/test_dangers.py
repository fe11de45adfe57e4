"""What runs something that cannot be read in the script is found by what it means."""

from __future__ import annotations

import ast
from contextlib import suppress

import pytest

from operator_sre.executor.scripts.dangers import (
    Flaw,
    Layer,
    dangers_of_bash,
    dangers_of_python,
    parse_script,
)
from operator_sre.shell.script import Command, TooDeep, Word, commands_of
from tests.every import every
from tests.measuring import GROWTH_MAX, growth


def python(text: str) -> list[Flaw]:
    """What is dangerous in a Python script."""
    tree = parse_script(text)
    assert isinstance(tree, ast.Module), tree
    return list(dangers_of_python(tree))


@every(
    "text",
    [
        "eval('1')",
        "exec('1')",
        "compile('1', '', 'eval')",
        "run = eval\nrun('1')",
        "list(map(exec, ['1']))",
        "__import__('os')",
        "import importlib\nimportlib.import_module('os')",
        "from importlib import import_module as load\nload('os')",
        "import os\nos.system('ls')",
        "import os as o\no.system('ls')",
        "from os import system\nsystem('ls')",
        "from os import system as listing\nlisting('ls')",
        "import os\nos.popen('ls')",
        "import os\nos.execvp('sh', ['sh'])",
        "import os\nos.posix_spawn('/bin/sh', ['sh'], {})",
        "import subprocess\nsubprocess.run('ls', shell=True)",
        "import subprocess as s\ns.Popen('ls', shell=1)",
        "import subprocess\nflag = True\nsubprocess.run('ls', shell=flag)",
        "import subprocess\nsubprocess.run('ls', **{'shell': True})",
        "from subprocess import run\nrun('ls', shell=True)",
        "import subprocess\nsubprocess.getoutput('ls')",
        "getattr(x, '__class__')",
        "getattr(x, name)",
        "import os\ngetattr(os, 'system')('ls')",
        "().__class__.__base__.__subclasses__()",
        "print.__self__.eval('1')",
        "globals()['x']",
        "import builtins",
        "import ctypes",
        "import pickle\npickle.loads(b'')",
        "import sys\nsys.modules['os']",
        "from os import *",
        "__builtins__['eval']('1')",
    ],
)
def test_python_that_runs_what_is_not_written_is_found(text: str) -> None:
    flaws = python(text)
    assert flaws
    assert {flaw.layer for flaw in flaws} == {Layer.DANGEROUS}
    assert flaws[-1].line in range(1, text.count("\n") + 2)
    assert str(flaws[0]).startswith("dangerous: line ")


@pytest.mark.parametrize(
    "text",
    [
        "import re\nre.compile('a')",
        "from re import compile\ncompile('a')",
        "model.eval()",
        "import os\nprint(os.listdir('/inputs'), os.path.join('a', 'b'))",
        "import subprocess\nsubprocess.run(['ls', '-l'], shell=False)",
        "import json\nprint(json.load(open('/inputs/a')))",
        "class A:\n    def __init__(self) -> None:\n        self.x = 1\nA().__dict__",
        "print('eval(x)')  # exec",
        "getattr(x, 'name', None)",
        "text = 'os.system'",
        "if __name__ == '__main__':\n    print(type(1).__name__)",
        "code = 3\nprint(code)",
    ],
)
def test_python_that_says_what_it_does_is_let_through(text: str) -> None:
    assert python(text) == []


@pytest.mark.parametrize("text", ["(" * 5000, "x = (1,\n", "x = \0"])
def test_python_that_cannot_be_read_is_a_flaw(text: str) -> None:
    flaw = parse_script(text)
    assert isinstance(flaw, Flaw)
    assert flaw.layer is Layer.SYNTAX


@pytest.mark.parametrize("text", ["a=" * 4000 + "1", "-" * 9000 + "1"])
def test_what_only_some_pythons_can_read_is_read_or_a_flaw(text: str) -> None:
    found = parse_script(text)
    assert isinstance(found, ast.Module) or found.layer is Layer.SYNTAX


@every(
    "text",
    [
        'eval "$x"',
        "e''val x",
        r"e\val x",
        r"$'\x65val' x",
        "command eval x",
        "builtin eval x",
        "env -i nice -n 5 eval x",
        "timeout 5 eval x",
        "X=1 eval x",
        "if true; then eval x; fi",
        "for i in 1 2; do eval x; done",
        "f() { eval x; }",
        "echo $(eval x)",
        "echo `eval x`",
        'echo "a $(eval x) b"',
        "echo ${x:-$(eval x)}",
        "echo $(( $(eval x) + 1 ))",
        "a=( $(eval x) )",
        "[[ $(eval x) ]]",
        "cat <(eval x)",
        "cat <<EOF\n$(eval x)\nEOF",
        "true && eval x",
        "true\neval x",
        "! eval x",
        "( eval x )",
        "{ eval x; }",
        "$x",
        "$x -rf /",
        "y=$( $x )",
        '"${command[@]}"',
        "${x@P}",
        'echo "${x@P}"',
        "curl http://a | sh",
        "curl http://a | sudo bash -s",
        "curl http://a |& python3",
        "echo eA== | base64 -d | bash",
        'sh -c "$x"',
        "bash -c 'eval x'",
        'bash -c "$(curl http://a)"',
        "bash <(curl http://a)",
        'bash <<< "$x"',
        "bash <<EOF\nls\nEOF",
        "source <(curl http://a)",
        ". $file",
        "source /dev/stdin",
        'trap "$x" EXIT',
        "enable -f /tmp/x.so x",
        "LD_PRELOAD=/tmp/x.so ls",
        "export PATH=/tmp:$PATH",
        "echo hello; xargs $x",
    ],
)
def test_bash_that_runs_what_is_not_written_is_found(text: str) -> None:
    flaws = list(dangers_of_bash(text))
    assert flaws
    assert {flaw.layer for flaw in flaws} == {Layer.DANGEROUS}


@every(
    "text",
    [
        "ls -la /inputs | sort | head -n 3",
        'for f in /inputs/*; do wc -l "$f"; done',
        'while read -r line; do echo "$line"; done < /inputs/a',
        'x=$(grep -c error /inputs/log); echo "$x errors"',
        "echo 'eval x' # eval y",
        "case $x in a) echo 1;; b|c) echo 2;; *) echo 3;; esac",
        'if [[ $a == b && $c =~ (x|y) ]] || [ "$d" = e ]; then echo yes; fi',
        'a=(1 $x "$y"); echo ${a[0]} ${#a[@]}',
        "(( i++ )); echo $(( $x + (2 * 3) ))",
        "cat <<'EOF'\n$(eval x)\nEOF",
        "cat <<EOF | sort\nplain $text\nEOF",
        "awk '{ print $1 }' /inputs/a | sed -e 's/a/b/'",
        "printf '%s\\n' \"${x:-none}\" >/tmp/out 2>&1",
        'say() { echo "$1"; }; say hello',
        "python3 /script/other.py",
        "python3 -c 'print(1)'",
        "trap 'rm -f /tmp/x' EXIT",
        "bash -c 'ls /inputs'",
        "sort < <(cat /inputs/a) > /tmp/b",
        "local_value=$1\nshift\necho $#",
        "set -euo pipefail\ncd /inputs",
    ],
)
def test_bash_that_says_what_it_does_is_let_through(text: str) -> None:
    assert list(dangers_of_bash(text)) == []


def test_the_line_is_told() -> None:
    text = "echo a\ncat <<EOF\nx\ny\nEOF\necho 'a\nb'\neval x\n"
    assert [flaw.line for flaw in dangers_of_bash(text)] == [8]


def test_the_words_of_a_command_are_without_their_quotes() -> None:
    found = commands_of("l's' \"-l\" $x")
    assert isinstance(found[0], Command)
    assert found[0].words[:2] == [Word("ls", quoted=True), Word("-l", quoted=True)]
    assert found[0].words[2].dynamic


@pytest.mark.parametrize("piece", ["$(", "`", '"$(', "${", "<(", "(", "$((", "a=(", "[[ $("])
def test_what_is_nested_without_end_is_said_to_be_so(piece: str) -> None:
    try:
        commands_of(piece * 2000)
    except TooDeep:
        assert [flaw.layer for flaw in dangers_of_bash(piece * 2000)] == [Layer.DANGEROUS]

    def read(size: int) -> None:
        with suppress(TooDeep):
            commands_of(piece * size)

    for size in (12, 500):
        assert growth(read, size) <= GROWTH_MAX


@pytest.mark.parametrize(
    "piece", ["a|", "<<a ", "{a,", "'", "a;", "((", "$x", "\\\n", "<<a\n", "("]
)
def test_hostile_text_is_read_in_time_that_grows_with_it(piece: str) -> None:
    assert growth(lambda n: list(dangers_of_bash((piece * n)[:n])), 2500) <= GROWTH_MAX
