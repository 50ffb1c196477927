#!/bin/sh
# Quotas on real file systems, beside Samba: XFS and ext4 in loop images, a server with quotas to manage, one without
# the privilege, and Debian's smbd. It needs root, a kernel with quotas, python3, and the packages quota, xfsprogs,
# e2fsprogs, samba, smbclient and strace. It changes accounts and mounts, so it is for a virtual machine.
#
# $FREVO is the program. $RESULTS, if it is set, is a file that gets a line for each check: "ok NAME" or "failed NAME".
# The exit status is 0 only if all checks hold.
set -u
: "${FREVO:?the program of Frevo}"
work=${WORK:-/var/tmp/quota}
failed=0
mkdir -p "$work" "$work/mnt" /run/samba /var/log/samba

# check NAME COMMAND...: runs the command and notes the result under this name.
check() {
    name=$1
    shift
    if ("$@") >"$work/output" 2>&1; then
        result=ok
    else
        result=failed
        failed=$((failed + 1))
        sed 's/^/    /' "$work/output"
    fi
    echo "$result $name"
    test -z "${RESULTS:-}" || echo "$result $name" >>"$RESULTS"
}

# has TEXT COMMAND...: the command succeeds or fails, and its output has the text.
has() {
    text=$1
    shift
    output=$("$@" 2>&1)
    echo "$* says: $output"
    case $output in *"$text"*) ;; *) echo "expected: $text" && return 1 ;; esac
}

# lacks TEXT COMMAND...
lacks() {
    ! has "$@"
}

# is VALUE COMMAND...: the output of the command is this value.
is() {
    value=$1
    shift
    output=$("$@" 2>&1)
    echo "$* says: $output; expected: $value"
    test "$output" = "$value"
}

# kernel KIND NAME FS: prints the used blocks, the soft and the hard limit in KiB of a user (u) or group (g). The
# report lacks those that use nothing and have no limit.
kernel() {
    repquota "-v$1" "$work/mnt/$3" >"$work/report"
    awk -v name="$2" '$1 == name { print $3, $4, $5; found = 1 } END { if (!found) print 0, 0, 0 }' "$work/report"
}

limits() {
    kernel "$@" | cut -d' ' -f2-
}

used() {
    kernel u "$@" | cut -d' ' -f1
}

# within MOST COMMAND...: the number that the command prints is not larger.
within() {
    most=$1
    shift
    output=$("$@" 2>&1)
    echo "$* says: $output; at most: $most"
    test "$output" -le "$most"
}

# roomy LEAST COMMAND...: the last number that the command prints is larger.
roomy() {
    least=$1
    shift
    output=$("$@" 2>&1)
    echo "$* says: $output; more than: $least"
    test "${output##* }" -gt "$least"
}

cquotas() {
    person=$1 share=$2
    shift 2
    smbcquotas -U "$person%${person}pw" "//127.0.0.1/$share" "$@"
}

client() {
    person=$1 share=$2
    shift 2
    smbclient -U "$person%${person}pw" "//127.0.0.1/$share" -c "$*"
}

# blocks PERSON SHARE: prints the size and the free space in KiB.
blocks() {
    client "$1" "$2" ls | awk '/blocks of size/ {
        for (i = 1; i <= NF; i++) if ($i == "size") unit = $(i + 1) / 1024
        print $1 * unit, $(NF - 2) * unit
    }'
}

# serve NAME COMMAND...: starts a server, and waits until it listens.
serve() {
    name=$1
    shift
    "$@" >"$work/$name.log" 2>&1 &
    server=$!
    check "$name.serves" listens
}

listens() {
    for _ in $(seq 240); do
        smbclient -N -L 127.0.0.1 >"$work/listening" 2>&1
        grep -q REFUSED "$work/listening" || return 0
        kill -0 "$server" || return 1
        sleep 1
    done
    return 1
}

# stop: ends the server.
stop() {
    kill "$server"
    wait "$server"
}

