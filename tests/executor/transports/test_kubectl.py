"""In pods: the words for kubectl, and what it means when it fails.

There is no cluster here: a stand-in obeys the contract of every Shell, and the real kubectl is
shown the words.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from operator_protocols.domain.action import Action, Outcome
from operator_protocols.domain.category import FailureCategory
from operator_protocols.errors import ExecutorError
from operator_sre.executor.jobs import Spool
from operator_sre.executor.programs import Program, Programs
from operator_sre.executor.transports.docker import KubectlWire, exec_argv, uid_argv
from operator_sre.executor.transports.places import Pod
from operator_sre.executor.transports.remote import RemoteShell
from tests.executor.jobs import new_job, run_in

POD = Pod("lab", "shop", "web-0", "app")


def test_the_words_for_kubectl_are_these() -> None:
    assert exec_argv("kubectl", POD) == (
        *("kubectl", "--context=lab", "--namespace=shop", "exec", "--stdin", "--container=app"),
        *("pod/web-0", "--", "env", "-i", "/bin/sh"),
    )
    assert uid_argv("kubectl", POD) == (
        *("kubectl", "--context=lab", "--namespace=shop", "get", "pod/web-0"),
        "--output=jsonpath={.metadata.uid}",
    )


def test_no_name_can_be_taken_for_an_option() -> None:
    hostile = Pod("--kubeconfig=/x", "--as=root", "--raw", "--stdin")
    words = exec_argv("kubectl", hostile)
    assert [word for word in words if word.startswith("-")] == [
        *("--context=--kubeconfig=/x", "--namespace=--as=root", "--stdin"),
        *("--container=--stdin", "--", "-i"),
    ]


def _failing(folder: Path, said: str, code: int = 1) -> str:
    path = folder / "kubectl"
    path.write_text(f"#!/bin/sh\ncat >/dev/null\ncat >&2 <<'EOF'\n{said}\nEOF\nexit {code}\n")
    path.chmod(0o700)
    return str(path)


def _shell(folder: Path, kubectl: str) -> RemoteShell:
    spool = Spool(folder / "spool")
    return RemoteShell(KubectlWire(POD, Programs(spool), kubectl=kubectl), str(POD), spool)


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("said", "outcome", "category"),
    [
        ('Error from server (NotFound): pods "web-0" not found', "refused", "not_found"),
        ('error: context "lab" does not exist', "refused", "not_found"),
        ("error: container app is not valid for pod web-0", "refused", "not_found"),
        ("Error from server (Forbidden): no", "refused", "permission"),
        ("Unable to connect to the server: dial tcp: no", "refused", "network"),
        ("error: unable to upgrade connection: container not found", "refused", "not_found"),
        ("error: lost connection to pod", "unknown", None),
        ("", "unknown", None),
    ],
)
async def test_what_kubectl_says_tells_whether_anything_was_run(
    tmp_path: Path, said: str, outcome: str, category: str | None
) -> None:
    result = await run_in(_shell(tmp_path, _failing(tmp_path, said)), Action.shell("true"))
    assert result.outcome is Outcome(outcome)
    assert result.category == (FailureCategory(category) if category else None)
    assert str(POD) in result.stderr


@pytest.mark.asyncio
async def test_without_kubectl_nothing_is_run(tmp_path: Path) -> None:
    shell = _shell(tmp_path, str(tmp_path / "missing"))
    result = await run_in(shell, Action.shell("true"))
    assert (result.outcome, result.category) == (Outcome.REFUSED, FailureCategory.NOT_FOUND)
    assert "kubectl is not installed" in result.stderr
    assert (await shell.recover(Action.shell("true"), new_job())).outcome is Outcome.UNKNOWN


@pytest.mark.asyncio
async def test_a_pod_that_cannot_be_seen_has_no_identity(tmp_path: Path) -> None:
    said = 'Error from server (NotFound): pods "web-0" not found'
    with pytest.raises(ExecutorError, match="cannot be read"):
        await _shell(tmp_path, _failing(tmp_path, said)).identify()


@pytest.mark.asyncio
async def test_the_real_kubectl_knows_these_words(tmp_path: Path) -> None:
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("needs kubectl, to show it the words that are built for it")
    programs = Programs(Spool(tmp_path / "spool"))
    for words in (exec_argv(kubectl, POD), uid_argv(kubectl, POD)):
        env = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
        done = await programs.run(Program(words, env), new_job(20.0))
        # It understands every option, and only then finds that there is no such cluster.
        assert 'context "lab" does not exist' in done.stderr
