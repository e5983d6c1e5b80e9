#!/bin/sh
# The console's only file on a node: starts a command once, keeps its output, exit code and identity,
# and stops it with proof. Called as `shim VERB SUBJECT FENCE`; stdin carries one argument a line, bytes
# outside [A-Za-z0-9._/=:,@+-] as \ooo, and `;name value` lines for what is not an argument; `;end`
# closes it. The answer is one line of JSON, then raw bytes. Nothing received is ever evaluated.
# Behind a forced command it takes the three words from SSH_ORIGINAL_COMMAND.
#
# subjects/<subject>/: fence (highest seen), ident ("pid ticks boot runner ticks", written by the child
# itself before exec), rc, out, epoch, plan_sha, argv, stopped (a stop came), lock (one verb at a time),
# run.lock (held by the runner for its life: two runners can never both start the command), floor (bytes
# of out below it were given back to the disk), attaching (the client of its container ended, the
# container may live). What a former epoch left is out.N and floor.N. Beside them: floor, the highest
# fence of what was forgotten: nothing as old may start a subject that is not remembered.

usual=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
case ${PATH:-} in *"$usual") ;; *) PATH=${PATH:+$PATH:}$usual; export PATH ;; esac
root=${HOME:-}/.flotilla self=$0 file_limit=8388608 section_limit=262144
subject=- fence=0 stored=0 pid='' ticks='' boot='' runner='' rticks='' rc='' epoch='' out_bytes='' more=''
IFS= read -r node_boot 2>/dev/null <"${NODE_SYSROOT:-}/proc/sys/kernel/random/boot_id" || node_boot=''

say() { # ANSWER [explanation]: the one line of JSON; our own words only, so nothing needs escaping
    printf '{"answer":"%s","subject":"%s","fence":%s,"pid":%s,"start_ticks":%s,"boot_id":"%s",' \
        "$1" "$subject" "${stored:-0}" "${pid:-null}" "${ticks:-null}" "$boot"
    printf '"node_boot_id":"%s","rc":%s,"epoch":%s,"out_bytes":%s%s,"explanation":"%s"}\n' \
        "$node_boot" "${rc:-null}" "${epoch:-null}" "${out_bytes:-null}" "$more" "${2:-}"
}
die() { say "$@"; exit 0; }
plain() { printf %s "$1" | tr -c 'A-Za-z0-9 ._:/=,@+-' ' ' | head -c 300; } # foreign words, made harmless
clock() { read -r up rest </proc/uptime; cs=${up%.*}${up#*.}; } # centiseconds, without a fork
pause() { sleep 0.1 2>/dev/null || sleep 1; }
number() { case $1 in '' | *[!0-9]* | ???????????????????*) return 1 ;; esac; }
write_failed() {
    case $1 in *"No space"* | *quota*) die NOSPACE "the disk that holds $root is full" ;; esac
    die ERROR "cannot write below $root: $(plain "$1")"
}
keep() { # NAME VALUE: a small file of the subject, whole or not at all
    { printf '%s\n' "$2" >"$dir/$1.new" && mv -f "$dir/$1.new" "$dir/$1"; } 2>/dev/null
}
fetch() { got=''; [ -f "$dir/$1" ] && IFS= read -r got 2>/dev/null <"$dir/$1"; [ -n "$got" ]; }
size_of() { size=$(wc -c 2>/dev/null <"$1") && size=$((size + 0)) || { size=''; return 1; }; }

