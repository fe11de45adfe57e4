"""`operator policy`: the rules that decide what runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from operator_sre.faces.cli.consent import ProposeOption, YesOption, cross_boundary
from operator_sre.faces.cli.options import JsonOption, config_of, open_home
from operator_sre.faces.cli.output import clean, print_json, print_lines, print_table

__all__ = ["app"]

app = typer.Typer(
    help="Check, explain and change the rules that decide what runs.", no_args_is_help=True
)
FileArgument = Annotated[
    Path | None, typer.Argument(help="The policy file; the active one by default.")
]


@app.callback()
def _noun() -> None:
    return None


@app.command()
def check(context: typer.Context, file: FileArgument = None, as_json: JsonOption = False) -> None:
    """Check a policy and run its examples. Exit 2 with FILE:LINE:COLUMN if it is invalid."""
    from operator_sre.app.policy import check_policy

    checked = check_policy(config_of(context), file)
    if as_json:
        print_json({"policy": checked})
        return
    rules = ", ".join(f"{number} {level}" for level, number in checked.rules.items())
    print_lines(
        [
            clean(f"{checked.file} is valid: {rules}; {checked.examples} examples hold."),
            f"overrides: {checked.overrides}, digest: {checked.digest}",
        ]
    )


@app.command()
def show(context: typer.Context, as_json: JsonOption = False) -> None:
    """Show the active policy: the built-in rules with your overrides."""
    from operator_sre.app.policy import shown_policy

    file, digest, book = shown_policy(config_of(context))
    if as_json:
        print_json({"file": file, "digest": digest, "policy": book})
        return
    print_lines([clean(f"policy: {file}"), f"digest: {digest}", ""])
    rows = [
        (rule["id"], rule["level"], rule["risk"], rule["origin"], rule["why"])
        for rule in book["rules"]
    ]
    print_table(("rule", "level", "risk", "from", "why"), rows)
    lines = [""]
    for section, body in book.items():
        if section in ("rules", "overrides"):
            continue
        if isinstance(body, dict):
            lines += [clean(f"{section} {key}: {_join(value)}") for key, value in body.items()]
        else:
            lines.append(clean(f"{section}: {_join(body)}"))
    for override in book["overrides"]:
        words = f"overridden {override['rule']} by {override['by']}: {override['reason']}"
        lines.append(clean(words))
    print_lines(lines)


def _join(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


@app.command()
def explain(
    context: typer.Context,
    rule_or_command: Annotated[
        str, typer.Argument(metavar="RULE|COMMAND", help="A rule id, or a quoted command.")
    ],
    as_json: JsonOption = False,
) -> None:
    """Explain a rule, or which rules apply to a command and why."""
    from operator_sre.app.policy import explain_policy, rule_fields

    found = explain_policy(config_of(context), rule_or_command)
    if as_json:
        document: dict[str, Any] = {"rule": rule_fields(found.rule) if found.rule else None}
        if (verdict := found.verdict) is not None:
            document |= {"level": verdict.level, "explanation": verdict.explanation}
            document["parts"] = [
                {"command": command, "rules": [rule.id for rule in rules]}
                for command, rules in found.parts
            ]
        print_json(document)
        return
    if found.rule is not None:
        fields = rule_fields(found.rule)
        print_lines([clean(f"{key}: {_join(value)}") for key, value in fields.items()])
        return
    assert found.verdict is not None
    print_lines([clean(f"{found.verdict.level.upper()}: {found.verdict.explanation}")])
    for command, rules in found.parts:
        print_lines([clean(f"  {command}")])
        for rule in rules:
            print_lines([clean(f"    {rule.level} {rule.id} ({rule.origin}): {rule.why}")])
        if not rules:
            print_lines(["    no rule matches; the table of its tool decides"])


@app.command()
def diff(
    context: typer.Context,
    old: Annotated[Path, typer.Argument(help="The old policy file.")],
    new: Annotated[Path, typer.Argument(help="The new policy file.")],
    as_json: JsonOption = False,
) -> None:
    """Compare two policies: what becomes stricter or looser, with sample commands."""
    from operator_sre.app.policy import compare_policies

    config_of(context)
    compared = compare_policies(old, new)
    if as_json:
        print_json(
            {
                "changes": [
                    {"effect": change.effect, "what": change.subject, "sentence": change.sentence}
                    for change in compared.changes
                ],
                "commands": compared.commands,
                "judged": compared.judged,
            }
        )
        return
    lines = [f"{each.effect:<8} {each.subject}: {each.sentence}" for each in compared.changes]
    lines += [f"{command.old} -> {command.new}: {command.command}" for command in compared.commands]
    total = f"{len(compared.commands)} of {compared.judged} commands are judged differently."
    print_lines([*map(clean, lines), total])


@app.command()
def change(
    context: typer.Context,
    request: Annotated[str, typer.Argument(help="What to allow, in plain words, quoted.")],
    risk: Annotated[str, typer.Option(help="Set to high to allow broad or private access.")] = "",
    yes: YesOption = False,
    propose: ProposeOption = False,
    as_json: JsonOption = False,
) -> None:
    """Allow a host or a command, or raise a budget. Shows the diff before you confirm."""
    from operator_sre.app.patches import sketch_for

    with open_home(context) as app:
        found = sketch_for(app, request, risk=risk)
        if not as_json:
            print_lines([*map(clean, found.patch.splitlines()), ""])
        done = cross_boundary(app, found.wanted, yes=yes, propose=propose, as_json=as_json)
    assert done is not None
    if as_json:
        print_json({"confirmation": done})
    else:
        print_lines([clean(f"{done.outcome or done.state}: {done.rationale}")])


@app.command()
def init(context: typer.Context, file: FileArgument = None, as_json: JsonOption = False) -> None:
    """Write a commented policy to start from. Overwrites nothing."""
    from operator_sre.app.policy import write_policy

    written = write_policy(config_of(context), file)
    if as_json:
        print_json({"file": str(written)})
        return
    print_lines([clean(f"Wrote {written}. Check it with: operator policy check {written}")])
