"""The targets of webhooks: the allow-list, the addresses that are connected to, TLS, and refused settings."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path

import httpcore2
import pytest
from pydantic import ValidationError

from app.settings import ApiSettings
from app.webhooks.post import ForbiddenAddressError, Postman
from app.webhooks.receivers import Receiver, ReceiverError, Receivers
from smoothcert.client.errors import InvalidRequestError
from smoothcert.client.fields import make_request, payload
from smoothcert.request import CertificationRequest
from tests.support.receiver import receiving


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("93.184.215.14", True),
        ("2606:2800:21f:cb07:6820:80da:af6b:8b2c", True),
        ("127.0.0.1", False),
        ("10.0.0.1", False),
        ("172.16.0.1", False),
        ("192.168.1.1", False),
        ("100.64.0.1", False),
        ("169.254.169.254", False),
        ("0.0.0.0", False),
        ("255.255.255.255", False),
        ("224.0.0.1", False),
        ("::1", False),
        ("::", False),
        ("fe80::1%eth0", False),
        ("fd00::1", False),
        ("ff02::1", False),
        ("::ffff:127.0.0.1", False),
        ("::ffff:93.184.215.14", True),
        ("64:ff9b::7f00:1", False),
        ("2002:7f00:1::", False),
        ("2001:0:4136:e378:8000:63bf:3fff:fdd2", False),
    ],
)
def test_only_public_addresses_are_connected_to(address: str, public: bool) -> None:
    assert Receivers.read([], []).may_connect(address) is public


def test_a_network_that_is_named_may_be_connected_to() -> None:
    receivers = Receivers.read(["hooks.internal"], ["10.1.0.0/16", "fd00::/8"])
    seen = ("10.1.2.3", "10.2.0.1", "fd00::1", "::ffff:10.1.2.3", "127.0.0.1")
    assert [receivers.may_connect(each) for each in seen] == [True, False, True, True, False]


def test_a_host_stands_for_https_and_an_origin_for_itself() -> None:
    receivers = Receivers.read(["hooks.example.com", "http://inside:8080"], [])
    allowed = ("https://hooks.example.com/a?b=c", "https://HOOKS.example.com:443", "http://inside:8080/")
    refused = ("http://hooks.example.com/", "https://hooks.example.com:8443/", "https://inside:8080/", "http://inside/")
    for url in allowed:
        receivers.require(url)
    for url in refused:
        with pytest.raises(ReceiverError, match="host that this service allows"):
            receivers.require(url)
    assert receivers.require(allowed[0]) == Receiver("https", "hooks.example.com", 443, "/a?b=c")
    assert [receivers.require(url).authority for url in allowed[1:]] == ["hooks.example.com", "inside:8080"]


def post(postman: Postman, url: str) -> int:
    async def posted() -> int:
        try:
            return await postman.post(Receiver.of(url), b"{}", {"webhook-id": "msg_1"})
        finally:
            await postman.close()

    return asyncio.run(posted())


def test_a_name_that_points_elsewhere_a_moment_later_gains_nothing() -> None:
    """DNS rebinding: the second answer would be a forbidden address, and it is never asked for.

    Mutant killed: checking the addresses of a name and then connecting to the name.
    """
    hosts: list[str] = []

    async def rebinding(host: str, port: int) -> list[str]:
        hosts.append(host)
        return ["127.0.0.2"] if len(hosts) == 1 else ["127.0.0.1"]

    with receiving(host="127.0.0.2") as wanted, receiving(host="127.0.0.1", port=wanted.port) as forbidden:
        receivers = Receivers.read([f"http://hooks.example.com:{wanted.port}"], ["127.0.0.2/32"])
        url = f"http://hooks.example.com:{wanted.port}/hook"
        postman = Postman(receivers, find=rebinding)
        assert post(postman, url) == 204
        assert hosts == ["hooks.example.com"]
        assert wanted.received[0].headers["host"] == f"hooks.example.com:{wanted.port}"
        with pytest.raises(ForbiddenAddressError, match=r"hooks\.example\.com has no address"):
            post(Postman(receivers, find=rebinding), url)
        assert (len(wanted.received), forbidden.received) == (1, [])


def test_among_several_addresses_only_an_allowed_one_is_connected_to() -> None:
    async def mixed(host: str, port: int) -> list[str]:
        return ["127.0.0.1", "127.0.0.2"]

    with receiving(host="127.0.0.2") as wanted, receiving(host="127.0.0.1", port=wanted.port) as forbidden:
        receivers = Receivers.read([f"http://x:{wanted.port}"], ["127.0.0.2/32"])
        assert post(Postman(receivers, find=mixed), f"http://x:{wanted.port}/") == 204
        assert (len(wanted.received), forbidden.received) == (1, [])


def test_a_proxy_of_the_environment_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    with receiving() as wanted, receiving() as proxy:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy.origin)
        assert post(Postman(Receivers.read([wanted.origin], ["127.0.0.0/8"])), f"{wanted.origin}/") == 204
        assert proxy.received == []


def test_the_certificate_of_a_receiver_is_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    both = tmp_path / "both.pem"
    names = ("-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost")
    keys = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", str(tmp_path / "key.pem"))
    command = ("openssl", "req", "-x509", "-days", "2", *keys, *names, "-out", str(tmp_path / "certificate.pem"))
    subprocess.run(command, check=True, capture_output=True)
    both.write_bytes((tmp_path / "certificate.pem").read_bytes() + (tmp_path / "key.pem").read_bytes())
    with receiving(certificate=both) as receiver:
        hosts = [f"https://{name}:{receiver.port}" for name in ("localhost", "127.0.0.1")]
        receivers = Receivers.read(hosts, ["127.0.0.0/8"])
        with pytest.raises(httpcore2.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
            post(Postman(receivers), hosts[0])
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "certificate.pem"))
        assert post(Postman(receivers), hosts[0]) == 204
        with pytest.raises(httpcore2.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
            post(Postman(receivers), hosts[1])
        assert len(receiver.received) == 1


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"webhook_hosts": "hooks.example.com"}, "webhook_secret_file"),
        ({"webhook_hosts": "hooks.example.com/path"}, "no path"),
        ({"webhook_hosts": "ftp://hooks.example.com"}, "https://"),
        ({"webhook_hosts": "user@hooks.example.com"}, "user name"),
        ({"webhook_networks": "10.1.0.1/16"}, "10.1.0.0/16"),
        ({"webhook_retry_s": "5,soon"}, "soon"),
        ({"webhook_retry_s": "5,-1"}, "positive"),
        ({"webhook_retry_s": "600000"}, "432,000"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, str], named: str) -> None:
    with pytest.raises(ValidationError, match=named):
        ApiSettings(**settings)  # type: ignore[arg-type]


def test_the_sdk_sends_the_address_as_it_is() -> None:
    request = make_request({"webhook": "https://hooks.example.com/a"}, CertificationRequest)
    assert payload(request)["webhook"] == "https://hooks.example.com/a"
    with pytest.raises(InvalidRequestError, match="webhook"):
        make_request({"webhook": "hooks.example.com"}, CertificationRequest)
