"""`operator limits`: how much of each subject may be changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from operator_sre.faces.cli.confirming import ProposeOption, YesOption, crossed
from operator_sre.faces.cli.options import JsonOption, ReasonOption, opened
from operator_sre.faces.cli.output import clean, print_json, print_lines, print_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from operator_sre.app.limits import LimitsView

__all__ = ["app"]

app = typer.Typer(help="How much of each subject may be changed.", no_args_is_help=True)


@app.command()
def show(context: typer.Context, as_json: JsonOption = False) -> None:
    """Every subject: what was changed lately, and what holds the next change back."""
    from operator_sre.app.limits import show_limits

    with opened(context) as app:
        found = show_limits(app)
    if as_json:
        print_json({"limits": found})
    elif not found:
        print_lines(["There is no subject here."])
    else:
        _table(found)


@app.command()
def reset(
    context: typer.Context,
    subject: str,
    reason: ReasonOption,
    yes: YesOption = False,
    propose: ProposeOption = False,
    as_json: JsonOption = False,
) -> None:
    """Count from here on; after failures in a row, changes are allowed again at once."""
    from operator_sre.app.limits import limits_of, reset_limits
    from operator_sre.app.loosening import limits_asked
    from operator_sre.faces.cli.running import run_until_stopped

    with opened(context) as app:
        asked = limits_asked(app, subject, reason=reason)
        if crossed(app, asked, yes=yes, propose=propose, as_json=as_json):
            view = limits_of(app, subject)
        else:
            view = run_until_stopped(reset_limits(app, subject, reason=reason))
    if as_json:
        print_json({"limits": [view]})
    else:
        _table([view])


def _table(views: Sequence[LimitsView]) -> None:
    rows = [
        (
            one.subject,
            f"{one.usage.changes}/{one.limits.changes_per_hour}",
            f"{len(one.usage.targets)}/{one.limits.targets_max}",
            f"{one.usage.failures}/{one.limits.failures_max}",
            clean(one.refusal) or "-",
        )
        for one in views
    ]
    print_table(("subject", "changes", "targets", "failures", "held back by"), rows)
