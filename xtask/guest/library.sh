# Functions of the scripts in this directory, which run as root in a guest (`cargo xtask guest`).
# $TARGET is the server, frevo or samba, $FREVO the program of Frevo, and $RESULTS the file of results.

work=/var/tmp/guest
mkdir -p "$work"

# check NAME COMMAND...: runs the command in a shell of its own, and notes the result under this name.
check() {
    name=$1
    shift
    started=$(date +%s)
    if ("$@") >"$work/output" 2>&1; then
        echo "ok $name" >>"$RESULTS"
        echo "ok      $name ($(($(date +%s) - started)) s)"
    else
        echo "failed $name" >>"$RESULTS"
        echo "FAILED  $name ($(($(date +%s) - started)) s)"
        tail -n 25 "$work/output" | sed 's/^/    /'
    fi
}

# people: creates the accounts alice and bob, with the passwords alicepw and bobpw, for $work/smb.conf.
people() {
    sed -i "/^\[global\]/a smb ports = 445\nstate directory = $work\nprivate dir = $work" "$work/smb.conf"
    for person in alice bob; do
        id "$person" >/dev/null 2>&1 || useradd --create-home "$person" || return 1
        if test "$TARGET" = samba; then
            printf '%s\n%s\n' "${person}pw" "${person}pw" | smbpasswd -c "$work/smb.conf" -s -a "$person" >/dev/null
        else
            echo "${person}pw" | "$FREVO" user add "$person" --config "$work/smb.conf" --password-stdin >/dev/null
        fi || return 1
    done
}

# serve: starts the server with $work/smb.conf, and waits until it listens. $SERVER is the id of its process.
# $WRAP, if it is set, is a command that executes it.
serve() {
    if test "$TARGET" = samba; then
        mkdir -p /run/samba /var/log/samba
        smbd --foreground --no-process-group --configfile="$work/smb.conf" >>"$work/server.log" 2>&1 &
    else
        ${WRAP:-} "$FREVO" serve --config "$work/smb.conf" >>"$work/server.log" 2>&1 &
    fi
    SERVER=$!
    for _ in $(seq 240); do
        smbclient -N -L 127.0.0.1 >"$work/listening" 2>&1
        grep -q REFUSED "$work/listening" || return 0
        kill -0 "$SERVER" || break
        sleep 1
    done
    cat "$work/server.log"
    return 1
}

# stop: ends the server.
stop() {
    kill "$SERVER"
    wait "$SERVER"
}