look() { # PID -> state, started: /proc/PID/stat fields 3, 22; a name may hold blanks, brackets, newlines
    stat='' state='' started=''
    while IFS= read -r line || [ -n "$line" ]; do stat="$stat$line "; done 2>/dev/null <"/proc/$1/stat"
    [ -n "$stat" ] || return 1
    set -f; set -- ${stat##*) }; set +f
    state=$1 started=${20}
}
alive() { # PID TICKS: that very process, and not a zombie (a zombie holds nothing)
    [ -n "$1" ] && look "$1" && [ "$started" = "$2" ] && [ "$state" != Z ] && [ "$state" != X ]
}
load() { # what the node remembers of the subject -> stored epoch pid ticks boot runner rticks rc how why
    fetch fence && number "$got" && stored=$got || stored=0
    fetch epoch && number "$got" && epoch=$got || epoch=0
    pid='' ticks='' boot='' runner='' rticks='' rc='' why='' how=ABSENT tries=50
    fetch ident || return 0
    set -f; set -- $got; set +f
    if number "$1" && number "$2" && number "$4" && number "$5"; then
        pid=$1 ticks=$2 boot=$3 runner=$4 rticks=$5
    fi
    how=LOST why="its process $pid is gone and no exit code was recorded"
    if [ "$boot" = "$node_boot" ]; then
        ! alive "$pid" "$ticks" || how=RUNNING
        # Ended a moment ago: the runner is about to write the exit code.
        while [ $how = LOST ] && [ ! -s "$dir/rc" ] && [ $tries -gt 0 ] && alive "$runner" "$rticks"; do
            [ ! -f "$dir/attaching" ] || how=RUNNING # its container may live, and the runner finds out
            pause; tries=$((tries - 1))
        done
    else why="the node was started again: boot id $boot then, $node_boot now"; fi
    if fetch rc && number "$got"; then rc=$got how=DONE; fi
    [ $how = LOST ] || why=''
}
enter() { # the lock of the subject, then the fence: nothing older than what the node has seen may act
    got=$({ LC_ALL=C mkdir -p "$dir" && true >>"$dir/lock"; } 2>&1) || write_failed "$got"
    exec 9>>"$dir/lock"
    command -v flock >/dev/null || die ERROR "flock is not on this node: install util-linux"
    tries=100 # busybox has no flock -w
    until flock -n 9 2>/dev/null; do
        [ $tries -gt 0 ] || die BUSY "another verb has held this subject for 10 s: try again"
        pause; tries=$((tries - 1))
    done
    [ -f "$dir/lock" ] || die BUSY "this subject is being forgotten: try again"
    load
    if [ "$stored" = 0 ] && IFS= read -r got 2>/dev/null <"$root/floor" && number "$got"; then stored=$got; fi
    [ "$fence" -ge "$stored" ] || die FENCED "fence $fence is older than $stored, which the node has seen"
    [ "$fence" -eq "$stored" ] || keep fence "$fence" || [ $verb = stop ] || write_failed "No space"
    stored=$fence
}
decode() { # LINE -> value; trailing newlines survive by the x
    case $1x in
    *[!A-Za-z0-9._/=:,@+\\-]*) die ERROR "an argument holds a byte that must come as an octal escape" ;;
    *\\000*) die ERROR "an argument holds a NUL byte, which no argument can" ;;
    *\\[!0-3]* | *\\?[!0-7]* | *\\??[!0-7]*) die ERROR "an argument holds a broken octal escape" ;;
    *\\*) ;;
    *) value=$1; return ;;
    esac
    value=$1
    # %b reads \0 and up to three digits more, so \012 before a digit must become \0012.
    case $1 in *\\0[0-7][0-7][0-7]*)
        value='' tail=$1
        while case $tail in *\\*) ;; *) false ;; esac do value=$value${tail%%\\*}\\0 tail=${tail#*\\}; done
        value=$value$tail ;;
    esac
    value=$(printf %bx "$value"); value=${value%x}
}

