"""A repository as the workdir: fetched here with the user's own git, checked out here, synced like a directory.

Below the cache directory of the sky home (mode 0700) each address has one bare repository without remotes, and
each of its refs that was used has a working tree: what didn't change between two commits keeps its time, so it isn't
sent again. A password in an address reaches git by its credential protocol only: no file, no argument, no message
and no node has it. Nothing of git's own files leaves this machine.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sky import paths
from sky.cancellation import CancelToken
from sky.errors import SkyError, Unreachable, UsageError
from sky.launcher.git import GitFailed, git, succeeds
from sky.launcher.git_address import Address
from sky.launcher.locks import locked
from sky.task.model import GitSource

ANSWER_SECONDS = 60.0
"""How long the server of a repository may take to say what it has."""

_QUIET = (
    ("core.hooksPath", os.devnull),
    ("advice.detachedHead", "false"),
    ("gc.autoDetach", "false"),
    ("maintenance.autoDetach", "false"),
    ("http.lowSpeedLimit", "1"),
    ("http.lowSpeedTime", "60"),
)
_SUBMODULES = ("--init", "--recursive", "--force")


@dataclass(frozen=True, slots=True)
class Tree:
    """A commit, checked out."""

    directory: Path
    commit: str
    excludes: tuple[str, ...]
    """git's own files in it."""


def prepare(source: GitSource, base_dir: str = "", warn: Callable[[str], None] = lambda line: None) -> str:
    """Fetch and check out; the commit. Blocks on the network; a repeat asks only what the ref is now.

    `warn` is told what is not as in a clone. Raises `UsageError`: no such repository or ref, no login;
    `Unreachable`: no such server, or it doesn't answer.
    """
    repository = _Repository(source, base_dir)
    commit = repository.fetch()
    with locked(repository.lock, CancelToken()):
        repository.check_out(commit, warn)
    return commit


@contextmanager
def checked_out(source: GitSource, base_dir: str, cancel: CancelToken) -> Iterator[Tree]:
    """The tree of `source.commit` (or of what its ref is now), which nobody changes meanwhile. Blocks."""
    repository = _Repository(source, base_dir)
    commit = source.commit or repository.fetch()
    while True:
        with locked(repository.lock, cancel, shared=True):
            if repository.holds() == commit:
                yield Tree(repository.tree, commit, tuple(_git_files(repository.tree)))
                return
        with locked(repository.lock, cancel):
            repository.check_out(commit, lambda line: None)


