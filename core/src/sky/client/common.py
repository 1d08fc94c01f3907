"""What the functions of the library share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sky.errors import HostGone, SkyError
from sky.state.clusters import Cluster, State
from sky.types import JobState

if TYPE_CHECKING:
    from sky.node.engine import Stream
    from sky.session import Session

OnState = Callable[["Stream"], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Launched:
    """What came of `launch` or `exec`."""

    cluster: str
    job_id: str = ""
    """Empty when the task runs nothing."""
    state: JobState | None = None
    exit_code: int | None = None
    """The job's own, once it has ended and was followed."""
    reason: str = ""
    """Why it ended so, where more is known than the code: which rank failed, or was lost."""


def silent() -> Session:
    """The session of a caller who brought none: it shows nothing."""
    # Imported here: `status` of what is known needs no session, and so neither plugins nor configuration.
    from sky.session import Session

    return Session()


def gone(session: Session, state: State, cluster: Cluster, error: HostGone) -> SkyError:
    """A host vanished: note what its cloud says of it, so that `status` shows it, too."""
    from sky.launcher import lifecycle

    lifecycle.refresh(session, state, [cluster])
    now = state.get(cluster.name)
    reason = now.reason if now is not None and now.reason else ""
    detail = f" ({reason})" if reason and reason not in error.message else ""
    return HostGone(
        error.message + detail, remedy=error.remedy or f"sky down {cluster.name} removes what is left"
    )
