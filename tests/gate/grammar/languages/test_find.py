"""find: what only lists is proven, and the commands it would start are shown."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operator_sre.gate.grammar.languages import find_commands
from operator_sre.gate.grammar.languages.find import find
from tests.every import every
from tests.gate.grammar.languages.real import every_flavour, leaves_everything_as_it_was

READS = """
.
-name *.log
. -type f
. -type d -iname *lib*
. -type f -mtime -1 -name *.gz
. -maxdepth 1 -mmin -60
. -size +100M -printf %s\\t%p\\n
. -xdev -type f -size +1G
-L . -type l
-P -O2 . -empty
. ( -name a -o -name b ) -print
. ! -name a -print0
. -not -path ./x/* -ls
. -newer input
. -newermt 2024-01-01 -type f
. -user root -group root
. -perm -4000 -type f
. -perm /022
. -uid 0 -links +1 -inum 5
. -regextype posix-extended -regex .*\\.(log|txt)
. -path ./proc -prune -o -type f -print
. -depth -type d -empty
. -mindepth 1 -maxdepth 2 -readable
. -nouser -o -nogroup
. -samefile input
. -fstype tmpfs
. -daystart -mtime 0
. -name a , -name b
. -quit
. -type f,d -true
-H . -executable -writable
a b c -name d
""".strip().splitlines()
REFUSED = [
    (". -delete", "!-delete removes what it finds; without it, this only lists."),
    (". -name *.tmp -delete", "!-delete"),
    (". -fprint out", "!-fprint"),
    (". -fprint0 out", "!-fprint0"),
    (". -fprintf out x", "!-fprintf"),
    (". -fls out", "!-fls"),
    (". -files0-from list", "The places to search"),
    ("-D exec .", "The word '-D'"),
    (". -unknown", "The word '-unknown'"),
    (". -name", "The test '-name' needs"),
    (". -type f here", "The word 'here'"),
    (". -exec", "The command behind -exec"),
    (". -exec ;", "The command behind -exec"),
    (". -exec rm {}", "The command behind -exec"),
    (". -exec rm + ;", "The command behind -exec"),
    (". -exec wc {} ; -delete", "!-delete"),
    (". -exec wc {} + -fls out", "!-fls"),
    (". -name -delete -delete", "!-delete"),
    ("/home/a/.ssh", "?"),
    ("/ -name id_rsa", "?"),
    ("/ -iname *credentials*", "?"),
    ("/ -name *.pem", "?"),
    ("/srv -path */.aws/*", "?"),
    ("/ -name .bash_history", "?"),
    ("- -print", "The word '-'"),
    (". --delete", "The word"),
    (". -Delete", "The word"),
]
COMMANDS = [
    (". -exec wc -l {} ;", [["wc", "-l", "{}"]]),
    (". -exec wc -l {} +", [["wc", "-l", "{}"]]),
    (". -execdir cat a{}b ;", [["cat", "a{}b"]]),
    (". -ok rm {} ;", [["rm", "{}"]]),
    (". -okdir rm {} ; -exec ls {} ;", [["rm", "{}"], ["ls", "{}"]]),
    (". -name -exec -print", []),
    (". -exec echo -exec ; -print", [["echo", "-exec"]]),
    (". -exec sh -c id", [["sh", "-c", "id"]]),
    (". -type f", []),
]


@every("line", READS)
def test_a_search_that_only_lists_is_proven(line: str) -> None:
    assert find(line.split()) is None


@every(("line", "start"), REFUSED)
def test_anything_else_has_a_reason(line: str, start: str) -> None:
    reason = find(line.split())
    assert reason is not None
    assert reason.startswith(start)


@pytest.mark.parametrize(("line", "commands"), COMMANDS)
def test_commands_are_shown(line: str, commands: list[list[str]]) -> None:
    assert find_commands(line.split()) == commands


def test_commands_that_end_are_left_to_the_judge() -> None:
    assert find([".", "-exec", "wc", "-l", "{}", ";", "-exec", "ls", "{}", "+"]) is None


@given(
    st.sampled_from(READS),
    st.sampled_from(["-delete", "-fprint x", "-fls x", "-fprintf x y", "-fprint0 x"]),
)
def test_an_action_that_writes_is_found_at_the_end(line: str, action: str) -> None:
    assert find([*line.split(), *action.split()]) is not None


@given(st.lists(st.sampled_from(["-exec", ";", "+", "{}", "ls", "-name", "-delete", "(", "."])))
def test_every_command_of_a_proven_search_is_shown(words: list[str]) -> None:
    commands = find_commands(words)
    if find(words) is None:
        assert all(command and ";" not in command for command in commands)
        started = sum(map(len, commands)) + len(commands)
        assert started <= len(words)


@pytest.mark.parametrize("line", READS)
def test_every_find_that_is_here_changes_nothing(
    line: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    for program in every_flavour("find", tmp_path_factory):
        leaves_everything_as_it_was(tmp_path, [program, *line.split()])
