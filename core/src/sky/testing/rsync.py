"""`sky_rsync`, sentence by sentence; what is on the host is looked at with `sky_run`, never copied back to see."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Any, ClassVar

import pytest

from sky.api import (
    Cancelled,
    CancelToken,
    ConnectionLost,
    Event,
    Transfer,
    TransferFailed,
    TransferResult,
    Unreachable,
)
from sky.testing.plugin import Kit
from sky.testing.streams import Remote
from sky.testing.trees import ODD_NAMES, REMOTE_TREE, Tree, local_tree, make_tree, parse_remote


def rsync(
    remote: Remote,
    direction: str,
    source: object,
    target: object,
    *,
    events: list[Event] | None = None,
    cancel: CancelToken | None = None,
    **more: Any,
) -> TransferResult:
    transfer = Transfer(direction=direction, source=str(source), target=str(target), **more)  # type: ignore[arg-type]
    ctx = remote.make_context(120, events=events, cancel=cancel)
    result: TransferResult = remote.runner.hook.sky_rsync(ctx=ctx, host=remote.host, transfer=transfer)
    assert isinstance(result, TransferResult)
    return result


def tree_at(remote: Remote, path: str) -> Tree:
    return parse_remote(remote.sh(REMOTE_TREE, path))


class RsyncConformance(Kit):
    """Needs the fixtures `remote` and `scratch` of `RunnerConformance`."""

    kind: ClassVar[str] = "runner"

    # --- a directory becomes the target -------------------------------------------------------------------

    @pytest.mark.parametrize(("source_end", "target_end"), [("", ""), ("/", ""), ("", "/"), ("/", "/")])
    def test_a_directory_becomes_the_target_whatever_slashes_there_are(
        self, remote: Remote, scratch: str, tmp_path: Path, source_end: str, target_end: str
    ) -> None:
        source = make_tree(tmp_path / "source")
        rsync(remote, "up", f"{source}{source_end}", f"{scratch}/parent/target{target_end}")
        assert tree_at(remote, f"{scratch}/parent/target") == local_tree(source)

    @pytest.mark.parametrize(("source_end", "target_end"), [("", ""), ("/", "/")])
    def test_the_same_holds_downwards(
        self, remote: Remote, scratch: str, tmp_path: Path, source_end: str, target_end: str
    ) -> None:
        rsync(remote, "up", make_tree(tmp_path / "source"), f"{scratch}/there")
        before = tree_at(remote, f"{scratch}/there")
        rsync(remote, "down", f"{scratch}/there{source_end}", f"{tmp_path}/parent/back{target_end}")
        assert local_tree(tmp_path / "parent" / "back") == before

    def test_a_directory_becomes_one_that_is_there_already(
        self, remote: Remote, scratch: str, tmp_path: Path
    ) -> None:
        source = make_tree(tmp_path / "source")
        remote.sh('mkdir -p "$1/target/sub"; echo old >"$1/target/a"', scratch)
        rsync(remote, "up", source, f"{scratch}/target")
        assert tree_at(remote, f"{scratch}/target") == local_tree(source)

    def test_an_empty_directory_arrives(self, remote: Remote, scratch: str, tmp_path: Path) -> None:
        (tmp_path / "nothing").mkdir()
        rsync(remote, "up", tmp_path / "nothing", f"{scratch}/target")
        assert remote.sh('ls -A "$1/target"; echo there', scratch) == b"there\n"

    # --- a file -------------------------------------------------------------------------------------------

    def test_a_file_becomes_a_file_of_the_targets_name(
        self, remote: Remote, scratch: str, tmp_path: Path
    ) -> None:
        (tmp_path / "file").write_bytes(b"content\0")
        rsync(remote, "up", tmp_path / "file", f"{scratch}/new/name")
        assert remote.sh('cat "$1/new/name"', scratch) == b"content\0"
        rsync(remote, "down", f"{scratch}/new/name", tmp_path / "far" / "back")
        assert (tmp_path / "far" / "back").read_bytes() == b"content\0"

    def test_a_file_lands_inside_a_target_that_ends_in_a_slash(
        self, remote: Remote, scratch: str, tmp_path: Path
    ) -> None:
        (tmp_path / "file").write_bytes(b"content")
        rsync(remote, "up", tmp_path / "file", f"{scratch}/new/")
        assert remote.sh('cat "$1/new/file"', scratch) == b"content"
        rsync(remote, "down", f"{scratch}/new/file", f"{tmp_path}/far/")
        assert (tmp_path / "far" / "file").read_bytes() == b"content"

    def test_a_tilde_is_the_directory_where_commands_run(
        self, remote: Remote, scratch: str, tmp_path: Path
    ) -> None:
        name = os.path.basename(scratch)  # noqa: PTH119
        (tmp_path / "file").write_text("at home")
        rsync(remote, "up", tmp_path / "file", f"~/{name}/file")
        assert remote.sh('cat "$1/file"', name) == b"at home"

    # --- names, modes, repeats ----------------------------------------------------------------------------

    def test_any_name_that_a_file_can_have_works(self, remote: Remote, scratch: str, tmp_path: Path) -> None:
        source = tmp_path / "source"
        source.mkdir()
        for name in ODD_NAMES:
            Path(source, os.fsdecode(name)).write_bytes(name)
        rsync(remote, "up", source, f"{scratch}/tar get's")
        assert tree_at(remote, f"{scratch}/tar get's") == local_tree(source)
        rsync(remote, "down", f"{scratch}/tar get's", tmp_path / "back")
        assert local_tree(tmp_path / "back") == local_tree(source)

    @pytest.mark.parametrize("direction", ["up", "down"])
    def test_a_repeat_sends_nothing_that_is_there(
        self, remote: Remote, scratch: str, tmp_path: Path, direction: str
    ) -> None:
        source: object = make_tree(tmp_path / "source")
        target: object = f"{scratch}/target"
        first = rsync(remote, "up", source, target)
        assert (first.files_sent, first.bytes_sent) == (6, 300_016)
        if direction == "down":
            source, target = target, tmp_path / "back"
            rsync(remote, "down", source, target)
        again = rsync(remote, direction, source, target)
        assert (again.files_sent, again.bytes_sent) == (0, 0)

    def test_only_what_changed_is_sent(self, remote: Remote, scratch: str, tmp_path: Path) -> None:
        source = make_tree(tmp_path / "source")
        rsync(remote, "up", source, f"{scratch}/target")
        (source / "a").write_bytes(b"other")
        (source / "big").chmod(0o700)
        (source / "sub" / "deeper" / "new").write_text("new")
        result = rsync(remote, "up", source, f"{scratch}/target")
        assert result.files_sent in (2, 3), "a file of which only the mode changed may be sent or not"
        assert tree_at(remote, f"{scratch}/target") == local_tree(source)

    def test_what_is_no_file_is_skipped_with_a_warning(
        self, remote: Remote, scratch: str, tmp_path: Path
    ) -> None:
        source = make_tree(tmp_path / "source")
        os.mkfifo(source / "pipe")
        events: list[Event] = []
        rsync(remote, "up", source, f"{scratch}/target", events=events)
        expected = {path: what for path, what in local_tree(source).items() if what != (b"special",)}
        assert tree_at(remote, f"{scratch}/target") == expected
        assert any(event.kind == "warning" and "pipe" in event.message for event in events)

    # --- delete and excludes ------------------------------------------------------------------------------

    def test_nothing_is_removed_without_delete(self, remote: Remote, scratch: str, tmp_path: Path) -> None:
        source = make_tree(tmp_path / "source")
        remote.sh('mkdir -p "$1/target/mine"; echo >"$1/target/mine/f"; echo >"$1/beside"', scratch)
        rsync(remote, "up", source, f"{scratch}/target")
        assert remote.sh('cd "$1"; ls beside target/mine/f', scratch).split() == [b"beside", b"target/mine/f"]

    @pytest.mark.parametrize("direction", ["up", "down"])
    def test_delete_removes_inside_what_the_source_lacks_but_nothing_excluded(
        self, remote: Remote, scratch: str, tmp_path: Path, direction: str
    ) -> None:
        source, target = make_tree(tmp_path / "source"), f"{scratch}/target"
        options: dict[str, Any] = {"delete": True, "excludes": ("kept", "sub/kept too")}
        if direction == "up":
            rsync(remote, "up", source, target)
            remote.sh(
                'cd "$1"; echo >beside; cd target; mkdir kept "sub/kept too" extra; '
                'echo >kept/f; echo >"sub/kept too/g"; echo >extra/h; echo >sub/i',
                scratch,
            )
            rsync(remote, "up", source, target, **options)
            tree = tree_at(remote, target)
            assert remote.sh('cd "$1"; echo beside*', scratch) == b"beside\n"
        else:
            rsync(remote, "up", source, target)
            back = tmp_path / "back"
            for name in ("kept/f", "sub/kept too/g", "extra/h", "sub/i"):
                (back / name).parent.mkdir(parents=True, exist_ok=True)
                (back / name).write_text("")
            (tmp_path / "beside").write_text("")
            rsync(remote, "down", target, back, **options)
            tree = local_tree(back)
            assert (tmp_path / "beside").exists()
        kept = {b"kept", b"kept/f", b"sub/kept too", b"sub/kept too/g"}
        assert set(tree) == set(local_tree(source)) | kept

    def test_excludes_are_literal_paths_and_take_all_below(
        self, remote: Remote, scratch: str, tmp_path: Path
    ) -> None:
        source = make_tree(tmp_path / "source")
        for name in ("*", "star", "sub/a", "[ab]", "question?"):
            (source / name).write_text(name)
        rsync(
            remote,
            "up",
            source,
            f"{scratch}/target",
            excludes=("*", "sub/deeper", "a", "[ab]", ".hidden", "none"),
        )
        left_out = {b"*", b"sub/deeper", b"sub/deeper/b", b"a", b"[ab]", b".hidden"}
        assert set(tree_at(remote, f"{scratch}/target")) == set(local_tree(source)) - left_out

    # --- links --------------------------------------------------------------------------------------------

    def test_a_link_replaces_a_file_and_a_file_a_link(
        self, remote: Remote, scratch: str, tmp_path: Path
    ) -> None:
        source = make_tree(tmp_path / "source")
        remote.sh(
            'cd "$1"; mkdir target; echo >target/link; echo safe >outside; ln -s ../outside target/a', scratch
        )
        rsync(remote, "up", source, f"{scratch}/target")
        assert tree_at(remote, f"{scratch}/target") == local_tree(source)
        assert remote.sh('cat "$1/outside"', scratch) == b"safe\n", "nothing is written through a link"

    # --- failures -----------------------------------------------------------------------------------------

    def test_a_source_that_is_missing_is_named(self, remote: Remote, scratch: str, tmp_path: Path) -> None:
        with pytest.raises(TransferFailed, match="no-such-source"):
            rsync(remote, "up", tmp_path / "no-such-source", f"{scratch}/target")
        with pytest.raises(TransferFailed, match="no-such-source"):
            rsync(remote, "down", f"{scratch}/no-such-source", tmp_path / "back")
        assert remote.sh('ls -A "$1"', scratch) == b""
        assert not (tmp_path / "back").exists()

    def test_a_target_that_cannot_be_is_an_error(self, remote: Remote, scratch: str, tmp_path: Path) -> None:
        remote.sh('echo file >"$1/file"', scratch)
        with pytest.raises(TransferFailed):
            rsync(remote, "up", make_tree(tmp_path / "source"), f"{scratch}/file/below")
        assert remote.sh('cat "$1/file"', scratch) == b"file\n"

    def test_a_final_name_holds_the_old_or_the_new_content_when_cancelled(
        self, remote: Remote, scratch: str, tmp_path: Path
    ) -> None:
        size = 32 << 20
        (tmp_path / "file").write_bytes(b"old")
        rsync(remote, "up", tmp_path / "file", f"{scratch}/file")
        (tmp_path / "file").write_bytes(os.urandom(size))
        cancel = CancelToken()
        thread = threading.Timer(0.2, cancel.cancel)
        thread.start()
        started = time.monotonic()
        try:
            rsync(remote, "up", tmp_path / "file", f"{scratch}/file", cancel=cancel)
        except Cancelled:
            assert time.monotonic() - started < 3
        thread.join()
        assert remote.sh('wc -c <"$1/file"', scratch).strip() in (b"3", b"%d" % size)
        rsync(remote, "up", tmp_path / "file", f"{scratch}/file")
        assert tree_at(remote, scratch)[b"file"] == local_tree(tmp_path)[b"file"]

    def test_nothing_is_left_beside_the_files(self, remote: Remote, scratch: str, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("x")
        rsync(remote, "up", tmp_path / "file", f"{scratch}/file")
        rsync(remote, "down", f"{scratch}/file", tmp_path / "new" / "file")
        assert remote.sh('ls -A "$1"', scratch) == b"file\n"
        assert os.listdir(tmp_path / "new") == ["file"]  # noqa: PTH208

    def test_a_transfer_to_a_host_that_is_no_more_is_an_error(
        self, gone_remote: Remote, tmp_path: Path
    ) -> None:
        (tmp_path / "file").write_text("x")
        with pytest.raises((ConnectionLost, Unreachable, TransferFailed)):
            rsync(gone_remote, "up", tmp_path / "file", "~/file")
