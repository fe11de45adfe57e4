"""From what is wanted to the text of a file that allows it, and every other letter as it was."""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import yaml

from operator_protocols.domain.action import Action
from operator_protocols.domain.verdict import Level, Mode, Risk
from operator_protocols.errors import ConfigError, UsageError
from operator_sre.app.patch_requests import WantedBudget, WantedCommand, WantedHost

if TYPE_CHECKING:
    from operator_sre.config import Config
    from operator_sre.gate.policy import Rulebook

__all__ = [
    "FOUND",
    "Edit",
    "draft_edit",
    "request_of",
    "with_number",
    "with_rule",
    "with_setting",
    "with_words",
]

HTTPS = 443
# The default working directory of a command.
START = Action.__dataclass_fields__["cwd"].default
# Hosts that everybody knows, where nothing is lost by asking.
WELL_KNOWN = frozenset(
    {
        *("api.anthropic.com", "api.openai.com", "api.github.com", "github.com"),
        *("deb.debian.org", "example.com", "hooks.slack.com", "www.python.org"),
    }
)
Wanted = WantedHost | WantedCommand | WantedBudget
FOUND: Mapping[str, type[Wanted]] = {
    "host": WantedHost,
    "command": WantedCommand,
    "budget": WantedBudget,
}
VERSION = "version: 1\n"
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TABLE = re.compile(r"^[ \t]*\[", re.MULTILINE)
Read = Callable[[Path], str | None]


@dataclass(frozen=True, slots=True)
class Edit:
    """A file as it is and as it would be; `policy` and `becomes` are digests of what it says."""

    file: Path
    old: str | None
    new: str
    policy: str
    becomes: str
    risk: Risk
    rationale: str
    destinations: tuple[str, ...] = ()


def request_of(wanted: Wanted) -> dict[str, Any]:
    """What is wanted, as JSON from which it can be read back."""
    kind = next(name for name, kind in FOUND.items() if isinstance(wanted, kind))
    return {"kind": kind, **asdict(wanted)}


def draft_edit(config: Config, wanted: Wanted, read: Read) -> Edit:
    """The change that this takes. UsageError when it is not needed, or cannot or must not be."""
    if isinstance(wanted, WantedBudget) and wanted.daily:
        return _setting(config, wanted, read)
    file = next(
        (policy_file for policy_file in config.policy_files if read(policy_file) is not None), None
    )
    file = file or config.policy_files[0]
    old = read(file)
    book = _book(old, file)
    match wanted:
        case WantedHost():
            return _host(file, old, book, wanted)
        case WantedCommand():
            return _command(file, old, book, wanted)
        case WantedBudget():
            return _budget(file, old, book, wanted)


def _book(text: str | None, file: Path) -> Rulebook:
    from operator_sre.gate.policy import built_in
    from operator_sre.gate.policy.load import book_of

    return built_in() if text is None else book_of(text, str(file))


def _check_book(file: Path, new: str, old: Rulebook, **wanted: object) -> Rulebook:
    """The new book, if it differs from the old one in what is wanted and in nothing else."""
    try:
        book = _book(new, file)
    except ConfigError as error:
        raise UsageError(
            f"The change cannot be written into {file.name}: {error.message}",
            next_step="Edit the file by hand, then run: operator policy check",
        ) from error
    for name in old.__struct_fields__:
        expected = wanted.get(name, getattr(old, name))
        if getattr(book, name) != expected:
            raise UsageError(
                f"The change would also affect {name!r} in {file.name}, so it is not made.",
                next_step="Edit the file by hand, then run: operator policy check",
            )
    return book


def _host(file: Path, old: str | None, book: Rulebook, wanted: WantedHost) -> Edit:
    egress, host = book.egress, wanted.host
    if (wanted.wide or wanted.private) and not wanted.high:
        kind = "more than one host" if wanted.wide else "an internal address or name"
        raise UsageError(
            f"{host!r} is {kind}, which requires an explicit high risk.",
            next_step="Name one public host, or add '(high)' or --risk high.",
        )
    if not wanted.wide and not msgspec.structs.replace(egress, allow=("*",)).reaches(host):
        raise UsageError(
            f"The policy denies {host!r}, and a denial takes precedence.",
            next_step="Remove it from egress.deny by hand.",
        )
    known = host in egress.allow or (not wanted.wide and egress.reaches(host))
    if wanted.scripts:
        return _door(file, old, book, wanted)
    if known:
        raise UsageError(
            f"Read-only commands may already connect to {host!r}.",
            next_step=f"For scripts, request: allow host {host} port {HTTPS}",
        )
    new, written = old or "", dict(_written_lists(old, file))
    # A list of one's own takes the place of the built-in one, so that it begins with that.
    words = [host] if "allow" in written else [*egress.allow, host]
    new = with_words(new, _section(old), "allow", words)
    if "allow" not in written and "people" not in written and egress.people:
        new = with_words(new, _section(new), "people", egress.people)
    allow = (*egress.allow, host)
    wish = msgspec.structs.replace(egress, allow=_order(new, file, "allow", allow))
    made = _check_book(file, new, book, egress=wish)
    why = f"Read-only commands may connect to {host} without approval."
    return Edit(file, old, new, book.digest, made.digest, _risk_of(wanted), why, (host,))


