"""Every format, tool and detector finds what its row in the table says."""

from __future__ import annotations

import random
import re

from operator_sre.ledger.redaction import Redactor
from operator_sre.ledger.redaction.addresses import find_logins
from operator_sre.ledger.redaction.arguments import (
    TOOLS,
    Tool,
    find_options,
    find_tools,
    find_unknown_tools,
    secret_arguments,
)
from operator_sre.ledger.redaction.assignments import (
    TRIGGERS,
    find_assignments,
    find_calls,
    find_elements,
    find_pairs,
    find_parameters,
    open_assignment,
)
from operator_sre.ledger.redaction.findings import Pattern
from operator_sre.ledger.redaction.formats import (
    FORMATS,
    Format,
    find_formats,
    find_hashes,
    find_pem,
    open_pem,
)
from operator_sre.ledger.redaction.headers import cookie_values, find_cookies, find_credentials
from operator_sre.ledger.redaction.lists import Columns, find_cells
from operator_sre.ledger.redaction.manifests import (
    Manifest,
    find_compact,
    find_manifest,
    has_secret,
)
from operator_sre.ledger.redaction.nouns import find_beside
from operator_sre.ledger.redaction.scan import (
    DETECTORS,
    Layout,
    scan,
)
from operator_sre.ledger.redaction.sentences import find_said, find_spelled
from tests.every import every
from tests.ledger.redaction.generator import samples
from tests.ledger.redaction.vendors import VENDORS, fill

COMMANDS = [
    "mysqldump -u root -p«hunter2» app",
    "mysql -u root -p «hunter2» app",
    "redis-cli -h cache --pass «hunter2» info",
    "redis-cli -h cache auth «hunter2»",
    "mongosh -u root -p «hunter2» --quiet",
    "sshpass -p«hunter2» ssh root@db",
    "curl -sk --proxy-user 'bob:«hun ter2»' https://h",
    "curl -b 'sid=«0f3a9c1d2b4e»' https://h",
    "docker login -u bob -p «hunter2» r.example.com",
    "ldapsearch -x -D cn=admin -w «hunter2» -b dc=x",
    "smbclient //h/s -U 'bob%«hunter2»'",
    "sqlcmd -S db -U sa -P «hunter2» -Q x",
    "cqlsh db -u bob -p «hunter2»",
    "ipmitool -H h -U root -P «hunter2» power status",
    "snmpwalk -v3 -A «hunter2» host",
    "unzip -P «hunter2» a.zip",
    "7z x -p«hunter2» a.7z",
    "openssl rsa -in k.pem -passin pass:«hunter2» -out o.pem",
    "lftp -u bob,«hunter2» ftp.example.com",
    "etcdctl --user root:«hunter2» get /",
    "htpasswd -bc /etc/htpasswd bob «hunter2»",
    "rabbitmqctl change_password guest «hunter2»",
    "vault login «hunter2token»",
    "vault operator unseal «aB3dE5fG7hJ9kL1m+/=»",
    "chpasswd <<< 'root:«hunter2»'",
    "echo 'root:«hunter2»' | chpasswd",
    "oc create secret generic x --from-literal=a=«hunter2» -n b",
    "mc alias set x https://h bob «hunter2secret»",
    "aws configure set aws_secret_access_key «hunter2secret»",
    "npm config set //r.example.com/:_authToken «hunter2token»",
    "nmcli dev wifi connect x password «hunter2»",
    "wpa_passphrase home «hunter2»",
    "xfreerdp /u:bob /p:«hunter2» /v:h",
    "masterauth «sunshine»",
    "openssl enc -aes-256-cbc -k «hunter2» -in a",
    "net user bob «hunter2» /add",
    "ssh-keygen -t ed25519 -N «hunter2» -f k",
    "cryptsetup open /dev/sda1 x <<< «hunter2»",
    "snmp-server community «hunter2» RO",
    "bw unlock «hunter2»",
    "kinit bob <<< «hunter2»",
    "gh auth login --with-token <<< «q7RtYw2Zk9LmN4xP»",
    "sqlplus bob/«hunter2»",
    "convertto-securestring '«hunter2»' -AsPlainText -Force",
    "schtasks /create /ru bob /rp «hunter2»",
    "rclone obscure «hunter2»",
    "doctl auth init -t «q7RtYw2Zk9LmN4xP»",
    "wg set wg0 private-key <(echo «q7RtYw2Zk9LmN4xPq7RtYw2Zk9LmN4xP+A8=»)",
    "mosquitto_pub -h h -u bob -P «hunter2» -t a",
    "beeline -n bob -p «hunter2» -e x",
    "snmpwalk -v2c -c «hunter2x» host",
    "aws ssm put-parameter --name a --value «hunter2» --type String",
    "az keyvault secret set --name a --value «hunter2»",
    "mysqladmin -u root password «hunter2»",
    "vault token revoke «hunter2token»",
    "nomad acl bootstrap «0f3a9c1d2b4e5f60»",
    "etcdctl user add bob:«hunter2»",
    "net use Z: //h/share /user:bob «hunter2»",
]
_ALPHABETS = ("0123456789abcdef", "ABCDEFGHIJ0123456789", "abcdefABCDEF0123456789", "abc123")


def _made(known: Format, start: str) -> bytes:
    """A text of this format, found by trying."""
    pattern = Pattern(known.body)
    chance = random.Random(start)
    for other in known.starts.split():
        for form in VENDORS.values():
            body = fill(chance, form.removeprefix(other)).encode()
            if form.startswith(other) and pattern.fits(body):
                return start.encode() + body
    for length in range(8, 140):
        for alphabet in _ALPHABETS:
            for separator in ("", "."):
                first = "".join(chance.choices(alphabet, k=length))
                second = first[::-1] if separator else first[:1]
                body = f"{first}{separator}{second}".encode()
                if pattern.fits(body):
                    return start.encode() + body
    raise AssertionError(f"no text found for {known.kind}")


