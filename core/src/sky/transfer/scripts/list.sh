# Arguments: up (the path is a target) or down (a source, links to it are followed), the path, find patterns to
# leave out. Prints: a line of its kind (d, f, n: nothing) and of the programs there are, then what listing.py says.
way=$1 path=$2
shift 2
for program in mkdir mv rm rmdir chmod touch ln; do
    command -v $program >/dev/null 2>&1 || { echo $program; exit 91; }
done
have=
for program in find stat readlink tar dd cat head; do
    command -v $program >/dev/null 2>&1 && have="$have $program"
done
kind=n
if [ -d "$path" ]; then
    kind=d
elif [ -e "$path" ] || [ -h "$path" ]; then
    kind=f
fi
echo "$kind$have"
case $have in
*find*stat*readlink*) ;;
*) exit 0 ;;
esac
case $way$kind in
upf) exec stat -c '%f %s %Y' "$path" ;;
downf) exec stat -L -c '%f %s %Y' "$path" ;;
*n) exit 0 ;;
esac
cd "$path" || exit 96
count=$#
while [ "$count" -gt 0 ]; do
    pattern=$1
    shift
    set -- "$@" -path "$pattern" -prune -o
    count=$((count - 1))
done
code=0
find . "$@" -exec sh -c '
    printf "%s\0" "$@" ""
    stat -c "%f %s %Y %n" "$@" 2>/dev/null
    printf "\0"
' sky {} + || code=97
printf '\0'
find . "$@" -type l -exec sh -c '
    for link; do
        printf "%s\0" "$link"
        readlink -n "$link"
        printf "\0"
    done
' sky {} + || code=97
exit $code
