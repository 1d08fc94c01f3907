#!/bin/sh
# The main job on the embedded `local` cloud: no account, nothing left behind.
set -eu
cd "$(dirname "$0")/.."
SKY_HOME=$(mktemp -d)
export SKY_HOME
trap 'sky down -a -y >/dev/null 2>&1; rm -rf "$SKY_HOME"' EXIT
step() { printf '\n$ %s\n' "$*"; "$@"; }
step sky launch -c demo --infra local -y demo/task.yaml
step sky exec demo -- sh -c 'echo "exec: $(hostname) has $(nproc) CPUs"'
step sky exec demo -d -- sleep 60
step sky queue demo
step sky logs demo 1 --tail 2
step sky cancel demo 3
step sky rsync demo:sky_workdir/out "$SKY_HOME/out"
step cat "$SKY_HOME/out/result.txt"
step sky status
step sky down demo -y
step sky status
