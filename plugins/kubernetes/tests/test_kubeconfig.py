"""Kubeconfig files: merged as kubectl does, cached without their secrets, never taken for older ones."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest
from kubernetes_stub import write_kubeconfig

from sky.api import CredentialsError, UsageError
from sky_kubernetes.fingerprint import fingerprint
from sky_kubernetes.kubeconfig import load, reveal

YAML = """\
apiVersion: v1
kind: Config
current-context: dev
clusters:
- name: c1
  cluster: {server: "https://one:6443/", certificate-authority: pki/ca.crt}
users:
- name: digits
  user:
    token: 0123456789
- name: quoted
  user: {username: bob, password: 'p: w#d'}
- name: login
  user:
    exec:
      apiVersion: client.authentication.k8s.io/v1
      command: ./bin/login
      args: [--client-secret, s3cr3t-arg]
      env: [{name: KEY, value: s3cr3t-env}]
contexts:
- name: dev
  context: {cluster: c1, user: digits, namespace: team}
- name: q
  context: {cluster: c1, user: quoted}
- name: l
  context: {cluster: c1, user: login}
- name: broken
  context: {cluster: nowhere, user: digits}
"""


def settled(path: Path, text: str) -> Path:
    """A file that was written a while ago, as kubeconfigs are."""
    path.write_text(text)
    old = time.time() - 60
    os.utime(path, (old, old))
    return path


def test_scalars_are_as_written_and_paths_beside_the_file(tmp_path: Path) -> None:
    config = load([str(settled(tmp_path / "config", YAML))])
    dev = config.context()
    assert (dev.name, dev.server, dev.namespace) == ("dev", "https://one:6443", "team")
    assert reveal(dev.user["token"]) == "0123456789"
    assert dev.cluster["certificate-authority"] == str(tmp_path / "pki/ca.crt")
    assert config.context("l").user["exec"]["command"] == f"{tmp_path}/./bin/login"


def test_cache_gives_the_same_and_holds_no_secret(tmp_path: Path) -> None:
    path = settled(tmp_path / "config", YAML)
    cold = load([str(path)], directory=tmp_path / "d")
    files = list((tmp_path / "d").iterdir())
    assert [oct(file.stat().st_mode & 0o777) for file in files] == ["0o600"]
    stored = files[0].read_text()
    for secret in ("0123456789", "p: w#d", "s3cr3t-arg", "s3cr3t-env"):
        assert secret not in stored
    files[0].write_text(stored.replace("https://one", "https://cached"))
    warm = load([str(path)], directory=tmp_path / "d")
    assert warm.context().server == "https://cached:6443", "the cache was not used"
    assert (
        reveal(warm.context("q").user["password"]) == reveal(cold.context("q").user["password"]) == "p: w#d"
    )
    assert [reveal(arg) for arg in warm.context("l").user["exec"]["args"]] == [
        "--client-secret",
        "s3cr3t-arg",
    ]
    assert "0123456789" not in repr(warm) + repr(cold)


@pytest.mark.parametrize("scalar", ['"a\\x41b"', ">-\n      folded\n      text", "|-\n      line"])
def test_secret_that_cannot_be_read_back_is_not_cached(tmp_path: Path, scalar: str) -> None:
    path = settled(tmp_path / "config", YAML.replace("0123456789", scalar))
    expected = reveal(load([str(path)]).context().user["token"])
    for _ in range(2):
        assert reveal(load([str(path)], directory=tmp_path / "d").context().user["token"]) == expected
    assert not (tmp_path / "d").exists()


def test_non_ascii_before_a_secret_does_not_shift_it(tmp_path: Path) -> None:
    path = settled(tmp_path / "config", "# é漢🙂\r\n" + YAML)
    for _ in range(2):
        assert reveal(load([str(path)], directory=tmp_path / "d").context().user["token"]) == "0123456789"
    assert (tmp_path / "d").exists()


def test_changed_server_is_seen_at_once(tmp_path: Path) -> None:
    """A cluster made anew under the same name: the next call must not use the old address."""
    path = tmp_path / "config"
    for seconds_ago, server in ((90, "https://one:1"), (60, "https://two:1"), (0, "https://six:1")):
        write_kubeconfig(path, server)
        os.utime(path, (time.time() - seconds_ago,) * 2)
        for _ in range(2):
            assert load([str(path)], directory=tmp_path / "d").context().server == server


def test_file_replaced_while_in_use_is_no_wrong_secret(tmp_path: Path) -> None:
    path = settled(tmp_path / "config", YAML)
    load([str(path)], directory=tmp_path / "d")
    ref = load([str(path)], directory=tmp_path / "d").context()
    path.write_text("# one more line\n" + YAML)
    with pytest.raises(CredentialsError, match="changed while it was read"):
        reveal(ref.user["token"])


def test_files_merge_first_wins_and_missing_are_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_kubeconfig(tmp_path / "a", "https://a:1")
    write_kubeconfig(tmp_path / "b", "https://b:1")
    settled(tmp_path / "c", YAML)
    paths = [str(tmp_path / name) for name in ("none", "a", "b", "c")]
    monkeypatch.setenv("KUBECONFIG", os.pathsep.join(paths))
    config = load()
    assert config.current == "stub"
    assert config.context("stub").server == "https://a:1"
    assert config.context("dev").server == "https://one:6443"


def test_errors_say_what_to_do(tmp_path: Path) -> None:
    config = load([str(settled(tmp_path / "config", YAML))])
    with pytest.raises(UsageError) as caught:
        config.context("de")
    assert "'de'" in caught.value.message and "dev" in caught.value.remedy
    with pytest.raises(UsageError, match="cluster 'nowhere' isn't defined"):
        config.context("broken")
    with pytest.raises(CredentialsError, match="no Kubernetes context"):
        load([str(tmp_path / "none")]).context()


def test_invalid_yaml_is_not_quoted(tmp_path: Path) -> None:
    path = settled(tmp_path / "config", 'token: "abc123secret\n  [')
    with pytest.raises(CredentialsError) as caught:
        load([str(path)])
    assert "abc123secret" not in str(caught.value) and str(path) in str(caught.value)


def test_fingerprint_follows_every_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = tmp_path / "d"
    path = settled(tmp_path / "config", YAML)
    monkeypatch.setenv("KUBECONFIG", str(path))
    monkeypatch.setenv("AWS_PROFILE", "one-profile")
    seen = [fingerprint(directory, ("l",))]
    assert fingerprint(directory, ("l",)) == seen[0]
    monkeypatch.setenv("AWS_PROFILE", "another-profile")
    seen.append(fingerprint(directory, ("l",)))
    seen.append(fingerprint(directory, ("dev",)))
    path.write_text(YAML.replace("0123456789", "9876543210"))
    seen.append(fingerprint(directory, ("dev",)))
    assert len(set(seen)) == len(seen)


def test_fingerprint_follows_a_token_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    token = settled(tmp_path / "token", "one")
    path = write_kubeconfig(tmp_path / "config", "https://a:1", user={"tokenFile": "token"})
    monkeypatch.setenv("KUBECONFIG", str(path))
    before = fingerprint(tmp_path / "d")
    token.write_text("two")
    assert fingerprint(tmp_path / "d") != before


def test_json_is_a_kubeconfig_too(tmp_path: Path) -> None:
    path = settled(tmp_path / "config", json.dumps({"contexts": [], "clusters": [], "users": []}))
    assert load([str(path)]).contexts == {}


def test_service_account_is_a_context_inside_a_pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in (("token", "t0ken"), ("namespace", "team-a"), ("ca.crt", "")):
        (tmp_path / name).write_text(text)
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "empty"))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "6443")
    ref = load(service_account=tmp_path).context()
    assert (ref.name, ref.server, ref.namespace) == ("in-cluster", "https://[fd00::1]:6443", "team-a")
    assert ref.user["tokenFile"] == str(tmp_path / "token")
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST")
    assert load(service_account=tmp_path).contexts == {}
