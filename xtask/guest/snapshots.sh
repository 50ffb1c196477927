#!/bin/sh
# Snapshots of thin volumes of LVM (`frevo snapshot`), with ext4 and with XFS that has quotas: as clients see them, in
# use, after a boot, and in a pool that is nearly full. The server runs in a mount namespace of its own, as the unit's
# PrivateMounts= and ProtectSystem= make one. It needs root, device-mapper, and the packages lvm2,
# thin-provisioning-tools, xfsprogs, cifs-utils, smbclient and systemd.
set -u
. "$(dirname "$0")/library.sh"

mnt=$work/mnt
WRAP="unshare --mount --propagation slave"
export LVM_SUPPRESS_FD_WARNINGS=1

# volumes: a group with a thin pool of 320 MB. XFS needs a volume of 300 MB at least.
volumes() {
    for module in loop dm_thin_pool xfs ext4 cifs; do modprobe "$module" || return 1; done
    # As systemd does it. Otherwise no other namespace sees a new mount.
    mount --make-rshared /
    # Neither udev nor the daemon of device-mapper runs here.
    echo 'activation { monitoring = 0 udev_sync = 0 udev_rules = 0 }' >/etc/lvm/lvmlocal.conf
    truncate -s 1G "$work/disk" && device=$(losetup --find --show "$work/disk") || return 1
    pvcreate --quiet "$device" && vgcreate --quiet guest "$device" || return 1
    lvcreate --quiet --type thin-pool --size 320M --poolmetadatasize 4M --name pool guest || return 1
    for fs in ext4 xfs; do
        lvcreate --quiet --virtualsize 400M --thinpool pool --name "$fs" guest || return 1
        mkdir -p "$mnt/$fs"
    done
    lvcreate --quiet --size 16M --name plain guest && mkdir -p "$mnt/plain" || return 1
    mkfs.ext4 -q /dev/guest/ext4 && mount /dev/guest/ext4 "$mnt/ext4" || return 1
    mkfs.xfs -q /dev/guest/xfs && mount -o uquota,pquota /dev/guest/xfs "$mnt/xfs" || return 1
    mkfs.ext4 -q /dev/guest/plain && mount /dev/guest/plain "$mnt/plain" || return 1
    mkdir "$mnt/ext4/part" && chmod 1777 "$mnt/ext4/part" "$mnt/xfs" "$mnt/plain"
}

configuration() {
    cat <<END
[global]
    read only = no
    frevo:snapshots = auto
[ext4]
    path = $mnt/ext4/part
    frevo:snapshot schedule = hourly 1
[xfs]
    path = $mnt/xfs
    frevo:snapshot schedule = hourly 1
END
}

# snapshot ARGUMENTS...: the command, with its output in $work/snapshot.
snapshot() {
    "$FREVO" snapshot "$@" --config "$work/smb.conf" >"$work/snapshot" 2>&1
    status=$?
    cat "$work/snapshot"
    return $status
}

# refused TEXT ARGUMENTS...: the command fails and says this.
refused() {
    text=$1
    shift
    ! snapshot "$@" && grep -qF -- "$text" "$work/snapshot"
}

client() {
    share=$1
    shift
    smbclient -U "alice%alicepw" "//127.0.0.1/$share" -c "$*"
}

# versions FS: the names of the snapshots, the oldest first.
versions() {
    ls "$mnt/$1/.snapshots" | grep '^@GMT'
}

oldest() {
    versions "$1" | head -n 1
}

newest() {
    versions "$1" | tail -n 1
}

# put FS TEXT: a client writes the file.
put() {
    echo "$2" >"$work/text" && client "$1" "put $work/text file"
}

# shows FS VERSION TEXT: a client reads the file in the snapshot.
shows() {
    rm -f "$work/got"
    client "$1" "get $2/file $work/got"
    test "$(cat "$work/got")" = "$3"
}

# volumes_of FS: the number of snapshots that LVM has.
volumes_of() {
    lvs --noheadings --options lv_name --select "lv_tags=frevo-snapshot && origin=$1" guest | grep -c .
}

# permission FS: what the only snapshot permits.
permission() {
    lvs --noheadings --options lv_permissions --select "lv_tags=frevo-snapshot && origin=$1" guest | tr -d ' '
}

# is VALUE COMMAND...: the output of the command is this value.
is() {
    value=$1
    shift
    output=$("$@" 2>&1)
    echo "$* says: $output; expected: $value"
    test "$output" = "$value"
}

