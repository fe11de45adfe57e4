"""Everyday programs of jq only read; those that show the environment or other files do not."""

from __future__ import annotations

from operator_protocols.domain.action import Action
from operator_protocols.domain.verdict import Level
from operator_sre.gate import Policy, judge
from tests.every import every

FILTERS = (
    *(
        ".",
        "keys",
        "length",
        ".items | length",
        ".[]",
        ".[2:4]",
        ".[-1]",
        'has("error")',
        "tostream",
    ),
    *(".items[].metadata.name", ".[] | {name, status}", '.a // "none"', ".. | .image? // empty"),
    *(
        'map(select(.status == "Running"))',
        "sort_by(.time) | reverse | .[0:5]",
        "max_by(.cpu).name",
    ),
    *(
        "[.[] | .latency] | add / length",
        "unique_by(.host)",
        "any(.[]; .ready == false)",
        "all(.ready)",
    ),
    *(
        "group_by(.level) | map({level: .[0].level, count: length})",
        "with_entries(select(.value > 3))",
    ),
    *(
        "del(.metadata.managedFields)",
        'paths | map(tostring) | join(".")',
        "flatten | unique | length",
    ),
    *(".[] | [.id, .name] | @csv", ".[] | [.id, .name] | @tsv", ".[] | @json", '@uri "?q=\\(.q)"'),
    *('@sh "echo \\(.name)"', 'to_entries | map("\\(.key)=\\(.value)")', 'test("error"; "i")'),
    *('select(.level=="error") | .msg', '.[] | select(.host | startswith("web"))', "limit(5; .[])"),
    *("now - .started | floor", ".created | fromdateiso8601", ".ts | todate", "map(.a |= . + 1)"),
    *("first(.[] | select(.ok | not))", "reduce .[] as $x (0; . + $x.n)", 'try .a catch "bad"'),
    *('if .ready then "up" else "down" end', "foreach .[] as $x (0; . + $x)", 'getpath(["a"])'),
    *(
        '.[] as {id: $i, name: $n} | "\\($i) \\($n)"',
        "def f(x): x * 2; map(f(.n))",
        "[range(0; 10)]",
    ),
    *('walk(if type == "object" then del(.id) else . end)', 'splits(", *")', "input_filename"),
    *(
        ".bytes / 1024 / 1024 | round",
        'strptime("%Y-%m-%d") | mktime',
        "input_line_number",
        "input",
    ),
    *("label $out | .[] | if . > 3 then break $out else . end", "contains({a: 1})", "indices(1)"),
    *('"\\(input_filename): \\(length)"', 'ltrimstr("web-") | ascii_downcase', 'getpath(["env"])'),
)
OPTIONS = (
    "",
    "-r ",
    "-c ",
    "-s ",
    "-e ",
    "-S ",
    "--tab ",
    "-n --arg a b ",
    "--argjson n 5 ",
    "-R ",
)
SHOWING = (
    *(
        "env",
        "$ENV",
        "$ENV.PATH",
        "env.HOME",
        '"\\(env)"',
        "input_filename, env",
        "ltrimstr(env.A)",
    ),
    *("map($ENV)", "[env | keys[]]", "def f: env; f", "try env catch .", ". as $x | $ENV | $x"),
    *('import "a" as a; .', 'include "x"; .', "modulemeta", "get_search_list", "$__prog_args"),
)
LINES = (
    "jq --rawfile a /etc/shadow -n '$a'",
    "jq --slurpfile a /home/web/.ssh/id_rsa . x.json",
    "jq --rawfile a ../../etc/shadow . x.json",
    "jq -n input /etc/shadow",
    "jq -n '[inputs]' /home/web/.aws/credentials",
    "jq -R . /etc/shadow",
    "jq . /etc/sha*",
    "jq -f prog.jq x.json",
    "jq --from-file prog.jq x.json",
    "jq -L /tmp . x.json",
    'jq --arg a "$SECRET" . x.json',
    "jq . < /etc/shadow",
    "cat /etc/shadow | jq -R .",
)


def _level(line: str) -> Level:
    return judge(Action.shell(line), Policy()).level


@every("program", FILTERS)
def test_everyday_programs_are_safe(program: str) -> None:
    unsafe = [one for one in OPTIONS if _level(f"jq {one}'{program}' x.json") is not Level.SAFE]
    assert not unsafe


@every("program", SHOWING)
def test_programs_that_show_the_environment_or_load_code_are_not(program: str) -> None:
    safe = [one for one in OPTIONS if _level(f"jq {one}'{program}' x.json") is Level.SAFE]
    assert not safe


@every("line", LINES)
def test_files_that_hold_secrets_are_not_read_by_any_option(line: str) -> None:
    assert _level(line) is not Level.SAFE
