# Sky's node protocol, version 1: what is said to a node, and what it keeps. Specification: docs/protocol.md.
# Read by boot.sh, which gives it `take` and stdin, and started as `sh node.sh WORK_DIR drive DIR UMASK BOOT_TIME`.
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
fail() { say "error $*"; [ "$verb" != drive ] || finish FAILED 125; tidy; exit 0; }
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
  { read -r up _ </proc/uptime; } 2>/dev/null || { now=$(date +%s); return; }
  up=${up%%.*}
  [ -n "$boot" ] || boot=$(($(date +%s) - up))
  now=$((boot + up))
}
boot= trash= newline='
'
fact() { # FILE: sets v to its value; fails while it is absent
  v=
  [ -s "$1" ] && read -r v <"$1" && [ -n "$v" ]
}

# --- processes ---------------------------------------------------------------------------------------

born() { # PID: sets b to its start time in ticks since boot, g to its group; fails when it is dead, also as a zombie
  b= g=
  { read -r stat <"/proc/$1/stat"; } 2>/dev/null || return 1
  set -- ${stat##*) }
  [ "$1" != Z ] && [ "$1" != X ] && b=${20} g=$3
}
alive() { # PID:START
  born "${1%%:*}" && [ "$b" = "${1##*:}" ]
}

born $$
my_group=$g me=$$:$b # unlike the pid alone, no other process ever has this name

# Members of a job: whoever carries its cookie, writes to its log, shares a session or group with one that
# does, or descends from one; to a fixed point. What was a member once stays one, so that a process which
# loses all these marks between two looks is still ended.
members() { # DIR: adds to $known, the pids seen so far; sets $living to those of them that live
  for p in $(grep -lzF "SKY_JOB_COOKIE=${1##*/}" /proc/[0-9]*/environ 2>/dev/null); do
    p=${p#/proc/} && note "${p%%/*}"
  done
  pid=
  while read -r line; do
    case $line in
      /proc/*:) pid=${line#/proc/} pid=${pid%%/*} ;;
      l?w*" -> $1/log") note "$pid" ;;
    esac
  done <<END
$(ls -l /proc/[0-9]*/fd 2>/dev/null)
END
  table=$(cat /proc/[0-9]*/stat 2>/dev/null)
  more=1
  while [ -n "$more" ]; do
    more= living= part=
    while read -r line; do
      line=$part$line part=
      set -- ${line##*) }
      [ $# -ge 20 ] || { part=$line; continue; } # a line end in the name of a program
      pid=${line%% *}
      case $pid,$1 in 1,? | *,[ZX]) continue ;; esac
      case " $known " in
        *" $pid "*) ;;
        *) case " $known $groups " in *" $2 "* | *" $3 "* | *" $4 "*) ;; *) continue ;; esac
          [ "$pid" != $$ ] && [ "$2" != $$ ] || continue
          more=1 ;;
      esac
      note "$pid"
      note_group "$3"
      note_group "$4"
      living="$living $pid"
    done <<END
$table
END
  done
}
note() { # PID: never pid 1, never ourselves
  case " $known 1 $$ " in *" $1 "*) ;; *) known="$known $1" ;; esac
}
note_group() { # ID of a group or session, 0 if the process has none; never that of pid 1 or our own
  case " $groups 0 1 $my_group " in *" $1 "*) ;; *) groups="$groups $1" signal_groups="$signal_groups -$1" ;; esac
}

freeze() { # DIR: stop all its members; sets $living
  # Groups too, as a process may fork between a look and its signal. Calm is three equal looks, as one
  # that forks and ends in the midst of a look isn't seen by it.
  before=x calm=0
  while members "$1" && [ $calm -lt 2 ]; do
    if [ "$living" = "$before" ]; then calm=$((calm + 1)); else calm=0; fi
    before=$living # whether all of them could be signalled says nothing: some may be gone
    [ -z "$living" ] || kill -STOP $living $signal_groups 2>/dev/null
  done
}
end_members() { # DIR GRACE_SECONDS: stop them all, then TERM, then KILL
  known= groups= signal_groups=
  freeze "$1"
  [ -n "$living" ] || return 0
  kill -TERM $living 2>/dev/null
  kill -CONT $living 2>/dev/null
  left=$(($2 * 10))
  while members "$1" && [ -n "$living" ] && [ $left -gt 0 ]; do
    left=$((left - 1))
    nap 0.1
  done
  left=50
  while [ -n "$living" ] && { freeze "$1"; [ -n "$living" ]; }; do
    kill -KILL $living 2>/dev/null
    left=$((left - 1))
    [ $left -gt 0 ] || return 1
    nap 0.02
  done
}

