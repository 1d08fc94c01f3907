# --- the connection of two ranks ---------------------------------------------------------------------

# One for each other rank at rank 0, one to rank 0 elsewhere: a program that moves bytes (`wire`), and two loops that
# write and read our lines. The first line each way is the job's secret: who can't say it is nobody.
# In g/: N.port, where rank N is waited for; N.wire, the pid of the program.

gang_tools() { # sets tools, tried by turns, as one may be there and not work; fails when this host has none
  tools=
  for tool in perl python3 nc bash; do
    case $tool,$rank in bash,0) continue ;; esac # it can connect, but not listen
    ! command -v $tool >/dev/null || tools="$tools $tool"
  done
  tools=${tools# }
  [ -n "$tools" ]
}

link() { # RANK
  try=0
  while [ ! -s stop ] && alive "$me"; do
    rm -f "g/$1.wire"
    tool=${tools%% *} tools="${tools#* } ${tools%% *}"
    if [ "$rank" = 0 ]; then
      fact "g/$1.port" && port=$v || port=$((20000 + ($$ * 7 + $1 * 131 + try * 17) % 12000))
    fi
    talk "$1" | wire "$1" | hear "$1"
    [ ! -e "g/$1.joined" ] || break
    try=$((try + 1))
    nap 0.05
  done
  : >"g/$1.gone"
}
wire() { # RANK: from stdin to it, from it to stdout
  read -r pid _ </proc/self/stat
  echo "$pid" >"g/$1.wire"
  exec 2>/dev/null
  where="$address $port"
  [ "$rank" != 0 ] || where="- $port"
  case $tool in
    perl) exec perl -e "$wire_perl" $where ;;
    python3) exec python3 -c "$wire_python" $where ;;
    nc) [ "$rank" = 0 ] || exec nc $where
      if [ $((try / 2 % 2)) = 0 ]; then exec nc -l -p "$port"; else exec nc -l "$port"; fi ;; # there are two kinds
    bash) exec bash -c 'exec 3<>"/dev/tcp/$0/$1" || exit 1; cat <&3 & cat >&3; kill $!' $where ;;
  esac
}
hang_up() { # RANK...: connections that nobody has joined
  for k in ${*:-$peers}; do
    [ -e "g/$k.joined" ] || ! fact "g/$k.wire" || kill "$v" 2>/dev/null
  done
}

listening() { # whether somebody waits at $port
  grep -qs ":$(printf %04X "$port") [0-9A-F]*:0000 0A" /proc/net/tcp /proc/net/tcp6
}
wired() { # RANK: whether it is joined; fails when the program has ended, or took too long about it
  uptime
  since=$up ready=
  until [ -e "g/$1.joined" ]; do
    [ -n "$ready" ] || [ "$rank" != 0 ] || ! listening || { ready=1; once "g/$1.port" "$port"; tidy; }
    nap 0.01
    uptime
    if [ $((up - since)) -ge 5 ]; then hang_up "$1"; return 1; fi # a stranger who says nothing
    ! fact "g/$1.wire" || born "$v" || return 1
    alive "$me" || return 1
  done
}
talk() { # RANK: what we tell, when that changes and every few seconds
  [ "$rank" = 0 ] || echo "hello $secret $rank"
  wired "$1" || return 1
  [ "$rank" != 0 ] || echo "hello $secret 0"
  told= turn=0
  while alive "$me"; do
    say_on
    pace
  done
  say_on # the guard's last word
}
say_on() {
  uptime
  fact g/tell || return 0
  if [ "$v" != "$told" ]; then turn=0; elif [ $((up - at)) -lt $BEAT_SECONDS ]; then return 0; fi
  echo "$v"
  told=$v at=$up
}
hear() { # RANK: what it tells; the first line says whether it is the one
  other=$1
  [ "$rank" != 0 ] && other=0
  if read -r line && [ "$line" = "hello $secret $other" ]; then
    uptime
    put "g/$1.beat" "$up"
    : >"g/$1.joined"
  else
    hang_up "$1"
    return 1
  fi
  last=
  while read -r line; do
    uptime
    put "g/$1.beat" "$up"
    [ "$line" != "$last" ] || continue
    case $line in *[!\ -~]*) ;; *) last=$line; put "g/$1.heard" "$line" ;; esac
  done
}

# Linux's own numbers, as loading perl's modules for them takes 50 ms: AF_INET6 is 10, SO_REUSEADDR 2.
wire_perl='my ($h, $p) = @ARGV; my $s;
if ($h eq "-") {
my $l;
for ([10, pack "S n N a16 N", 10, $p, 0, "", 0], [2, pack "S n x12", 2, $p]) {
socket $l, $$_[0], 1, 0 or next; setsockopt $l, 1, 2, 1; bind $l, $$_[1] and listen $l, 1 and last; undef $l;
}
$l and accept $s, $l or exit 1; close $l;
} elsif ($h =~ /^(\d+)\.(\d+)\.(\d+)\.(\d+)$/) {
socket $s, 2, 1, 0 and connect $s, pack "S n C4 x8", 2, $p, $1, $2, $3, $4 or exit 1;
} else {
require Socket; my ($e, @a) = Socket::getaddrinfo($h, $p, {socktype => 1});
for (@a) { socket $s, $$_{family}, 1, 0 and connect $s, $$_{addr} and last; undef $s; }
$s or exit 1;
}
my $r = ""; vec($r, 0, 1) = 1; vec($r, fileno $s, 1) = 1;
while (select(my $x = $r, undef, undef, undef) > 0) {
for ([*STDIN, $s], [$s, *STDOUT]) {
next unless vec($x, fileno $$_[0], 1);
sysread($$_[0], my $b, 65536) or exit; syswrite $$_[1], $b or exit;
} }'
wire_python='import os, socket, sys, threading
h, p = sys.argv[1:]
two = socket.has_dualstack_ipv6()
f = socket.AF_INET6 if two else socket.AF_INET
s = socket.create_server(("", int(p)), family=f, dualstack_ipv6=two).accept()[0] if h == "-" else socket.create_connection((h, int(p)))
def go(r, w): [w(b) for b in iter(r, b"")]; os._exit(0)
threading.excepthook = lambda _: os._exit(1)
threading.Thread(target=go, args=(lambda: os.read(0, 65536), s.sendall)).start()
threading.Thread(target=go, args=(lambda: s.recv(65536), lambda b: os.write(1, b))).start()'
