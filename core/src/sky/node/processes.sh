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
spared= spared_group= # who asks for an end on behalf of another

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
$(ls -l /proc/[0-9]*/fd 2>/dev/null | grep -F -e /proc/ -e "$1/log")
END
  # Of each: state, parent, group, session, after the program's name, which may hold anything. A shell reads
  # byte by byte, so what it needn't is left out before.
  table=$(grep -Hos ') [A-Za-z] [0-9]* [0-9]* [0-9]* ' /proc/[0-9]*/stat)
  more=1
  while [ -n "$more" ]; do
    more= living=
    while read -r pid how parent group session; do
      pid=${pid#/proc/} pid=${pid%%/*}
      case $pid,$how in 1,? | *,[ZX] | ,*) continue ;; esac
      case " $known " in
        *" $pid "*) ;;
        *) case " $known $groups " in *" $parent "* | *" $group "* | *" $session "*) ;; *) continue ;; esac
          [ "$pid" != $$ ] && [ "$parent" != $$ ] || continue
          more=1 ;;
      esac
      note "$pid"
      note_group "$group"
      note_group "$session"
      living="$living $pid"
    done <<END
$table
END
  done
}
note() { # PID: never pid 1, never ourselves
  case " $known 1 $$ $spared " in *" $1 "*) ;; *) known="$known $1" ;; esac
}
note_group() { # ID of a group or session, 0 if the process has none; never that of pid 1 or our own
  case " $groups 0 1 $my_group $spared_group " in *" $1 "*) ;; *) groups="$groups $1" signal_groups="$signal_groups -$1" ;; esac
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
  uptime
  by=$((up + $2))
  while members "$1" && [ -n "$living" ] && uptime && [ "$up" -le "$by" ]; do nap 0.1; done
  left=50
  while [ -n "$living" ] && { freeze "$1"; [ -n "$living" ]; }; do
    kill -KILL $living 2>/dev/null
    left=$((left - 1))
    [ $left -gt 0 ] || return 1
    nap 0.02
  done
}
