"""`sky launch --num-nodes 3` on Kubernetes: all pods or none, and ranks that reach each other."""

from __future__ import annotations

import json

from gang_places import pods
from sky_command import Kubernetes, Sky, eventually

# One pod of ours a node, which no offer can know; the testbed has one node.
ALONE = {
    "spec": {
        "affinity": {
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "labelSelector": {"matchLabels": {"app.kubernetes.io/managed-by": "sky"}},
                        "topologyKey": "kubernetes.io/hostname",
                    }
                ]
            }
        }
    }
}
LIST = "for ip in $SKYPILOT_NODE_IPS; do echo ip $ip; done"
# Rank 0 greets whoever comes; each of the others says who it is.
MEET = """
import os, socket, time
first, *others = os.environ["SKYPILOT_NODE_IPS"].split()
rank = int(os.environ["SKYPILOT_NODE_RANK"])
if rank == 0:
    with socket.create_server((first, 29500)) as server:
        for _ in others:
            peer, (ip, _) = server.accept()
            assert ip == others[int(peer.recv(1)) - 1], ip
            peer.sendall(b"!")
else:
    while True:
        try:
            peer = socket.create_connection((first, 29500), 5)
            break
        except ConnectionRefusedError:
            time.sleep(0.05)
    peer.sendall(b"%d" % rank)
    assert peer.recv(1) == b"!"
print("met")
"""


def test_all_pods_or_none(kube_sky: Sky, kubernetes: Kubernetes) -> None:
    kube_sky.configure(kubernetes.config(json.dumps(ALONE), provision_timeout="2"))
    options = pods(kube_sky, kubernetes, "busybox").options
    done = kube_sky("launch", "-y", "-c", "g", "--num-nodes", "3", *options, "--", "true", code=None)
    assert done.code not in (0, 1), done
    assert "no node took pod" in done.err and "anti-affinity" in done.err, done
    assert kube_sky("status", "-o", "json").json()["clusters"] == []
    eventually(lambda: not kubernetes.pods("-l", f"sky.dev/user={kube_sky.user}"))


def test_two_launches_at_once_make_one_set_of_pods(kube_sky: Sky, kubernetes: Kubernetes) -> None:
    options = pods(kube_sky, kubernetes, "busybox").options
    words = ("launch", "-y", "-c", "g", "--num-nodes", "3", *options, "--", "echo here")
    for client in [kube_sky.start(*words) for _ in range(2)]:
        done = client.end(90)
        assert done.code == 0 and done.out.count(") here\n") == 3, done
    assert len(kubernetes.pod_names(kube_sky.user)) == 3


def test_ranks_reach_each_other_at_the_addresses_they_are_told(kube_sky: Sky, kubernetes: Kubernetes) -> None:
    options = pods(kube_sky, kubernetes, "debian").options
    (kube_sky.project / "meet.py").write_text(MEET)
    (kube_sky.project / "task.yaml").write_text(
        f"num_nodes: 3\nworkdir: .\nrun: |\n  {LIST}\n  python3 meet.py\n"
    )
    done = kube_sky("launch", "-y", "-c", "g", *options, "task.yaml")
    assert done.out.count(") met\n") == 3, done
    names = sorted(kubernetes.pod_names(kube_sky.user), key=lambda name: name[-1])
    ip = {pod["metadata"]["name"]: pod["status"]["podIP"] for pod in kubernetes.pods_of(kube_sky.user)}
    for rank in range(3):
        seen = [line.split()[-1] for line in done.out.splitlines() if line.startswith(f"(rank {rank}) ip ")]
        assert seen == [ip[name] for name in names]
