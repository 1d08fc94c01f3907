# One large file, in steps of which each is a run of this. Arguments: the step, the directory, the staging name, and:
#   has                             prints how many bytes of it are here
#   take PREFIX BLOCKS SIZE         reads the file from that block of 64 KiB on; it must have SIZE bytes in the end
#   apply MODE MTIME                reads a script that gives it its name; both (may be empty) are the directory's
#   drop                            removes what is here
# Each byte is written to its own place: a run that a lost connection left behind can't hurt the next. Codes: codes.py.
step=$1 root=$2 staging=./$3
shift 3
case $step in
has)
    cd "$root" 2>/dev/null && stat -c %s "$staging/0" 2>/dev/null
    exit 0
    ;;
take)
    mkdir -p "$root" && cd "$root" || exit 96
    [ -w . ] || chmod u+rwx .
    for stale in "./$1"-*; do
        [ "$stale" = "$staging" ] || rm -rf "$stale"
    done
    umask 077
    mkdir -p "$staging" || exit 96
    error=$(dd of="$staging/0" bs=65536 seek="$2" conv=notrunc 2>&1) || { echo "$error" >&2; exit 96; }
    [ "$(stat -c %s "$staging/0")" = "$3" ] || exit 95
    ;;
apply)
    cd "$root" || exit 96
    script=$(dd 2>/dev/null)
    complete=
    set -e
    eval "$script"
    [ "$complete" = yes ] || exit 95
    rm -rf "$staging"
    if [ -n "$2" ]; then
        touch -m -d "@$2" .
        chmod "$1" .
    fi
    ;;
drop)
    cd "$root" && rm -rf "$staging"
    ;;
esac
