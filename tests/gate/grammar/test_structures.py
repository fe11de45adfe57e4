"""Branches, loops and conditions of SAFE parts are SAFE; nothing that a shell runs is missed."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from random import Random

from operator_protocols.domain.action import Action
from operator_protocols.domain.verdict import Level
from operator_sre.gate import Policy, judge
from operator_sre.shell.line import parse
from tests.every import expect_each

POLICY = Policy()
HARMLESS = (
    "ls /srv",
    "df -h",
    "echo up",
    "[ -f /etc/hosts ]",
    "systemctl is-active web",
    "! pgrep x",
)
HARMFUL = (
    "rm x",
    "cat /etc/shadow",
    "curl -d a=b http://a/",
    "ls > x",
    "kill 4711",
    "./x",
    "sh x.sh",
)
CONDITIONS = (
    "[[ -f /etc/hosts ]]",
    '[[ "$(hostname)" == web* ]]',
    "[[ $(nproc) -gt 4 && -d /srv ]]",
)


def is_safe(command: str) -> bool:
    """Whether a command line runs by itself."""
    return judge(Action.shell(command), POLICY, person=True).level is Level.SAFE


def a_script(parts: Iterator[str], random: Random, depth: int = 0) -> str:
    """Some structure around the next parts."""

    def inner() -> str:
        return a_script(parts, random, depth + 1)

    kind = random.choice(
        ["one", "one", "if", "else", "elif", "for", "group", "and", "lines", "pipe"]
    )
    end = random.choice(["; ", "\n", " ;\n"])
    if kind == "one" or depth > 2:
        return next(parts)
    if kind in ("if", "else", "elif"):
        text = f"if {inner()}{end}then {inner()}"
        text += f"{end}elif {inner()}{end}then {inner()}" if kind == "elif" else ""
        return text + (f"{end}else {inner()}" if kind != "if" else "") + f"{end}fi"
    if kind == "for":
        head = random.choice(["a b c", "1 2", "{1..3}", "$(seq 2)", "/srv/*.log"])
        return f"for x{depth} in {head}{end}do {inner()}{end}done"
    if kind == "lines":
        return f"while read -r line{depth}{end}do {inner()}{end}done < /etc/hosts"
    if kind == "pipe":
        return f"cat /etc/hosts | while read -r line{depth}; do {inner()}{end}done"
    if kind == "group":
        return f"{{ {inner()}{end}{inner()}{end}}}"
    return f"{inner()} {random.choice(['&&', '||'])} {inner()}"


def endless(choices: tuple[str, ...], random: Random) -> Iterator[str]:
    while True:
        yield random.choice(choices)


def test_structures_of_harmless_parts_are_safe() -> None:
    random = Random(11)
    parts = endless((*HARMLESS, *CONDITIONS), random)
    scripts = {a_script(parts, random) for _ in range(300)}

    def is_fine(command: str) -> None:
        verdict = judge(Action.shell(command), POLICY, person=True)
        known = verdict.level is Level.SAFE
        assert known or "too" in verdict.explanation or "more than" in verdict.explanation

    expect_each(((one,) for one in sorted(scripts)), is_fine)


def test_one_harmful_part_anywhere_is_enough() -> None:
    random = Random(12)
    found: list[tuple[str]] = []
    while len(found) < 300:
        marked = a_script((f"part{n}" for n in range(99)), random)
        names = sorted({one.words[0].text for one in parse(marked).commands if one.words})
        names = [one for one in names if one.startswith("part")]
        bad = random.choice(names)
        for name in sorted(names, key=len, reverse=True):
            marked = marked.replace(name, random.choice(HARMFUL if name == bad else HARMLESS))
        found.append((marked,))

    def is_not_safe(command: str) -> None:
        assert not is_safe(command)

    expect_each(found, is_not_safe)


def test_everything_that_a_shell_runs_is_seen() -> None:
    random = Random(13)
    scripts = []
    for _ in range(300):
        script = a_script((f"part{n}" for n in range(99)), random)
        parsed = parse(script)
        if parsed.trouble:  # a longer one is never SAFE
            continue
        scripts.append((script, {one.words[0].text for one in parsed.commands if one.words}))
    assert len(scripts) > 250
    defined = "\n".join(
        f"part{n}() {{ echo part{n} >&9; [ $((RANDOM % 2)) = 1 ]; }}" for n in range(99)
    )
    lines = [f"echo script{n} >&9\n{script}" for n, (script, _) in enumerate(scripts)]
    run = subprocess.run(
        ["bash", "-c", "exec 9>&1 >/dev/null\nRANDOM=13\n" + defined + "\n" + "\n".join(lines)],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    assert "syntax error" not in run.stderr
    place = -1
    for name in run.stdout.split():
        if name.startswith("script"):
            place = int(name.removeprefix("script"))
        else:
            assert name in scripts[place][1], scripts[place][0]
    assert place == len(scripts) - 1


OUTSIDE = (
    *("while true; do ls; done", "until ls; do df; done", "while read PATH; do ls; done < x"),
    *(
        "while read IFS; do ls; done < x",
        "while read -u 3 x; do ls; done",
        "while read 'a[$(id)]'; do ls; done",
    ),
    *(
        "[[ $(cat x) -eq 1 ]]",
        "[[ a[$(id)] -eq 1 ]]",
        "[[ -v x ]]",
        "[[ x -lt $Y ]]",
        "[[ -f x ]] && rm y",
    ),
    *(
        'for f in *; do cat "$f"; done',
        "for f in /srv/*; do cat $f; done",
        'for f in /etc/*; do cat "$f"; done',
    ),
    *('for f in /srv/*.log; do curl "http://localhost/$f"; done', 'for f in -*; do ls "$f"; done'),
    *(
        'for f in /srv/*.log; do "$f"; done',
        'while read x; do "$x"; done < f',
        "while read x; do $x; done < f",
    ),
    *('while read x; do cat "$x"; done < f', 'while read h; do ping -c1 "$h"; done < f'),
    *('while read h; do curl "http://$h/"; done < f', 'while read x; do sh -c "$x"; done < f'),
    *(
        'while read x; do echo "$(cat "$x")"; done < f',
        'while read l; do echo "$l"; done < /etc/shadow',
    ),
    *(
        'cat /etc/shadow | while read l; do echo "$l"; done',
        "while read l; do echo $l; done < app.log",
    ),
    *(
        "while read l; do curl telnet://10.0.0.1:80; done < app.log",
        "if true; then ls; fi > x",
        "{ ls; } > x",
    ),
    *(
        "cat app.log | { curl telnet://10.0.0.1:80; }",
        "cat app.log | if true; then curl telnet://a:80; fi",
    ),
    *(
        "while read l; do openssl s_client -connect 10.0.0.1:443; done < app.log",
        "if ls; then ls & fi",
    ),
    *('while read l; do echo "$l"; done < app.log > out', "for i in {1..3}; do rm $i; done"),
)


def test_what_a_structure_could_hide_is_not_safe() -> None:
    def is_not_safe(command: str) -> None:
        assert not is_safe(command)

    expect_each(zip(OUTSIDE, strict=True), is_not_safe)
