"""A repository as the workdir: real repositories, by path and by an HTTP server that wants a login."""

from __future__ import annotations

import base64
import os
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from sky.cancellation import CancelToken
from sky.errors import Unreachable, UsageError
from sky.launcher import files, gitdir
from sky.task.model import GitSource, Task


def git(root: Path, *words: str) -> str:
    author = ("-c", "user.name=n", "-c", "user.email=e", "-c", "protocol.file.allow=always")
    done = subprocess.run(["git", "-C", str(root), *author, *words], check=True, capture_output=True)
    return done.stdout.decode().strip()


def commit(root: Path, **content: str) -> str:
    """A commit with these files; its name."""
    for name, text in content.items():
        (root / name).write_text(text)
    git(root, "add", "-A")
    git(root, "commit", "-qm", "a commit", "--allow-empty")
    return git(root, "rev-parse", "HEAD")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SKY_HOME", str(tmp_path / "sky home"))
    (tmp_path / "gitconfig").touch()
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    return tmp_path / "sky home"


@pytest.fixture
def origin(tmp_path: Path) -> Path:
    root = tmp_path / "origin"
    root.mkdir()
    git(root, "init", "-q", "-b", "trunk")
    commit(root, a="one", b="b")
    return root


def content(source: GitSource, base_dir: str = "") -> dict[str, str]:
    """What would be sent: names and texts."""
    with gitdir.checked_out(source, base_dir, CancelToken()) as tree:
        return {
            str(path.relative_to(tree.directory)): path.read_text()
            for path in tree.directory.rglob("*")
            if path.is_file() and str(path.relative_to(tree.directory)) not in tree.excludes
        }


def test_branch_tag_commit_and_none(origin: Path, tmp_path: Path) -> None:
    first = git(origin, "rev-parse", "HEAD")
    git(origin, "tag", "-a", "v1", "-m", "first")
    git(origin, "checkout", "-qb", "feature/x")
    second = commit(origin, a="two")
    git(origin, "checkout", "-q", "trunk")
    url = str(origin)
    for ref, expected in (
        (None, first),
        ("trunk", first),
        ("v1", first),
        ("feature/x", second),
        ("refs/heads/feature/x", second),
        (first, first),
        (second, second),
        (second[:9], second),
    ):
        assert gitdir.prepare(GitSource(url, ref)) == expected
        assert content(GitSource(url, ref))["a"] == ("one" if expected == first else "two")
    assert content(GitSource("origin"), str(tmp_path)) == {"a": "one", "b": "b"}


def test_a_moved_branch_changes_what_changed_and_nothing_else(origin: Path) -> None:
    source = GitSource(str(origin), "trunk")
    gitdir.prepare(source)
    with gitdir.checked_out(source, "", CancelToken()) as tree:
        before = (tree.directory / "b").stat().st_mtime_ns
        (tree.directory / "stray").write_text("x")
    git(origin, "rm", "-q", "--cached", "a")
    (origin / "a").unlink()
    commit(origin, c="new")
    gitdir.prepare(source)
    with gitdir.checked_out(source, "", CancelToken()) as tree:
        assert (tree.directory / "b").stat().st_mtime_ns == before
    assert content(source) == {"b": "b", "c": "new"}


def test_equal_sizes_never_share_a_second(origin: Path) -> None:
    """Else what is on a node already would be taken for it."""
    seconds = []
    for ref, text in (("x", "one"), ("y", "two"), ("x", "six")):
        git(origin, "checkout", "-qB", ref)
        commit(origin, a=text)
        source = GitSource(str(origin), ref)
        gitdir.prepare(source)
        with gitdir.checked_out(source, "", CancelToken()) as tree:
            seconds.append(int((tree.directory / "a").stat().st_mtime))
    assert len(set(seconds)) == 3


def test_a_launch_uses_the_commit_that_was_checked(origin: Path) -> None:
    task = files.check(Task(git=GitSource(str(origin)), base_dir="/"))
    assert task.git is not None and task.git.commit == git(origin, "rev-parse", "HEAD")
    commit(origin, a="later")
    assert content(task.git)["a"] == "one"
    assert content(GitSource(str(origin)))["a"] == "later"
    assert content(task.git)["a"] == "one"


def test_a_commit_that_is_here_needs_no_network(origin: Path, tmp_path: Path) -> None:
    source = GitSource(str(origin), git(origin, "rev-parse", "HEAD"))
    gitdir.prepare(source)
    origin.rename(tmp_path / "gone")
    assert gitdir.prepare(source) == source.ref
    with pytest.raises(UsageError, match="can't fetch"):
        gitdir.prepare(GitSource(str(origin)))