members() { # pids of all live processes of the subject: marked, of its session, or descended from one
    sid=0
    [ "$boot" != "$node_boot" ] || ! { alive "$runner" "$rticks" || alive "$pid" "$ticks"; } || sid=$runner
    marked=''
    for file in $(grep -lsF "FLOTILLA_SUBJECT=$subject" /proc/[0-9]*/environ); do
        n=$(tr '\0' '\n' 2>/dev/null <"$file" |
            grep -cxF -e "FLOTILLA_SUBJECT=$subject" -e "FLOTILLA_HOME=$root")
        file=${file#/proc/}; [ "$n" != 2 ] || marked="$marked ${file%/environ}"
    done
    cat /proc/[0-9]*/stat 2>/dev/null | awk -v marked="$marked" -v sid="$sid" -v runner="$runner" '
        { text = text $0 " "; rest = text; sub(/^.*\) /, "", rest)
          if (split(rest, f, " ") < 30) next      # a newline in the name: the record goes on
          one = text + 0; text = ""
          if (f[1] == "Z" || f[1] == "X") next    # a zombie holds nothing
          parent[one] = f[2]; if (sid && f[4] == sid) ours[one] = 1 }
        END { n = split(marked, m, " "); for (i = 1; i <= n; i++) if (m[i] in parent) ours[m[i]] = 1
          do { grown = 0
               for (p in parent) if (!(p in ours) && (parent[p] in ours)) { ours[p] = 1; grown = 1 }
          } while (grown)
          for (p in ours) if (p != runner) printf "%s ", p }'
}
signal_until() { # SIGNAL SECONDS: to everybody of the subject but the runner, until none is left
    clock; until=$((cs + $2 * 100)) asked=' '
    while left=$(members); [ -n "$left" ]; do
        for one in $left; do
            case $1$asked in TERM*" $one "*) continue ;; esac # TERM is asked once, KILL again and again
            kill "-$1" "$one" 2>/dev/null; kill -CONT "$one" 2>/dev/null; asked="$asked$one "
        done
        clock; [ "$cs" -lt "$until" ] || return 1
        pause
    done
}
status_of() { timeout "$guard" docker inspect --format '{{.State.Status}}' "$1" 2>/dev/null; }
containers_stop() { # by id, found by our label; docker answers within the guard or is not believed
    ids=$(timeout "$guard" docker ps -a -q --no-trunc --filter "label=fleet.subject=$subject" 2>/dev/null)
    case $? in
    0) ;;
    127) [ "$rc" = 127 ] || doubt="docker is not on PATH"; return ;;
    124 | 137 | 143) doubt="docker did not answer within $guard s"; return ;;
    *) doubt="docker ps failed: is the daemon down?"; return ;;
    esac
    for id in $ids; do
        case $id in *[!0-9a-f]*) continue ;; esac
        found=$((found + 1))
        case $(status_of "$id") in exited | dead | created) continue ;; esac
        timeout $((grace + guard)) docker stop -t "$grace" "$id" >/dev/null 2>&1
        now_is=$(status_of "$id")
        case $now_is in exited | dead | created) ;; *) doubt="container $id is $(plain "${now_is:-silent}")" ;; esac
    done
}
do_stop() {
    enter
    [ "$forget" != 1 ] || do_forget
    was=$how found=0 doubt=''
    keep stopped "$fence" # a full disk must not keep us from stopping
    [ -z "$container" ] || containers_stop
    left=$(members); [ -z "$left" ] || found=$((found + 1))
    signal_until TERM "$grace" || signal_until KILL 5
    # The attached docker client may have been creating its container while we stopped it.
    [ -z "$container" ] || [ -n "$doubt" ] || containers_stop
    # Two looks, because a process in the middle of an exec shows no environment for an instant.
    left=$(members); [ -n "$left" ] || { pause; left=$(members); }
    load
    names='' comma=''
    for one in $left; do
        IFS= read -r name 2>/dev/null <"/proc/$one/comm" || name='?'
        names="$names$comma$one:$(plain "$name")" comma=,
    done
    more=",\"alive\":\"$names\""
    [ -z "$left" ] || die ALIVE "still there after TERM, $grace s and KILL"
    [ -z "$doubt" ] || die UNCONFIRMED "$doubt"
    [ $was != ABSENT ] || [ $found != 0 ] || die ABSENT "never started here; a later start of it is refused"
    die GONE
}

do_forget() { # it ended for certain and nothing of it is left: its directory goes, its fence stays for all
    [ $how != RUNNING ] || die BUSY "it lives, so it is not forgotten"
    left=$(members); [ -n "$left" ] || { pause; left=$(members); }
    [ -z "$left" ] || die BUSY "processes of it live on, so it is not forgotten"
    if [ -n "$container" ]; then
        ids=$(timeout "$guard" docker ps -q --no-trunc --filter "label=fleet.subject=$subject" 2>/dev/null) ||
            die UNCONFIRMED "docker does not say whether its container lives"
        [ -z "$ids" ] || die BUSY "its container lives, so it is not forgotten"
    fi
    exec 7>>"$root/floor.lock"; flock 7
    IFS= read -r got 2>/dev/null <"$root/floor" && number "$got" && [ "$got" -ge "$fence" ] ||
        { printf '%s\n' "$fence" >"$root/floor.new" && mv -f "$root/floor.new" "$root/floor"; } 2>/dev/null ||
        write_failed "No space"
    # Moved away first: what is half removed must not look like a subject.
    mv "$dir" "$root/gone.$$" 2>/dev/null || write_failed "it cannot be moved"
    rm -rf "$root"/gone.*
    die GONE "forgotten"
}

