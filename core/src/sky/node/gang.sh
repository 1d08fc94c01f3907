# --- several nodes -----------------------------------------------------------------------------------

# Rank 0 listens, the others connect, and each side keeps telling the other one line: how far it is. A line is a
# number and what belongs to it; who has said 3 has been through 1 and 2.
#       rank 0 to the others                     the others to rank 0
#   1   -                                        here
#   2   GRANT: the job's turn has come           ready: these devices are free here
#   3   set up                                   set up without a failure
#   4   run                                      STATE CODE [REASON]: how it ended here
#   5   STATE CODE [REASON]: how all ended       the same, when nothing of it lives here any more
# The driver takes the steps and runs the blocks; its guard hears the others, and ends the blocks when the gang has
# failed; link.sh has the connections, which end when the guard does. In g/: tell, what we say; N.heard, the last that
# rank N said; N.beat, when; N.joined, N.gone: the connection; quiet: the guard has ended what there was.

JOIN_SECONDS=60 # for all ranks to be connected
BEAT_SECONDS=2  # at least so often each side says where it is
DEAD_SECONDS=8  # who has said nothing for so long is lost
STOP_SECONDS=2  # between TERM and KILL when the gang has failed
OVER_SECONDS=8  # for the others to say that nothing lives
rank=0 size=1

gang_of() { # in a job's directory: fails for a job of one node
  [ -s gang ] && { read -r rank size secret && read -r address port; } <gang
}
named() { # RANK: sets name, for messages
  name="rank $1 ($(head -n $(($1 + 3)) gang | tail -n 1))"
}
others() { # sets peers: the ranks that this one is connected with
  peers=0
  [ "$rank" = 0 ] || return 0
  peers= k=1
  while [ "$k" -lt "$size" ]; do peers="$peers $k" k=$((k + 1)); done
}
put() { # FILE TEXT: over what is there, in one write, where it is already: a full disk changes nothing
  printf '%-240s\n' "$2" 1<>"$1"
}
tell() { put g/tell "$*"; }
heard() { # RANK: sets step, words
  step=0 words=
  [ ! -s "g/$1.heard" ] || read -r step words <"g/$1.heard"
  case $step in [1-5]) ;; *) step=0 ;; esac
}
pace() { # sleep, the longer the less there is to expect
  turn=$((turn + 1))
  if [ "$turn" -lt 150 ]; then nap 0.01; elif [ "$turn" -lt 250 ]; then nap 0.1; else nap 0.3; fi
}
stop() { # STATE CODE REASON: the gang has failed; the first who says so is right
  [ ! -s stop ] || return 0 # also as it may be the very file that this would write over
  put "stop.$me" "$*" # gang_up and guard made room for it
  ln "stop.$me" stop 2>/dev/null
}

# --- the driver's part