def _door(file: Path, old: str | None, book: Rulebook, wanted: WantedHost) -> Edit:
    port = wanted.port or HTTPS
    if wanted.wide or ":" in wanted.host:
        raise UsageError(
            f"Scripts connect to single hosts by name and port, and {wanted.host!r} is not one.",
            next_step="Name one host and one port, such as: api.example.com port 443",
        )
    door = f"{wanted.host}:{port}"
    if door in book.egress.scripts:
        raise UsageError(f"{door!r} is already allowed.", next_step="See: operator policy show")
    new = with_words(old or "", _section(old), "scripts", [door])
    scripts = _order(new, file, "scripts", (*book.egress.scripts, door))
    wish = msgspec.structs.replace(book.egress, scripts=scripts)
    made = _check_book(file, new, book, egress=wish)
    why = (
        f"Scripts in the sandbox may connect to {wanted.host} on port {port}, and to no other port."
    )
    return Edit(file, old, new, book.digest, made.digest, _risk_of(wanted), why, (door,))


def _risk_of(wanted: WantedHost) -> Risk:
    if wanted.wide or wanted.private:
        return Risk.HIGH
    return Risk.LOW if wanted.host in WELL_KNOWN else Risk.MEDIUM


def _section(text: str | None) -> str:
    """`egress`, or `hosts` where the file calls it so."""
    found = yaml.safe_load(text) if text else None
    return "hosts" if isinstance(found, dict) and "hosts" in found else "egress"


def _written_lists(text: str | None, file: Path) -> Mapping[str, tuple[str, ...]]:
    from operator_sre.gate.policy.schema import read_policy

    return read_policy(text, str(file), origin=file.name).egress if text else {}


def _order(text: str, file: Path, key: str, wanted: tuple[str, ...]) -> tuple[str, ...]:
    """What is wanted, in the order of the text: a list means the same in every order."""
    found = tuple(_written_lists(text, file).get(key, ()))
    return found if sorted(found) == sorted(wanted) else wanted


def _command(file: Path, old: str | None, book: Rulebook, wanted: WantedCommand) -> Edit:
    from operator_sre.gate import Policy, judge
    from operator_sre.gate.policy.schema import read_policy

    line = wanted.line
    before = judge(Action.shell(line), Policy(mode=Mode.EXECUTE, book=book))
    if before.level is Level.SAFE:
        raise UsageError(
            f"{line[:80]!r} already runs without approval.", next_step="No change is needed."
        )
    if before.level is Level.BLOCKED:
        raise UsageError(
            f"{line[:80]!r} is blocked: {before.explanation}",
            next_step="A patch cannot allow it. See: operator policy explain COMMAND",
        )
    risky = before.risk >= Risk.HIGH
    if risky and not wanted.high:
        raise UsageError(
            f"{line[:80]!r} has {before.risk} risk, which must be requested: {before.explanation}",
            next_step="Add '(high)' or --risk high.",
        )
    rule = _rule(wanted)
    new = with_rule(old or "", "safe", rule)
    written = read_policy(new, str(file), origin=file.name)
    added = next(added for added in written.rules if added.id == rule["id"])
    theirs = [known for known in book.rules if not known.is_built_in]
    ours = [known for known in book.rules if known.is_built_in]
    if [other for other in written.rules if other.id != added.id] != theirs:
        raise UsageError(
            f"The change would also affect other rules of {file.name}.",
            next_step="Edit the file by hand, then run: operator policy check",
        )
    made = _check_book(file, new, book, rules=(*ours, *written.rules))
    after = judge(Action.shell(line), Policy(mode=Mode.EXECUTE, book=made))
    if after.level is not Level.SAFE:
        raise UsageError(
            f"A rule cannot make {line[:80]!r} run without approval: {after.explanation}",
            next_step="Approve it each time, or approve it with --always.",
        )
    why = (
        f"Exactly {line!r} runs without approval, when it is started in {START} and nothing"
        f" is piped to it. Before: {before.explanation}"
    )
    # What is made to run for always is never less than what it is to run it once.
    risk = max(Risk.MEDIUM, before.risk)
    # A rule for one command is a door for it, whatever the list of hosts says.
    hosts = tuple(host for host in after.network if not book.egress.reaches(host))
    return Edit(file, old, new, book.digest, made.digest, risk, why, hosts)


