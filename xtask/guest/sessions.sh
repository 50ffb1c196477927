#!/bin/sh
# 5,000 and 20,000 idle sessions of one user, each on a connection of its own, from two addresses, because one address
# may have 16,384. Not every machine allows as many descriptors, so they are held in the guest.
# shellcheck source=xtask/guest/library.sh
. "$(dirname "$0")/library.sh"

bench=$(dirname "$FREVO")/frevo-bench
test -x "$bench" || { echo "$bench is missing; build it with cargo build --release -p bench" && exit 1; }

# held COUNT: a server that was started for it holds this many sessions, and all of them answer.
held() {
    serve || return 1
    "$bench" sessions --target smb://alice:alicepw@127.0.0.1:445/share --server-pid "$SERVER" --count "$1" --steps 4 \
        --from 127.0.0.1,127.0.0.2 --timeout 600 >"$work/sessions"
    status=$?
    stop
    cat "$work/sessions" >&3
    return $status
}

# all COUNT: the last run held so many sessions, with one descriptor for each.
all() {
    grep "sessions sent an ECHO" "$work/sessions" | grep "$1" && grep "descriptors = .* + 1.00 \* sessions" "$work/sessions"
}

exec 3>&1
ulimit -n 1000000
sysctl -q -w net.ipv4.ip_local_port_range='1024 65000' net.core.somaxconn=4096
mkdir -p "$work/share"
chmod 777 "$work/share"
cat >"$work/smb.conf" <<END
[global]
frevo:memory limit = 2G
[share]
path = $work/share
read only = no
END
people || exit 1
for count in 5,000 20,000; do
    number=$(echo "$count" | tr -d ,)
    test -z "$ONLY" || test "$ONLY" = "$number" || continue
    check "$number.held" held "$number"
    check "$number.answer" all "$count"
done
