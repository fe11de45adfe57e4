"""Options as each tool reads them: clusters without a dash, later modes, values, their places."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import permutations, product
from random import Random

from operator_protocols.domain.action import Action
from operator_protocols.domain.verdict import Level
from operator_sre.gate import Policy, judge
from tests.every import expect_each

POLICY = Policy()


def is_safe(command: str, *, person: bool = True) -> bool:
    """Whether a command line runs by itself."""
    action = replace(Action.shell(command), cwd="/srv/app")
    return judge(action, POLICY, person=person).level is Level.SAFE


def expect_review(command: str) -> None:
    assert not is_safe(command)


def expect_review_for_an_agent(command: str) -> None:
    assert not is_safe(command, person=False)


def expect_safe(command: str) -> None:
    assert is_safe(command)


# Letters of tar that run a program, write, or are not known.
TAR_ACTS = "IFxcruAdGgwLMNOTXbkmpsoHPKSUVW-:"


def old_clusters() -> Iterator[tuple[str]]:
    random = Random(1)
    for name, act in product(("tar", "bsdtar"), TAR_ACTS):
        for _ in range(4):
            letters = list("tf" + "".join(random.sample("vzjJ", k=random.randint(0, 2))) + act)
            random.shuffle(letters)
            values = random.sample(["a.tar", "./x", "sh", "a-b.tar"], k=3)
            yield (f"{name} {''.join(letters)} {' '.join(values)}",)
            yield (f"{name} {''.join(letters)} {' '.join(values)} -t",)


def test_a_first_word_without_a_dash_is_read_letter_by_letter() -> None:
    expect_each(old_clusters(), expect_review)
    # A value belongs to the letter at its place, not to the last one.
    taken = [f"tar {''.join(letters)} host:a.tar /srv" for letters in permutations("tfC")]
    harmless = {"tar tCf host:a.tar /srv", "tar Ctf host:a.tar /srv", "tar Cft host:a.tar /srv"}
    expect_each(((one,) for one in taken if one not in harmless), expect_review)


def test_lists_in_the_old_style_only_read() -> None:
    clusters = {"".join(one) for one in permutations("tvzf")}
    expect_each(((f"tar {one} a.tgz",) for one in clusters), expect_safe)
    expect_each((("tar Ctf /srv a.tar",), ("tar fC a.tar /srv -t",), ("ar tv x.a",)), expect_safe)


COMPRESSORS = {
    "gzip": ("-t", "-l", "--test", "--list"),
    "gunzip": ("-t", "-l", "--test", "--list"),
    "pigz": ("-t", "-l", "--test", "--list"),
    "bzip2": ("-t", "--test"),
    "bunzip2": ("-t", "--test"),
    "xz": ("-t", "-l", "--test", "--list"),
    "unxz": ("-t", "-l", "--test", "--list"),
    "lzma": ("-t", "--test"),
    "zstd": ("-t", "-l", "--test", "--list"),
    "unzstd": ("-t", "-l", "--test", "--list"),
    "lz4": ("-t", "--test", "--list"),
    "brotli": ("-t", "--test"),
    "lzop": ("-t", "-l", "--test", "--list"),
}
WRITING = ("-d", "-z", "--decompress", "--uncompress", "--compress", "--dec", "--rm", "-r", "-o x")


def modes() -> Iterator[tuple[str]]:
    for name, harmless in COMPRESSORS.items():
        for first, second in product(harmless, WRITING):
            yield (f"{name} {first} {second} a",)
            yield (f"{name} {second} {first} a",)
            yield (f"{name} {first} a {second}",)
            if len(first) == len(second) == 2:
                yield (f"{name} {first}{second[1]} a",)
                yield (f"{name} {second}v{first[1]} a",)


def test_a_mode_beside_a_harmless_one_may_be_what_counts() -> None:
    expect_each(modes(), expect_review)


def test_one_mode_of_a_compressor_or_its_output_only_reads() -> None:
    alone = [
        (f"{name} {mode} a.{name}",)
        for name, harmless in COMPRESSORS.items()
        if name not in ("lz4", "brotli", "lzop")
        for mode in harmless
    ]
    expect_each(alone, expect_safe)
    printed = ("gzip -dc a.gz", "xz -cd a.xz", "zstd -d -c a.zst", "bzip2 --decompress --stdout a")
    expect_each(zip(printed, strict=True), expect_safe)


# Behind an operand, these take an option for one more operand.
BEHIND = (
    *("command rm -v x", "command -p rm -v x", "command rm -V", "command kill -v 1"),
    *("unzip a.zip -l", "unzip a.zip x -l", "unzip a.zip '*' -p", "unzip a.zip x -Z1"),
    *("terraform fmt . -check", "terraform fmt a b -check", "rpm -i -q x", "rpm -iq x.rpm"),
    *("rpm -p -q x", "rpm x -q", "dpkg x -l", "modprobe x -n", "bsdtar -f a.tar x -t"),
    *("hdparm /dev/sda -I", "tune2fs /dev/sda1 -l", "fdisk /dev/sda -l", "gpg x --list-keys"),
    *("screen x -ls", "bash -cid ls", "bash -cls -c df", "sh -cdf"),
)


def test_a_needed_option_counts_only_where_the_tool_reads_it() -> None:
    expect_each(zip(BEHIND, strict=True), expect_review)
    permuting = ("psql shop -c 'SELECT 1'", "mysql shop -e 'SELECT 1'", "nc db 5432 -zv")
    expect_each(zip(permuting, strict=True), expect_safe)


NAMED = "k4m5x6.exfil.example.net"


def lookups() -> Iterator[tuple[str]]:
    valued = {
        "nslookup": ("-type", "-q", "-query", "-class", "-port", "-timeout", "-retry", "-ndots"),
        "dig": ("-t", "-c", "-p", "-b", "-q", "-x"),
        "host": ("-t", "-c", "-N", "-R", "-W", "-p", "-m"),
        "drill": ("-V", "-b", "-p"),
        "ping": tuple(f"-{one}" for one in "cWwstMmpQTeFGgkKz"),
        "traceroute": tuple(f"-{one}" for one in "fmNptwqzMPO"),
        "tracepath": ("-l", "-m", "-p"),
        "mtr": tuple(f"-{one}" for one in "csmfPLoQGZUByN"),
        "whois": ("-i", "-s", "-T", "-t"),
    }
    for name, options in valued.items():
        for option in options:
            yield (f"{name} {option} {NAMED} 10.0.0.1",)
            yield (f"{name} {option}{NAMED} 10.0.0.1",)
            yield (f"{name} {option}={NAMED} 10.0.0.1",)
            yield (f"{name} 10.0.0.1 {option} {NAMED}",)


def test_the_value_of_an_option_is_no_way_to_look_up_a_name() -> None:
    expect_each(lookups(), expect_review_for_an_agent)
    usual = ("nslookup -type=TXT db.internal", "host -t MX db", "ping -c 3 -W 2 10.0.0.1")
    expect_each(zip(usual, strict=True), expect_safe)


DANGEROUS_LONG = {
    "sort {} x": ("--output=f", "--compress-program=sh", "--files0-from=/etc/shadow"),
    "tar -tf a {}": ("--checkpoint-action=exec=sh", "--to-command=sh", "--use-compress-program=sh"),
    "date {}": ("--set=12:00",),
    "sed {} p f": ("--in-place", "--file=x"),
    "wget -O- {} 10.0.0.1": ("--post-data=x", "--output-document=x", "--execute=x"),
    "journalctl {}": ("--rotate", "--vacuum-size=1", "--flush", "--sync"),
    "dmesg {}": ("--clear", "--read-clear", "--console-off"),
    "find . {}": ("-delete", "-fprint x"),
    "git log {}": ("--output=x", "--ext-diff", "--textconv"),
    "http --ignore-stdin {} GET 10.0.0.1": ("--download", "--output=x", "--session=x"),
    "pg_restore -l {}": ("--dbname=x", "--clean"),
    "grep {} x y": ("--file=/etc/shadow",),
    "docker ps {}": ("--config=x", "--host=tcp://10.0.0.1"),
}


def abbreviations() -> Iterator[tuple[str]]:
    for form, options in DANGEROUS_LONG.items():
        for option in options:
            name, equals, value = option.partition("=")
            for length in range(3, len(name) + 1):
                yield (form.format(f"{name[:length]}{equals}{value}"),)
                if equals:
                    yield (form.format(f"{name[:length]} {value}"),)


def test_no_abbreviation_of_an_option_that_acts_is_safe() -> None:
    whole = ("git log --text",)  # an option of its own
    expect_each((one for one in abbreviations() if one != whole), expect_review)


# Options with a free value, one of each kind of tool, and options that act or are unknown.
VALUED = (
    *("systemctl list-units {} {}", "-t", "-n", "--state"),
    *("journalctl {} {}", "-u", "--since", "-t"),
    *("lslogins {} {}", "-o", "--output"),
    *("kubectl get pods {} {}", "-n", "-l", "--field-selector"),
    *("docker ps {} {}", "-f", "--format"),
    *("lsns {} {}", "-o", "-t"),
)
ACTS = ("--rotate", "--btmp-file=x", "-K", "--kill", "-o", "--output=/etc/x", "--kubeconfig=x")


def swallowed() -> Iterator[tuple[str]]:
    form = ""
    for word in VALUED:
        if "{}" in word:
            form = word
        else:
            for act in ACTS:
                yield (form.format(word, act),)


def test_a_value_that_looks_like_an_option_may_be_one() -> None:
    """Some versions of a tool know no value there, or only one in the same word."""
    expect_each(swallowed(), expect_review)
    usual = ("journalctl -b -1 -n 5", "tail -n -5 x", "git log -n -1", "cut -d - -f 1 x")
    more = ("ps aux --sort -rss", "head -c -20 x", "kubectl logs x --since 5m", "grep -e -v x")
    expect_each(zip((*usual, *more), strict=True), expect_safe)


# A script opens these by the rules of its language: as programs, as options, as several lines.
SCRIPTS = ("mysqldumpslow {}", "mysqldumpslow -s t {}", "mariadb-dumpslow -a {}", "ar t {}")
NAMES = (
    "'id |'",
    "'|id'",
    "'id|'",
    '"id |"',
    "'> x'",
    "'>x'",
    "'<x'",
    "'a b'",
    "'$(id)'",
    "'x;id'",
)


def test_a_name_that_a_script_would_run_is_no_file() -> None:
    expect_each(((form.format(name),) for form, name in product(SCRIPTS, NAMES)), expect_review)
    expect_each(
        ((form.format("@x"),) for form in ("ar t {}", "ar tv {}", "ar t a {}")), expect_review
    )
    plain = ("mysqldumpslow /var/log/mysql/slow.log", "ar t libx.a x.o")
    expect_each(zip(plain, strict=True), expect_safe)


# These open what they are given, as an operand or as the value of an option.
OPENERS = (
    *("tar -tf {}", "tar --file={} -t", "tar tf {}", "dpkg -c {}", "dpkg -I {}", "dpkg-deb -c {}"),
    *("modinfo {}", "rpm -qp {}", "pacman -Qp {}", "cat {}", "file -s {}", "sha256sum {}"),
)
DEVICES = ("/dev/watchdog", "/dev/watchdog0", "//dev//watchdog", "/tmp/../dev/nst0", "/dev/st0")


def test_a_device_that_acts_when_it_is_opened_is_no_file() -> None:
    expect_each(((form.format(place),) for form, place in product(OPENERS, DEVICES)), expect_review)
    bare = ("tar -tf {}", "dpkg -c {}", "modinfo {}", "cat {}")
    near = (
        f"cd /dev && {form.format(name)}" for form in bare for name in ("watchdog", "watchdog1")
    )
    expect_each(zip(near, strict=True), expect_review)
    expect_each(zip(("ls -l /dev", "tar -tf a.tar", "modinfo overlay"), strict=True), expect_safe)