def _rule(wanted: WantedCommand) -> dict[str, object]:
    """A closed rule for one line: these words in this order, where commands start, not fed."""
    line, name = wanted.line, wanted.argv[0].rpartition("/")[2]
    tag = hashlib.sha256(line.encode()).hexdigest()[:8]
    word = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")[:30] or "command"
    rule: dict[str, object] = {
        "id": f"allow_{word}_{tag}",
        "why": f"A person allowed exactly this: {line}",
        "command": wanted.argv[0],
    }
    operands = [word for word in wanted.argv[1:] if not word.startswith("-")]
    if operands and not any("|" in operand for operand in operands):
        rule["subcommand"] = " ".join(operands)
    rule["regex"] = re.sub(r"([^A-Za-z0-9_/:=,@% -])", r"\\\1", line)
    # What it is fed, and the folder it is started in, may be all that it does.
    rule["piped"] = False
    rule["cwd"] = START
    rule["match"] = [line]
    rule["not_match"] = [f"{line} --another-option", f"{line} another-word", f"cat x | {line}"]
    return rule


def _budget(file: Path, old: str | None, book: Rulebook, wanted: WantedBudget) -> Edit:
    from operator_sre.app.policy import budget_of
    from operator_sre.gate.policy.schema import BUDGETS

    low, high = BUDGETS[wanted.setting]
    whole = wanted.setting not in ("usd_max", "seconds_max")
    if not low <= wanted.number <= high or (whole and wanted.number != int(wanted.number)):
        kind = "a whole number" if whole else "a number"
        raise UsageError(
            f"{wanted.number:g} is not a valid {wanted.setting}.",
            next_step=f"It is {kind} from {low:g} to {high:g}.",
        )
    before = float(getattr(budget_of(book), wanted.setting))
    number = f"{wanted.number:g}" if wanted.number < 1e6 else f"{wanted.number:.0f}"
    if before == float(number):
        raise UsageError(f"{wanted.setting} is already {number}.", next_step="No change is needed.")
    new = with_number(old or "", "budgets", wanted.setting, number)
    budgets = {**book.budgets, wanted.setting: float(number)}
    made = _check_book(file, new, book, budgets=budgets)
    why = f"Each run gets {wanted.setting} = {number} (before: {before:g})."
    risk = _risk_of_more(before, wanted.number)
    return Edit(file, old, new, book.digest, made.digest, risk, why)


def _setting(config: Config, wanted: WantedBudget, read: Read) -> Edit:
    """A limit of all runs together, which is a setting and no part of the policy."""
    from operator_sre.config import SETTINGS

    if config.file is None:
        raise UsageError(
            "Daily limits are settings, and there is no operator.toml here.",
            next_step="Write one beside policy.yaml, with: usd_per_day = 40",
        )
    old = read(config.file) or ""
    number = f"{wanted.number:g}" if wanted.number < 1e6 else f"{wanted.number:.0f}"
    setting = next(setting for setting in SETTINGS if setting.name == wanted.setting)
    try:
        setting.parse(number)
    except ValueError as error:
        raise UsageError(f"{wanted.setting} {error}.", next_step="Name another number.") from None
    new = with_setting(old, wanted.setting, number)
    before, after = tomllib.loads(old), tomllib.loads(new)
    value: int | float = float(number) if "." in number or "e" in number else int(number)
    if after != before | {wanted.setting: value}:
        raise UsageError(
            f"{wanted.setting} cannot be changed in {config.file.name} without other changes.",
            next_step="Edit the file by hand, then run: operator config show",
        )
    if after == before:
        raise UsageError(f"{wanted.setting} is already {number}.", next_step="No change is needed.")
    known = config.number(wanted.setting)
    why = (
        f"All runs of a day get {wanted.setting} = {number} after the next start"
        f" (before: {known:g})."
    )
    risk = _risk_of_more(known, wanted.number)
    digests = (f"{wanted.setting}={known:g}", f"{wanted.setting}={number}")
    return Edit(config.file, old, new, *digests, risk, why)


def _risk_of_more(before: float, after: float) -> Risk:
    """Twice as much costs little, and ten times as much is another thing."""
    if after <= 2 * before:
        return Risk.LOW
    return Risk.MEDIUM if after <= 10 * before else Risk.HIGH