configuration() {
    cat <<END
[global]
    state directory = $work/$1
    private dir = $work/$1
    smb ports = 445
    log level = 1
    read only = no
    admin users = alice
    $2
[xfs]
    path = $work/mnt/xfs/all
[ext4]
    path = $work/mnt/ext4/all
[xfs-project]
    path = $work/mnt/xfs/project
[ext4-project]
    path = $work/mnt/ext4/project
END
}

file_systems() {
    for module in loop xfs ext4 quota_v2; do modprobe "$module" 2>/dev/null; done
    truncate -s 400M "$work/xfs" "$work/ext4"
    mkfs.xfs -q -f "$work/xfs" && mkfs.ext4 -q -F -O quota,project -E quotatype=usrquota:grpquota:prjquota "$work/ext4" || return 1
    mkdir -p "$work/mnt/xfs" "$work/mnt/ext4"
    mount -o loop,uquota,gquota,pquota "$work/xfs" "$work/mnt/xfs" || return 1
    mount -o loop,usrquota,grpquota,prjquota "$work/ext4" "$work/mnt/ext4" || return 1
    for fs in xfs ext4; do
        mkdir "$work/mnt/$fs/all" "$work/mnt/$fs/project" && chmod 1777 "$work/mnt/$fs/all" "$work/mnt/$fs/project"
    done
    xfs_quota -x -c "project -s -p $work/mnt/xfs/project 42" -c "limit -p bhard=8m 42" "$work/mnt/xfs" >/dev/null || return 1
    chattr -p 42 +P "$work/mnt/ext4/project" && setquota -P 42 0 8192 0 0 "$work/mnt/ext4"
}

people() {
    for person in alice bob carol; do
        id "$person" >/dev/null 2>&1 || useradd --no-create-home "$person" || return 1
        printf '%s\n' "${person}pw" | "$FREVO" user add "$person" --config "$work/frevo.conf" --password-stdin || return 1
        printf '%s\n' "${person}pw" | "$FREVO" user add "$person" --config "$work/bare.conf" --password-stdin || return 1
        printf '%s\n%s\n' "${person}pw" "${person}pw" | smbpasswd -c "$work/samba.conf" -s -a "$person" || return 1
    done
}

