"""Templates: harmless, unless they name an environment or print everything."""

from __future__ import annotations

import pytest

from operator_sre.gate.grammar.languages.go_template import go_template, inspect_template

HARMLESS = [
    "{{.Name}}",
    "table {{.ID}}\t{{.Status}}",
    "table {{.Names}}\\t{{.Image}}",
    "{{.State.Health.Status}}",
    "{{.Config.Image}}",
    "{{range .Mounts}}{{.Source}} {{end}}",
    "{{range $k, $v := .NetworkSettings.Networks}}{{$k}}{{end}}",
    "{{json .State}}",
    '{range .items[*]}{.metadata.name}{"\\n"}{end}',
    "NAME:.metadata.name,NODE:.spec.nodeName",
    "{.status.conditions[?(@.type=='Ready')].status}",
    "{{.Environs}}",
]
SECRET = [
    "{{.Config.Env}}",
    "{{json .Config.Env}}",
    '{{index .Config "Env"}}',
    "{{range .Config.Env}}{{.}}{{end}}",
    "{{json .Config}}",
    "{{with .Config}}{{.Image}}{{end}}",
    "{.spec.containers[*].env}",
    "{..envFrom}",
    "ENV:.spec.containers[*].env",
]


@pytest.mark.parametrize("text", HARMLESS)
def test_fields_are_harmless(text: str) -> None:
    assert go_template(text) is None


@pytest.mark.parametrize("text", SECRET)
def test_an_environment_may_be_secret(text: str) -> None:
    assert (go_template(text) or "").startswith("?")
    assert (inspect_template(f"{{{{{text}}}}}") or "").startswith("?")


@pytest.mark.parametrize("text", ["{{json .}}", "{{.}}", "{{$}}", "{{range .}}x{{end}}", ""])
def test_all_of_a_container_holds_its_environment(text: str) -> None:
    assert go_template(text) is None
    assert (inspect_template(text) or "").startswith("?")


@pytest.mark.parametrize("text", ["{{.Name}}\x1b[0m", "\x00", "\r"])
def test_control_characters_are_not_understood(text: str) -> None:
    assert go_template(text) == "A control character is not understood."


def test_an_escape_hides_a_name() -> None:
    assert go_template('{{index .HostConfig "\\x45nv"}}') is not None


def test_a_text_without_an_action_prints_only_itself() -> None:
    assert inspect_template(r"\{\{json .Config\}\}") is None


def test_one_field_of_a_container_is_harmless() -> None:
    assert inspect_template("{{.State.Status}} {{.Config.Image}}") is None
