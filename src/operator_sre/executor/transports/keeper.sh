# Runs one command for an operator elsewhere, at most once, and keeps what became of it. Read from
# the standard input of a POSIX sh, with these set before it: mode job token cwd limit_s limit_up_s
# grace_s output_blocks from_out from_err, and the command as "$@".
#
# A folder for each job remembers it. Making the folder says that it is known; making the file `go`
# in it, which only one can, decides whether it starts or never will. The keeper of a command holds
# the pipe `alive` open: whoever reads from it hears the end, however the keeper ends.

umask 077
# What a login shell said on its own comes before this, and is nobody's output.
printf '%s' "$token"
printf '%s' "$token" >&2
setsid=
if command -v setsid >/dev/null 2>&1; then setsid=setsid; fi

trusted() { [ -d "$1" ] && [ -O "$1" ] && [ ! -h "$1" ]; }

# Finds the folder of the job, or makes it; `is_new` says which.
open_folder() {
    name=operator-sre-$(id -u)
    is_new=
    for place in /tmp /var/tmp /dev/shm; do
        base=$place/$name folder=$place/$name/$job
        if trusted "$base" && [ -d "$folder" ]; then return 0; fi
    done
    for place in /tmp /var/tmp /dev/shm; do
        base=$place/$name folder=$place/$name/$job
        [ -d "$base" ] || mkdir "$base" 2>/dev/null
        trusted "$base" || continue
        if mkdir "$folder" 2>/dev/null; then
            is_new=yes
            return 0
        fi
        [ ! -d "$folder" ] || return 0
    done
    return 1
}

# Only one ever gets to decide.
claim() { (set -C && : >go) 2>/dev/null; }

uptime_of() {
    uptime=-
    [ ! -r /proc/uptime ] || read -r uptime _ </proc/uptime
}

# Sets pid and born of a process: a later one with the same pid was born at another time.
birth_of() {
    born=-
    read -r line 2>/dev/null <"/proc/$1/stat" || return 1
    pid=${line%% *}
    set -- ${line##*\) }
    born=${20:--}
}

# Sets found to the living processes that descend from, or are in a session of, those in $1, or
# carry the mark $2 in the environment that they were born with.
tree() {
    seeds=" $1 " grown=yes
    if [ -n "$2" ]; then
        for path in $(grep -lszxF "$2" /proc/[0-9]*/environ 2>/dev/null); do
            path=${path#/proc/}
            seeds="$seeds${path%/environ} "
        done
    fi
    while [ -n "$grown" ]; do
        grown='' found=''
        for path in /proc/[0-9]*/stat; do
            read -r line 2>/dev/null <"$path" || continue
            one=${line%% *}
            set -- ${line##*\) }
            case $1 in Z | X | '') continue ;; esac
            case $seeds in
                *" $one "*) found="$found $one" ;;
                *" $2 "* | *" $4 "*) seeds="$seeds$one " grown=yes found="$found $one" ;;
            esac
        done
    done
}

# A deadline so many seconds from now; where there is no clock, so many looks.
set_deadline() {
    uptime_of
    case $uptime in
        *.*) deadline=$((${uptime%.*} + $1)) ;;
        *) deadline='' looks=$(($1 * 20)) ;;
    esac
}

is_late() {
    if [ -z "$deadline" ]; then
        looks=$((looks - 1))
        [ "$looks" -le 0 ]
        return
    fi
    uptime_of
    [ "${uptime%.*}" -ge "$deadline" ]
}

pause() { sleep 0.05 2>/dev/null || sleep 1; }

# TERM, a while of patience, KILL until nobody is left.
end_tree() {
    kill -TERM "-$child" 2>/dev/null
    tree "$child" "$mark"
    [ -z "$found" ] || kill -TERM $found 2>/dev/null
    [ -z "$found" ] || kill -CONT $found 2>/dev/null
    set_deadline "$grace_s"
    while tree "$child" "$mark" && [ -n "$found" ] && ! is_late; do pause; done
    polls=100
    kill -KILL "-$child" 2>/dev/null
    while tree "$child" "$mark" && [ -n "$found" ] && [ "$polls" -gt 0 ]; do
        polls=$((polls - 1))
        kill -KILL $found 2>/dev/null
        pause
    done
}

# The first bytes of a stream go into a file as they come; of what is too much, the last are kept.
receive() {
    exec 9>&-
    trap '' XFSZ
    ulimit -S -f "$output_blocks" 2>/dev/null
    if cat >>"$1" 2>/dev/null; then return; fi
    # A pipe with a name, because the pipes of ksh93 are sockets, which nobody can open again.
    if mkfifo "$1.count"; then
        wc -c <"$1.count" >"$1.more" &
        tee "$1.count" | tail -c 32768 >"$1.tail"
        wait $!
        rm -f "$1.count"
    fi
    cat >/dev/null
}

end_early() {
    if [ -n "$code" ]; then
        tree "$receivers" ''
        [ -z "$found" ] || kill -KILL $found 2>/dev/null
        return
    fi
    if [ -e timed_out ]; then how=timed_out; else how=cancelled; fi
    [ -z "$child" ] || end_tree
}

# What it left behind may hold the pipes for ever.
drain() {
    polls=20
    while tree "$receivers" '' && [ -n "$found" ] && [ "$polls" -gt -40 ]; do
        [ "$polls" -gt 0 ] || kill -KILL $found 2>/dev/null
        polls=$((polls - 1))
        pause
    done
}