# of_server NAME FS: the checks that hold for Samba, too.
of_server() {
    fs=$2 at=$1.$2
    rm -rf "$work/mnt/$fs/all"/*
    setquota -u bob 0 0 0 0 "$work/mnt/$fs"
    check "$at.user-is-set" lacks NT_STATUS cquotas alice "$fs" -S "UQLIM:bob:3145728/4194304"
    check "$at.kernel-has-it" is "3072 4096" limits u bob "$fs"
    check "$at.user-is-shown" has "3145728/        4194304" cquotas alice "$fs" -n -u bob
    check "$at.users-are-listed" has "bob" cquotas alice "$fs" -L
    check "$at.others-may-not-ask" has ACCESS_DENIED cquotas bob "$fs" -u bob
    check "$at.others-may-not-list" has ACCESS_DENIED cquotas bob "$fs" -L
    check "$at.others-may-not-set" has ACCESS_DENIED cquotas bob "$fs" -S "UQLIM:bob:4194304/8388608"
    check "$at.kernel-still-has-it" is "3072 4096" limits u bob "$fs"
    check "$at.free-space-is-the-quota" is "3072 3072" blocks bob "$fs"
    check "$at.write-within-the-quota" lacks NT_STATUS client bob "$fs" "put $work/1m one"
    check "$at.free-space-is-the-rest" is "3072 2048" blocks bob "$fs"
    check "$at.write-beyond-the-quota" has DISK_FULL client bob "$fs" "put $work/6m six"
    check "$at.write-beyond-leaves-no-more" within 4096 used bob "$fs"
    rm -f "$work/mnt/$fs/all/six"
    check "$at.write-up-to-the-soft-limit" lacks NT_STATUS client bob "$fs" "put $work/1m two; put $work/1m three"
    check "$at.nothing-is-free" is "3072 0" blocks bob "$fs"
    rm -f "$work/mnt/$fs/all"/*
    check "$at.limit-is-removed" lacks NT_STATUS cquotas alice "$fs" -S "UQLIM:bob:0/0"
    # Samba 4.17 leaves limits of 0 or 4 KiB.
    test "$1" = samba || check "$at.kernel-has-no-limit" is "0 0" limits u bob "$fs"
    cquotas alice "$fs" -F >"$work/$1.$fs.rules" 2>&1
    sed 's/^/    /' "$work/$1.$fs.rules"
    setquota -u bob 0 0 0 0 "$work/mnt/$fs"
    # A group without a limit of its user.
    setquota -g bob 0 2048 0 0 "$work/mnt/$fs"
    check "$at.free-space-is-the-group's" is "2048 2048" blocks bob "$fs"
    check "$at.write-beyond-the-group's" has DISK_FULL client bob "$fs" "put $work/6m six"
    rm -f "$work/mnt/$fs/all"/*
    setquota -g bob 0 0 0 0 "$work/mnt/$fs"
    check "$at.free-space-of-the-project" has "8192 819" blocks carol "$fs-project"
    check "$at.write-beyond-the-project's" has DISK_FULL client carol "$fs-project" "put $work/12m twelve"
    rm -f "$work/mnt/$fs/project"/*
}

# of_frevo FS: what Samba has in another way, or not.
of_frevo() {
    fs=$1 at=frevo.$1
    gid=$(id -g bob)
    check "$at.group-is-set" lacks NT_STATUS cquotas alice "$fs" -S "UQLIM:S-1-22-2-$gid:5242880/6291456"
    check "$at.kernel-has-the-group" is "5120 6144" limits g bob "$fs"
    check "$at.group-is-shown" has "6291456" cquotas alice "$fs" -n -u "S-1-22-2-$gid"
    setquota -g bob 0 0 0 0 "$work/mnt/$fs"
    check "$at.root-has-no-limit" has "ACCESS_DENIED" cquotas alice "$fs" -S "UQLIM:S-1-22-1-0:4194304/8388608"
    check "$at.limits-are-off" lacks NT_STATUS cquotas alice "$fs" -S "FSQFLAGS:QUOTA_ENABLED"
    setquota -u bob 0 1024 0 0 "$work/mnt/$fs"
    check "$at.nothing-is-enforced" lacks NT_STATUS client bob "$fs" "put $work/6m six"
    rm -f "$work/mnt/$fs/all"/*
    check "$at.limits-are-on" lacks NT_STATUS cquotas alice "$fs" -S "FSQFLAGS:QUOTA_ENABLED/DENY_DISK"
    check "$at.limits-are-enforced" has DISK_FULL client bob "$fs" "put $work/6m six"
    rm -f "$work/mnt/$fs/all"/*
    setquota -u bob 0 0 0 0 "$work/mnt/$fs"
    limit_users 1000 "$work/mnt/$fs"
    check "$at.many-users-are-listed" is 1000 sh -c "smbcquotas -U alice%alicepw -n //127.0.0.1/$fs -L | grep -c 2097152"
}

# scale FS: the cost of one user's quota and the memory do not grow with the number of users.
scale() {
    fs=$1 at=frevo.$1
    for users in 1000 100000; do
        check "$at.$users-users-have-limits" limit_users "$users" "$work/mnt/$fs"
        calls_of_query "$fs" >"$work/calls.$users"
        echo "    $fs, $users users: $(cat "$work/calls.$users") calls of quotactl for one, $(memory) KiB of memory"
    done
    check "$at.one-of-100000-users" has 2097152 cat "$work/asked"
    # The trace would lack calls if strace could not attach.
    check "$at.a-query-is-seen" roomy 0 cat "$work/calls.1000"
    check "$at.a-query-costs-as-much-with-100000-users" is "$(cat "$work/calls.1000")" cat "$work/calls.100000"
}

# limit_users COUNT DIRECTORY: gives users from 1,000,000 on a limit of 2 MiB (Q_SETQUOTA, BLIMITS).
limit_users() {
    python3 - "$1" "$(df --output=source "$2" | tail -n 1)" <<'END'
import ctypes, os, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
limits = struct.pack("=8QI4x", 2048, 0, 0, 0, 0, 0, 0, 0, 1)
command = ctypes.c_int(0x800008 << 8)
for uid in range(1000000, 1000000 + int(sys.argv[1])):
    if libc.quotactl(command, sys.argv[2].encode(), uid, limits) != 0:
        sys.exit(f"user {uid}: {os.strerror(ctypes.get_errno())}")
END
}

# calls_of_query FS: prints the number of system calls for quotas that the server makes for the quota of one user.
calls_of_query() {
    strace -f -qq -e trace=quotactl,quotactl_fd -o "$work/trace" -p "$server" 2>/dev/null &
    tracer=$!
    sleep 5
    cquotas alice "$1" -n -u S-1-22-1-1000050 >"$work/asked" 2>&1
    sleep 2
    kill -INT "$tracer"
    wait "$tracer"
    grep -c quotactl "$work/trace"
}

# memory: prints the resident memory of the server.
memory() {
    awk '/^VmRSS/ { print $2 }' "/proc/$server/status"
}

defaults() {
    check frevo.xfs.default-limit lacks NT_STATUS cquotas alice xfs -S "FSQLIM:7340032/8388608"
    check frevo.xfs.default-is-shown has "8388608" cquotas alice xfs -n -F
    setquota -u bob 0 0 0 0 "$work/mnt/xfs"
    check frevo.xfs.default-is-that-of-a-user-without has "7340032/        8388608" cquotas alice xfs -n -u bob
    check frevo.xfs.default-is-roots is "7168 8192" limits u root xfs
    setquota -u root 0 0 0 0 "$work/mnt/xfs"
    check frevo.ext4.no-default-limit has "NOT_SUPPORTED" cquotas alice ext4 -S "FSQLIM:7340032/8388608"
}

for size in 1 6 12; do head -c "${size}M" /dev/zero | tr '\0' x >"$work/${size}m"; done
configuration frevo "frevo:quotas = yes" >"$work/frevo.conf"
configuration bare "" >"$work/bare.conf"
configuration samba "" >"$work/samba.conf"
mkdir -p "$work/frevo" "$work/bare" "$work/samba"
check setup.file-systems file_systems
check setup.people people

serve samba setsid smbd --foreground --no-process-group --configfile="$work/samba.conf"
for fs in xfs ext4; do of_server samba "$fs"; done
stop

serve frevo "$FREVO" serve --config "$work/frevo.conf"
for fs in xfs ext4; do
    of_server frevo "$fs"
    of_frevo "$fs"
done
defaults
for fs in xfs ext4; do scale "$fs"; done
stop

# A server without the privilege.
serve bare "$FREVO" serve --config "$work/bare.conf"
for fs in xfs ext4; do
    setquota -u bob 3072 4096 0 0 "$work/mnt/$fs"
    # Of 400 MB, with the journal.
    check "bare.$fs.free-space-is-that-of-the-disk" roomy 200000 blocks bob "$fs"
    check "bare.$fs.write-beyond-the-quota" has DISK_FULL client bob "$fs" "put $work/6m six"
    rm -f "$work/mnt/$fs/all"/*
    check "bare.$fs.nobody-manages-quotas" has ACCESS_DENIED cquotas alice "$fs" -u bob
    check "bare.$fs.nobody-sets-quotas" has ACCESS_DENIED cquotas alice "$fs" -S "UQLIM:bob:4194304/8388608"
    check "bare.$fs.kernel-still-has-it" is "3072 4096" limits u bob "$fs"
done
stop

grep -h -e ERROR -e panicked "$work/frevo.log" "$work/bare.log"
umount "$work/mnt/xfs" "$work/mnt/ext4"
echo "$failed checks failed"
test "$failed" = 0
