"""The clusters of a kubeconfig are proposed, each once, and can be watched as they were written."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

from operator_sre.app.discovery import Proposal, write_subjects
from operator_sre.app.discovery.kubeconfigs import ClusterContext, read_contexts
from operator_sre.config import load_config

SECRET = "a-bearer-token"


def kubeconfig(path: Path, contexts: dict[str, str], *, current: str = "") -> Path:
    """A kubeconfig whose contexts have these servers."""
    record = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": f"c-{name}", "cluster": {"server": server}}
            for name, server in contexts.items()
        ],
        "users": [{"name": "me", "user": {"token": SECRET}}],
        "contexts": [
            {"name": name, "context": {"cluster": f"c-{name}", "user": "me"}} for name in contexts
        ],
        "current-context": current,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record))
    return path


def test_each_cluster_of_the_default_file_is_found_once(tmp_path: Path) -> None:
    servers = {"old": "https://a:6443", "mine": "https://a:6443", "other": "https://b:6443"}
    file = kubeconfig(tmp_path / ".kube" / "config", servers, current="mine")
    assert read_contexts(tmp_path, "") == (
        ClusterContext(str(file), "mine", "https://a:6443"),
        ClusterContext(str(file), "other", "https://b:6443"),
    )


def test_the_variable_replaces_the_default_file(tmp_path: Path) -> None:
    kubeconfig(tmp_path / ".kube" / "config", {"home": "https://h:6443"})
    one = kubeconfig(tmp_path / "one", {"x": "https://x:6443"})
    two = kubeconfig(tmp_path / "two", {"y": "https://y:6443"})
    assert [each.name for each in read_contexts(tmp_path, f"{one}:{two}")] == ["x", "y"]


def test_what_is_no_kubeconfig_is_left_out(tmp_path: Path) -> None:
    for text in ("", "[]", "a: [", "clusters: 5\ncontexts: {a: 1}", "contexts: [{name: x}]"):
        (tmp_path / "config").write_text(text)
        assert read_contexts(tmp_path, str(tmp_path / "config")) == ()
    assert read_contexts(tmp_path, str(tmp_path / "nothing")) == ()


def test_a_proposed_cluster_is_written_with_its_context_and_no_secret(tmp_path: Path) -> None:
    file = kubeconfig(tmp_path / ".kube" / "config", {"mine": "https://a:6443"})
    options = {"kubeconfig": str(file), "context": "mine"}
    proposal = Proposal(
        "mine", "kubernetes", ("https://a:6443",), ("why",), plugin="kubernetes", options=options
    )
    config = load_config(flags={"home": str(tmp_path / "home")}, environ={}, cwd=tmp_path)
    written = write_subjects(config, [proposal], folder=tmp_path)
    text = Path(written.config).read_text()
    assert SECRET not in text
    assert tomllib.loads(text)["subjects"]["mine"] == {"plugin": "kubernetes", "options": options}
    again = load_config(flags={"home": str(tmp_path / "home")}, environ={}, cwd=tmp_path)
    assert [(each.name, each.options) for each in again.subjects] == [("mine", options)]