do_start() { # NENV, then NENV times K=V, then the command
    [ $(($# - 1)) -gt "$1" ] || die ERROR "start needs a command"
    case $first in '' | -*) die ERROR "a command cannot be empty or begin with a dash" ;; esac
    [ -z "$cwd" ] || [ -d "$cwd" ] || die ERROR "the working directory does not exist"
    enter
    if [ -n "$plan_sha" ] && fetch plan_sha && [ "$got" != "$plan_sha" ]; then
        die ERROR "this subject was started with plan $(plain "$got"): another plan needs another subject"
    fi
    case $how in
    RUNNING) die ADOPTED ;;
    ABSENT) [ ! -f "$dir/stopped" ] || die GONE "a stop came before this start, so it is not started" ;;
    *)  [ "${new_epoch:-0}" -gt "$epoch" ] || die "$how" "$why"
        [ -z "$(members)" ] || die BUSY "processes of the former epoch live on: stop the subject first"
        mv -f "$dir/floor" "$dir/floor.$epoch" 2>/dev/null; mv -f "$dir/out" "$dir/out.$epoch" 2>/dev/null
        rm -f "$dir/ident" "$dir/rc" "$dir/stopped" "$dir/attaching" ;;
    esac
    epoch=${new_epoch:-$epoch}
    # Blocks for the exit code and the identity are taken now, so that a disk full later loses neither.
    for name in rc.new ident.new; do
        got=$({ head -c 512 /dev/zero | LC_ALL=C tr '\0' '\n' >"$dir/$name"; } 2>&1) &&
            [ -s "$dir/$name" ] || write_failed "${got:-No space}"
    done
    { keep epoch "$epoch" && keep plan_sha "$plan_sha" && true >"$dir/out"; } 2>/dev/null ||
        write_failed "No space"
    mv -f "$scratch" "$dir/argv" 2>/dev/null
    fork=''; ! setsid -f true 2>/dev/null || fork=-f
    ident=$(launch "$@" | { IFS= read -r got; printf %s "$got"; })
    case $ident in
    [0-9]*) pid=${ident% *} ticks=${ident#* } boot=$node_boot rc=''; die STARTED ;;
    TAKEN) tries=50 # the runner of a start that died is on its way
        while fetch ident || false; [ -z "$got" ] && [ $tries -gt 0 ]; do pause; tries=$((tries - 1)); done
        load
        case $how in ABSENT) how=BUSY ;; RUNNING) how=ADOPTED ;; esac
        die $how "an earlier start came first" ;;
    esac
    write_failed "${ident:-the runner did not answer}"
}
launch() { # in the pipeline's subshell: the environment goes by export, never by the process list
    nenv=$1; shift
    while [ "$nenv" -gt 0 ]; do export "$1"; shift; nenv=$((nenv - 1)); done
    export "FLOTILLA_SUBJECT=$subject" "FLOTILLA_HOME=$root"
    [ -z "$cwd" ] || cd "$cwd" || return
    # Without setsid -f the ampersand makes the command ignore INT and QUIT; TERM and KILL work the same.
    if [ -n "$fork" ]; then setsid -f /bin/sh "$self" _run "$dir" "$node_boot" "$container" "$cap" "$every" "$@"
    else setsid /bin/sh "$self" _run "$dir" "$node_boot" "$container" "$cap" "$every" "$@" & fi </dev/null 2>/dev/null 3<&- 9>&-
}
do_run() { # DIR BOOT CONTAINER CAP EVERY ARGV: the runner, alone in its session; waits and records the end
    dir=$1 boot=$2 container=$3 cap=$4 every=$5 subject=${1##*/} told=''; shift 5
    exec 8>>"$dir/run.lock"
    if ! flock -n 8 || [ -f "$dir/ident" ]; then echo TAKEN; return; fi
    trap : TERM INT HUP QUIT # it must outlive the command; a trap is not inherited, an ignore would be
    look $$; rticks=$started
    # Its parent is gone at once and it bears no mark, so it counts as nobody's process.
    (unset FLOTILLA_SUBJECT FLOTILLA_HOME; cd /; exec 8>&- </dev/null >/dev/null 2>&1
        setsid /bin/sh "$self" _bound "$dir" "$node_boot" "$cap" "$every" $$ "$rticks" &)
    clock; begun=$cs
    run_once "$@"
    rc=$?
    if [ $rc != 0 ] && [ -n "$container" ]; then attach || return; fi
    [ ! -f "$dir/ident" ] || record
}
record() { # the exit code; a stop signals all of the session until it is empty, and must not lose it
    trap '' TERM INT HUP QUIT
    tries=50
    until printf '%s\n' $rc 1<>"$dir/rc.new" && { sync "$dir/rc.new"; mv -f "$dir/rc.new" "$dir/rc"; }; do
        [ $tries -gt 0 ] || return
        pause; tries=$((tries - 1))
    done
}
run_once() { # ARGV: the child writes its identity first, and becomes the command
    (
        exec 8>&-
        read -r own rest </proc/self/stat; look "$own"
        printf '%s %s %s %s %s\n' "$own" "$started" "$boot" $$ "$rticks" 1<>"$dir/ident.new" &&
            mv -f "$dir/ident.new" "$dir/ident" || { [ -n "$told" ] || echo "No space"; exit 71; }
        [ -n "$told" ] || echo "$own $started"
        exec >>"$dir/out" 2>&1
        exec "$@"
    )
}
attach() { # the client ended badly: as long as its container lives, follow that -> rc; 1: it cannot be known
    true >"$dir/attaching"
    clock; patience=$((cs + 12000)) turns=0 told=1 refused=''
    # docker's own codes, at once: no container was made, and a docker that is down need not be waited for.
    [ $rc -lt 125 ] || [ $rc -gt 127 ] || [ $((cs - begun)) -gt 1000 ] || refused=1
    while find_box; do
        [ ! -f "$dir/stopped" ] || return 0
        clock
        if [ $box = silent ]; then
            [ -z "$refused" ] || return 0
            [ $patience -gt "$cs" ] || return 1
            sleep 1; continue
        fi
        turns=$((turns + 1)); [ $turns -le 20 ] || return 1
        since=$(date -r "$dir/out" +%s.%N 2>/dev/null || date +%s)
        case $since in *[!0-9.]*) since=${since%%.*} ;; esac
        next_epoch
        run_once docker logs --follow --since "$since" "$box"
        clock; patience=$((cs + 12000)) refused=''; pause
    done
    return 0 # the loop's own status is that of a pause, which a stop may have ended
}
find_box() { # -> box (an id or silent); 1: no container of ours lives, and rc is that of the one that ended
    ids=$(timeout 10 docker ps -a -q --no-trunc --filter "label=fleet.subject=$subject" 2>/dev/null) || {
        [ $? != 127 ] || return 1; box=silent; return 0
    }
    guard=10
    for box in $ids; do
        case $box in *[!0-9a-f]*) continue ;; esac
        case $(status_of "$box") in
        running | paused | restarting) return 0 ;;
        exited | dead)
            got=$(timeout 10 docker inspect --format '{{.State.ExitCode}}' "$box" 2>/dev/null)
            number "$got" && [ "$got" -le 255 ] || { box=silent; return 0; }
            rc=$got ;;
        created) ;;
        *) box=silent; return 0 ;;
        esac
    done
    return 1
}
next_epoch() { # the output goes on in a new file; whoever reads the former finds it by its number at any instant
    fetch epoch && number "$got" && epoch=$got || epoch=0
    { true >"$dir/out.new" && { [ ! -f "$dir/floor" ] || cp "$dir/floor" "$dir/floor.$epoch"; } &&
        ln -f "$dir/out" "$dir/out.$epoch" && rm -f "$dir/floor" && mv -f "$dir/out.new" "$dir/out" &&
        keep epoch $((epoch + 1)); } 2>/dev/null
}
do_bound() { # DIR BOOT CAP EVERY RUNNER TICKS: while the subject lives, its output takes at most CAP bytes of disk
    dir=$1 node_boot=$2 cap=$3 every=$4 own=$5 owns=$6
    # A hole keeps every offset as it is. Where the file system has none, the output cannot be bounded.
    true >"$dir/hole" && fallocate -p -o 0 -l 4096 "$dir/hole" 2>/dev/null || every=''
    rm -f "$dir/hole"
    while [ -n "$every" ] && sleep "$every" && { alive "$own" "$owns" || { load; [ $how = RUNNING ]; }; }; do
        size_of "$dir/out" || continue
        fetch floor && number "$got" || got=0
        [ "$size" -ge "$got" ] || { keep floor 0; continue; } # somebody cut the file
        [ $((size - got)) -gt "$cap" ] || continue
        # First the word, then the deed: a reader that meets the hole finds it announced.
        to=$(((size - cap / 2) / 4096 * 4096))
        keep floor $to && fallocate -p -o 0 -l $to "$dir/out"
    done
}

