# Arguments: d or f (what comes), the final path, the argv of rsync without its last. Codes: codes.py.
kind=$1 target=$2
shift 2
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
exec "$@" "$target"
