# Arguments: d or f (what comes), the final path, the name of the directory that keeps a part of a file when the
# connection is lost, the mtime that a directory gets, the argv of rsync without its last. Codes: codes.py.
kind=$1 target=$2 kept=$3 mtime=$4 rsync=$5 server=$6
shift 6
command -v rsync >/dev/null 2>&1 || exit 90
if [ -d "$target" ]; then
    [ "$kind" = d ] || exit 92
elif [ -e "$target" ]; then
    # a device or a pipe is nobody's to replace
    [ "$kind" = f ] && [ -f "$target" ] || exit 92
fi
case $target in
*/*)
    parent=${target%/*}
    [ -d "${parent:-/}" ] || mkdir -p "$parent" || exit 96
    ;;
esac
# Absolute, for else rsync has one beside each file.
case $kind$target in
d/*) kept=$target/$kept ;;
d*) kept=$PWD/$target/$kept ;;
f/*) kept=$parent/$kept ;;
*) kept=$PWD/$parent/$kept ;;
esac
[ -d "$kept" ] || exec "$rsync" "$server" "--partial-dir=$kept" "$@" "$target"
"$rsync" "$server" "--partial-dir=$kept" "$@" "$target"
code=$?
case $code in
0 | 24)
    rm -rf "$kept"
    [ "$kind" = f ] || touch -m -d "@$mtime" "$target"
    ;;
esac
exit $code