@every("known", FORMATS)
def test_each_format_is_found_in_the_middle_of_a_sentence(known: Format) -> None:
    starts = known.starts.split()
    assert starts
    for start in starts:
        secret = _made(known, start)
        data = b"see " + secret + b" there"
        found = list(find_formats(data))
        assert found[0].kind == known.kind
        first = 4 + (len(start) if known.keeps_start else 0)
        assert (found[0].start, found[0].end) == (first, 4 + len(secret))
        assert list(find_formats(b"x" + data[4:])) == []  # the middle of a word is no beginning


@every("marked", COMMANDS)
def test_each_tool_gives_up_its_secret_only(redactor: Redactor, marked: str) -> None:
    before, secret, after = re.split("[«»]", marked)
    redacted = redactor.text(before + secret + after)
    assert redacted.startswith(f"{before}[REDACTED:")
    assert redacted.endswith(f"]{after}")


@every("tool", TOOLS)
def test_each_tool_has_an_example_and_asks_for_help_in_peace(tool: Tool) -> None:
    names = tool.names.split()
    lines = [line.replace("«", "").split("»")[0].encode() for line in COMMANDS]
    assert any(
        name.encode() in line and Pattern(tool.before).first(line)
        for name in names
        for line in lines
    )
    assert [list(find_tools(f"{name} --help".encode())) for name in names] == [[]] * len(names)


def test_a_tool_later_in_the_line_is_seen(redactor: Redactor) -> None:
    line = "kubectl exec db-0 -- docker exec x mysql -proot1 -e 'select 1' | redis-cli -a pw2 ping"
    redacted = redactor.text(line)
    assert "root1" not in redacted
    assert "pw2" not in redacted


@every(
    ("detector", "text", "secret"),
    [
        (find_logins, "amqp://guest:guest1@mq/", "guest1"),
        (find_options, "x --password abc12", "abc12"),
        (find_unknown_tools, "x -u bob -p abc12", "abc12"),
        (find_assignments, "password=abc12", "abc12"),
        (find_calls, 'setenv("TOKEN", "abc12345")', "abc12345"),
        (find_elements, "<token>abc12</token>", "abc12"),
        (find_pairs, 'name="TOKEN" value="abc12345"', "abc12345"),
        (find_parameters, "/x?key=abc12def34", "abc12def34"),
        (find_credentials, "Bearer abc12def34ab", "abc12def34ab"),
        (find_cookies, "Cookie: sid=abc12def34", "abc12def34"),
        (find_compact, '{"kind":"Secret","data":{"a":"YWJj"}}', "YWJj"),
        (find_beside, "token 0123456789abcdef0123", "0123456789abcdef0123"),
        (find_said, "password is abc12", "abc12"),
        (find_spelled, "identified by 'abc12'", "abc12"),
        (find_hashes, "{SSHA}YWJjZGVmZ2hpamts", "{SSHA}YWJjZGVmZ2hpamts"),
        (find_pem, "-----BEGIN PRIVATE KEY-----\n" + "QUJD" * 9, "QUJD" * 9),
    ],
)
def test_each_detector_finds_its_own(detector: object, text: str, secret: str) -> None:
    assert callable(detector)
    found = list(detector(text.encode()))
    assert [text[one.start : one.end] for one in found] == [secret]


def test_the_first_look_hides_nothing_from_the_detectors() -> None:
    for sample in samples(51, 25):
        data = sample.text.encode()
        if any(list(detector(data)) for detector in DETECTORS):
            assert scan(data, Layout()) != []
    assert Pattern(rb"(?i)" + TRIGGERS).first(b"DB_PASSWORD") is not None


def test_words_of_an_argument_list_are_judged_by_the_word_before() -> None:
    words = ["tool", "--password", "abc12", "--token", "--verbose", "--api-key=x", "y1z2w3"]
    assert secret_arguments(words) == {2: "password"}


def test_a_table_is_carried_on_to_the_next_text() -> None:
    found, columns = find_cells(b"user,password\nbob,abc12\n", None)
    assert [(one.start, one.end) for one in found] == [(18, 23)]
    assert isinstance(columns, Columns)
    found, columns = find_cells(b"eve,def34\n\nbob,ghi56\n", columns)
    assert [(one.start, one.end) for one in found] == [(4, 9)]
    assert columns is None


def test_a_manifest_waits_for_its_kind() -> None:
    state = Manifest()
    assert list(find_manifest(b"data:\n  a: YWJj\n", state)) == []
    assert state.find_unresolved() == 0
    assert has_secret(b'"kind": "Secret"')
    assert not has_secret(b"kind: SecretStore")
    config_map = b"data:\n  a: YWJj\nkind: ConfigMap\n"
    assert list(find_manifest(config_map, Manifest())) == []


def test_what_has_not_ended_is_known() -> None:
    assert open_pem(b"x\n-----BEGIN PRIVATE KEY-----\nMII\n") == 2
    assert open_pem(b"-----BEGIN PRIVATE KEY-----\nMII\n-----END PRIVATE KEY-----\n") is None
    assert open_assignment(b"x\n- name: DB_PASSWORD\n") == 2
    assert open_assignment(b"password: |\n  a\n") == 0
    assert open_assignment(b"password: |\n  a\nport: 1\n") is None


def test_cookies_that_say_nothing_stay() -> None:
    data = b"theme=dark; sid=abc12def34; Path=/"
    assert [data[one.start : one.end] for one in cookie_values(data, 0, len(data))] == [
        b"abc12def34"
    ]
