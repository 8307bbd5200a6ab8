# shellcheck shell=bash
# What tools/quickstart and tools/check show of a command that takes long: how far it has come, and for how long it
# has run. Its output goes to a log.

# Prints the last line of a log's end that tells how far apt, ninja or pip has come, in 60 columns; nothing if none does.
# Paths are left out of it, but for the file's name: they are long, and the same for many lines.
progress_of() {
    tail -n 40 "$1" | awk -F: '
        /^(dl|pm)status:/ { line = int($3) " %: " $4 }
        /^\[[0-9]+\/[0-9]+\]/ { line = $0 }
        /^(Collecting|Downloading|Installing) / { line = $0 }
        END {
            head = line ~ /^\[/ ? substr(line, 1, index(line, "]")) : ""
            rest = substr(line, length(head) + 1)
            gsub(/[^ ]*\//, "", rest)
            print substr(head rest, 1, 60)
        }'
}

# Shows a log's progress until it is killed: on a terminal in one line, elsewhere in a new line every ten seconds.
progress_show() {
    local name=$1 file=$2 line next=$((SECONDS + 10))
    while sleep 1 >/dev/null 2>&1 && kill -0 $$ 2>/dev/null; do # $$ is the script
        line=$(progress_of "$file")
        if [ -t 1 ]; then
            printf '\r\033[K[%s %3d s] %s' "$name" "$SECONDS" "${line:-...}"
        elif [ "$SECONDS" -ge "$next" ]; then
            next=$((SECONDS + 10))
            printf '[%s %3d s] %s\n' "$name" "$SECONDS" "${line:-...}"
        fi
    done
}

# progress_run NAME LOG COMMAND...: runs the command, appends its output to LOG and returns its status.
progress_run() {
    local name=$1 file=$2 status=0 reporter
    shift 2
    progress_show "$name" "$file" &
    reporter=$!
    "$@" >>"$file" 2>&1 </dev/null || status=$?
    kill "$reporter" 2>/dev/null || true
    wait "$reporter" 2>/dev/null || true
    [ ! -t 1 ] || printf '\r\033[K'
    return "$status"
}

# Prints words in indented lines of at most 80 columns.
progress_list() {
    printf '%s\n' "$*" | fold -s -w 76 | sed 's/^/    /; s/ *$//'
}

# progress_pip PYTHON ARGUMENT...: pip install into that Python's environment, which gives up, too.
progress_pip() {
    local python=$1
    shift
    "$python" -m pip --disable-pip-version-check --retries 1 --timeout 20 install "$@"
}

# apt-get that says how far it has come, asks nothing, and gives up on a network that does not answer.
progress_apt_get() {
    env DEBIAN_FRONTEND=noninteractive apt-get -q -o Acquire::Retries=2 -o Acquire::http::Timeout=30 \
        -o DPkg::Lock::Timeout=120 -o APT::Status-Fd=1 "$@"
}
