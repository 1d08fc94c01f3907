"""The REST client and logins, against a stub that answers as real servers do when things go wrong."""

from __future__ import annotations

import base64
import contextlib
import io
import json
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kubernetes_fixtures import Certificates, MakeContext
from kubernetes_stub import Seen, StubServer, write_kubeconfig

from sky.api import (
    Cancelled,
    CancelToken,
    Command,
    CredentialsError,
    Host,
    LoginExpired,
    NotPermitted,
    SkyError,
    TimedOut,
    Unreachable,
)
from sky_kubernetes.api_client import ApiConflict, ApiInvalid, ApiNotFound, connect
from sky_kubernetes.plugin import KubernetesRunner

PODS = "/api/v1/namespaces/ns/pods"


# --- answers -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (403, NotPermitted),
        (404, ApiNotFound),
        (409, ApiConflict),
        (422, ApiInvalid),
        (400, ApiInvalid),
        (401, LoginExpired),
    ],
)
def test_statuses_become_errors_with_the_servers_words(
    stub: StubServer, make_context: MakeContext, status: int, error: type[SkyError]
) -> None:
    stub.answers["POST", PODS] = (status, {"message": "pods is forbidden: cannot create", "reason": "R"})
    with pytest.raises(error) as caught:
        connect(make_context()).post(PODS, {"kind": "Pod"})
    assert "'stub'" in caught.value.message
    if status != 401:
        assert "cannot create" in caught.value.message


def test_busy_server_is_asked_again(stub: StubServer, make_context: MakeContext) -> None:
    answers = iter([(429, {}), (503, {}), (200, {"ok": "yes"})])
    stub.answers["GET", PODS] = lambda _: next(answers)
    assert connect(make_context()).get(PODS) == {"ok": "yes"}


def test_server_that_stays_busy_is_an_error_within_the_deadline(
    stub: StubServer, make_context: MakeContext
) -> None:
    stub.answers["GET", PODS] = (503, {"message": "etcd is down"})
    begun = time.monotonic()
    with pytest.raises(SkyError, match="etcd is down"):
        connect(make_context(seconds=1)).get(PODS)
    assert time.monotonic() - begun < 1.5


def test_what_is_no_api_server_is_said(stub: StubServer, make_context: MakeContext) -> None:
    stub.answers["GET", PODS] = (200, b"<html>captive portal</html>")
    with pytest.raises(Unreachable, match="no Kubernetes API server"):
        connect(make_context()).get(PODS)


def test_connections_are_kept_and_a_dropped_one_is_replaced(
    stub: StubServer, make_context: MakeContext
) -> None:
    stub.answers["GET", PODS] = (200, {})
    with connect(make_context()) as api:
        api.get(PODS)
        api.get(PODS)
        assert stub.connections == 1
        stub.drop_connections()
        api.get(PODS)
        assert stub.connections == 2


def test_list_is_read_in_pages_and_begun_again_when_forgotten(
    stub: StubServer, make_context: MakeContext
) -> None:
    expired = iter([True, False, False])

    def page(seen: Seen) -> tuple[int, Any]:
        if seen.query.get("continue") == "second":
            if next(expired):
                return 410, {"message": "too old"}
            return 200, {"items": [{"n": 2}], "metadata": {"resourceVersion": "9"}}
        return 200, {"items": [{"n": 1}], "metadata": {"continue": "second"}}

    stub.answers["GET", PODS] = page
    listing = connect(make_context()).list_all(PODS, labelSelector="a=b", limit=1)
    assert [item["n"] for item in listing["items"]] == [1, 2]
    assert {seen.query["labelSelector"] for seen in stub.seen} == {"a=b"}


# --- watch -------------------------------------------------------------------------------------------


def pod(uid: str, version: str) -> dict[str, Any]:
    return {"metadata": {"uid": uid, "name": uid, "resourceVersion": version}}


