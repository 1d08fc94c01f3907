"""The task, as everything after reading the user's input sees it. Plain data, light to import."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sky.types import Request


@dataclass(frozen=True, slots=True)
class GitSource:
    """A repository to check out as the working directory. `repr` shows no password of the address."""

    url: str = field(repr=False)
    """As git takes it; a path is relative to `base_dir`. It may hold a password."""
    ref: str | None = None
    """Branch, tag or commit; None is the repository's default branch."""
    commit: str | None = None
    """What `ref` was when it was looked up, before anything was created. No task file has it."""

    @property
    def shown_url(self) -> str:
        """The address for people and for records: without a password, or what may be a token."""
        import re

        address, query, _ = self.url.partition("?") if "://" in self.url else (self.url, "", "")
        address = re.sub(r"(?i)^(https?://)[^/]*@", r"\1***@", address)
        address = re.sub(r"^([a-z+]+://[^/:@]*):[^/]*@", r"\1:***@", address)
        return address + ("?***" if query else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Autostop:
    """When an idle cluster ends itself."""

    idle_minutes: int
    down: bool = False
    """Give it back rather than stop it."""
    wait_for: str | None = None
    """What counts as busy: `jobs_and_ssh`, `jobs` or `none`."""
    hook: str | None = None
    """A script run on the cluster before it ends."""
    hook_timeout_seconds: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One task, complete: overrides applied, variables substituted, every alternative spelt out.

    `repr` shows nothing of `envs` (tokens end up there too) and `secrets`. Change one with
    `dataclasses.replace`; `num_nodes` and `config` are repeated in every request, and stay equal there.
    """

    name: str | None = None
    workdir: str | None = None
    """A local directory; relative to `base_dir`, a leading `~` is the user's home."""
    git: GitSource | None = None
    """Instead of `workdir`."""
    num_nodes: int = 1
    resources: tuple[Request, ...] = (Request(),)
    """The alternatives, at least one: each of any_of or ordered, for each accelerator that is accepted."""
    ordered: bool = False
    """The first alternative that can be had is taken, whatever it costs; otherwise the cheapest of all."""
    envs: Mapping[str, str] = field(default_factory=dict, repr=False)
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    file_mounts: Mapping[str, str] = field(default_factory=dict)
    """Path on the nodes to local path; sources are relative to `base_dir`."""
    setup: str | None = None
    run: str | None = None
    """None: the cluster is only made ready."""
    config: Mapping[str, Any] = field(default_factory=dict)
    """The task's own configuration, by section; scalars are bool, int, float, str or None."""
    autostop: Autostop | None = None
    base_dir: str = ""
    """Absolute. What relative local paths start from: the directory the user was in when the task was read,
    not the directory of the file (so a file behaves the same wherever it's kept, as in SkyPilot)."""

    def to_dict(self, *, show_secrets: bool = False) -> dict[str, Any]:
        """The task in the shape of a task file, as plain data; values of secrets only with `show_secrets`."""
        from sky.task.save import task_to_dict

        return task_to_dict(self, show_secrets=show_secrets)
