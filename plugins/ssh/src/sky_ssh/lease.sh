# What a host is asked: what it is, who holds it, and to be held or given back. Sent to `sh` on stdin, after
# lines that set the variables: verb, id (of the cluster), doc (one line), dir (where the lease is, or empty),
# sudo (`ask`, or empty), password, askpass (`1`, or empty). POSIX; nothing but usual applets.
#
# A lease is one file, made complete under another name and given its own by `ln`, which fails where that
# exists: of any number of callers one wins, and a killed one leaves nothing or all. Its lines are
# `id`, `work_dir`, `sky_workdir` (absent|present when it was taken) and `document`, each with its value.
#
# Its name has the host's in it: homes may be shared by hosts.
{
umask 077
node=$(uname -n)
own=$HOME/.sky-node
base=${dir:-$own}
lease=$base/lease.$node
work=$own/c/$id.$node

say() { printf '%s %s\n' "$1" "$2"; }
fail() { say error "$1"; say end .; exit 0; }

holder= holds=
read_lease() { # who holds the host, whether that is this account, and where it works
    holder= holds= sky_workdir= document= recorded=
    for kind in h d p S b c; do # each of them is a fact even if it is gone a moment later
        [ ! -$kind "$lease" ] || fail "$lease is in the way: not a lease"
    done
    # At once, as it may be given back meanwhile; again, as it may be taken meanwhile.
    tried=
    until content=$(cat "$lease" 2>/dev/null); do
        [ -e "$lease" ] || return 0
        tried=x$tried
        [ "$tried" != xxxxx ] || break
    done
    holder=?
    while read -r key value; do
        case $key in
            id) holder=$value ;;
            work_dir) recorded=$value ;;
            sky_workdir) sky_workdir=$value ;;
            document) document=$value ;;
        esac
    done <<END
$content
END
    place=$own/c/$holder.$node
    # In a directory that all may write to, anyone could make a lease that says it is ours.
    [ -O "$lease" ] || return 0
    # As it was when the host was taken: HOME may be another by now.
    case $recorded in /*/.sky-node/c/"$holder.$node") place=$recorded ;; esac
    if [ "$holder" = "$id" ]; then holds=1 work=$place; fi
}
say_lease() {
    [ -n "$holder" ] || return 0
    say lease "$holder"
    if [ -O "$lease" ]; then say mine .; fi
    say work_dir "$place"
    say document "$document"
    if [ -n "$holds" ] && [ -w "$work" ] && [ -d "$work" ]; then say ready .; fi
}

look() {
    say home "$HOME"; say node "$node"
    if [ -d "$HOME" ] && [ -w "$HOME" ]; then say writable .; fi
    cpus=$(nproc 2>/dev/null) || cpus=$(grep -c '^processor' /proc/cpuinfo)
    say cpus "$cpus"
    while read -r key value _; do
        case $key in MemTotal:) say memory_kib "$value"; break ;; esac
    done </proc/meminfo
    limit=; if command -v timeout >/dev/null 2>&1; then limit='timeout 4'; fi
    if command -v nvidia-smi >/dev/null 2>&1; then
        $limit nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | while read -r name; do say gpu "$name"; done
    fi
}
ask_sudo() { # -k: no credentials are kept, and none that were kept are used
    if ! command -v sudo >/dev/null 2>&1; then say sudo missing
    elif sudo -k -n true 2>/dev/null; then say sudo free
    elif [ -z "$password" ]; then say sudo password
    elif sudo -k -S -p '' true 2>/dev/null <<END
$password
END
    then say sudo accepted
    else say sudo refused
    fi
}
take() {
    read_lease
    new=$base/.lease.$id.$node.$$
    tries=0
    while [ -z "$holder" ]; do
        # Giving back another lease may remove the empty directory at this very moment.
        tries=$((tries + 1))
        if [ -n "$dir" ] && mkdir "$dir" 2>/dev/null; then chmod 1777 "$dir"; fi
        mkdir -p "$base" 2>/dev/null
        if [ -e "$HOME/sky_workdir" ] || [ -L "$HOME/sky_workdir" ]; then had=present; else had=absent; fi
        rm -f "$new"
        (set -C; printf 'id %s\nwork_dir %s\nsky_workdir %s\ndocument %s\n' "$id" "$work" "$had" "$doc" >"$new") 2>/dev/null &&
            if [ -z "$dir" ] || chmod 644 "$new"; then ln "$new" "$lease" 2>/dev/null && say taken .; fi
        rm -f "$new"
        read_lease
        [ "$tries" -lt 5 ] || [ -n "$holder" ] || fail "$base can't be written to"
    done
    [ -n "$holds" ] || return 0
    tries=0
    until mkdir -p "$work" 2>/dev/null; do
        tries=$((tries + 1)); [ "$tries" -lt 5 ] || fail "$work can't be made"
    done
    if [ -n "$askpass" ]; then
        rm -f "$work/askpass"
        cat >"$work/askpass" <<END
#!/bin/sh
cat <<'SKY'
$password
SKY
END
        chmod 700 "$work/askpass"
    fi
    read_lease
}
remove() { # what tasks made as root needs root to go
    [ -e "$1" ] || [ -L "$1" ] || return 0
    rm -rf "$1" 2>/dev/null && return 0
    if command -v sudo >/dev/null 2>&1; then
        sudo -n rm -rf "$1" 2>/dev/null && return 0
        [ -x "$kept" ] && SUDO_ASKPASS=$kept sudo -A rm -rf "$1" 2>/dev/null && return 0
    fi
    fail "$1 can't be removed: it holds files of another account"
}
give() { # the lease goes last: what is left of a call that was cut short is still found by it
    read_lease
    kept=$own/.askpass.$id.$node
    if [ -e "$work/askpass" ]; then mv -f "$work/askpass" "$kept"; fi
    remove "$work"
    if [ -n "$holds" ] && [ "$sky_workdir" = absent ]; then remove "${work%/.sky-node/c/*}/sky_workdir"; fi
    rm -f "$kept" "$base/.lease.$id.$node."*
    if [ -n "$holds" ]; then mv "$lease" "$base/.gone.$id.$node.$$" 2>/dev/null; fi
    for gone in "$base/.gone.$id.$node."*; do
        [ -f "$gone" ] || continue
        # Another call may have given ours back, and another cluster taken the host, since the lease was read.
        read -r _ holder <"$gone"
        [ "$holder" = "$id" ] || ln "$gone" "$lease"
        rm -f "$gone"
    done
    rmdir "${work%/*}" "${work%/*/*}" "$own/c" "$own" 2>/dev/null
    holder=
}

set -- ${SSH_CONNECTION:-}; say ip "${3:-}"
case $verb in
    look) look; read_lease ;;
    show) read_lease ;;
    take) take ;;
    give) give ;;
esac
if [ -n "$sudo" ]; then ask_sudo; fi
say_lease
say end .
exit 0
} </dev/null