scratch_file() { # unlinked at once, so that a killed shim leaves nothing; reached through its descriptor
    tmp=$(for at in /dev/shm /tmp "$root"; do mktemp "$at/flotilla.XXXXXX" && break; done 2>/dev/null)
    [ -n "$tmp" ] || return 1
    trap 'rm -f "$tmp"' EXIT
    exec 7<>"$tmp"
    [ -w "/proc/$$/fd/7" ] || return 0
    rm -f "$tmp"; trap - EXIT
    tmp=/proc/$$/fd/7
}
sweep_scratch() { # what shims left that were killed before they could remove it: ours, and an hour old
    # A box ends in a number: a directory that somebody named like it is somebody's.
    find /dev/shm /tmp "$root" -maxdepth 1 -user "$(id -u)" -mmin +60 '(' -type f -name 'flotilla.??????' -o \
        -type d -name 'flotilla.*' ! -name 'flotilla.*[!0-9]*' -o -path "$root/argv.??????" ')' -exec rm -rf {} + 2>/dev/null
}
scratch_box() { # a directory of our own, gone with us unless we are killed outright
    for at in /dev/shm /tmp "$root"; do box=$at/flotilla.$$; mkdir -m 700 "$box" 2>/dev/null && break; box=''; done
    [ -n "$box" ] || return 1
    trap 'rm -rf "$box"' EXIT
    trap 'exit 1' HUP TERM PIPE # a connection that ended
}
do_probe() { # $plan = "name:timeout:argc ..." in the order of the arguments
    scratch_box || die ERROR "no place for a temporary file in /dev/shm, /tmp or $root"
    set -f; n=0; for one in $plan; do n=$((n + 1)); done
    more=",\"sections\":$n" boot=$node_boot; say PROBE
    n=0 outs='' ended=''
    for one in $plan; do
        within=${one#*:}; within=${within%:*} argc=${one##*:} out=$n.out n=$((n + 1))
        probe_one "$@"
        outs="$outs $out" ended="$ended ${one%%:*}:$got:$ms"
        while [ $argc -gt 0 ]; do shift; argc=$((argc - 1)); done
    done
    [ $n = 0 ] || probe_show
}
probe_one() { # ARGV: runs the first $argc arguments -> $box/$out got ms
    total=$# i=0
    for arg; do i=$((i + 1)); [ $i -gt "$argc" ] || set -- "$@" "$arg"; done
    shift $total; clock; begun=$cs
    (ulimit -f 32768; exec timeout -k 1 "$within" "$@") </dev/null >"$box/$out" 2>&1
    got=$?; clock; ms=$(((cs - begun) * 10))
    # It had to be killed, or a timeout without the code of its own ended it.
    case $got in 137 | 143) [ $ms -lt "${within%%.*}000" ] || got=124 ;; esac
}
probe_show() { # one wc and one cat for all sections: two programs less a section, a third of the whole cost
    set -- $(cd "$box" && wc -c $outs)
    n=0 frames='' sum=0
    for one in $ended; do
        got=${one#*:} size=$1 cut=false; shift 2
        [ "$size" -le $section_limit ] || size=$section_limit cut=true
        head="{\"section\":\"${one%%:*}\",\"rc\":${got%:*},\"ms\":${got#*:},\"bytes\":$size,\"truncated\":$cut}"
        printf '%s\n' "$head" >"$box/$n.head"
        frames="$frames $n.head $n.out" sum=$((sum + ${#head} + 1 + size)) n=$((n + 1))
    done
    (cd "$box" && cat $frames >all) && size_of "$box/all" && [ "$size" = $sum ] && { cat "$box/all"; return; }
    # One is too long, or a straggler still writes, which must not shift what follows it.
    n=0
    for one in $ended; do
        IFS= read -r head <"$box/$n.head"; size=${head##*\"bytes\":}
        printf '%s\n' "$head"; head -c "${size%%,*}" "$box/$n.out"; n=$((n + 1))
    done
}
do_logs() {
    load; file=$dir/out
    [ $how = RUNNING ] && ended=false || ended=true
    fetch floor && number "$got" && floor=$got
    if [ -n "$new_epoch" ] && { [ "$new_epoch" -lt "$epoch" ] || [ -f "$dir/out.$new_epoch" ]; }; then
        file=$dir/out.$new_epoch epoch=$new_epoch follow=0 ended=true
        fetch "floor.$new_epoch" && number "$got" && floor=$got || floor=0
    fi
    size_of "$file" || die ABSENT "no output of this subject is on the node"
    more=",\"offset\":$offset,\"size\":$size,\"floor\":$floor,\"ended\":$ended"; say LOGS
    if [ "$follow" != 1 ] || [ $how != RUNNING ]; then tail -c +$((offset + 1)) "$file"; return; fi
    # --pid: one last read after the command ended, then EOF: the end of an epoch ends its stream.
    if tail --help 2>&1 | grep -q -e --pid; then
        tail -c +$((offset + 1)) -s 0.2 "--pid=$pid" -f "$file" 2>/dev/null & tailing=$!
    else follow_slowly 2>/dev/null & tailing=$!; fi
    # A builtin loop and not cat: the one process to end is the one whose number we have.
    (while read -r line; do :; done; kill $tailing) <&3 >/dev/null 2>&1 & waiting=$!
    trap 'kill $tailing $waiting 2>/dev/null' EXIT HUP TERM
    wait $tailing 2>/dev/null
}
follow_slowly() { # for a tail that knows no --pid
    of=$epoch
    while load; [ "$epoch" = "$of" ] || file=$dir/out.$of; size_of "$file"; do
        # In this order: what ended before the look is read whole.
        [ "$size" -le "$offset" ] || tail -c +$((offset + 1)) "$file" | head -c $((size - offset))
        offset=$size; [ $how = RUNNING ] && [ "$epoch" = "$of" ] || return 0
        sleep 1
    done
}
do_collect() {
    scratch_file || die ERROR "no place for a temporary file in /dev/shm, /tmp or $root"
    more=",\"files\":$#"; say COLLECT
    for path; do
        error='' digest='' size=0 whole=0
        case $path in /*) file=$path ;; *) file=$dir/$path ;; esac
        if [ ! -e "$file" ]; then error="no such file"
        elif [ -f "$file" ] && size_of "$file" && whole=$size &&
            tail -c $file_limit "$file" 2>/dev/null | head -c $file_limit >"$tmp" && size_of "$tmp"; then
            digest=$(sha256sum <"$tmp")
        else error="not a readable file" size=0; fi
        printf '{"path":"%s","bytes":%s,"of":%s,"sha256":"%s","error":"%s"}\n' \
            "$(plain "$path")" $size $whole "${digest%% *}" "$error"
        [ $size = 0 ] || cat "$tmp"
    done
}
do_list() {
    sweep_scratch
    boxes=$(timeout "$guard" docker ps -a --no-trunc --filter label=fleet.subject --format json 2>/dev/null) &&
        seen=ok || seen=unavailable
    n=0; for dir in "$root"/subjects/*/; do [ ! -f "${dir}ident" ] || n=$((n + 1)); done
    boot=$node_boot more=",\"subjects\":$n,\"containers\":\"$seen\""; say LIST
    for dir in "$root"/subjects/*/; do
        dir=${dir%/} subject=${dir%/} size=''; [ -f "$dir/ident" ] || continue
        subject=${subject##*/}; load; fetch plan_sha; more=",\"plan_sha\":\"$(plain "$got")\""
        [ $how != RUNNING ] || size_of "$dir/out"
        out_bytes=$size; say $how "$why"
    done
    [ -z "$boxes" ] || printf '%s\n' "$boxes" | while IFS= read -r line; do printf '{"container":%s}\n' "$line"; done
}

case ${1:-} in # from within only: three words never get here
_run) shift; do_run "$@"; exit 0 ;;
_bound) shift; do_bound "$@"; exit 0 ;;
esac
if [ $# -eq 0 ]; then # a forced command: the word shim and three more, or nothing
    set -f; set -- ${SSH_ORIGINAL_COMMAND:-}; set +f
    [ $# -eq 4 ] && [ "$1" = shim ] && shift || set --
fi
refuse() { more=",\"sha256\":\"$(sha256sum "$self" 2>/dev/null | head -c 64)\""; die REFUSED "$1"; }
[ $# -eq 3 ] && number "$3" || refuse "expected: shim VERB SUBJECT FENCE"
case $2 in [!a-z0-9]* | *[!a-z0-9._-]* | '') refuse "expected a subject name of a-z 0-9 . _ -" ;; esac
[ ${#2} -le 80 ] || refuse "expected a subject name of at most 80 characters"
case $1 in probe | start | status | logs | stop | collect | list) ;; *) refuse "unknown verb" ;; esac
[ -n "${HOME:-}" ] || die ERROR "HOME is not set, so there is no place to remember anything"
verb=$1 subject=$2 fence=$3 dir=$root/subjects/$2 scratch=/dev/null first=''
plan='' name='' argc=0 nenv=0 cwd='' plan_sha='' new_epoch='' offset=0 follow=0 grace=20 container='' guard=10 whole=''
cap=1073741824 every=10 forget=0 floor=0
set --
exec 3<&0
[ -d "$root" ] || mkdir -p -m 700 "$root" 2>/dev/null
[ $verb != start ] || ! scratch=$(mktemp "$root/argv.XXXXXX" 2>/dev/null) || trap 'rm -f "$scratch"' EXIT
while IFS= read -r line <&3 || [ -n "$line" ]; do
    case $line in ';'*) word=${line#* } ;; esac # not for arguments: on a long one it takes seconds
    case $line in
    ';end') whole=1; break ;;
    ';env '[A-Za-z_]*) decode "$word"
        case ${value%%=*} in *[!A-Za-z0-9_]*) die ERROR "not a name of an environment variable" ;; esac
        [ $# -eq $nenv ] || die ERROR "the environment comes before the command"
        set -- "$@" "$value"; nenv=$((nenv + 1)) ;;
    ';cwd '*) decode "$word"; cwd=$value ;;
    ';container '*) decode "$word"; container=$value ;;
    ';plan_sha '*) case $word in *[!0-9a-f]*) die ERROR "plan_sha is not hexadecimal" ;; esac; plan_sha=$word ;;
    ';section '*) [ -z "$name" ] || plan="$plan $name:$within:$argc"
        name=${word%% *} within=${word#* } argc=0
        case $name in '' | -* | *[!A-Za-z0-9._-]*) die ERROR "not a section" ;; esac
        case $within in '' | [!0-9]* | *[!0-9.]*) die ERROR "not a section" ;; esac ;;
    ';'*) number "$word" || die ERROR "expected a directive with a whole number"
        case ${line%% *} in ';epoch') new_epoch=$word ;; ';offset') offset=$word ;; ';follow') follow=$word ;;
        ';grace') grace=$word ;; ';guard') guard=$word ;; ';cap') cap=$word ;; ';every') every=$word ;;
        ';forget') forget=$word ;; *) die ERROR "unknown directive" ;; esac ;;
    *)  decode "$line"; [ $# -ne $nenv ] || first=$value
        set -- "$@" "$value"; argc=$((argc + 1)); [ $verb != start ] || printf '%s\n' "$line" >>"$scratch" ;;
    esac
done 2>/dev/null
# A connection that broke looks like an end: half of a command must never run.
case $verb$whole in start | stop | probe | collect) die ERROR "the input broke off, so nothing was done" ;; esac
[ -z "$name" ] || plan="$plan $name:$within:$argc"

case $verb in
start) do_start $nenv "$@" ;;
status) load
    [ "$fence" = 0 ] || [ "$fence" -ge "$stored" ] || die FENCED "fence $fence is older than $stored"
    size_of "$dir/out"; out_bytes=$size; fetch floor && number "$got" && floor=$got
    more=",\"floor\":$floor"; die $how "$why" ;;
stop | logs | list) do_$verb ;;
probe | collect) do_$verb "$@" ;;
esac
exit 0
