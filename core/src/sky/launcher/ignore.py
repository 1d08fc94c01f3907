"""What of a workdir stays behind: what `.skyignore` names, else what git ignores, by git's own rules.

- `.skyignore` at the top of the workdir has the syntax of a `.gitignore`, and then it alone decides: for tracked
  files, nested repositories and `.git` as well.
- Otherwise, in a repository (or below its top), all of git's rules hold: `.gitignore` of the directory, of those
  above it up to the top, and of those below it; `.git/info/exclude`; `core.excludesFile`; and each submodule's
  own. What git tracks is sent although a rule names it, and `.git` is sent.
- A `.gitignore` at the top of a directory that is in no repository (or that the repository around it ignores) is
  read as if the directory were one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from sky.errors import UsageError

_ASK = ("ls-files", "-z", "--others", "--ignored", "--directory", "--exclude-standard")


def excluded(directory: str) -> tuple[tuple[str, ...], str]:
    """Paths relative to `directory` that stay behind, with all below them, and what decided. Blocks.

    Raises `UsageError` if the rules can't be read (git is missing, or refuses the repository).
    """
    root = Path(directory)
    own = root / ".skyignore"
    if own.is_file():
        try:
            rules = parse(own.read_bytes())
        except OSError as error:
            raise UsageError(f"{own}: {error.strerror}") from error
        return tuple(os.fsdecode(path) for path in ignored(os.fsencode(root), rules)), ".skyignore"
    if any((above / ".git").exists() for above in (root, *root.resolve().parents)):
        return tuple(_ignored_by_git(root)), "ignored by git"
    if (root / ".gitignore").is_file():
        return tuple(_ignored_by_rules_alone(root)), "ignored by git"
    return (), ""


# --- git's own rules ---------------------------------------------------------------------------------


def _ignored_by_git(root: Path) -> Iterator[str]:
    from sky.launcher.git import repository_of

    top = repository_of(root)
    found = _answer(root, "-C", root, *_ASK) if top is not None else ["."]
    if found == ["."]:
        # The directory itself is what a repository around it ignores, and yet it was asked for.
        if (root / ".gitignore").is_file():
            yield from _ignored_by_rules_alone(root)
        return
    yield from found
    assert top is not None
    if (top / ".gitmodules").is_file():
        for line in _lines(root, "-C", root, "ls-files", "-z", "--stage"):
            mode, _, name = line.partition("\t")
            if mode.startswith("160000") and (root / name / ".git").exists():
                yield from (f"{name}/{below}" for below in _ignored_by_git(root / name))


def _ignored_by_rules_alone(root: Path) -> Iterator[str]:
    """Where the directory is in no repository, an empty one elsewhere lends its rules."""
    import tempfile

    with tempfile.TemporaryDirectory(prefix="sky-git-") as empty:
        _lines(root, "init", "-q", "--bare", empty)
        yield from _answer(root, "-C", root, f"--git-dir={empty}", f"--work-tree={root.absolute()}", *_ASK)


def _answer(root: Path, *words: str | Path) -> list[str]:
    return _outermost(line.rstrip("/") for line in _lines(root, *words))


def _lines(root: Path, *words: str | Path) -> list[str]:
    from sky.launcher.git import GitFailed, git

    try:
        said = git(*words)
    except GitFailed as failed:
        raise UsageError(f"git can't read the ignore rules of {root}: {failed}") from failed
    return [os.fsdecode(line) for line in said.split(b"\0") if line]


def _outermost(paths: Iterable[str]) -> list[str]:
    """git lists a directory of ignored files and, at times, these too."""
    kept: list[str] = []
    for path in sorted(paths, key=lambda path: path.split("/")):
        if not (kept and path.startswith(kept[-1] + "/")):
            kept.append(path)
    return kept


# --- the same syntax, for .skyignore -----------------------------------------------------------------
# git itself looks neither into `.git` nor into a repository inside another, which are what this file is for.


class Rule:
    """One line: what it matches, and whether that is taken back."""

    def __init__(self, line: bytes) -> None:
        self.negated = line.startswith(b"!")
        line = line.removeprefix(b"!")
        self.directories_only = line.endswith(b"/")
        line = line.removesuffix(b"/")
        self.anchored = b"/" in line
        self.pattern = re.compile(_regex(line.removeprefix(b"/")), re.DOTALL)

    def matches(self, path: bytes, is_directory: bool) -> bool:
        if self.directories_only and not is_directory:
            return False
        return self.pattern.fullmatch(path if self.anchored else path.rpartition(b"/")[2]) is not None


def parse(text: bytes) -> list[Rule]:
    """The rules of a file: no blank lines and no comments, last one first, for the last that matches decides."""
    rules = []
    for line in text.removeprefix(b"\xef\xbb\xbf").split(b"\n"):
        line = line.removesuffix(b"\r")
        while line.endswith(b" ") and not line.endswith(b"\\ "):
            line = line[:-1]
        if line.strip(b"/!") and not line.startswith(b"#"):
            rules.append(Rule(line))
    return rules[::-1]


def ignored(root: bytes, rules: Sequence[Rule], below: bytes = b"") -> Iterator[bytes]:
    """Paths that the rules leave out; nothing inside one is looked at, so nothing there can be taken back."""
    try:
        with os.scandir(os.path.join(root, below)) as found:  # noqa: PTH118
            entries = sorted(found, key=lambda entry: entry.name)
    except OSError as error:
        raise UsageError(f"{os.fsdecode(error.filename)}: {error.strerror}") from error
    for entry in entries:
        path = below + entry.name
        directory = entry.is_dir(follow_symlinks=False)
        decides = next((rule for rule in rules if rule.matches(path, directory)), None)
        if decides is not None and not decides.negated:
            yield path
        elif directory:
            yield from ignored(root, rules, path + b"/")


_TOKEN = re.compile(
    rb"(?P<any>(?:(?<=/)|^)\*\*+/)|(?P<rest>(?:(?<=/)|^)\*\*+$)|(?P<star>\*+)|(?P<one>\?)"
    rb"|(?P<set>\[[!^]?\]?(?:\[:[a-z]+:\]|\\.|[^\]\\])*\])|\\(?P<escaped>.)|(?P<plain>.)",
    re.DOTALL,
)
_NOTHING = rb"(?!)"
_CLASSES = {
    b"alpha": b"a-zA-Z",
    b"digit": b"0-9",
    b"alnum": b"a-zA-Z0-9",
    b"upper": b"A-Z",
    b"lower": b"a-z",
    b"space": rb"\s",
    b"xdigit": b"0-9a-fA-F",
    b"punct": rb"!-/:-@\[-`{-~",
}


def _regex(pattern: bytes) -> bytes:
    # As git does it: what has no wildcard is compared first, so a `**` right behind it begins the rest.
    parts = [re.escape(re.match(rb"[^*?\[\\]*", pattern)[0])]  # type: ignore[index]
    for token in _TOKEN.finditer(re.sub(rb"^[^*?\[\\]+", b"", pattern)):
        kind, text = token.lastgroup, token[0]
        if kind == "plain" and text in (b"[", b"\\"):
            return _NOTHING  # a set, or an escape, that isn't finished
        if kind == "any":
            parts.append(rb"(?:.*/)?")
        elif kind == "rest":
            parts.append(rb".*")
        elif kind == "star":
            parts.append(rb"[^/]*")
        elif kind == "one":
            parts.append(rb"[^/]")
        elif kind == "set":
            parts.append(_set(text[1:-1]))
        else:
            parts.append(re.escape(token["escaped"] if kind == "escaped" else text))
    return b"".join(parts)


def _set(inside: bytes) -> bytes:
    negated = inside[:1] in (b"!", b"^")
    body = re.sub(
        rb"\[:([a-z]+):\]|\\(.)|([\[\]^&~|])",
        lambda m: _CLASSES.get(m[1], b"") if m[1] else re.escape(m[2] or m[3]),
        inside[1:] if negated else inside,
    )
    return rb"(?!/)[%s%s]" % (b"^" if negated else b"", body)
