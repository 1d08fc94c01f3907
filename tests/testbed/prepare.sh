#!/bin/bash
# What the tests need besides Python. As root on Debian 12 it installs and builds it; idempotent.
# --optional: do nothing, and fail at nothing, where that can't be done: those tests are then skipped, with the reason.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
optional=${1:-}
give_up() { echo "testbed: $*; the tests that need it are skipped" >&2; [ "$optional" = --optional ] && exit 0; exit 1; }

if [ "$(id -u)" != 0 ]; then give_up "not root"; fi
command -v apt-get >/dev/null || give_up "not a Debian"
missing=
for p in rsync:rsync busybox:busybox-static git:git ps:procps openssl:openssl \
  ssh:openssh-client sshd:openssh-server ip:iproute2 sudo:sudo tcsh:tcsh fish:fish; do
  command -v "${p%%:*}" >/dev/null || missing="$missing ${p#*:}"
done
if [ -n "$missing" ]; then
  # Debian starts sshd when it is installed; the testbed has its own, each in its own network.
  apt-get update -qq && DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get install -y -qq $missing >/dev/null || give_up "can't install$missing"
fi
bash "$here/kubernetes.sh" build >"${TMPDIR:-/tmp}/sky-testbed-build.log" 2>&1 ||
  { tail -5 "${TMPDIR:-/tmp}/sky-testbed-build.log" >&2; give_up "Kubernetes can't be built"; }
bash "$here/kubernetes.sh" up >/dev/null || give_up "Kubernetes can't be started"
bash "$here/ssh-hosts.sh" up >"${TMPDIR:-/tmp}/sky-testbed-ssh.log" 2>&1 ||
  { tail -5 "${TMPDIR:-/tmp}/sky-testbed-ssh.log" >&2; give_up "hosts with sshd can't be started"; }