class _Repository:
    """The bare repository of one address, and the working tree of one ref of it."""

    def __init__(self, source: GitSource, base_dir: str) -> None:
        self._source = source
        self._address = Address.parse(source.url, base_dir)
        if source.ref is not None and not re.fullmatch(r"(?!-)[^\s\x00-\x1f\x7f~^:?*\[\\]+", source.ref):
            raise UsageError(f"workdir: {source.ref!r} can't be a branch, tag or commit")
        self._place = place = paths.private("cache", "git", _digest(self._address.clean))
        key = _digest(source.ref or "")
        self._bare = place / "bare"
        self._kept = f"refs/sky/{key}"
        self._done = place / f"{key}.done"
        self.tree = place / key
        self.lock = place / f"{key}.lock"
        self._bare_lock = place / "bare.lock"

    def fetch(self) -> str:
        """Have what the ref is now; its commit. A commit that is here already needs no network."""
        with locked(self._bare_lock, CancelToken()):
            if not (self._bare / "HEAD").is_file():
                git("init", "-q", "--bare", "--template=", self._bare)
            ref = self._source.ref or "HEAD"
            if not (_is_commit(ref) and succeeds(*self._at_bare, "cat-file", "-e", f"{ref}^{{commit}}")):
                ref = self._fetch(ref)
            commit = self._parse(ref)
            git(*self._at_bare, "update-ref", "--no-deref", self._kept, commit)
            return commit

    def _fetch(self, ref: str) -> str:
        """What to call it here, once it is here."""
        names = self._names_there(ref)
        if names:
            self._get(f"+{names[0]}:{self._kept}")
            return self._kept
        if not re.fullmatch(r"[0-9a-fA-F]{4,64}", ref):
            raise UsageError(
                f"workdir: {self._source.shown_url} has no branch or tag {ref!r}",
                remedy=self._address.listing("see which it has"),
            )
        if _is_commit(ref):
            try:
                self._git(*self._at_bare, "fetch", *self._FETCH, "--depth=1", "--", self._address.clean, ref)
                return ref
            except GitFailed:
                pass  # Many servers give only what a branch or tag leads to.
        self._get("+refs/heads/*:refs/sky-all/heads/*", "+refs/tags/*:refs/sky-all/tags/*", whole=True)
        return ref

    _FETCH = ("--no-write-fetch-head", "--no-tags", "--force", "--recurse-submodules=no")

    def _get(self, *refspecs: str, whole: bool = False) -> None:
        shallow = (self._bare / "shallow").is_file()
        ways = [("--unshallow",) if shallow else ()] if whole else [("--depth=1",), ()]
        for way in ways:
            try:
                words = (*self._at_bare, "fetch", *self._FETCH, *way, "--", self._address.clean, *refspecs)
                self._git(*words)
                return
            except GitFailed as failed:
                last = failed  # Some servers know no shallow fetches.
        raise self._not_fetched(last) from last

    def _names_there(self, ref: str) -> list[str]:
        """The full names at the server of what a user may call `ref`, the likeliest first."""
        try:
            said = self._git("ls-remote", "--", self._address.clean, ref, seconds=ANSWER_SECONDS)
        except GitFailed as failed:
            raise self._not_fetched(failed) from failed
        there = {line.partition("\t")[2] for line in said.decode(errors="replace").splitlines()}
        if ref == "HEAD" and not there:
            raise UsageError(f"workdir: {self._source.shown_url} has no commits")
        return [name for name in (f"refs/heads/{ref}", f"refs/tags/{ref}", ref) if name in there]

    def _parse(self, ref: str) -> str:
        try:
            return (
                git(*self._at_bare, "rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}").decode().strip()
            )
        except GitFailed as failed:
            raise UsageError(
                f"workdir: {self._source.shown_url} has no commit {self._source.ref}"
            ) from failed

    def _not_fetched(self, failed: GitFailed) -> SkyError:
        return self._failure("can't fetch", failed, self._address.listing("make sure that this works here"))

    def _failure(self, what: str, failed: GitFailed, remedy: str = "") -> SkyError:
        kind = Unreachable if failed.unreachable else UsageError
        return kind(
            f"workdir: {what} {self._source.shown_url}: {self._address.masked(str(failed))}", remedy=remedy
        )

    # --- the working tree ----------------------------------------------------------------------------

    def holds(self) -> str:
        """The commit that the tree is, whole; empty if it's none."""
        return self._done.read_text() if self._done.is_file() and (self.tree / ".git").is_file() else ""

    def check_out(self, commit: str, warn: Callable[[str], None]) -> None:
        """Make the tree that commit, whatever it was. Whoever calls holds its lock. Raises as `prepare`."""
        if self.holds() != commit:
            with locked(self._bare_lock, CancelToken()):
                self._in_another_second()
                self._done.unlink(missing_ok=True)
                try:
                    self._build(commit)
                except GitFailed as failed:
                    raise self._failure(f"can't check out {commit[:7]} of", failed) from failed
                self._done.write_text(commit)
        if shutil.which("git-lfs") is None and self._uses_lfs():
            warn("workdir: git-lfs isn't installed here, so the files that it keeps are sent as pointers")

    def _build(self, commit: str) -> None:
        if not succeeds("-C", self.tree, "rev-parse", "--verify", "HEAD"):
            shutil.rmtree(self.tree, ignore_errors=True)
            words = ("worktree", "add", "--force", "--detach", "--no-checkout")
            git(*self._at_bare, *words, self.tree, commit, settings=_QUIET)
        self._git("-C", self.tree, "checkout", "--quiet", "--force", "--detach", commit)
        self._git("-C", self.tree, "clean", "-ffdxq")
        if (self.tree / ".gitmodules").is_file():
            # The cache keeps the addresses of earlier commits: a submodule may have moved since.
            self._git("-C", self.tree, "submodule", "--quiet", "sync", "--recursive")
            self._git("-C", self.tree, "submodule", "--quiet", "update", *_SUBMODULES)

    def _in_another_second(self) -> None:
        """Wait out the second of the last check-out: a file of the same size and second is not sent again."""
        last = max((done.stat().st_mtime for done in self._place.glob("*.done")), default=0.0)
        left = int(last) + 1.02 - time.time()  # the kernel's clock of files is a tick behind
        if 0 < left <= 1.02:
            time.sleep(left)

    def _uses_lfs(self) -> bool:
        words = ("grep", "-q", "filter=lfs", "HEAD", "--", ".gitattributes", "*/.gitattributes")
        return succeeds("-C", self.tree, *words)

    @property
    def _at_bare(self) -> tuple[str, ...]:
        return (f"--git-dir={self._bare}",)

    def _git(self, *words: str | os.PathLike[str], seconds: float | None = None) -> bytes:
        # Relative addresses of submodules, and git-lfs, start from the remote that isn't written anywhere.
        origin = ("remote.origin.url", self._address.clean)
        settings = (*_QUIET, origin, *self._address.settings)
        return git(*words, settings=settings, environ=self._address.environ, seconds=seconds)


def _is_commit(ref: str) -> bool:
    return re.fullmatch(r"[0-9a-f]{40}|[0-9a-f]{64}", ref) is not None


def _git_files(tree: Path) -> Iterator[str]:
    if not (tree / ".gitmodules").is_file():
        yield ".git"
        return
    for directory, names, files in os.walk(tree):
        if ".git" in files or ".git" in names:
            yield os.path.relpath(Path(directory, ".git"), tree)
        names[:] = [name for name in names if name != ".git"]


def _digest(text: str) -> str:
    return hashlib.sha256(os.fsencode(text)).hexdigest()[:24]
