"""No address inside reaches a connection: hostile spellings, redirects, rebinding names, proxies, unix sockets."""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import random
import socket
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from http_workbench import Peer, Project, Seen, answer, trap

from planrunner.capabilities.contract import Failure
from planrunner.capabilities.http.client import async_client, client, refusal
from planrunner.capabilities.http.guard import Guard, not_public, unwrapped

HOSTS = [
    "127.0.0.1", "127.1", "127.0.1", "2130706433", "0x7f000001", "0x7f.1", "0x7F.0x0.0x0.0x1", "0177.0.0.1",
    "0177.0.0.01", "017700000001", "127.255.255.254", "0", "0.0.0.0", "00", "0x0",
    "localhost", "LOCALHOST", "LocalHost", "localhost.", "127.0.0.1.", "ip6-localhost",
    "[::1]", "[::]", "[0:0:0:0:0:0:0:1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::127.0.0.1]",
    "[64:ff9b::7f00:1]", "[64:ff9b:1::7f00:1]", "[2002:7f00:1::]", "[2001:0:7f00:1::]", "[::ffff:0:127.0.0.1]",
    "[2001:0:4136:e378:8000:63bf:80ff:fffe]", "[fe80::5efe:7f00:1]", "[2606:4700::5efe:7f00:1]",
    "169.254.169.254", "0xa9fea9fe", "2852039166", "[fd00:ec2::254]", "[fd00::1]", "[fe80::1]", "[fec0::1]",
    "100.64.0.1", "100.100.100.200", "168.63.129.16", "192.0.0.192", "10.0.0.1", "10.1", "172.16.0.1", "172.31.255.255",
    "192.168.0.1", "192.168.1", "198.18.0.1", "224.0.0.1", "239.255.255.250", "240.0.0.1", "255.255.255.255",
    "[ff02::1]", "[2001:db8::1]", "[100::1]",
    "example.com@127.0.0.1", "user:secret@127.0.0.1", "example.com%40127.0.0.1", "127.0.0.1%00.example.com",
    "①②⑦.⓪.⓪.①", "１２７.０.０.１", "127。0。0。1", "127.0.0.1#@example.com", "127.0.0.1?@example.com",
    "example.com\\@127.0.0.1", "[::1%25lo]", "[::1%lo]",
]  # fmt: skip


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = Project(tmp_path)
    made.network("")
    return made


def test_no_spelling_of_an_inner_address_gets_a_connection(project: Project) -> None:
    with trap() as caught:
        for host in HOSTS:
            where = host if any(sign in host for sign in "#?") else f"{host}:{caught.port}"  # type: ignore[attr-defined]
            where = where.replace("#", f":{caught.port}#").replace("?", f":{caught.port}?")  # type: ignore[attr-defined]
            ended = project.get(f"http://{where}/", retries=0, timeout=60)
            assert ended.failure in ("policy", "logic", "transient"), (host, ended)
            assert ended.failure != "transient" or "was not found" in ended.message, (host, ended)
            assert caught() == 0, host
    assert len(HOSTS) >= 60


def test_the_trap_of_these_tests_does_catch_who_comes(project: Project) -> None:
    project.network('private: [127.0.0.1, "::1", localhost]')
    with trap() as caught:
        for host in ("127.0.0.1", "2130706433", "localhost", "[::1]", "[::ffff:127.0.0.1]"):
            before = caught()
            for timeout in (0.1, 1, 10):  # the least one that a connection takes
                project.get(f"http://{host}:{caught.port}/", retries=0, timeout=timeout)  # type: ignore[attr-defined]
                if caught() > before:
                    break
            assert caught() > before, host


