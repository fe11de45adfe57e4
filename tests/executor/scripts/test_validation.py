"""Each layer says in its own name what is wrong, and the next one looks only at what passed."""

from __future__ import annotations

from pathlib import Path

import pytest

from operator_sre.executor.jobs import Spool
from operator_sre.executor.programs import Programs
from operator_sre.executor.sandbox import Language
from operator_sre.executor.scripts import SIZE_CHARS_MAX, Flaw, Layer, Validation
from operator_sre.executor.scripts.validation import secrets_in
from tests.executor.jobs import new_job


@pytest.fixture
def programs(tmp_path: Path) -> Programs:
    return Programs(Spool(tmp_path / "spool"))


@pytest.mark.parametrize(
    ("language", "text", "layer"),
    [
        ("python", "x" * (SIZE_CHARS_MAX + 1), Layer.SIZE),
        ("bash", "#" * (SIZE_CHARS_MAX + 1), Layer.SIZE),
        ("bash", "  \n", Layer.SIZE),
        ("python", "print('a\x00b')", Layer.SYNTAX),
        ("python", "def f(:\n  pass", Layer.SYNTAX),
        ("bash", "if true; then echo", Layer.SYNTAX),
        ("bash", "echo 'a", Layer.SYNTAX),
        ("python", "password = 'hunter2hunter2'", Layer.SECRETS),
        ("bash", "export API_KEY='0123456789abcdef'", Layer.SECRETS),
        ("python", "eval('1')", Layer.DANGEROUS),
        ("bash", 'eval "$x"', Layer.DANGEROUS),
        # The first layer that finds something is the last that looks.
        ("python", "password = 'hunter2hunter2'\neval('1')", Layer.SECRETS),
        ("python", "password = 'hunter2hunter2'\neval('1'", Layer.SYNTAX),
    ],
)
@pytest.mark.asyncio
async def test_a_flaw_names_its_layer(
    programs: Programs, language: str, text: str, layer: Layer
) -> None:
    flaws = await Validation(programs).check(Language(language), text, new_job())
    assert {flaw.layer for flaw in flaws} == {layer}
    assert str(flaws[0]).startswith(f"{layer}: ")
    assert "hunter2" not in str(flaws)


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("python", "x" * SIZE_CHARS_MAX),
        ("python", "import json\nprint(json.load(open('/inputs/a')))\n"),
        ("bash", 'for f in /inputs/*; do wc -l "$f"; done\n'),
        ("bash", "password=$(cat /inputs/secret)\n"),
        ("python", "token = os.environ['TOKEN']\n"),
    ],
)
@pytest.mark.asyncio
async def test_what_has_no_flaw_passes(programs: Programs, language: str, text: str) -> None:
    assert await Validation(programs).check(Language(language), text, new_job()) == ()


@pytest.mark.asyncio
async def test_bash_is_read_and_not_run(programs: Programs, tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    assert await Validation(programs).check(Language.BASH, f"touch {mark}", new_job()) == ()
    assert not mark.exists()


@pytest.mark.asyncio
async def test_the_line_of_an_error_is_told(programs: Programs) -> None:
    validation = Validation(programs)
    for language, text in ((Language.BASH, "echo a\nfi\n"), (Language.PYTHON, "a = 1\nb = =\n")):
        (flaw,) = await validation.check(language, text, new_job())
        assert (flaw.layer, flaw.line) == (Layer.SYNTAX, 2)


@pytest.mark.asyncio
async def test_others_who_know_more_may_find_more(programs: Programs) -> None:
    validation = Validation(
        programs,
        secrets=lambda text: [Flaw(Layer.SECRETS, "found")] if "swordfish" in text else [],
        dangers=lambda language, text: [Flaw(Layer.DANGEROUS, "no")] if "rm" in text else [],
    )
    for text, layer in (("echo swordfish", Layer.SECRETS), ("rm -rf /", Layer.DANGEROUS)):
        flaws = await validation.check(Language.BASH, text, new_job())
        assert [flaw.layer for flaw in flaws] == [layer]


@pytest.mark.parametrize(
    "text",
    [
        "api_key = 'abcdef0123456789'",
        'PASSWORD="hunter2hunter2"',
        "config = {'db_password': 'hunter2hunter2'}",
        'auth_token: "abcdef0123456789"',
        "key = 'AKIA" + "IOSFODNN7EXAMPLE'",
        "-----BEGIN RSA " + "PRIVATE KEY-----",
        "url = 'postgres://me:hunter2@db/x'",
        "curl -H 'Authorization: Bearer abcdef0123456789abcdef' x",
        "t = 'gh" + "p_" + "a" * 36 + "'",
        "client_secret=b'abcdef0123456789'",
    ],
)
def test_secrets_that_are_written_out_are_found(text: str) -> None:
    flaws = list(secrets_in(f"first\n{text}\n"))
    assert flaws
    assert flaws[0].line == 2


@pytest.mark.parametrize(
    "text",
    [
        "password = input()",
        "token = os.environ['TOKEN']",
        'password="$PASSWORD"',
        "secret = ''",
        "tokens = text.split()",
        "print('the password is wrong')",
        "url = 'http://127.0.0.1:8080/a'",
        "keys = sorted(table)",
    ],
)
def test_what_stands_for_a_secret_is_none(text: str) -> None:
    assert list(secrets_in(text)) == []
