"""Command lines with placeholders."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from operator_protocols.domain.action import Action
from operator_protocols.errors import UsageError
from operator_sre.ledger.history.templates import (
    Template,
    action_of,
    fill,
    fits,
    kind_of,
    placeholders_of,
    quotes_a_placeholder,
    template_of,
)
from tests.every import every
from tests.ledger.history.attempts import attempt, attempts
from tests.measuring import GROWTH_MAX, growth


@every(
    ("word", "kind"),
    [
        ("4711", "number"),
        ("1.5", "number"),
        ("10s", "number"),
        ("512Mi", "number"),
        ("80%", "number"),
        ("/var/log", "path"),
        ("./x", "path"),
        ("~/x.txt", "path"),
        ("src/main.py", "path"),
        ("10.0.0.1", "host"),
        ("10.0.0.1:8080", "host"),
        ("root@10.0.0.1", "host"),
        ("localhost:8080", "host"),
        ("::1", "host"),
        ("fe80::1", "host"),
        ("db.example.com", "host"),
        ("ada@example.com", "host"),
        ("https://x.example/y", "url"),
        ("deadbeef01", "id"),
        ("3f2504e0-4f89-11d3-9a0c-0305e82c3301", "id"),
        ("node-1", "id"),
        ("web-7f9c", "id"),
        ("--token=[REDACTED:token:ab12]", "secret"),
        ("nginx", ""),
        ("nginx.service", ""),
        ("-9", ""),
        ("--force", ""),
        ("restart", ""),
        ("kube-system", ""),
        ("", ""),
        ("x" * 5000, ""),
    ],
)
def test_what_varies_is_known_by_its_look(word: str, kind: str) -> None:
    assert kind_of(word) == kind


@pytest.mark.parametrize(
    ("piece", "end"), [("a-", ""), (":", ""), ("a.", ""), ("1", "x"), ("-", "")]
)
def test_no_word_takes_longer_than_it_is_long(piece: str, end: str) -> None:
    assert growth(lambda n: kind_of((piece * n)[:n] + end), 60) <= GROWTH_MAX


@every(
    ("command", "line"),
    [
        ("kill -9 4711", "kill -9 {pid}"),
        ("ps -o args= -p 30994", "ps -o args= -p {pid}"),
        ("sleep 5", "sleep {number}"),
        ("tail -n 20 /var/log/app.log", "tail -n {number} {path}"),
        ("cp /a /b", "cp {path} {path2}"),
        ("cp /a /a", "cp {path} {path}"),
        ("ssh root@10.0.0.1 uptime", "ssh {host} uptime"),
        ("curl http://x/y", "curl {url}"),
        ("docker restart 3f2504e04f89", "docker restart {id}"),
        ("dd if=/dev/zero of=/tmp/x bs=1M", "dd if={if} of={of} bs={bs}"),
        ("systemctl restart nginx", "systemctl restart nginx"),
        ("/usr/bin/systemctl  restart   nginx", "/usr/bin/systemctl restart nginx"),
        ("echo '/not this 1'", "echo '/not this 1'"),
        ("cat /a | grep 5 && /bin/true", "cat {path} | grep {number} && /bin/true"),
        ("kubectl -n prod delete pod web-7f9c", "kubectl -n prod delete pod {id}"),
        ("head -c10 /x;kill 7", "head -c10 {path};kill {pid}"),
    ],
)
def test_a_command_becomes_a_template(command: str, line: str) -> None:
    assert template_of([attempt(command)]).lines == (line,)


def test_a_tool_call_varies_in_its_arguments() -> None:
    one = attempt("restart_node(force=True, target=node-1)", tool="restart_node")
    template = template_of([one])
    assert template == Template(
        ("restart_node(force={force}, target={target})",), {"force": "True", "target": "node-1"}
    )
    assert template_of([attempt("odd call", tool="x")]).lines == ("odd call",)


def test_equal_values_share_a_placeholder_over_a_sequence() -> None:
    template = template_of(attempts("ls /a", "rm /b", "touch /a"))
    assert template.lines == ("ls {path}", "rm {path2}", "touch {path}")
    assert template.values == {"path": "/a", "path2": "/b"}


@given(
    st.text(max_size=80) | st.lists(st.sampled_from(["/a", "1", "x=2", "'", "kill"])).map(" ".join)
)
def test_a_template_with_its_values_is_the_command(command: str) -> None:
    assume(not placeholders_of([command]))
    template = template_of([attempt(command)])
    (line,) = template.lines
    for name, value in template.values.items():
        line = line.replace(f"{{{name}}}", value)
    assert line.split() == command.split() or "'" in command or '"' in command


def test_filling_in_gives_the_command_back() -> None:
    template = template_of([attempt("tail -n 20 /var/log/app.log")])
    assert fill(template.lines, template.values) == ("tail -n 20 /var/log/app.log",)


@given(st.text(alphabet=st.characters(categories=["L", "N", "P", "S"]), min_size=1))
def test_a_value_stays_one_word(value: str) -> None:
    (line,) = fill(["cat {path} end"], {"path": value})
    assert shlex.split(line) == ["cat", value, "end"]


def test_a_value_cannot_become_a_command() -> None:
    (line,) = fill(["mkdir {name}"], {"name": "zz; touch X"})
    assert line == "mkdir 'zz; touch X'"


@pytest.mark.parametrize(
    ("lines", "values", "says"),
    [
        (["ls {path}"], {}, "path=..."),
        (["ls {path} {path2}"], {"path": "/"}, "path2=..."),
        (["ls {path}"], {"path": "/", "x": "1"}, "no placeholder 'x'"),
        (["ls"], {"x": "1"}, "Placeholders: none"),
        (["ls {path}"], {"path": ""}, "empty"),
        (["ls {path}"], {"path": "a\nb"}, "not plain text"),
        (["ls {path}"], {"path": "x" * 1001}, "too long"),
        (["stop(target={target})"], {"target": "a, b=c"}, "not allowed in a tool call"),
    ],
)
def test_what_cannot_be_filled_in_is_said(
    lines: list[str], values: dict[str, str], says: str
) -> None:
    with pytest.raises(UsageError) as caught:
        fill(lines, values)
    assert says in str(caught.value)


def test_placeholders_are_in_order_and_not_the_shells() -> None:
    lines = ["a {x} {y} ${z} {{go}} {A} {x}", "b {w}"]
    assert placeholders_of(lines) == ("x", "y", "w")


@pytest.mark.parametrize(
    ("line", "quoted"),
    [
        ("echo {x}", False),
        ("echo '{x}'", True),
        ('echo "a {x}"', True),
        ("echo 'a' {x} 'b'", False),
        ('echo "a\\" {x} \\"b"', True),
        ('echo "unclosed {x}', True),
        ("echo 'fine'", False),
        ('echo "unclosed', False),
    ],
)
def test_a_placeholder_inside_quotes_is_seen(line: str, quoted: bool) -> None:
    assert quotes_a_placeholder(line) is quoted


def test_a_line_is_an_action() -> None:
    assert action_of("df -h") == Action.shell("df -h")
    call = action_of("restart_node(force=True, target=node-1)")
    expected = {"force": "True", "target": "node-1"}
    assert call == Action("restart_node", expected, target="node-1")
    assert action_of("stop()") == Action("stop", {})


@pytest.mark.parametrize(
    ("template", "line", "yes"),
    [
        ("systemctl restart {service}", "systemctl restart nginx", True),
        ("systemctl restart {service}", "systemctl stop nginx", False),
        ("systemctl restart {service}", "systemctl restart", False),
        ("systemctl restart {service}", "systemctl restart a b", False),
        ("cp {from} {to}.bak", "cp a a.bak", True),
        ("cp {from} {to}.bak", "cp a .bak", False),
        ("x {a}-{b}", "x 1-2", True),
        ("x {a}-{b}", "x 12", False),
        ("x {a}-{b}", "x -2", False),
        ("ls", "ls", True),
        ("ls", "ls -l", False),
    ],
)
def test_a_line_fits_a_template_or_not(template: str, line: str, yes: bool) -> None:
    assert fits(template, line) is yes
