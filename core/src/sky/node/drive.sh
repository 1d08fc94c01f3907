# --- one job, from its start to its result -----------------------------------------------------------

drive() { # DIR UMASK BOOT_TIME
  cd "$1" || exit 1
  mask=$2 boot=$3
  once driver "$me" || { tidy; exit 0; }
  printf '%240s\n' '' >"result.$me" # room that `write_result` has even when the job fills the disk
  killed_for_memory
  o_before=$o
  ! gang_of || gang_up
  fact need && need=$v
  fact total && total=$v
  low=1 wait=0.05 grant=
  if [ "$rank" = 0 ]; then
    publish "${1##*/}"
    while [ "$need" -gt 0 ] && ! my_turn "$id" "$need" "$total"; do
      [ "$size" = 1 ] || ! stopped || finish FAILED 125
      nap $wait
      wait=0.3
    done
  fi
  if [ "$size" -gt 1 ]; then granted || finish FAILED 125; else [ "$need" = 0 ] || once devices "$grant"; fi
  if [ -f setup ]; then
    [ "$size" = 1 ] || in_step 3 || finish FAILED 125
    clock
    once setting_up "$now"
    block setup || finish FAILED_SETUP $?
    if [ "$rank" != 0 ]; then tell 3; elif [ "$size" -gt 1 ]; then await 3 || finish FAILED 125; fi
  fi
  [ "$size" = 1 ] || in_step 4 || finish FAILED 125
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
finish() { # STATE CODE [REASON], of the blocks here
  if [ "$2" != 0 ]; then
    killed_for_memory
    [ "$o" -le "$o_before" ] || echo "sky: a process was killed, as the job took more memory than this node has" >>log
  fi
  if [ "$size" -gt 1 ]; then
    gang_over "$@"
    set -- $ends
    # said once in what people read: by rank 0, or by all when that is what was lost
    if [ $# -gt 2 ] && { [ "$rank" = 0 ] || [ ! -s g/0.heard ] || { heard 0; [ "$step" != 5 ]; }; }; then
      state=$1 code=$2
      shift 2
      echo "sky: $*" >>log
      set -- "$state" "$code" "$@"
    fi
  fi
  write_result "$@"
  [ "$rank" = 0 ] || tell 5 "$ends"
  trash=${trash}result.$me${newline}stop.$me${newline}env${newline}setup${newline}run$newline
  tidy
  exit 0
}
write_result() { # STATE CODE [REASON...]
  clock
  line="$1 $2 $now"
  shift 2
  printf '%s\n' "$line${*:+ $*}" 1<>"result.$me"
  ln "result.$me" result 2>/dev/null
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
