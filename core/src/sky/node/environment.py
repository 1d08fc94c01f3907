"""What a job finds in its environment besides what the user gave: the SKYPILOT_* variables.

Precedence, lowest first: these, `envs` (with --env-file and --env already merged in), secrets.
"""

from __future__ import annotations

import json
import math
import time

from sky.types import Job, Place


def of_job(job: Job, place: Place, rank: int = 0, now: float | None = None) -> dict[str, str]:
    """Every variable of a job on the node of that rank: the first `num_nodes` hosts of `place` run it."""
    ips = [host.internal_ip or "127.0.0.1" for host in place.hosts[: job.num_nodes]]
    info = {"cluster_name": job.cluster_name, "cloud": job.cloud, "region": job.region, "zone": job.zone}
    stamp = time.strftime("%Y-%m-%d-%H-%M-%S", time.gmtime(now))
    return {
        "SKYPILOT_NODE_RANK": str(rank),
        "SKYPILOT_NODE_IPS": "\n".join(ips),
        "SKYPILOT_NUM_NODES": str(job.num_nodes),
        # A share of a device is one device to the program that is given it.
        "SKYPILOT_NUM_GPUS_PER_NODE": str(math.ceil(job.accelerators_per_node)),
        "SKYPILOT_TASK_ID": f"sky-{stamp}_{job.cluster_name}_{job.token}",
        "SKYPILOT_CLUSTER_INFO": json.dumps(info),
        **job.envs,
        **job.secrets,
    }
