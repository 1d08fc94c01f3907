# Sky's node protocol, version 1: what is said to a node, and what it keeps. Specification: docs/protocol.md.
# This file and its neighbours (in the order of protocol.py: facts, processes, queue, gang, drive, verbs) are one script.
# Read by boot.sh, which gives it `take` and stdin, and started as `sh SCRIPT WORK_DIR drive DIR UMASK BOOT_TIME`.
# Any POSIX sh; dash and busybox are tested.
#
# Facts about a job are files that are created once, whole, by ln(2): the first writer wins, a reader
# needs no lock, and a kill at any point leaves a fact either absent or complete.
umask 077
W=$1 verb=$2
self=${s:-$0}
shift 2
cd -P "$W" && W=$PWD # as /proc names what is open below it

say() { printf 'sky1 %s\n' "$*" >&2; }
fail() { say "error $*"; [ "$verb" != drive ] || finish FAILED 125 "$*"; tidy; exit 0; }
nap() { sleep "$1" 2>/dev/null || sleep 1; }

once() { # FILE VALUE: create the fact; fails if it exists and says something else
  trash=$trash$1.$me$newline
  printf '%s\n' "$2" >"$1.$me" || fail "can't write in $W: disk full?"
  ln "$1.$me" "$1" 2>/dev/null && return
  fact "$1" || fail "can't make links in $W"
  [ "$v" = "$2" ]
}
tidy() { # what `once` left; a process each is too dear to be started for every fact
  [ -z "$trash" ] || (IFS=$newline; set -f; rm -f $trash)
  trash=
}
clock() { # sets now, in seconds since the epoch; starts a process only the first time
  uptime && [ -r /proc/uptime ] || { now=$up; return; }
  [ -n "$boot" ] || boot=$(($(date +%s) - up))
  now=$((boot + up))
}
uptime() { # sets up, in seconds, by a clock that nobody sets
  { read -r up _ </proc/uptime; } 2>/dev/null || up=$(date +%s)
  up=${up%%.*}
}
boot= trash= newline='
'
fact() { # FILE: sets v to its value; fails while it is absent
  v=
  [ -s "$1" ] && read -r v <"$1" && [ -n "$v" ]
}
