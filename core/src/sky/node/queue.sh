# --- the queue ---------------------------------------------------------------------------------------

job_of() { # ID, or @TOKEN: sets j to its directory
  case $1 in @*) fact "$W/t/${1#@}" ;; *) fact "$W/q/$1" ;; esac && j=$W/j/$v
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

state_of() { # DIR: sets state, code, ended, reason
  code=- ended=- reason=
  if [ ! -e "$1/log" ]; then # its directory was taken away: nobody will ever know
    state=UNKNOWN
  elif fact "$1/result"; then
    set -- $v
    state=$1 code=$2 ended=$3
    shift 3
    reason=$*
  elif ! fact "$1/driver"; then
    state=PENDING
  elif alive "$v" || in_cancel "$1" || guarded "$1"; then
    if [ -s "$1/running" ]; then state=RUNNING
    elif [ -s "$1/setting_up" ]; then state=SETTING_UP
    else state=PENDING; fi
  elif [ -s "$1/result" ]; then # it ended between the two looks
    state_of "$1"
  else
    state=UNKNOWN
  fi
}

guarded() { # DIR: the same, of a job on several nodes
  fact "$1/guard" && alive "$v"
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