def test_watch_goes_on_after_cuts_and_forgotten_versions(stub: StubServer, make_context: MakeContext) -> None:
    lists = iter([[pod("a", "1"), pod("b", "1")], [pod("b", "5"), pod("c", "5")]])
    lines = iter(
        [
            {"type": "MODIFIED", "object": pod("b", "2")},
            {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "3"}}},
            {"type": "ERROR", "object": {"code": 410, "message": "too old"}},
            {"type": "DELETED", "object": pod("c", "6")},
        ]
    )
    versions: list[str] = []

    def answer(seen: Seen) -> tuple[int, Any]:
        if "watch" not in seen.query:
            return 200, {"items": next(lists), "metadata": {"resourceVersion": "1"}}
        versions.append(seen.query["resourceVersion"])
        return 200, json.dumps(next(lines)).encode() + b"\n"

    stub.answers["GET", PODS] = answer
    events = []
    for event in connect(make_context()).watch(PODS):
        events.append((event["type"], event["object"]["metadata"]["name"]))
        if event["type"] == "DELETED" and events[-1][1] == "c":
            break
    assert events[:3] == [("ADDED", "a"), ("ADDED", "b"), ("MODIFIED", "b")]
    assert events[3] == ("DELETED", "a")  # went while the server had forgotten
    assert sorted(events[4:6]) == [("ADDED", "b"), ("ADDED", "c")]
    assert versions == ["1", "2", "3", "1"]


def test_watch_ends_at_its_deadline_and_when_cancelled(stub: StubServer, make_context: MakeContext) -> None:
    release = threading.Event()

    def answer(seen: Seen) -> tuple[int, Any]:
        if "watch" not in seen.query:
            return 200, {"items": [], "metadata": {"resourceVersion": "1"}}
        release.wait(20)
        return 200, b""

    stub.answers["GET", PODS] = answer
    token = CancelToken()
    threading.Timer(0.3, token.cancel).start()
    begun = time.monotonic()
    assert list(connect(make_context()).watch(PODS, cancel=token)) == []
    assert time.monotonic() - begun < 2
    release.set()
    assert list(connect(make_context()).watch(PODS, deadline=time.monotonic() + 0.2)) == []


# --- time --------------------------------------------------------------------------------------------


