# Arguments: what the target can take (d, or any), the source, the argv of rsync without its last. Codes: codes.py.
takes=$1 source=$2
shift 2
command -v rsync >/dev/null 2>&1 || exit 90
if [ -d "$source" ]; then
    exec "$@" "$source/"
fi
[ -f "$source" ] || exit 93
[ "$takes" != d ] || exit 92
# rsync would send the link and not the file.
[ ! -h "$source" ] || exit 94
exec "$@" "$source"