gang_up() {
  others
  mkdir -p g
  tell 1
  put "stop.$me" ''
  # Its own session, and not the job's cookie: what ends the job mustn't end those who tell of it.
  SKY_JOB_COOKIE=0 setsid sh "$self" "$W" guard "$PWD" "$me" "$boot" </dev/null >/dev/null 2>&1 &
  guard=$!
}
await() { # STEP: until all peers have said it; fails when the gang was stopped
  turn=0
  for k in $peers; do
    # a 5 before its time is how a failure is told: the guard will say stop
    while heard "$k" && { [ "$step" -lt "$1" ] || [ "$step" = 5 -a "$1" != 5 ]; }; do
      ! stopped || return 1
      pace
    done
    # How it ended there is read here, too: the guard may not have looked yet.
    [ "$rank" != 0 ] || [ "$step" != 4 ] || ended_there $words
  done
  ! stopped
}
stopped() {
  [ ! -s stop ] || return 0
  born "$guard" || stop FAILED 125 "what watches over the other ranks was killed"
  [ -s stop ]
}
granted() { # all have it, or none; sets grant on the others
  if [ "$rank" = 0 ]; then
    [ "$need" = 0 ] || once devices "$grant"
    tell 2 "${grant:--}"
    await 2
    return
  fi
  await 2 || return 1 # not missed: rank 0 goes on when all have said 2
  grant=${words#-}
  until [ "$need" = 0 ] || free_here "$grant"; do
    ! stopped || return 1
    pace
  done
  [ "$need" = 0 ] || once devices "$grant"
  tell 2
}
free_here() { # GRANT: whether no job that has lost its rank 0 still holds one of these devices
  for d in "$W"/j/*/devices; do
    d=${d%/devices}
    [ "$d" != "$PWD" ] && [ ! -s "$d/result" ] && fact "$d/devices" && devices=,$v, && holds "$d" || continue
    left=$1,
    while [ -n "$left" ]; do
      case $devices in *",${left%%,*},"*) return 1 ;; esac
      left=${left#*,}
    done
  done
}
in_step() { # STEP: rank 0 says when, the others wait for it
  if [ "$rank" != 0 ]; then await "$1"; elif stopped; then return 1; else tell "$1"; fi
}
gang_over() { # STATE CODE [REASON]: how the blocks ended here; sets ends, the same for the gang
  if [ "$rank" != 0 ]; then
    tell 4 "$@"
    ! await 5 || [ "${words%% *}" = SUCCEEDED ] || stop "$words"
  elif [ "$1" = SUCCEEDED ]; then
    await 4 # or the gang was stopped
  else
    named 0
    state=$1 code=$2
    shift 2
    stop "$state" "$code" "${*:-$name ended with $code}"
  fi
  ends="SUCCEEDED 0"
  ! fact stop || ends=$v
  [ "$rank" != 0 ] || tell 5 "$ends"
  [ -s stop ] || return 0
  uptime
  by=$((up + OVER_SECONDS)) turn=0
  while [ ! -e g/quiet ] && waiting; do pace; done
  [ "$rank" = 0 ] || return 0
  for k in $peers; do
    while heard "$k" && [ "$step" != 5 ] && reached "$k" && waiting; do pace; done
  done
}
reached() { # RANK: whether it can be expected to say something
  [ -e "g/$1.joined" ] && [ ! -e "g/$1.gone" ] && fact "g/$1.beat" && [ $((up - v)) -lt $DEAD_SECONDS ]
}
waiting() { uptime && [ "$up" -lt "$by" ] && born "$guard"; }

# --- the guard's part

guard() { # DIR DRIVER BOOT_TIME: while the driver lives
  cd "$1" && gang_of && gang_tools || exit 1
  driver=$2 boot=$3 spared=${2%%:*} spared_group=${2%%:*}
  others
  once guard "$me"
  put "stop.$me" ''
  uptime
  limit=$((up + JOIN_SECONDS))
  for k in $peers; do
    put "g/$k.beat" "$up"
    link "$k" &
  done
  while alive "$driver"; do
    [ -s stop ] || for k in $peers; do look "$k"; done
    # No step waits for a look of the guard; each look takes from those who take the steps.
    if [ ! -s stop ]; then nap 0.1; else end_here; nap 0.5; fi
  done
  if [ ! -s result ] && in_cancel "$PWD"; then
    tell $((rank ? 4 : 5)) CANCELLED -
  elif [ ! -s result ]; then
    named "$rank"
    stop FAILED 125 "the driver of $name was killed"
    fact stop
    tell $((rank ? 4 : 5)) "$v"
    end_here
    write_result $v
  fi
  hang_up
  trash=${trash}stop.$me
  tidy
}
end_here() { # what the blocks started, when rank 0 has told the others to do the same
  fact stop
  [ "$rank" != 0 ] || tell 5 "$v"
  end_members "$PWD" $STOP_SECONDS
  : >g/quiet
}
look() { # RANK: stops the gang when that one has failed or is lost
  k=$1
  heard "$k"
  case $rank,$step in 0,4 | *,5) ended_there $words; return 0 ;; esac
  uptime
  if [ ! -e "g/$k.joined" ]; then
    [ "$up" -lt "$limit" ] || { named "$k"; stop FAILED 125 "$name did not join within $JOIN_SECONDS s"; }
  elif [ -e "g/$k.gone" ]; then
    named "$k"
    stop FAILED 125 "$name was lost: its connection was closed"
  elif fact "g/$k.beat" && [ $((up - v)) -ge $DEAD_SECONDS ]; then
    if alone; then
      named 0
      stop FAILED 125 "$name was cut off: no sign of life of any other rank for $DEAD_SECONDS s"
    fi
    named "$k"
    stop FAILED 125 "$name was lost: no sign of life for $DEAD_SECONDS s"
  fi
}
alone() { # whether rank 0 hears none of several others
  [ "$rank" = 0 ] && [ "$size" -gt 2 ] || return 1
  for p in $peers; do
    fact "g/$p.beat" && [ $((up - v)) -gt $((BEAT_SECONDS * 2)) ] || return 1
  done
}
ended_there() { # STATE CODE [REASON], of rank $k
  [ "$1" != SUCCEEDED ] || return 0
  named "$k"
  state=$1 code=$2
  shift 2
  stop "$state" "$code" "${*:-$name ended with $code}"
}