def test_what_is_wrong_is_said_in_one_line_with_what_to_do(origin: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    git(tmp_path / "empty", "init", "-q")
    for url, ref, said in (
        (str(origin), "nowhere", r"has no branch or tag 'nowhere'"),
        (str(origin), "0" * 40, r"has no commit 0000"),
        (str(origin), "--upload-pack=x", r"can't be a branch"),
        (str(origin), "a b", r"can't be a branch"),
        (str(tmp_path / "absent"), None, r"can't fetch .*absent"),
        (str(tmp_path / "empty"), None, r"no commits"),
        ("--upload-pack=touch /x", None, r"can't be the url"),
    ):
        with pytest.raises(UsageError, match=said) as caught:
            gitdir.prepare(GitSource(url, ref))
        assert "\n" not in caught.value.message


@pytest.mark.parametrize(
    "url",
    [
        "ssh://nobody@127.0.0.1:1/x",
        "https://127.0.0.1:1/x",
        "http://me:s3cret@127.0.0.1:1/x",
        "git://127.0.0.1:1/x",
    ],
)
def test_a_server_that_is_not_there_is_unreachable(url: str) -> None:
    with pytest.raises(Unreachable, match="can't fetch") as caught:
        gitdir.prepare(GitSource(url))
    assert "s3cret" not in str(caught.value)


def pasted(remedy: str, directory: Path, **environ: str) -> list[str]:
    """The refs that the command of a remedy lists, when a shell runs it as it stands."""
    command = remedy[remedy.index("git ") :]
    done = subprocess.run(
        ["sh", "-c", command], env=os.environ | environ, cwd=directory, check=True, capture_output=True
    )
    return [line.partition("\t")[2] for line in done.stdout.decode().splitlines()]


def test_what_to_do_can_be_pasted_whatever_the_path_is(origin: Path, tmp_path: Path) -> None:
    (tmp_path / "it's (a) place").mkdir()
    odd = origin.rename(tmp_path / "it's (a) place" / "$HOME; false")
    with pytest.raises(UsageError) as caught:
        gitdir.prepare(GitSource(odd.name, "nowhere"), str(odd.parent))
    assert pasted(caught.value.remedy, tmp_path) == ["HEAD", "refs/heads/trunk"]


def test_submodules_come_along(origin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tmp_path / "other"
    other.mkdir()
    git(other, "init", "-q")
    commit(other, s="in the submodule")
    git(origin, "submodule", "add", "-q", "../other", "sub")
    commit(origin)
    # git fetches submodules from no path unless the user has said so
    (tmp_path / "gitconfig").write_text('[protocol "file"]\n\tallow = always\n')
    source = GitSource(str(origin))
    gitdir.prepare(source)
    assert content(source)["sub/s"] == "in the submodule"
    assert not any(".git" in Path(name).parts for name in content(source))


def test_a_submodule_that_moved_is_fetched_from_where_it_is(origin: Path, tmp_path: Path) -> None:
    (tmp_path / "gitconfig").write_text('[protocol "file"]\n\tallow = always\n')
    for place in ("other", "moved"):
        (tmp_path / place).mkdir()
        git(tmp_path / place, "init", "-q")
        commit(tmp_path / place, s=place)
    git(origin, "submodule", "add", "-q", "../other", "sub")
    commit(origin)
    source = GitSource(str(origin))
    gitdir.prepare(source)
    assert content(source)["sub/s"] == "other"
    git(origin, "submodule", "set-url", "sub", "../moved")
    git(origin / "sub", "fetch", "-q", str(tmp_path / "moved"), "HEAD")
    git(origin / "sub", "checkout", "-q", "FETCH_HEAD")
    (tmp_path / "other").rename(tmp_path / "gone")
    commit(origin)
    gitdir.prepare(source)
    assert content(source)["sub/s"] == "moved"


def test_pointers_of_git_lfs_are_named(origin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("git", "sh"):
        (tools / name).symlink_to(next(p for d in os.get_exec_path() if (p := Path(d, name)).exists()))
    monkeypatch.setenv("PATH", str(tools))
    told: list[str] = []
    gitdir.prepare(GitSource(str(origin)), "", told.append)
    assert told == []
    commit(origin, **{".gitattributes": "*.bin filter=lfs diff=lfs merge=lfs -text\n", "x.bin": "pointer"})
    gitdir.prepare(GitSource(str(origin)), "", told.append)
    assert len(told) == 1 and "git-lfs isn't installed" in told[0]


def test_two_commits_of_one_branch_wait_for_each_other(origin: Path) -> None:
    first = GitSource(str(origin), None, gitdir.prepare(GitSource(str(origin))))
    commit(origin, a="two")
    second = GitSource(str(origin), None)
    seen: list[str] = []
    with gitdir.checked_out(first, "", CancelToken()) as tree:
        thread = threading.Thread(target=lambda: seen.append(content(second)["a"]))
        thread.start()
        with gitdir.checked_out(first, "", CancelToken()) as again:
            assert again == tree
        thread.join(0.5)
        assert seen == [] and (tree.directory / "a").read_text() == "one"
    thread.join(20)
    assert seen == ["two"]


class _Server(BaseHTTPRequestHandler):
    """git's own HTTP backend, behind a login."""

    root: str
    expected = "Basic " + base64.b64encode(b"me:s3cr/t").decode()
    tried: list[str | None]

    def do_GET(self) -> None:
        self.tried.append(self.headers.get("Authorization"))
        if self.headers.get("Authorization") != self.expected:
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="x"')
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        path, _, query = self.path.partition("?")
        environ = {
            "GIT_PROJECT_ROOT": self.root,
            "GIT_HTTP_EXPORT_ALL": "1",
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "REQUEST_METHOD": self.command,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
        }
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        done = subprocess.run(
            ["git", "http-backend"], input=body, capture_output=True, env=os.environ | environ, check=False
        )
        head, _, body = done.stdout.partition(b"\r\n\r\n")
        self.send_response(200)
        for line in head.decode().splitlines():
            name, _, value = line.partition(": ")
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def server(origin: Path) -> Iterator[str]:
    """Its address, `HOST:PORT/PATH`."""
    handler = type("Handler", (_Server,), {"root": str(origin.parent), "tried": []})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as http:
        thread = threading.Thread(target=http.serve_forever, daemon=True)
        thread.start()
        yield f"127.0.0.1:{http.server_port}/origin/.git"
        http.shutdown()


def test_a_password_in_the_address_is_nowhere_but_in_the_login(
    server: str, home: Path, tmp_path: Path
) -> None:
    (tmp_path / "gitconfig").write_text('[credential]\n\thelper = "!false"\n')
    source = GitSource(f"http://me:s3cr%2Ft@{server}")
    task = files.check(Task(git=source))
    assert task.git is not None and content(task.git) == {"a": "one", "b": "b"}
    for secret in (b"s3cr", b"me:"):
        held = [p for p in home.rglob("*") if p.is_file() and secret in p.read_bytes()]
        assert held == []
    assert all(p.stat().st_mode & 0o077 == 0 for p in (home, home / "cache", home / "cache/git"))


def test_a_wrong_password_and_none(server: str) -> None:
    for user in ("me:wr0ng@", "me@", ""):
        with pytest.raises(UsageError, match="can't fetch") as caught:
            gitdir.prepare(GitSource(f"http://{user}{server}"))
        assert "wr0ng" not in str(caught.value) and "me@" not in str(caught.value)
        assert "ls-remote" in caught.value.remedy


@pytest.mark.parametrize("user", ["me:s3cr%2Ft@", "me@"])
def test_what_to_do_asks_for_a_login_rather_than_showing_it(server: str, tmp_path: Path, user: str) -> None:
    (tmp_path / "gitconfig").write_text("[credential]\n\thelper = \"!printf 'password=wrong\\\\n' #\"\n")
    answers = tmp_path / "answers"
    answers.write_text("#!/bin/sh\ncase $1 in U*) echo me ;; *) echo s3cr/t ;; esac\n")
    answers.chmod(0o700)
    with pytest.raises(UsageError) as caught:
        gitdir.prepare(GitSource(f"http://{user}{server}", "nowhere"))
    remedy = caught.value.remedy
    assert "s3cr" not in remedy and "me@" not in remedy and "typing the url's login" in remedy
    assert "refs/heads/trunk" in pasted(remedy, tmp_path, GIT_ASKPASS=str(answers))


def test_a_query_of_the_address_is_for_the_user_to_fill_in() -> None:
    with pytest.raises(Unreachable) as caught:
        gitdir.prepare(GitSource("https://127.0.0.1:1/x?token=s3cret"))
    assert "s3cret" not in str(caught.value)
    assert caught.value.remedy.endswith("git ls-remote 'https://127.0.0.1:1/x?QUERY'")


def test_the_login_that_git_knows_is_used(server: str, tmp_path: Path) -> None:
    helper = "!printf 'username=me\\\\npassword=s3cr/t\\\\n' #"
    (tmp_path / "gitconfig").write_text(f'[credential]\n\thelper = "{helper}"\n')
    gitdir.prepare(GitSource(f"http://{server}", "trunk"))
