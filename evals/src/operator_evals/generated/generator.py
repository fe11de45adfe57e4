"""From a seed to a case, and from a failing case to its smallest primitives. Pure."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace

from operator_evals.generated.case import WHOLE, Case, Injection, Kind, Primitive, Timing, Value
from operator_evals.generated.surface import Part, Setting, SettingType, Surface

__all__ = ["DEVELOPMENT_SEEDS", "generate", "mutate", "shrink", "smaller"]

# Seeds from here on are for tests of finished work, and are never used during development.
DEVELOPMENT_SEEDS = 1000
PRIMITIVES_MAX = 3
# Signals that end or stop most programs are more likely than signals that most programs ignore.
SIGNALS = {
    **dict.fromkeys(("KILL", "STOP"), 4),
    **dict.fromkeys(("TERM", "SEGV", "ABRT"), 2),
    **dict.fromkeys(("INT", "QUIT", "HUP", "USR1", "USR2", "ALRM", "PIPE", "XFSZ"), 1),
}
WEIGHTS = {
    **dict.fromkeys((Kind.SIGNAL, Kind.SETTING, Kind.ADMIN, Kind.LINK, Kind.FILE), 3),
    **dict.fromkeys((Kind.LIMIT, Kind.PORT, Kind.DISK, Kind.CLIENTS), 2),
}
# How likely it is that one, two or three primitives make a case.
COUNTS = (0.5, 0.33, 0.17)
TIMINGS = (0.64, 0.12, 0.14, 0.10)
TEXTS = ("", "nonsense", "none", "127.0.0.1")
DURATIONS = ("0s", "1ms", "50ms", "3s", "2m0s", "720h0m0s")
DELAYS_S = (0.1, 0.4, 1.5, 4.0)
LOSSES = (0.1, 0.3, 0.6)
LEFT_BYTES = (0, 4096, 65536)
LIMITS: dict[str, tuple[int, ...]] = {
    "memory": (16 << 20, 64 << 20, 256 << 20),
    "files": (3, 16, 64),
    "processes": (1, 2),
    "file_size": (1, 4096, 1 << 20),
}
CLIENTS = ("idle", "garbage", "half", "requests", "sessions")
FILE_ACTIONS = ("remove", "empty", "truncate", "chown", "readonly")
# A primitive that cannot be undone is not repeated and does not heal by itself.
_LASTING = (Kind.PORT,)


def generate(surface: Surface, seed: int) -> Case:
    """The case of a seed; the same surface and seed give the same case, on any machine."""
    chance = random.Random(f"{surface.subject}:{seed}")
    (count,) = chance.choices((1, 2, 3), COUNTS)
    injections: list[Injection] = []
    for number in range(count):
        primitive = _primitive(surface, chance)
        if any(primitive == other.primitive for other in injections):
            continue
        injections.append(_time_injection(primitive, chance, is_first=number == 0, surface=surface))
    return Case(surface.subject, seed, tuple(injections))


def smaller(case: Case) -> Iterator[Case]:
    """Cases with one primitive less, then with a simpler timing; fewer and simpler each time."""
    if len(case.injections) > 1:
        for left_out in range(len(case.injections)):
            kept = [each for at, each in enumerate(case.injections) if at != left_out]
            yield replace(case, injections=tuple(kept))
    for at, each in enumerate(case.injections):
        plain = Injection(each.primitive)
        if each != plain:
            simpler = (*case.injections[:at], plain, *case.injections[at + 1 :])
            yield replace(case, injections=simpler)


async def shrink(case: Case, fails: Callable[[Case], Awaitable[bool]]) -> Case:
    """The smallest case that still fails, found greedily; it ends because every step is smaller."""
    while True:
        for candidate in smaller(case):
            if await fails(candidate):
                case = candidate
                break
        else:
            return case


def mutate(setting: Setting, chance: random.Random) -> str:
    """Another value of a setting, within its type and its limits."""
    match setting.type:
        case SettingType.BOOL:
            pairs = {"on": "off", "true": "false", "yes": "no"}
            other = {**pairs, **{off: on for on, off in pairs.items()}}
            return other.get(setting.value.lower(), "off")
        case SettingType.CHOICE:
            others = [each for each in setting.choices if each != setting.value]
            return chance.choice(others or list(setting.choices) or [setting.value])
        case SettingType.DURATION:
            return chance.choice([each for each in DURATIONS if each != setting.value])
        case SettingType.INTEGER | SettingType.REAL:
            return _number(setting, chance)
        case SettingType.TEXT:
            return chance.choice([each for each in TEXTS if each != setting.value])


def _number(setting: Setting, chance: random.Random) -> str:
    """A number at a limit, near it, or far from the present one."""
    now = float(setting.value or 0)
    low = 0.0 if setting.low is None else setting.low
    high = max(now * 100, 1000.0) if setting.high is None else setting.high
    wanted = [low, low + 1, now / 10, now * 10, high]
    able = [each for each in wanted if low <= each <= high]
    if setting.type is SettingType.INTEGER:
        whole = sorted({round(each) for each in able} - {round(now)})
        return str(chance.choice(whole or [round(low)]))
    return f"{chance.choice(sorted(set(able) - {now}) or [low]):g}"


def _time_injection(
    primitive: Primitive, chance: random.Random, *, is_first: bool, surface: Surface
) -> Injection:
    timing = chance.choices(tuple(Timing), TIMINGS)[0]
    after_s = 0.0 if is_first else chance.choice((0.0, 1.0, 4.0))
    lasts_s, times = chance.choice((2.0, 5.0, 10.0)), chance.choice((2, 3))
    if timing in (Timing.REPEATED, Timing.HEALING) and not _is_reversible(primitive, surface):
        timing = Timing.ONCE
    if timing is Timing.REPAIR and is_first:  # something must be repaired first
        timing = Timing.ONCE
    if timing in (Timing.ONCE, Timing.REPAIR):
        return Injection(primitive, timing, after_s)
    return Injection(primitive, timing, after_s, lasts_s, times if timing is Timing.REPEATED else 1)


def _is_reversible(primitive: Primitive, surface: Surface) -> bool:
    if primitive.kind is Kind.ADMIN:
        return any(
            command.reversible and command.name == primitive.arguments["command"]
            for part in surface.parts
            for command in part.commands
        )
    return not (primitive.kind in _LASTING and primitive.arguments.get("action") == "changed")


def _primitive(surface: Surface, chance: random.Random) -> Primitive:
    """A kind first, so that the many settings of a server do not outweigh all else."""
    able = {
        kind: [part for part in surface.parts if _is_able(surface, part, kind)] for kind in Kind
    }
    kinds = [kind for kind in Kind if able[kind]]
    (kind,) = chance.choices(kinds, [WEIGHTS[kind] for kind in kinds])
    # Kinds of parts count alike, however many there are of each.
    role = chance.choice(sorted({part.kind for part in able[kind]}))
    part = chance.choice([part for part in able[kind] if part.kind == role])
    return Primitive(kind, part.name, _arguments(surface, part, kind, chance))


def _is_able(surface: Surface, part: Part, kind: Kind) -> bool:
    if surface.stand_in:
        return kind is Kind.SIGNAL or (kind is Kind.LINK and part.linked)
    match kind:
        case Kind.SETTING:
            return bool(part.settings)
        case Kind.ADMIN:
            return bool(part.commands)
        case Kind.FILE:
            return bool(part.files or part.volume)
        case Kind.LINK:
            return part.linked
        case Kind.DISK:
            return part.sized
        case _:
            return True


def _arguments(surface: Surface, part: Part, kind: Kind, chance: random.Random) -> dict[str, Value]:
    match kind:
        case Kind.SIGNAL:
            children = not surface.stand_in and chance.random() < 0.3
            child = chance.randrange(12) if children else -1
            (name,) = chance.choices(list(SIGNALS), list(SIGNALS.values()))
            return {"signal": name, "child": child}
        case Kind.SETTING:
            setting = chance.choice(part.settings)
            # Without a file with it, a value can only be changed at run time.
            is_filed = setting.filed and bool(part.config)
            live = setting.live and (chance.random() < 0.5 or not is_filed)
            value = mutate(setting, chance)
            return {"name": setting.name, "value": value, "when": "now" if live else "restart"}
        case Kind.ADMIN:
            command = chance.choice(part.commands)
            return {"command": command.name, "about": command.about}
        case Kind.FILE:
            return _file_arguments(part, chance)
        case Kind.PORT:
            actions = ("taken", "changed") if part.config else ("taken",)
            return {"action": chance.choice(actions)}
        case Kind.LINK:
            other = chance.choice((WHOLE, *part.peers))
            action = chance.choice(("cut", "slow", "lossy"))
            amount = {"cut": 1.0, "slow": chance.choice(DELAYS_S), "lossy": chance.choice(LOSSES)}
            return {"action": action, "other": other, "amount": amount[action]}
        case Kind.LIMIT:
            resource = chance.choice(sorted(LIMITS))
            return {"resource": resource, "value": chance.choice(LIMITS[resource])}
        case Kind.DISK:
            return {"left_bytes": chance.choice(LEFT_BYTES)}
        case Kind.CLIENTS:
            return {"action": chance.choice(CLIENTS), "count": chance.choice((50, 150, 300))}


def _file_arguments(part: Part, chance: random.Random) -> dict[str, Value]:
    """A file that its description names, or a place in its volume, chosen when it is there."""
    in_volume = part.volume and (not part.files or chance.random() < 0.6)
    place = {"path": ""} if in_volume else {"path": chance.choice(part.files)}
    # Where in the volume, and how deep.
    spot = {"at": round(chance.random(), 3), "depth": chance.choice((1, 2, 2, 3))}
    return {
        **place,
        **(spot if in_volume else {}),
        "action": chance.choice(FILE_ACTIONS),
        "restart": chance.random() < 0.7,
    }