nothing_yet() {
    snapshot run --dry-run "$1" && grep -q "would be created" "$work/snapshot" && test ! -e "$mnt/$1/.snapshots" && test "$(volumes_of "$1")" = 0
}

# A snapshot in the middle of writing is complete, too.
created() {
    put "$1" before || return 1
    (while echo more >>"$mnt/$1/busy"; do :; done) &
    writer=$!
    snapshot create "$1"
    made=$?
    kill "$writer"
    rm -f "$mnt/$1/busy"
    test "$made" = 0 && test "$(volumes_of "$1")" = 1 && put "$1" after && client "$1" "put $work/text other; del file"
}

listed() {
    client "$1" "allinfo other" | grep -qF "$(oldest "$1")"
}

restricted() {
    line=$(grep -F "/$1/.snapshots/" /proc/mounts) || return 1
    echo "$line"
    for option in ro nosuid nodev noexec; do
        echo "$line" | grep -q "[ ,]$option[ ,]" || return 1
    done
    ! touch "$mnt/$1/.snapshots/$(oldest "$1")/new" && is read-only permission "$1"
}

# The kernel's client opens a file in the oldest snapshot, which is to be removed.
in_use() {
    mkdir -p "$mnt/client" "$work/old"
    version=$(oldest "$1")
    sleep 1
    snapshot create "$1" && test "$(volumes_of "$1")" = 2 || return 1
    mount -t cifs -o "user=alice,password=alicepw,vers=3.1.1,snapshot=$version" "//127.0.0.1/$1" "$mnt/client" || return 1
    exec 5<"$mnt/client/file"
    refused "is in use" prune "$1"
    kept=$?
    read -r text <&5
    exec 5<&-
    umount "$mnt/client"
    test "$kept" = 0 && test "$text" = before && test "$(volumes_of "$1")" = 2 && shows "$1" "$version" before
}

pruned() {
    version=$(oldest "$1")
    snapshot prune "$1" || return 1
    test "$(volumes_of "$1")" = 1 && test ! -e "$mnt/$1/.snapshots/$version" && client "$1" ls
}

# What the administrator has made is not removed, and what was made writable is reported.
of_others() {
    lvcreate --quiet --snapshot --name mine "guest/$1" || return 1
    sleep 1
    snapshot run "$1" && snapshot create "$1" || return 1
    lvchange --quiet --permission rw "guest/$1-frevo-$(oldest "$1" | cut -d- -f2-)" || return 1
    refused "no longer read-only" prune "$1" && test "$(volumes_of "$1")" = 2 || return 1
    lvchange --quiet --permission r "guest/$1-frevo-$(oldest "$1" | cut -d- -f2-)"
    snapshot prune "$1" && test "$(volumes_of "$1")" = 1 && lvs guest/mine && lvremove --quiet --yes guest/mine
}

# After a boot nothing is mounted, and volumes may be inactive. The directories do not look like snapshots.
booted() {
    version=$(newest "$1")
    put "$1" now && sleep 1 && snapshot create "$1" && put "$1" then || return 1
    newest=$(newest "$1")
    umount "$mnt/$1/.snapshots"/@GMT* && lvchange --quiet --activate n "guest/$1-frevo-${newest#@GMT-}" || return 1
    ! shows "$1" "$newest" now && client "$1" ls || return 1
    ! client "$1" "ls $newest/*" || return 1
    snapshot list "$1" && grep -q "not mounted" "$work/snapshot" || return 1
    snapshot run --dry-run "$1" && grep -q "would be mounted" "$work/snapshot" || return 1
    snapshot run "$1" && grep -q mounted "$work/snapshot" && shows "$1" "$newest" now
}

# A volume that cannot be removed, because a process has its device open, is mounted again.
held() {
    version=$(oldest "$1")
    sleep 1
    snapshot create "$1" || return 1
    exec 6<"/dev/guest/$1-frevo-${version#@GMT-}" || return 1
    refused "cannot remove guest/$1-frevo-" prune "$1"
    kept=$?
    exec 6<&-
    test "$kept" = 0 && shows "$1" "$version" now && snapshot prune "$1" && test "$(volumes_of "$1")" = 1
}

# used: how full the pool is, in percent.
used() {
    lvs --noheadings --options data_percent guest/pool | sed 's/ //g; s/[.].*//'
}