# --- the queue ---------------------------------------------------------------------------------------

job_of() { # ID: sets j to its directory
  fact "$W/q/$1" && j=$W/j/$v
}
publish() { # NAME: sets id; the same whoever calls it, however often, at the same time
  [ -d "$W/q" ] || mkdir -p "$W/q"
  hint=0
  while fact "$W/q/$((hint + 1))"; do
    hint=$((hint + 1))
    [ "$v" != "$1" ] || { id=$hint; return; }
  done
  id=$hint
  while :; do
    id=$((id + 1))
    once "$W/q/$id" "$1" && return # else the number went to another job
  done
}

state_of() { # DIR: sets state, code, ended
  code=- ended=-
  if [ ! -e "$1/log" ]; then # its directory was taken away: nobody will ever know
    state=UNKNOWN
  elif fact "$1/result"; then
    set -- $v
    state=$1 code=$2 ended=$3
  elif ! fact "$1/driver"; then
    state=PENDING
  elif alive "$v" || in_cancel "$1"; then
    if [ -s "$1/running" ]; then state=RUNNING
    elif [ -s "$1/setting_up" ]; then state=SETTING_UP
    else state=PENDING; fi
  elif [ -s "$1/result" ]; then # it ended between the two looks
    state_of "$1"
  else
    state=UNKNOWN
  fi
}

in_cancel() { # DIR: whether one is at work who will record a result in the driver's stead
  [ -f "$1/cancel" ] && while read -r v; do alive "$v" && return; done <"$1/cancel" && return 1
}

start() { # DIR: a driver for it. Two may start; one claims the job, the other leaves.
  # setsid forks, and its parent returns, only when it is a group leader already: hence twice. It is not
  # put in the background by `&`, as a shell then has it and the user's programs ignore SIGINT for ever.
  SKY_JOB_COOKIE=${1##*/} setsid setsid sh "$self" "$W" drive "$1" "${mask:-022}" "$boot" </dev/null >/dev/null 2>&1
}

my_turn() { # ID NEED TOTAL: first come, first served among the jobs that need devices; sets grant
  used=,
  i=$low
  while [ "$i" -lt "$1" ]; do
    job_of "$i" || { i=$((i + 1)); continue; }
    if [ -s "$j/result" ]; then
      [ "$i" = "$low" ] && low=$((low + 1))
    elif ! fact "$j/need" || [ "$v" = 0 ]; then :
    elif fact "$j/devices"; then
      devices=$v
      holds "$j" && used=$used$devices,
    elif ! fact "$j/driver"; then
      start "$j"
      return 1
    elif alive "$v"; then
      return 1
    fi
    i=$((i + 1))
  done
  grant= got=0 i=0
  while [ "$i" -lt "$3" ] && [ "$got" -lt "$2" ]; do
    case $used in *",$i,"*) ;; *) grant=$grant${grant:+,}$i got=$((got + 1)) ;; esac
    i=$((i + 1))
  done
  [ "$got" = "$2" ]
}
holds() { # DIR: whether its devices are taken; a lost driver's job holds them while a process of it lives
  if fact "$1/driver" && alive "$v"; then return 0; fi
  known= groups= signal_groups=
  members "$1"
  [ -n "$living" ]
}
discard() { # DIR: what was given to a driver that is dead, unless a block it started may yet read it
  [ ! -f "$1/env" ] || ! fact "$1/driver" || holds "$1" || rm -f "$1/env" "$1/setup" "$1/run"
}

# --- one job, from its start to its result -----------------------------------------------------------

