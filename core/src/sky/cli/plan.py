"""The table of candidates, and what a dry run prints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sky.cli import output

if TYPE_CHECKING:
    from sky.launcher.candidates import Candidates
    from sky.session import Session
    from sky.task.model import Task

_SHOWN = 10


def candidate_table(found: Candidates) -> str:
    """The rows in the order in which they would be tried, the first one marked, then why others are absent."""
    from sky.launcher.refusals import explain

    rows = []
    for number, candidate in enumerate(found.rows[:_SHOWN]):
        offer = candidate.offer
        place = "/".join(part for part in (offer.region, offer.zone) if part)
        rows.append(
            [
                "→" if number == 0 else "",
                offer.cloud,
                place or "-",
                offer.instance_type or "-",
                f"{offer.vcpus:g}",
                f"{offer.memory_gib:g}",
                str(offer.accelerator or "-"),
                f"${candidate.price_usd_per_hour:.2f}" + (" spot" if offer.spot else ""),
                offer.note,
            ]
        )
    head = ["", "CLOUD", "REGION", "INSTANCE", "VCPUS", "MEM(GIB)", "ACCELERATORS", "$/H", ""]
    lines = [output.table(head, rows)] if rows else []
    if len(found.rows) > _SHOWN:
        lines.append(f"and {len(found.rows) - _SHOWN} more")
    for failure in found.failures:
        lines.append(output.dim(f"  {failure.cloud}: {failure.why}"))
    for rejection in found.rejections:
        near = f" (would do: {', '.join(rejection.near_misses)})" if rejection.near_misses else ""
        lines.append(output.dim(f"  {explain(rejection)}{near}"))
    return "\n".join(lines)


def dry_run(ses: Session, found: Candidates, task: Task, cluster: str | None, form: str) -> int:
    from dataclasses import asdict

    from sky import client

    asked = client.preview(task, found.rows[0], cluster, session=ses) if found.rows else ""
    if form == "json":
        output.document(
            "plan",
            candidates=[{**asdict(c.offer), "total_usd_per_hour": c.price_usd_per_hour} for c in found.rows],
            rejections=[asdict(rejection) for rejection in found.rejections],
            failures=[{"cloud": f.cloud, "reason": f.why, "kind": f.kind} for f in found.failures],
            request=asked,
            task=_without_values(task),
        )
    elif found.rows:
        output.line(candidate_table(found))
        if asked:
            output.line(f"\n{found.rows[0].offer.cloud} would be asked for:\n{asked}")
    found.require()
    return 0


def _without_values(task: Task) -> dict[str, Any]:
    """The task as data; of variables the names alone, since tokens are given as plain ones, too."""
    shown = task.to_dict()
    return {**shown, "envs": dict.fromkeys(task.envs)} if task.envs else shown