def with_words(text: str, section: str, key: str, words: Sequence[str]) -> str:
    """The text with these words added to the list `section.key`, which is made if need be."""
    quoted = [json.dumps(word) for word in words]
    found = _value(_root(text), section)
    if found is None:
        return _append_section(text, f"{section}:\n  {key}: [{', '.join(quoted)}]\n")
    known = _value(found, key)
    if known is None:
        return _add_key(text, found, f"{key}: [{', '.join(quoted)}]")
    if isinstance(known, yaml.ScalarNode):
        start, end = known.start_mark.index, known.end_mark.index
        return f"{text[:start]}[{text[start:end]}, {', '.join(quoted)}]{text[end:]}"
    return _add_items(text, known, quoted)


def with_number(text: str, section: str, key: str, number: str) -> str:
    """The text with `section.key` set to a number."""
    found = _value(_root(text), section)
    if found is None:
        return _append_section(text, f"{section}:\n  {key}: {number}\n")
    known = _value(found, key)
    if known is None:
        return _add_key(text, found, f"{key}: {number}")
    start, end = known.start_mark.index, known.end_mark.index
    return f"{text[:start]}{number}{text[end:]}"


def with_rule(text: str, level: str, rule: Mapping[str, object]) -> str:
    """The text with one more rule of a level."""
    found = _value(_root(text), level)
    lines = [f"{key}: {json.dumps(value)}" for key, value in rule.items()]
    block = f"- {lines[0]}\n" + "".join(f"  {line}\n" for line in lines[1:])
    if found is None:
        indented = "".join(f"  {line}\n" for line in block.splitlines())
        return _append_section(text, f"{level}:\n{indented}")
    if not isinstance(found, yaml.SequenceNode):
        raise _by_hand(level)
    if found.flow_style:
        return _add_items(text, found, [json.dumps(dict(rule))])
    return _above(text, found, block)


def with_setting(text: str, name: str, number: str) -> str:
    """The text of an operator.toml with one setting; it stands before every table."""
    head = _TABLE.search(text)
    top, rest = (text[: head.start()], text[head.start() :]) if head else (text, "")
    line = re.compile(rf"^([ \t]*{re.escape(name)}[ \t]*=[ \t]*)[^\s#]+", re.MULTILINE)
    if line.search(top):
        return line.sub(rf"\g<1>{number}", top, count=1) + rest
    return f"{name} = {number}\n{text}"


def _root(text: str) -> yaml.Node | None:
    try:
        root: yaml.Node | None = yaml.compose(text, Loader=_LOADER)
    except yaml.YAMLError as error:  # the strict reader has refused such a file already
        raise _by_hand("policy") from error
    return root


def _value(node: yaml.Node | None, key: str) -> yaml.Node | None:
    if node is None:
        return None
    if not isinstance(node, yaml.MappingNode):
        raise _by_hand(key)
    return next((value for name, value in node.value if name.value == key), None)


def _append_section(text: str, section: str) -> str:
    ending = "" if not text or text.endswith("\n") else "\n"
    gap = "\n" if text else ""
    return f"{text}{ending}{gap}{section}" if text else f"{VERSION}\n{section}"


def _add_key(text: str, table: yaml.Node, entry: str) -> str:
    """One more key of a table that is there."""
    if not isinstance(table, yaml.MappingNode):
        raise _by_hand(entry.partition(":")[0])
    if not table.flow_style:
        return _above(text, table, f"{entry}\n")
    at = table.start_mark.index + 1
    comma = ", " if table.value else ""
    return f"{text[:at]}{entry}{comma}{text[at:]}"


def _add_items(text: str, items: yaml.Node, quoted: Sequence[str]) -> str:
    """More items of a list that is there."""
    if not isinstance(items, yaml.SequenceNode):
        raise _by_hand("list")
    if not items.flow_style:
        return _above(text, items, "".join(f"- {item}\n" for item in quoted))
    words = ", ".join(quoted)
    if items.value:
        at = items.value[-1].end_mark.index
        return f"{text[:at]}, {words}{text[at:]}"
    at = items.start_mark.index + 1
    return f"{text[:at]}{words}{text[at:]}"


def _above(text: str, node: yaml.Node, block: str) -> str:
    """Lines before the first one of a block, as far in as it is."""
    column = node.start_mark.column
    at = node.start_mark.index - column
    if text[at : at + column].strip():
        raise _by_hand("list")  # it begins on the line of its key
    indent = " " * column
    return text[:at] + "".join(f"{indent}{line}\n" for line in block.splitlines()) + text[at:]


def _by_hand(part: str) -> UsageError:
    return UsageError(
        f"The {part} in the policy is written in a form that cannot be extended.",
        next_step="Edit the file by hand, then run: operator policy check",
    )
