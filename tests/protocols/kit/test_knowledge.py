"""What a subject knows, read from its two files; every mistake names the table that has it."""

from pathlib import Path

import pytest

from operator_protocols.domain.tool import ParameterType, ToolSource
from operator_protocols.domain.verdict import Risk
from operator_protocols.errors import ConfigError
from operator_protocols.kit.knowledge import CAUSES_FILE, TOOLS_FILE, Knowledge, read_knowledge

TOOLS = """
notes = "Be careful."

[parameters.target]
sentence = "the server"
infers = "target"

[parameters.amount]
name = "keep"
sentence = "how many stay"
type = "integer"
required = false
default = 3
minimum = 1

[tools.trim]
sentence = "Remove old entries."
parameters = ["target", "amount"]
risk = "medium"
undo = "grow"
ends = ["too_many"]
"""
CAUSES = """
[predictions.runs]
process = { alive = 0.9, dead = 0.1 }
port = { answers = 1.0 }

[predictions.silent]
like = "runs"
port = { silent = 1.0 }

[remedies.trim]
sentence = "remove old entries"
trade_off = "they are gone"
arguments = { keep = 3 }

[remedies.look]
tool = "execute_script"
sentence = "run a script"
trade_off = "it takes a while"
reversible = true
script = "look.py"

[causes.too_many]
sentence = "it holds too much"
prior = 0.3
predicts = "silent"
kinds = ["server"]
breaks = ["room"]
shows = { full = true }
remedies = ["trim", "look"]

[causes.other_too_many]
name = "too_many"
sentence = "it holds too much as well"
prior = 0.2
kinds = ["client"]

[truths]
fill = ["too_many@hit"]
"""


def _read(folder: Path, tools: str = TOOLS, causes: str = CAUSES) -> Knowledge:
    (folder / TOOLS_FILE).write_text(tools, encoding="utf-8")
    (folder / CAUSES_FILE).write_text(causes, encoding="utf-8")
    (folder / "look.py").write_text("print(1)\n", encoding="utf-8")
    return read_knowledge(folder)


def test_both_files_become_one_knowledge(tmp_path: Path) -> None:
    known = _read(tmp_path)
    assert known.notes == "Be careful."
    assert known.truths == {"fill": ("too_many@hit",)}
    tool = known.tools["trim"]
    assert (tool.risk, tool.changes, tool.reversible) == (Risk.MEDIUM, True, True)
    assert (tool.source, tool.ends) == (ToolSource.SUBJECT, ("too_many",))
    keep = tool.parameter("keep")
    assert keep is not None
    assert (keep.type, keep.required, keep.default) == (ParameterType.INTEGER, False, 3)
    first, second = known.causes
    assert (first.name, second.name) == ("too_many", "too_many")
    assert (first.kinds, second.kinds) == (("server",), ("client",))
    assert first.predicts["process"] == {"alive": 0.9, "dead": 0.1}
    assert first.predicts["port"] == {"silent": 1.0}


def test_a_remedy_has_the_risk_of_its_tool_and_the_text_of_its_script(tmp_path: Path) -> None:
    trim, look = _read(tmp_path).causes[0].remedies
    assert (trim.tool, trim.risk, trim.reversible) == ("trim", Risk.MEDIUM, True)
    assert trim.arguments == {"keep": 3}
    assert (look.tool, look.risk, look.reversible) == ("execute_script", Risk.CRITICAL, True)
    assert look.arguments == {"text": "print(1)\n"}


@pytest.mark.parametrize(
    ("file", "old", "new", "problem"),
    [
        ("tools", 'risk = "medium"', 'risk = "none"', "tools.trim.*'none'.*not one of low"),
        ("tools", 'risk = "medium"', "", r"tools\.trim.* lacks 'risk'"),
        ("tools", 'undo = "grow"', 'undoes = "grow"', r"tools\.trim.* no key 'undoes'"),
        ("tools", 'undo = "grow"', "undo = 3", r"tools\.trim.* wrong type"),
        ("tools", '"amount"]', '"size"]', r"tools\.trim.* names 'size'"),
        ("tools", '"target", "amount"', '"target"', r"parameters\.amount.* used by nothing"),
        ("tools", "notes =", "note =", "no section 'note'"),
        ("causes", 'predicts = "silent"', 'predicts = "quiet"', r"causes\.too_many.* 'quiet'"),
        ("causes", '"look"]', '"see"]', r"causes\.too_many.* names 'see'"),
        ("causes", 'like = "runs"', 'like = "silent"', r"predictions\.silent.* not defined above"),
        ("causes", "prior = 0.3", "prior = true", r"causes\.too_many.* wrong type"),
        ("causes", "look.py", "gone.py", r"remedies\.look.* cannot be read"),
        ("causes", "[truths]", "[truths", "cannot be read"),
    ],
)
def test_a_mistake_is_told_with_its_table(
    tmp_path: Path, file: str, old: str, new: str, problem: str
) -> None:
    texts = {"tools": TOOLS, "causes": CAUSES}
    assert old in texts[file]
    texts[file] = texts[file].replace(old, new, 1)
    with pytest.raises(ConfigError, match=problem):
        _read(tmp_path, **texts)
