# Arguments: tar or sh, the directory, the staging name, the prefix of stale ones, the directory's mode and mtime
# (empty: left alone). Reads a tar stream, or records (a line with a length, then that many bytes; `end` before
# the last), stages all, then runs the staged `apply` in the directory. Codes: codes.py.
how=$1 root=$2 staging=./$3 stale=./$4 mode=$5 mtime=$6
mkdir -p "$root" && cd "$root" || exit 96
[ -w . ] || chmod u+rwx .
rm -rf "$stale".*
# A second signal must not end the removal.
trap 'trap "" HUP INT TERM; rm -rf "$staging"' EXIT
trap 'exit 98' HUP INT TERM
mkdir "$staging" || exit 96

if dd iflag=fullblock count=0 </dev/null >/dev/null 2>&1; then
    take() { # bytes of stdin, file
        : >"$2" || return 1
        if [ $(($1 / 65536)) -gt 0 ]; then
            error=$(dd bs=65536 iflag=fullblock count=$(($1 / 65536)) 2>&1 >>"$2") || return 1
        fi
        if [ $(($1 % 65536)) -gt 0 ]; then
            error=$(dd bs=$(($1 % 65536)) iflag=fullblock count=1 2>&1 >>"$2") || return 1
        fi
    }
else
    # A plain dd counts what one read of a pipe gives as a whole block.
    take() {
        : >"$2" || return 1
        [ "$1" -eq 0 ] || error=$(dd bs=1 count="$1" 2>&1 >>"$2")
    }
fi

if [ "$how" = tar ]; then
    tar -x -p -o -f - -C "$staging" || exit 96
else
    number=0
    length=
    while IFS= read -r length && [ "$length" != end ]; do
        take "$length" "$staging/$number" || { echo "$error" >&2; exit 96; }
        number=$((number + 1))
    done
    [ "$length" = end ] && IFS= read -r length || exit 95
    take "$length" "$staging/apply" || { echo "$error" >&2; exit 96; }
fi
[ -f "$staging/apply" ] || exit 95
complete=
set -e
. "$staging/apply"
[ "$complete" = yes ] || exit 95
rm -rf "$staging"
trap - EXIT
if [ -n "$mtime" ]; then
    touch -m -d "@$mtime" .
    chmod "$mode" .
fi