name_left() {
    left=
    for one in $found; do
        comm=
        read -r comm 2>/dev/null <"/proc/$one/comm"
        left="$left $one:$comm"
    done
}

# Tells the keeper $3 that the time is up, unless another process has its pid by now.
timing='
    sleep "$1" 2>/dev/null || sleep "$2"
    keeper=$3 line=
    read -r line 2>/dev/null </proc/$$/stat && set -- ${line##*\) }
    [ -z "$line" ] || [ "$2" = "$keeper" ] || exit
    : >timed_out
    kill -TERM "$keeper"
'

keep() {
    how='' code='' child='' mark="OPERATOR_JOB=$job"
    trap end_early TERM
    birth_of self || pid=$(sh -c 'echo $PPID')
    keeper=$pid
    echo "$keeper $born" >pid
    claim || exit 0
    uptime_of
    begun=$uptime
    receive out <out.pipe &
    receivers=$!
    receive err <err.pipe &
    receivers="$receivers $!"
    (
        exec 9>&-
        cd "$cwd" || exit 126
        export OPERATOR_JOB="$job"
        exec $setsid "$@"
    ) >out.pipe 2>err.pipe &
    child=$!
    [ -z "$how" ] || end_tree
    $setsid sh -c "$timing" sh "$limit_s" "$limit_up_s" "$keeper" 9>&- &
    timer=$!
    wait "$child"
    status=$?
    if [ -n "$how" ]; then
        wait "$child" 2>/dev/null
        drain
        code=124 left=''
    else
        code=$status
        tree "$child" "$mark"
        name_left
        if [ -n "$found" ]; then drain; else wait $receivers; fi
        how=ran
    fi
    # It may not be the leader of its group yet, or become it just now.
    kill -TERM "-$timer" 2>/dev/null || kill -TERM "$timer" "-$timer" 2>/dev/null
    uptime_of
    echo "$how $code $begun $uptime$left" >exit
    exec 9>&-
    # Whoever followed it ends its own, if it was not ended itself.
    tree '' "OPERATOR_FOLLOWS=$job"
    [ -z "$found" ] || kill $found 2>/dev/null
    rm -f out.pipe err.pipe
    find "$base" -mindepth 1 -maxdepth 1 -mtime +1 -exec rm -rf {} + 2>/dev/null
}

start() {
    : >out
    : >err
    mkfifo out.pipe err.pipe alive || return 1
    # Open until the keeper has it as well. mksh would keep a copy of what `exec 9>&-` closes.
    { keep "$@" </dev/null >/dev/null 2>&1 & } 9<>alive
}

# Says how long a stream is and from where on the rest of it follows, then the rest.
tell() {
    size=0 more=- from=$2
    [ ! -s "$1" ] || size=$(($(wc -c <"$1")))
    if [ -n "$followed" ] && [ "$from" -lt $((size - 65536)) ]; then from=$((size - 65536)); fi
    if [ -e "$1.more" ]; then read -r more <"$1.more"; fi
    printf '%s%s %s %s %s\n' "$token" "$size" "$from" "${more:-0}" "$3"
    [ "$size" -le "$from" ] || tail -c +$((from + 1)) "$1"
    [ ! -s "$1.tail" ] || cat "$1.tail"
}

report() {
    record=
    [ ! -s exit ] || read -r record <exit
    if [ -z "$record" ]; then
        tree '' "OPERATOR_JOB=$job"
        name_left
        record="lost 0 - -$left"
    fi
    tell err "$from_err" '' >&2
    tell out "$from_out" "$record"
}

# Waits for the keeper's end, and passes the output on as it comes.
follow() {
    followed=
    [ -p alive ] || return 0
    # Opened both ways first, because to open a pipe that nobody holds any more would wait.
    exec 8<>alive 7<alive 8>&-
    if [ ! -s exit ]; then
        followed=yes
        OPERATOR_FOLLOWS=$job tail -c +$((from_out + 1)) -f out 7<&- &
        tails=$!
        OPERATOR_FOLLOWS=$job tail -c +$((from_err + 1)) -f err 7<&- >&2 &
        tails="$tails $!"
        read -r _ <&7
        kill $tails 2>/dev/null
        wait $tails 2>/dev/null
    fi
    exec 7<&-
}

never() { echo 'never 0 - -' >exit; }

# Somebody else may be about to start it.
await_start() {
    polls=40
    while [ ! -e go ] && [ "$polls" -gt 0 ]; do
        polls=$((polls - 1))
        pause
    done
}

stop() {
    if claim; then
        never
        return
    fi
    read -r kept_pid kept_born 2>/dev/null <pid || return
    birth_of "$kept_pid" || return
    if [ "$born" = "$kept_born" ]; then kill -TERM "$kept_pid" 2>/dev/null; fi
}

if ! open_folder || ! cd "$folder"; then
    printf '%s0 0 - nowhere 0 - -\n' "$token"
    printf '%s0 0 - \n' "$token" >&2
    exit 1
fi
case $mode in
    run)
        if [ -z "$is_new" ]; then
            await_start
            if claim; then never; fi
        elif ! start "$@"; then
            if claim; then never; fi
        fi
        ;;
    recover)
        if [ -n "$is_new" ]; then
            uptime_of
            if claim; then echo "untraced 0 - $uptime" >exit; fi
        else
            await_start
            if claim; then never; fi
        fi
        ;;
    stop) stop ;;
    sweep)
        : >out
        : >err
        rm -f out.tail err.tail
        ;;
esac
follow
report
exit 0