@pytest.fixture
def silent_server() -> Iterator[str]:
    """Takes connections and says nothing, not even TLS."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"https://127.0.0.1:{listener.getsockname()[1]}"


def test_silent_server_ends_at_the_deadline(
    silent_server: str, make_context: MakeContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(write_kubeconfig(tmp_path / "config", silent_server)))
    begun = time.monotonic()
    with pytest.raises(TimedOut, match=r"'stub' at https://127\.0\.0\.1"):
        connect(make_context(seconds=0.4)).get(PODS)
    assert time.monotonic() - begun < 2


def test_silent_server_can_be_cancelled(
    silent_server: str, make_context: MakeContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(write_kubeconfig(tmp_path / "config", silent_server)))
    token = CancelToken()
    threading.Timer(0.3, token.cancel).start()
    begun = time.monotonic()
    with pytest.raises(Cancelled):
        connect(make_context(cancel=token)).get(PODS)
    assert time.monotonic() - begun < 1.3


def test_dead_current_context_does_not_block_another(
    stub: StubServer, make_context: MakeContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stub.answers["GET", PODS] = (200, {})
    text = json.loads(write_kubeconfig(tmp_path / "dead", "https://127.0.0.1:1").read_text())
    text["contexts"][0]["name"] = text["current-context"] = "dead"
    text["clusters"][0]["name"] = text["contexts"][0]["context"]["cluster"] = "dead-cluster"
    (tmp_path / "dead").write_text(json.dumps(text))
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path / 'dead'}:{tmp_path / 'stub-kubeconfig'}")
    with pytest.raises(Unreachable, match="'dead'"):
        connect(make_context()).get(PODS)
    assert connect(make_context(), "stub").get(PODS) == {}


# --- logins ------------------------------------------------------------------------------------------

LOGIN = """#!/bin/sh
echo x >>"$COUNT"
n=$(wc -l <"$COUNT")
printf '{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","status":'
printf '{"token":"token-%s","expirationTimestamp":"2999-01-01T00:00:00Z"}}' "$((n))"
"""


def login_config(tmp_path: Path, url: str, script: str) -> Path:
    program = tmp_path / "login"
    program.write_text(script)
    program.chmod(0o755)
    spec = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "./login",
        "env": [{"name": "COUNT", "value": str(tmp_path / "count")}],
        "installHint": "get it from your admin",
    }
    return write_kubeconfig(tmp_path / "config", url, user={"exec": spec})


def test_login_program_is_run_once_and_again_when_refused(
    stub: StubServer, make_context: MakeContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(login_config(tmp_path, stub.url, LOGIN)))
    good = {"Bearer token-1"}
    stub.answers["GET", PODS] = lambda seen: (200 if seen.headers.get("authorization") in good else 401, {})
    for _ in range(2):
        connect(make_context()).get(PODS)
    assert (tmp_path / "count").read_text() == "x\n", "kept until it expires"
    kept = list((tmp_path / "plugin-directory").glob("login-*"))
    assert [stat.S_IMODE(file.stat().st_mode) for file in kept] == [0o600]
    good.clear()
    good.add("Bearer token-2")
    connect(make_context()).get(PODS)
    assert (tmp_path / "count").read_text() == "x\nx\n"
    good.clear()
    with pytest.raises(LoginExpired) as caught:
        connect(make_context()).get(PODS)
    assert "token-" not in str(caught.value)


def test_login_program_that_fails_says_its_last_line(
    stub: StubServer, make_context: MakeContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = "#!/bin/sh\necho first >&2; echo 'the SSO session has expired' >&2; exit 1\n"
    monkeypatch.setenv("KUBECONFIG", str(login_config(tmp_path, stub.url, script)))
    with pytest.raises(LoginExpired, match=r"login' failed: the SSO session has expired"):
        connect(make_context()).get(PODS)
    (tmp_path / "login").unlink()
    with pytest.raises(CredentialsError) as caught:
        connect(make_context()).get(PODS)
    assert caught.value.remedy == "get it from your admin"


@pytest.mark.parametrize(
    ("user", "header"),
    [
        ({"token": "abc"}, "Bearer abc"),
        ({"tokenFile": "token"}, "Bearer from-file"),
        ({"username": "u", "password": "p"}, "Basic dTpw"),
    ],
)
def test_plain_logins(
    stub: StubServer,
    make_context: MakeContext,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    user: dict[str, str],
    header: str,
) -> None:
    (tmp_path / "token").write_text("from-file\n")
    monkeypatch.setenv("KUBECONFIG", str(write_kubeconfig(tmp_path / "config", stub.url, user=user)))
    stub.answers["GET", PODS] = (200, {})
    connect(make_context()).get(PODS)
    assert stub.seen[-1].headers["authorization"] == header


def test_legacy_auth_provider_is_left_to_the_official_client(
    stub: StubServer, make_context: MakeContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    claims = base64.urlsafe_b64encode(b'{"exp": 32503680000}').decode().rstrip("=")
    token = f"e30.{claims}.c2ln"
    provider = {
        "name": "oidc",
        "config": {"id-token": token, "client-id": "c", "idp-issuer-url": "https://i"},
    }
    user = {"auth-provider": provider}
    monkeypatch.setenv("KUBECONFIG", str(write_kubeconfig(tmp_path / "config", stub.url, user=user)))
    stub.answers["GET", PODS] = (200, {})
    connect(make_context()).get(PODS)
    assert stub.seen[-1].headers["authorization"] == f"Bearer {token}"
    provider["name"] = "unheard-of"
    write_kubeconfig(tmp_path / "config", stub.url, user=user)
    with pytest.raises(CredentialsError, match="unheard-of"):
        connect(make_context()).get(PODS)


def test_upgrade_logs_in_again_once(
    stub: StubServer, make_context: MakeContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(login_config(tmp_path, stub.url, LOGIN)))
    good = {"Bearer token-2"}
    answer = (401, {"message": "Unauthorized"})
    stub.answers["GET", f"{PODS}/p/exec"] = lambda seen: (
        (101, None) if seen.headers.get("authorization") in good else answer
    )
    host = Host(transport="kubernetes", address={"context": "stub", "namespace": "ns", "pod": "p"})
    command = Command(argv=("sh", "-c", "exit 6"))
    run = KubernetesRunner().sky_run
    assert run(make_context(), host, command, None, io.BytesIO(), io.BytesIO()) == 6
    good.clear()
    with pytest.raises(LoginExpired):
        run(make_context(), host, command, None, io.BytesIO(), io.BytesIO())


# --- TLS and proxies ---------------------------------------------------------------------------------


@pytest.fixture
def secure(certificates: Certificates) -> Iterator[StubServer]:
    server = StubServer(certificates.server_context())
    server.answers["GET", PODS] = (200, {"ok": "yes"})
    with contextlib.closing(server):
        yield server


@pytest.mark.parametrize(
    ("cluster", "problem"),
    [
        ({"certificate-authority": "CA"}, ""),
        ({"certificate-authority": "CA", "tls-server-name": "api.test"}, ""),
        ({"insecure-skip-tls-verify": True}, ""),
        ({}, "not trusted"),
        ({"certificate-authority": "CA", "tls-server-name": "other.test"}, "not trusted"),
    ],
)
def test_certificates_are_verified_unless_told_otherwise(
    secure: StubServer,
    certificates: Certificates,
    make_context: MakeContext,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    cluster: dict[str, Any],
    problem: str,
) -> None:
    cluster = {k: str(certificates.authority) if v == "CA" else v for k, v in cluster.items()}
    monkeypatch.setenv("KUBECONFIG", str(write_kubeconfig(tmp_path / "config", secure.url, cluster=cluster)))
    if problem:
        with pytest.raises(Unreachable, match=problem):
            connect(make_context()).get(PODS)
    else:
        assert connect(make_context()).get(PODS) == {"ok": "yes"}


def proxy() -> tuple[socket.socket, list[bytes]]:
    """An HTTP proxy for one CONNECT; what it was asked is in the list."""
    listener, asked = socket.create_server(("127.0.0.1", 0)), []

    def serve() -> None:
        client, _ = listener.accept()
        head = b""
        while b"\r\n\r\n" not in head:
            head += client.recv(4096)
        asked.append(head)
        host, port = head.split()[1].decode().rsplit(":", 1)
        server = socket.create_connection((host, int(port)))
        client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
        for source, target in ((client, server), (server, client)):
            threading.Thread(target=_copy, args=(source, target), daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    return listener, asked


def _copy(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)


def test_proxy_of_the_cluster_is_used(
    secure: StubServer,
    certificates: Certificates,
    make_context: MakeContext,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    listener, asked = proxy()
    url = f"http://me:pass@127.0.0.1:{listener.getsockname()[1]}"
    cluster = {"certificate-authority": str(certificates.authority), "proxy-url": url}
    monkeypatch.setenv("KUBECONFIG", str(write_kubeconfig(tmp_path / "config", secure.url, cluster=cluster)))
    with contextlib.closing(listener):
        assert connect(make_context()).get(PODS) == {"ok": "yes"}
    assert asked[0].startswith(f"CONNECT 127.0.0.1:{secure.port} ".encode())
    assert b"Proxy-Authorization: Basic bWU6cGFzcw==" in asked[0]


def test_importing_needs_no_sdk() -> None:
    code = (
        "import sys, sky_kubernetes.plugin, sky_kubernetes.runner, sky_kubernetes.exec_channel;"
        "slow = {'kubernetes', 'yaml', 'urllib3', 'http.client', 'websocket'} & set(sys.modules);"
        "sys.exit(','.join(slow) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stderr) == (0, "")


def test_paths_are_plain_text_and_encoded_as_they_are_sent(
    stub: StubServer, make_context: MakeContext
) -> None:
    stub.answers["GET", "/api/v1/namespaces/x%20y%3F/pods"] = (200, {"items": []})
    with connect(make_context()) as api:
        assert api.get("/api/v1/namespaces/x y?/pods", limit=1) == {"items": []}
    assert stub.seen[-1].query == {"limit": "1"}