drive() { # DIR UMASK BOOT_TIME
  cd "$1" || exit 1
  mask=$2 boot=$3
  once driver "$me" || { tidy; exit 0; }
  printf '%60s\n' '' >"result.$me" # room that `finish` has even when the job fills the disk
  publish "${1##*/}"
  fact need && need=$v
  fact total && total=$v
  low=1 wait=0.05 grant=
  while [ "$need" -gt 0 ] && ! my_turn "$id" "$need" "$total"; do
    nap $wait
    wait=0.3
  done
  [ "$need" = 0 ] || once devices "$grant"
  killed_for_memory
  o_before=$o
  if [ -f setup ]; then
    clock
    once setting_up "$now"
    block setup || finish FAILED_SETUP $?
  fi
  clock
  once running "$now"
  if [ -f run ]; then block run || finish FAILED $?; fi
  finish SUCCEEDED 0
}
killed_for_memory() { # sets o: how often that happened in this container, as far as it can be told
  o=0
  for f in /sys/fs/cgroup/memory.events /sys/fs/cgroup/memory/memory.oom_control; do
    [ -r $f ] && while read -r k v; do [ "$k" != oom_kill ] || o=$v; done <$f
  done
}
finish() { # STATE CODE
  if [ "$2" != 0 ]; then
    killed_for_memory
    [ "$o" -le "$o_before" ] || echo "sky: a process was killed, as the job took more memory than this node has" >>log
  fi
  clock
  printf '%s\n' "$1 $2 $now" 1<>"result.$me"
  ln "result.$me" result 2>/dev/null
  trash=${trash}result.$me${newline}env${newline}setup${newline}run$newline
  tidy
  exit 0
}
block() { # FILE: run it as the user's shell would; its own session, so that `kill 0` stays inside
  file=$PWD/$1
  (
    umask "$mask"
    cd "$HOME" && { [ -d sky_workdir ] || mkdir -p sky_workdir; } && cd sky_workdir || exit 125
    read -r first <"$file"
    case $first in
      '#!'*)
        first=${first#??} first=${first#"${first%%[! ]*}"}
        case $first in *' '*) set -- "${first%% *}" "${first#* }" "$file" ;; *) set -- "$first" "$file" ;; esac
        run='exec "$@"' ;;
      *) set --
        run='. "$0"' ;;
    esac
    [ "$total" = 0 ] || run="export CUDA_VISIBLE_DEVICES=$grant; $run"
    run=". \"\${0%/*}/env\"; $run" # after the profiles: what was asked for comes before what they say
    if command -v bash >/dev/null; then
      exec setsid bash -lc "[ ! -r ~/.bashrc ] || . ~/.bashrc; $run" "$file" "$@"
    else
      exec setsid sh -lc "$run" "$file" "$@"
    fi
  ) </dev/null >>log 2>&1
}

# --- verbs -------------------------------------------------------------------------------------------

submit() { # TOKEN NAME NEED TOTAL ENV_SIZE SETUP_SIZE RUN_SIZE FOLLOW; sizes of what comes by stdin, - for none
  token=$1 follow=$8
  [ "$3" -le "$4" ] || fail "the job needs $3 devices, and there are $4"
  [ -d "$W/j" ] || mkdir -p "$W/t" "$W/j" || fail "can't write in $W"
  if ! fact "$W/t/$token"; then
    d=$W/j/$token.$$.${me#*:} && mkdir "$d" || fail "can't write in $W"
    # Nobody knows this directory yet, so its facts need no ln. The mark after the bodies says all came.
    take "$5" "$d/env" && { [ "$6" = - ] || take "$6" "$d/setup"; } && { [ "$7" = - ] || take "$7" "$d/run"; } &&
      read -r mark && [ "$mark" = "$token" ] && : >"$d/log" && echo "$2" >"$d/name" && echo "$3" >"$d/need" &&
      echo "$4" >"$d/total" && clock && echo "$now" >"$d/submitted" ||
      { rm -rf "$d"; fail "can't write the job in $W: disk full, or the connection was cut"; }
    # Whoever links the token first has the job; an attempt that lost goes on with the winner's.
    once "$W/t/$token" "${d##*/}" || rm -rf "$d"
    fact "$W/t/$token"
  fi
  d=$W/j/$v
  publish "$v"
  [ -s "$d/driver" ] || start "$d"
  say "job $id"
  command -v bash >/dev/null || say "note this host has no bash: setup and run are read by sh"
  tidy # while the driver starts, not when the job has ended
  [ "$follow" = 0 ] || stream "$d" 0
}

open_at() { exec 3<"$1" && { [ "$2" = 0 ] || dd bs=1 skip="$2" count=0 <&3 2>/dev/null; }; }
stream() { # DIR OFFSET: the log from there on, as it grows, then what is true of the job
  [ -r "$1/log" ] || fail "the log of this job is gone" # `exec` itself would end the shell
  open_at "$1/log" "$2"
  turns=0 told= silent=0
  while :; do
    state_of "$1"
    # a job that starts at once is not said to wait
    if [ "$state" != "$told" ] && { [ "$state" != PENDING ] || [ $turns -ge 30 ]; }; then
      say "state $state"
      told=$state
    fi
    cat <&3 || exit 1
    case $state in PENDING | SETTING_UP | RUNNING) ;; *) break ;; esac
    turns=$((turns + 1))
    if [ $turns -lt 40 ]; then nap 0.004; elif [ $turns -lt 60 ]; then nap 0.05; else
      nap 0.15
      # keeps the connection open through whatever cuts silent ones, and ends us when nobody listens
      silent=$((silent + 1))
      [ $((silent % 70)) != 0 ] || say alive || exit 1
    fi
    [ -s "$1/driver" ] || [ $((turns % 100)) != 0 ] || start "$1"
  done
  told_so_far "$1/log"
  say "end $state $code $pos"
  discard "$1"
}

