# --- verbs -------------------------------------------------------------------------------------------

submit() { # TOKEN NAME NEED TOTAL ENV_SIZE SETUP_SIZE RUN_SIZE GANG_SIZE FOLLOW; sizes of what comes by stdin, - for none
  token=$1 follow=$9 id=
  [ "$3" -le "$4" ] || fail "the job needs $3 devices, and there are $4"
  [ -d "$W/j" ] || mkdir -p "$W/t" "$W/j" || fail "can't write in $W"
  if ! fact "$W/t/$token"; then
    d=$W/j/$token.$$.${me#*:} && mkdir "$d" || fail "can't write in $W"
    # Nobody knows this directory yet, so its facts need no ln. The mark after the bodies says all came.
    take "$5" "$d/env" && { [ "$6" = - ] || take "$6" "$d/setup"; } && { [ "$7" = - ] || take "$7" "$d/run"; } &&
      { [ "$8" = - ] || take "$8" "$d/gang"; } &&
      read -r mark && [ "$mark" = "$token" ] && : >"$d/log" && echo "$2" >"$d/name" && echo "$3" >"$d/need" &&
      echo "$4" >"$d/total" && clock && echo "$now" >"$d/submitted" ||
      { rm -rf "$d"; fail "can't write the job in $W: disk full, or the connection was cut"; }
    [ "$8" = - ] || (cd "$d" && gang_of && gang_tools) ||
      { rm -rf "$d"; fail "nothing here can connect the nodes of a job: perl, python3 or nc is needed"; }
    # Whoever links the token first has the job; an attempt that lost goes on with the winner's.
    once "$W/t/$token" "${d##*/}" || rm -rf "$d"
    fact "$W/t/$token"
  fi
  d=$W/j/$v
  ! cd "$d" || gang_of
  [ "$rank" != 0 ] || publish "$v"
  [ -s "$d/driver" ] || start "$d"
  [ "$size" = 1 ] || ports
  say "job ${id:-@$token}"
  command -v bash >/dev/null || say "note this host has no bash: setup and run are read by sh"
  tidy # while the driver starts, not when the job has ended
  [ "$follow" = 0 ] || stream "$d" 0
}

ports() { # tells where rank 0 waits for each of the others
  [ "$rank" = 0 ] || return 0
  others
  where= tries=0
  for k in $peers; do
    until fact "g/$k.port"; do
      tries=$((tries + 1))
      [ ! -s result ] && [ $tries -lt 1000 ] || fail "rank 0 can't listen for the others here"
      nap 0.01
    done
    where="$where $v"
  done
  say "gang$where"
}

open_at() { exec 3<"$1" && { [ "$2" = 0 ] || dd bs=1 skip="$2" count=0 <&3 2>/dev/null; }; }
stream() { # DIR OFFSET: the log from there on, as it grows, then what is true of the job
  [ -r "$1/log" ] || fail "the log of this job is gone" # `exec` itself would end the shell
  open_at "$1/log" "$2"
  turns=0 told= silent=0 often=0.004
  [ ! -s "$1/gang" ] || often=0.02 # a start on several nodes takes longer, and each look is two processes
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
    if [ $turns -lt 40 ]; then nap $often; elif [ $turns -lt 60 ]; then nap 0.05; else
      nap 0.15
      # keeps the connection open through whatever cuts silent ones, and ends us when nobody listens
      silent=$((silent + 1))
      [ $((silent % 70)) != 0 ] || say alive || exit 1
    fi
    [ -s "$1/driver" ] || [ $((turns % 100)) != 0 ] || start "$1"
  done
  told_so_far "$1/log"
  say "end $state $code $pos${reason:+ $reason}"
  discard "$1"
}

logs() { # ID OFFSET TAIL_LINES FOLLOW
  job_of "$1" || fail "no job $1"
  [ -r "$j/log" ] || fail "the log of this job is gone"
  say "job $1"
  ! read -r rank size _ 2>/dev/null <"$j/gang" || [ "$rank" != 0 ] || say "ranks $size ${j##*/}"
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
  say "end $state $code $pos${reason:+ $reason}"
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
    read -r _ nodes _ 2>/dev/null <"$j/gang" || nodes=1
    printf '%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n' "$hint" "$state" "$code" "$submitted" "$started" \
      "$ended" "$devices" "$name" "$nodes" "$reason" "$j"
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

cancel() { # ID|@TOKEN|all GRACE_SECONDS
  if [ "$1" = all ]; then
    i=0
    while [ -e "$W/q/$((i + 1))" ]; do i=$((i + 1)); done
    # the last one first, so that none starts because another ended
    while [ "$i" -gt 0 ]; do
      job_of "$i" && [ ! -s "$j/result" ] && cancel_one "$i" "$2"
      i=$((i - 1))
    done
    for d in "$W"/j/*/gang; do # those whose rank 0 is elsewhere have no number here
      d=${d%/gang}
      d=${d##*/}
      [ ! -s "$W/j/$d/gang" ] || [ -s "$W/j/$d/result" ] || cancel_one "@${d%%.*}" "$2"
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
  ! read -r rank size _ 2>/dev/null <"$d/gang" || [ "$rank" != 0 ] || say "ranks $size ${d##*/}"
  if [ ! -s "$d/result" ]; then
    # By a process of its own: what was begun is finished, also when this one is cut off.
    setsid setsid sh "$self" "$W" reap "$d" "$2" "$me" "$boot" </dev/null >/dev/null 2>&1
    uptime
    by=$((up + 10)) turn=0
    until [ -s "$d/reaped.$me" ]; do
      pace
      if fact "$d/reaper.$me"; then alive "$v"; else uptime && [ "$up" -lt "$by" ]; fi ||
        break
    done
    [ -s "$d/reaped.$me" ] || [ -s "$d/result" ] || fail "what cancels job $1 was killed, or the disk is full: try again"
    ! fact "$d/reaped.$me" || [ "$v" = all ] || { say "stuck $1 $v"; return; }
    rm -f "$d/reaper.$me" "$d/reaped.$me"
  fi
  state_of "$d"
  say "cancelled $1 $state"
}

reap() { # DIR GRACE_SECONDS CALLER BOOT_TIME: all that a job has, for a `cancel` that may not see the end of it
  d=$1 boot=$4
  echo "$me" >"$d/reaper.$3" && printf '%s\n' "$me" >>"$d/cancel" || exit 0
  # If nobody drives it yet, take the driver's place, so that nobody will.
  once "$d/driver" "$me" || { alive "$v" && kill -KILL "${v%%:*}" 2>/dev/null; }
  if end_members "$d" "$2"; then
    clock
    once "$d/result" "CANCELLED - $now" && rm -f "$d/env" "$d/setup" "$d/run"
    living=all
  fi
  tidy
  echo $living >"$d/reaped.$3"
}

case $verb in
  submit | logs | list | cancel | slice | drive | guard | reap) "$verb" "$@" ;;
  *) fail "no verb $verb" ;;
esac