LOCATIONS = [
    "http://127.0.0.1:PORT/", "http://2130706433:PORT/", "http://0x7f.1:PORT/", "http://[::1]:PORT/",
    "http://[::ffff:127.0.0.1]:PORT/", "http://localhost:PORT/", "//127.0.0.1:PORT/", "//localhost:PORT/x",
    "http://user:pass@127.0.0.1:PORT/", "http://0:PORT/", "HTTP://127.1:PORT/", "http:127.0.0.1:PORT/",
    "https://127.0.0.1:PORT/", "http://169.254.169.254/latest/meta-data/", "http://127.0.0.1:PORT\\@example.com/",
    "file:///etc/passwd", "gopher://127.0.0.1:PORT/", "unix:///var/run/docker.sock", "http+unix://%2Ftmp%2Fx/",
    "ftp://127.0.0.1:PORT/", "data:text/plain,hi", "http://①②⑦.⓪.⓪.①:PORT/", "http://[64:ff9b::7f00:1]:PORT/",
    "http:///:PORT/", "\thttp://127.0.0.1:PORT/", " //127.0.0.1:PORT/",
]  # fmt: skip


@pytest.mark.parametrize("length", [1, 3])
def test_no_redirect_leads_to_where_a_request_may_not_go(project: Project, length: int) -> None:
    with trap() as caught:
        goal = [""]

        def act(seen: Any, _: Any, __: int) -> bytes:
            step = int(seen.target.rpartition("/")[2] or 0)
            onward = f"{peer.url}/{step + 1}" if step + 1 < length else goal[0]
            return answer(302, b"", location=onward)

        with Peer(act) as peer:
            project.network(f'private: ["127.0.0.1:{peer.port}"]')
            for location in LOCATIONS:
                goal[0] = location.replace("PORT", str(caught.port)).encode().decode("latin-1")  # type: ignore[attr-defined]
                before = len(peer.requests)
                ended = project.get(f"{peer.url}/0", retries=0, timeout=60)
                assert ended.failure in ("policy", "logic", "transient"), (location, ended)
                assert len(peer.requests) >= before + length, "the chain was followed up to the last step"
                assert caught() == 0, location


def test_redirects_without_end_stop_at_ten(project: Project) -> None:
    with Peer(lambda seen, _, number: answer(302, b"", location=f"/{number}")) as peer:
        project.network("private: [127.0.0.1]")
        ended = project.get(f"{peer.url}/", retries=0)
    assert ended.failure == "logic"
    assert "redirects" in ended.message
    assert len(peer.requests) == 11


class Resolver:
    """Answers a name differently each time it is asked."""

    def __init__(self, *answers: tuple[str, ...]) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []
        self._real = socket.getaddrinfo

    def __call__(self, host: Any, port: Any, *rest: Any, **named: Any) -> Any:
        if host != "rebind.example":
            return self._real(host, port, *rest, **named)
        self.asked.append(host)
        found = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        families = [(socket.AF_INET6 if ":" in each else socket.AF_INET, each) for each in found]
        return [
            (family, socket.SOCK_STREAM, 6, "", (each, port, 0, 0) if ":" in each else (each, port))
            for family, each in families
        ]


