"""What a Sandbox promises, whoever makes the box."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from operator_protocols.domain.action import Outcome
from operator_protocols.domain.category import ErrorCategory, FailureCategory
from operator_sre.executor.sandbox import Language, Limits, Sandbox
from operator_sre.executor.sandbox.box import INPUTS_BYTES_MAX, INPUTS_MAX
from tests.executor.jobs import new_job
from tests.executor.sandbox.boxes import Boxed, bubblewrap, docker, of_plain_user

pytestmark = [pytest.mark.asyncio, pytest.mark.timeout(300)]

BOXES: dict[str, Callable[[Path, pytest.Config], AbstractContextManager[Boxed]]] = {
    "bubblewrap": lambda state, config: bubblewrap(state),
    "bubblewrap of a plain user": lambda state, config: of_plain_user(state),
    "docker": docker,
}
BOTH = pytest.mark.parametrize("language", list(Language))
SAYS = {Language.PYTHON: "print('{}', flush=True)", Language.BASH: "echo '{}'"}


_IN_DOCKER = pytest.param("docker", marks=pytest.mark.system)


@pytest.fixture(params=[*sorted(set(BOXES) - {"docker"}), _IN_DOCKER])
def boxed(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Boxed]:
    with BOXES[request.param](tmp_path, request.config) as made:
        yield made
        assert made.left() == []


async def test_it_has_a_name_and_all_verbs(boxed: Boxed) -> None:
    assert isinstance(boxed.sandbox, Sandbox)
    result = await boxed.run(Language.BASH, "true")
    assert result.data["sandbox"] == boxed.sandbox.name


@BOTH
async def test_what_it_prints_comes_back(boxed: Boxed, language: Language) -> None:
    result = await boxed.run(language, SAYS[language].format("grüße"))
    assert (result.outcome, result.exit_code, result.stdout) == (Outcome.RAN, 0, "grüße\n")
    assert result.category is None


@pytest.mark.parametrize(
    ("language", "text"),
    [
        (Language.PYTHON, "import sys; print('out'); sys.stderr.write('err\\n'); sys.exit(7)"),
        (Language.BASH, "echo out; echo err >&2; exit 7"),
    ],
)
async def test_both_streams_and_the_exit_code_come_back(
    boxed: Boxed, language: Language, text: str
) -> None:
    result = await boxed.run(language, text)
    assert (result.exit_code, result.stdout, result.stderr) == (7, "out\n", "err\n")
    assert not result.ok


@pytest.mark.parametrize(
    ("language", "text"),
    [
        (
            Language.PYTHON,
            "import os\nprint(open('/inputs/a.txt').read(), len(open('/inputs/b', 'rb').read()))\n"
            "for deed in (lambda: open('/inputs/a.txt', 'a'), lambda: os.remove('/inputs/b')):\n"
            "    try:\n        deed()\n        print('changed')\n"
            "    except OSError:\n        print('kept')\n",
        ),
        (
            Language.BASH,
            "echo $(cat /inputs/a.txt) $(wc -c </inputs/b)\n"
            "{ echo x >>/inputs/a.txt; } 2>/dev/null || echo kept\n"
            "rm -f /inputs/b 2>/dev/null || echo kept\n",
        ),
    ],
)
async def test_inputs_are_handed_in_read_only(boxed: Boxed, language: Language, text: str) -> None:
    inputs = {"a.txt": b"hello", "b": bytes(range(256))}
    result = await boxed.run(language, text, inputs=inputs)
    assert result.stdout == "hello 256\nkept\nkept\n", result.stderr


@BOTH
async def test_it_may_write_a_little_of_its_own(boxed: Boxed, language: Language) -> None:
    text = {
        Language.PYTHON: "open('x', 'w').write('y'); print(open('/tmp/x').read())",
        Language.BASH: "echo y > x; cat /tmp/x",
    }[language]
    result = await boxed.run(language, text)
    assert result.stdout == "y\n", result.stderr


@pytest.mark.parametrize(
    ("language", "text"),
    [
        (Language.PYTHON, "import time\nprint('on', flush=True)\nwhile True: time.sleep(9)"),
        (Language.BASH, "trap '' TERM; echo on; while :; do sleep 9; done"),
        # To compute is what the machine of the tests has least of.
        pytest.param(
            *(Language.PYTHON, "print('on', flush=True)\nwhile True: pass"),
            marks=pytest.mark.slow,
        ),
        pytest.param(
            *(Language.BASH, "trap '' TERM; echo on; while :; do :; done"),
            marks=pytest.mark.slow,
        ),
    ],
)
async def test_one_that_takes_too_long_is_ended(
    boxed: Boxed, language: Language, text: str
) -> None:
    result = await boxed.run(language, text, limits=Limits(timeout_s=2))
    assert (result.outcome, result.timed_out, result.exit_code) == (Outcome.TIMED_OUT, True, 124)
    assert result.category is FailureCategory.TIMEOUT
    assert result.stdout == "on\n"


async def test_much_output_is_cut_and_marked(boxed: Boxed) -> None:
    lines = "for number in range(300_000): print('line', number)"
    text = f"print('the beginning')\n{lines}\nprint('the very end')"
    result = await boxed.run(Language.PYTHON, text)
    assert result.truncated
    assert len(result.stdout) < 1_000_000
    assert result.stdout.startswith("the beginning\nline 0\n")
    assert result.stdout.endswith("\nline 299999\nthe very end\n")


async def test_bytes_that_are_no_text_do_no_harm(boxed: Boxed) -> None:
    result = await boxed.run(Language.BASH, r"printf 'a\377\376\000b'")
    assert result.stdout.startswith("a")
    assert result.stdout.endswith("b")


async def test_nothing_of_our_environment_is_inside(
    boxed: Boxed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPERATOR_TEST_SECRET", "swordfish")
    result = await boxed.run(Language.BASH, "export -p; cat /proc/[0-9]*/environ | tr '\\0' ' '")
    assert "PATH" in result.stdout
    assert "swordfish" not in result.stdout


@BOTH
async def test_it_runs_as_nobody_without_any_capability(boxed: Boxed, language: Language) -> None:
    text = {
        Language.PYTHON: "import os\nprint(os.getuid(), os.getgid())\n"
        "print([l for l in open('/proc/self/status') if 'CapEff' in l or 'NoNewPrivs' in l])",
        Language.BASH: "echo $UID ${GROUPS[0]}; grep -e CapEff -e NoNewPrivs /proc/self/status",
    }[language]
    result = await boxed.run(language, text)
    assert result.stdout.startswith("65534 65534\n")
    assert "CapEff:\t0000000000000000" in result.stdout.replace("\\t", "\t")
    assert "NoNewPrivs:\t1" in result.stdout.replace("\\t", "\t")


@pytest.mark.parametrize(
    ("language", "text"),
    [
        (Language.PYTHON, "import socket\nsocket.create_connection(('192.0.2.1', 80), 5)"),
        (Language.BASH, "exec 9<>/dev/tcp/192.0.2.1/80"),
    ],
)
async def test_the_network_is_not_there_and_that_is_told(
    boxed: Boxed, language: Language, text: str
) -> None:
    result = await boxed.run(language, text)
    assert not result.ok
    assert result.category is FailureCategory.NETWORK, result
    assert result.data["error_category"] == ErrorCategory.NETWORK_SANDBOX_FAILED


@pytest.mark.parametrize(
    "inputs",
    [
        {"../x": b""},
        {"a/b": b""},
        {".hidden": b""},
        {"": b""},
        {"a\nb": b""},
        {str(number): b"" for number in range(INPUTS_MAX + 1)},
        {"big": bytes(INPUTS_BYTES_MAX + 1)},
    ],
    ids=lambda inputs: next(iter(inputs))[:9],
)
async def test_wrong_inputs_are_refused_before_anything_runs(
    boxed: Boxed, inputs: dict[str, bytes]
) -> None:
    result = await boxed.run(Language.BASH, "echo ran", inputs=inputs)
    assert (result.outcome, result.stdout) == (Outcome.REFUSED, "")
    assert "was not run" in result.stderr


async def test_of_a_job_that_nobody_began_nothing_is_known(boxed: Boxed) -> None:
    result = await boxed.sandbox.recover(new_job())
    assert result.outcome in (Outcome.UNKNOWN, Outcome.CANCELLED)