# A pool that is nearly full gets no other snapshot. The others are still removed.
full() {
    snapshot create ext4 || return 1
    while test "$(used)" -lt 91; do
        head -c 8M /dev/zero | tr '\0' x >>"$mnt/ext4/filler" && sync || return 1
    done
    lvs guest
    refused "the thin pool guest/pool is full to" create ext4 || return 1
    remedy=$(sed -n 's/.*`\(lvextend [^`]*\)`.*/\1/p' "$work/snapshot")
    echo "remedy: $remedy"
    refused "is full to" create ext4 --dry-run || return 1
    snapshot prune && test "$(volumes_of ext4)" = 1 || return 1
    ${remedy%% +*} +300M guest/pool && snapshot create ext4
}

in_systemd() {
    nsenter --target "$(pgrep -x systemd | head -n 1)" --mount --pid "$@"
}

# The unit of the timer, with its restrictions, under a systemd of its own: it mounts and removes snapshots. With a mount
# namespace of its own it would mount them for nobody, and refuses.
unit() {
    units=/run/systemd/system
    mkdir -p /etc/frevo "$units/frevo-snapshot.service.d" && cp "$work/smb.conf" /etc/frevo/smb.conf || return 1
    sed "s|/usr/bin/frevo|$FREVO|" "$(dirname "$0")/../../packaging/frevo-snapshot.service" >"$units/frevo-snapshot.service"
    printf '[Unit]\nDefaultDependencies=no\n[Service]\nStandardError=append:%s\n' "$work/unit" >"$units/frevo-snapshot.service.d/log.conf"
    printf '[Unit]\nDefaultDependencies=no\n' >"$units/alone.target"
    mount -t cgroup2 cgroup2 /sys/fs/cgroup || return 1
    env -i container=lxc PATH="$PATH" unshare --pid --fork --kill-child --mount --propagation shared --mount-proc \
        /lib/systemd/systemd --system --unit=alone.target &
    for _ in $(seq 120); do
        in_systemd systemctl is-active alone.target && break
        sleep 1
    done
    version=$(newest xfs)
    test "$(volumes_of ext4)" = 2 && umount "$mnt/xfs/.snapshots/$version" || return 1
    in_systemd systemctl start frevo-snapshot.service || return 1
    test "$(volumes_of ext4)" = 1 && shows xfs "$version" now && umount "$mnt/xfs/.snapshots/$version" || return 1
    printf '[Service]\nProtectKernelModules=yes\n' >"$units/frevo-snapshot.service.d/namespace.conf"
    in_systemd systemctl daemon-reload
    ! in_systemd systemctl start frevo-snapshot.service && grep "mount namespace of its own" "$work/unit"
}

not_thin() {
    printf '[plain]\npath = %s\n' "$mnt/plain" >>"$work/smb.conf"
    refused "which is not a thin volume of LVM (linear)" create plain
}

without_lvm() {
    mount --bind /dev/null /usr/sbin/lvs
    refused "the Debian package is lvm2" run
    said=$?
    umount /usr/sbin/lvs
    return $said
}

configuration >"$work/smb.conf"
check volumes volumes
check people people
serve || exit 1
for fs in ext4 xfs; do
    check "$fs.dry-run" nothing_yet "$fs"
    check "$fs.created" created "$fs"
    check "$fs.read-by-clients" shows "$fs" "$(oldest "$fs")" before
    check "$fs.listed" listed "$fs"
    check "$fs.restricted" restricted "$fs"
    check "$fs.kept-in-use" in_use "$fs"
    check "$fs.pruned" pruned "$fs"
    check "$fs.of-others" of_others "$fs"
    check "$fs.booted" booted "$fs"
done
check ext4.held held ext4
check full-pool full
check unit unit
check not-thin not_thin
check without-lvm without_lvm
# crates/frevo/src/snapshot/lvs.json is a part of this.
lvs --all --reportformat json --units b --options vg_name,lv_name,lv_uuid,lv_dm_path,lv_layout,lv_permissions,lv_kernel_major,lv_kernel_minor,lv_health_status,pool_lv_uuid,origin_uuid,lv_tags,data_percent,metadata_percent guest
stop
grep -e ERROR -e panicked "$work/server.log"
umount "$mnt"/*/.snapshots/@GMT* "$mnt"/*
! grep -q '^failed' "$RESULTS"