def test_a_name_that_changes_its_mind_is_looked_up_once_and_no_inner_address_is_reached(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    connected: list[Any] = []
    real = socket.socket.connect_ex

    def connect(self: socket.socket, address: Any) -> int:
        connected.append(address[0])
        return errno.ENETUNREACH if address[0] == "198.41.0.4" else real(self, address)

    monkeypatch.setattr(socket.socket, "connect_ex", connect)
    resolver = Resolver(("198.41.0.4",), ("127.0.0.1",))
    monkeypatch.setattr(socket, "getaddrinfo", resolver)
    with trap() as caught:
        ended = project.get(
            f"http://rebind.example:{caught.port}/",  # type: ignore[attr-defined]
            retries={"times": 1, "delay": 0.01},
            timeout=240,
        )
        assert caught() == 0
    assert connected == ["198.41.0.4"], "the first connection went to the address that was checked"
    assert len(resolver.asked) == 2, "one look-up for each connection"
    assert ended.failure == "policy"
    assert "rebind.example (127.0.0.1)" in ended.message
    assert "connect error: rebind.example" in project.tries[0].message
    assert "Network is unreachable" in project.tries[0].message


@pytest.mark.parametrize("answers", [("198.41.0.4", "127.0.0.1"), ("127.0.0.1", "198.41.0.4"), ("2606:4700::1", "::1")])
def test_one_inner_address_among_public_ones_refuses_them_all(
    project: Project, monkeypatch: pytest.MonkeyPatch, answers: tuple[str, ...]
) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", Resolver(answers))
    with trap() as caught:
        ended = project.get(f"http://rebind.example:{caught.port}/", retries=0)  # type: ignore[attr-defined]
        assert ended.failure == "policy"
        assert caught() == 0


def test_a_refusal_names_host_address_and_the_line_that_would_allow_it(project: Project) -> None:
    project.network('private: [10.0.0.0/8], allow: ["*.example.org"]')
    ended = project.get("http://127.0.0.1:8123/x")
    assert ended.failure == "policy"
    assert ended.message == (
        "refused to connect to 127.0.0.1: if plans may reach it, write in planrunner.yaml: "
        'network: {private: ["10.0.0.0/8"], allow: ["*.example.org", "127.0.0.1:8123"]}'
    )
    project.network("private: [10.0.0.0/8]")
    ended = project.get("http://localhost:8123/x")
    assert ended.message.startswith("refused to connect to localhost (")
    assert ended.message.endswith(':8123"]}')
    line = ended.message.partition("write in planrunner.yaml: ")[2]
    (project.path / "planrunner.yaml").write_text(line + "\n")
    assert project.get("http://localhost:8123/x", retries=0).failure in ("transient", "policy")
    first = project.get("http://127.0.0.1:8123/x", retries=0)
    assert first.failure == "transient", "the line was taken as it was given"


def test_the_environment_names_no_proxy(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    with trap() as caught, Peer(lambda *_: answer(200, "direct")) as peer:
        for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{caught.port}")  # type: ignore[attr-defined]
        project.network("private: [127.0.0.1]")
        assert project.get(peer.url).outputs["text"] == "direct"
        assert project.get("http://192.0.2.1/", retries=0).failure == "policy"
        assert caught() == 0


def test_unix_sockets_are_refused(project: Project, tmp_path: Path) -> None:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(tmp_path / "s"))
    listener.listen()
    listener.setblocking(False)
    with client(project.context()) as connected:
        pool = connected._transport._pool  # type: ignore[attr-defined]
        with pytest.raises(Failure, match="unix socket") as refused:
            pool._network_backend.connect_unix_socket(str(tmp_path / "s"))
    assert refused.value.failure == "policy"
    with pytest.raises(BlockingIOError):
        listener.accept()
    listener.close()


@pytest.mark.parametrize("option", ["transport", "mounts", "proxy", "trust_env", "verify", "cert"])
def test_no_option_of_the_client_gets_around_the_guard(project: Project, option: str) -> None:
    with pytest.raises(TypeError, match=option):
        client(project.context(), **{option: None})


def test_the_asynchronous_client_is_held_to_the_same(project: Project) -> None:
    async def ask(url: str) -> Failure:
        async with async_client(project.context(), timeout=60) as connected:
            try:
                await connected.get(url)
            except Exception as error:
                found = refusal(error)
                assert found is not None, (url, error)
                return found
            raise AssertionError(url)

    with trap() as caught, Peer(lambda *_: answer(302, b"", location=f"http://127.0.0.1:{caught.port}/")) as peer:  # type: ignore[attr-defined]
        project.network(f'private: ["127.0.0.1:{peer.port}"]')
        for host in ("127.0.0.1", "2130706433", "localhost", "[::1]", "[::ffff:127.0.0.1]", "0"):
            assert asyncio.run(ask(f"http://{host}:{caught.port}/")).failure == "policy"  # type: ignore[attr-defined]
        assert asyncio.run(ask(peer.url)).failure == "policy", "a redirect"
        assert len(peer.requests) == 1
        assert caught() == 0


def test_the_asynchronous_client_follows_redirects_as_carefully(project: Project) -> None:
    project.network("private: [127.0.0.1]")

    def away(seen: Seen, connection: socket.socket, _: int) -> None:
        status = b"307 x" if seen.method == "POST" else b"302 x"
        connection.sendall(b"HTTP/1.1 " + status + f"\r\nlocation: {other.url}/\r\n\r\n".encode())
        while True:
            connection.sendall(b"x" * 65536)

    async def ask(method: str, content: bytes | None) -> Any:
        async with async_client(project.context(), timeout=60, headers={"x-api-key": "k"}) as connected:
            try:
                return await connected.request(method, peer.url, content=content)
            except Exception as error:
                return refusal(error)

    with Peer(lambda *_: answer(200, "there")) as other, Peer(away) as peer:
        assert asyncio.run(ask("GET", None)).text == "there"
        assert "x-api-key" not in other.requests[0].headers
        assert asyncio.run(ask("POST", b"secret")).failure == "policy"
        assert len(other.requests) == 1


def test_credentials_and_bodies_stay_with_the_origin_they_were_meant_for(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SESAME", "open-up-1234")
    project.network("private: [127.0.0.1]")
    with (
        Peer(lambda *_: answer(200, "there")) as other,
        Peer(lambda seen, *_: answer(int(seen.target[1:4]), b"", location=other.url)) as peer,
    ):
        ended = project.get(
            f"{peer.url}/302",
            auth={"bearer_env": "SESAME"},
            headers={"X-Api-Key": "k", "Private-Token": "t", "Cookie": "c=1", "Accept": "text/x"},
        )
        assert ended.outputs["text"] == "there"
        sent = other.requests[-1].headers
        assert not {"authorization", "x-api-key", "private-token", "cookie"} & sent.keys()
        assert sent["accept"] == "text/x"
        assert peer.requests[0].headers["authorization"] == "Bearer open-up-1234"
        for status in ("307", "308"):
            ended = project.call("http.post", None, url=f"{peer.url}/{status}", json={"secret": 1}, idempotent=True)
            assert ended.failure == "policy", "the body is not carried to another origin"
            assert "redirects the body" in ended.message
        assert len(other.requests) == 1
        assert project.call("http.post", None, url=f"{peer.url}/303", json={"secret": 1}).outputs["status"] == 200
        assert (other.requests[-1].method, other.requests[-1].body) == ("GET", b"")


def _spelled(address: int, chance: random.Random) -> str:
    """An IPv4 address as the system's resolver understands it, in one of its many spellings."""
    count = chance.choice((1, 2, 3, 4, 4))
    rest = 8 * (5 - count)
    parts = [address >> (32 - 8 * number) & 0xFF for number in range(1, count)] + [address & ((1 << rest) - 1)]
    forms = ("{}", "0{:o}", "0x{:x}", "0X{:X}", "00{:o}", "0x000{:x}")
    return ".".join(chance.choice(forms).format(part) for part in parts)


def _carried(address: int, chance: random.Random) -> str:
    """An IPv6 address with an IPv4 address inside."""
    return str(
        ipaddress.IPv6Address(
            chance.choice(
                (
                    0xFFFF << 32 | address,
                    0x64FF9B << 96 | address,
                    0x2002 << 112 | address << 80 | chance.getrandbits(80),
                    0x20010000 << 96 | chance.getrandbits(64) << 32 | address ^ 0xFFFFFFFF,
                    chance.getrandbits(16) << 96 | 0x5EFE << 32 | address,
                    address,
                )
            )
        )
    )


def test_ten_thousand_spellings_of_inner_addresses_are_refused() -> None:
    chance = random.Random(20)
    inner = [ipaddress.ip_network(each) for each in ("127.0.0.0/8", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16",
             "169.254.0.0/16", "100.64.0.0/10", "0.0.0.0/8", "224.0.0.0/3")]  # fmt: skip
    guard = Guard({})
    for _ in range(5000):
        network = chance.choice(inner)
        address = int(network.network_address) + chance.randrange(network.num_addresses)
        for host in (_spelled(address, chance), _carried(address, chance)):
            with pytest.raises(Failure) as refused:
                guard.admit(host, 80)
            assert refused.value.failure == "policy", host


class TestRules:
    @pytest.mark.parametrize(
        ("entry", "host", "port", "admitted"),
        [
            ("127.0.0.1", "127.0.0.1", 80, True),
            ("127.0.0.1:80", "127.0.0.1", 80, True),
            ("127.0.0.1:80", "127.0.0.1", 81, False),
            ("127.0.0.0/8", "127.9.9.9", 80, True),
            ("127.0.0.0/8:443", "127.9.9.9", 80, False),
            ("127.0.0.1", "127.0.0.2", 80, False),
            ("::1", "::1", 80, True),
            ("[::1]:80", "::1", 80, True),
            ("[::1]:80", "::1", 81, False),
            ("fd00::/8", "fd12::1", 80, True),
            ("[fd00::/8]:443", "fd12::1", 443, True),
            ("localhost", "localhost", 80, True),
            ("localhost", "LOCALHOST", 80, True),
            ("localhost:80", "localhost", 81, False),
            ("127.0.0.1", "::ffff:127.0.0.1", 80, True),
            ("10.0.0.0/8", "64:ff9b::a00:1", 80, True),
            ("10.0.0.0/8", "2002:a00:1::", 80, True),
        ],
    )
    def test_private_addresses_are_listed_by_name_address_or_network_with_or_without_a_port(
        self, entry: str, host: str, port: int, admitted: bool
    ) -> None:
        guard = Guard({"private": [entry]})
        if admitted:
            assert guard.admit(host, port)
        else:
            with pytest.raises(Failure) as refused:
                guard.admit(host, port)
            assert refused.value.failure == "policy"

    @pytest.mark.parametrize("entry", ["", "10.0.0.0/99", "a b", "host:0", "host:99999", "[::1", "http://x", 7, None])
    def test_an_entry_that_cannot_be_read_is_named(self, entry: Any) -> None:
        with pytest.raises(Failure, match=r"planrunner.yaml: `network.allow` has the entry") as refused:
            Guard({"allow": [entry]})
        assert refused.value.failure == "policy"

    def test_a_list_of_allowed_hosts_leaves_out_all_others_before_they_are_looked_up(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        resolver = Resolver(("198.41.0.4",))
        monkeypatch.setattr(socket, "getaddrinfo", resolver)
        assert Guard({"allow": ["*.example", "other.example:443"]}).admit("rebind.example", 80)
        assert Guard({"allow": ["198.41.0.0/24"]}).admit("rebind.example", 80)
        assert Guard({"allow": ["REBIND.example."]}).admit("rebind.example", 80)
        assert len(resolver.asked) == 3
        for allowed in ([], ["example"], ["*.rebind.example"], ["rebind.example:443"], ["xrebind.example"]):
            with pytest.raises(Failure, match=r"rebind\.example"):
                Guard({"allow": allowed}).admit("rebind.example", 80)
        assert len(resolver.asked) == 3, "a name that cannot be allowed is told to nobody"
        with pytest.raises(Failure, match=r"rebind\.example"):
            Guard({"allow": ["198.41.1.0/24"]}).admit("rebind.example", 80)

    def test_a_listed_host_may_stay_inside_and_an_allowed_one_may_not(self) -> None:
        assert Guard({"allow": ["127.0.0.1"], "private": ["127.0.0.1"]}).admit("127.0.0.1", 80)
        with pytest.raises(Failure):
            Guard({"allow": ["127.0.0.1"]}).admit("127.0.0.1", 80)
        with pytest.raises(Failure):
            Guard({"allow": ["example.org"], "private": ["127.0.0.1"]}).admit("127.0.0.1", 80)

    @pytest.mark.parametrize(
        "address", ["1.1.1.1", "198.41.0.4", "172.32.0.1", "100.128.0.1", "2606:4700::1", "2a00::1"]
    )
    def test_public_addresses_are_public(self, address: str) -> None:
        assert not not_public(ipaddress.ip_address(address))

    def test_what_ipv6_carries_is_judged(self) -> None:
        for text in ("::ffff:10.0.0.1", "2002:a00:1::1", "64:ff9b::10.0.0.1"):
            assert unwrapped(ipaddress.ip_address(text)) == (ipaddress.ip_address("10.0.0.1"),)
        assert Guard({}).admit("64:ff9b::101:101", 80), "a translated public address is public"