logs() { # ID OFFSET TAIL_LINES FOLLOW
  job_of "$1" || fail "no job $1"
  [ -r "$j/log" ] || fail "the log of this job is gone"
  say "job $1"
  from=$2
  if [ "$3" -ge 0 ]; then
    size=$(($(wc -c <"$j/log")))
    from=$((size - $(head -c "$size" "$j/log" | tail -n "$3" | wc -c)))
  fi
  say "from $from"
  if [ "$4" = 1 ]; then stream "$j" "$from"; return; fi
  open_at "$j/log" "$from"
  cat <&3
  told_so_far "$j/log"
  state_of "$j"
  say "end $state $code $pos"
  discard "$j"
}

slice() { # PATH OFFSET: a file that another engine writes, from there to its present end
  [ -f "$1" ] || fail "no file $1"
  [ -r "$1" ] || fail "can't read $1"
  open_at "$1" "$2"
  cat <&3
  told_so_far "$1"
  say "end - - $pos"
}
told_so_far() { # FILE: sets pos to where descriptor 3 is: what cat copied came from the same open file
  pos=
  while read -r k v; do [ "$k" != pos: ] || pos=$v; done </proc/$$/fdinfo/3
  [ -n "$pos" ] || pos=$(($(wc -c <"$1"))) # kernels that don't tell (gVisor)
}

list() { # every job, oldest first; starts what was submitted and never started
  hint=1
  while job_of "$hint"; do
    state_of "$j"
    [ "$state" != PENDING ] || [ -s "$j/driver" ] || start "$j"
    fact "$j/submitted" && submitted=$v || submitted=-
    { fact "$j/setting_up" || fact "$j/running"; } && started=$v || started=-
    fact "$j/devices" && devices=$v || devices=-
    fact "$j/name" && name=$v || name=-
    printf '%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n' "$hint" "$state" "$code" "$submitted" "$started" "$ended" \
      "$devices" "$name" "$j"
    discard "$j"
    hint=$((hint + 1))
  done
  for d in "$W"/j/*.*.*; do # what an attempt left that was killed before it had linked its token
    name=${d##*/} pid=${d%.*}
    [ ! -d "$d" ] || [ -e "$d/driver" ] || alive "${pid##*.}:${d##*.}" ||
      { fact "$W/t/${name%.*.*}" && [ "$v" = "$name" ]; } || rm -rf "$d"
  done
  say "end $((hint - 1))"
}

cancel() { # ID|all GRACE_SECONDS
  if [ "$1" = all ]; then
    i=0
    while [ -e "$W/q/$((i + 1))" ]; do i=$((i + 1)); done
    # the last one first, so that none starts because another ended
    while [ "$i" -gt 0 ]; do
      job_of "$i" && [ ! -s "$j/result" ] && cancel_one "$i" "$2"
      i=$((i - 1))
    done
  else
    cancel_one "$1" "$2"
  fi
  say end
  tidy
}
cancel_one() { # ID GRACE_SECONDS
  job_of "$1" || { say "unknown $1"; return; }
  d=$j
  if [ ! -s "$d/result" ]; then
    printf '%s\n' "$me" >>"$d/cancel" || fail "can't write in $W: disk full?"
    # If nobody drives it yet, take the driver's place, so that nobody will.
    once "$d/driver" "$me" || { alive "$v" && kill -KILL "${v%%:*}" 2>/dev/null; }
    end_members "$d" "$2" || { say "stuck $1$living"; return; }
    clock
    once "$d/result" "CANCELLED - $now" && rm -f "$d/env" "$d/setup" "$d/run"
  fi
  state_of "$d"
  say "cancelled $1 $state"
}

case $verb in
  submit | logs | list | cancel | slice | drive) "$verb" "$@" ;;
  *) fail "no verb $verb" ;;
esac
