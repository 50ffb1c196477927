# Boots the root $1, in which the package and a configuration are installed, with its systemd in new namespaces. Prints
# the time from the start of the service until smbclient has read a file, and the status after a reload.
set -eu
root=$1
if [ "${2-}" = init ]; then
    mount --bind "$root" "$root"
    mount -t proc proc "$root/proc"
    mount -t sysfs sysfs "$root/sys"
    mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
    mount -t tmpfs tmpfs "$root/run"
    mount -t tmpfs tmpfs "$root/tmp"
    mount -t tmpfs -o mode=755 tmpfs "$root/dev"
    for device in null zero full random urandom tty; do
        touch "$root/dev/$device"
        mount --bind "/dev/$device" "$root/dev/$device"
    done
    mkdir "$root/dev/shm"
    ip link set lo up
    cd "$root"
    pivot_root . mnt
    exec env -i container=other PATH=/usr/sbin:/usr/bin:/sbin:/bin \
        chroot . sh -c 'umount -l /mnt && exec /lib/systemd/systemd' <mnt/dev/null >mnt/dev/null 2>&1
fi

unshare --pid --fork --kill-child --mount --uts --ipc --net --cgroup sh "$0" "$root" init &
outer=$!
# Its only child is ended with it.
trap 'kill -KILL $outer' EXIT
inside() {
    nsenter --target "$init" --all -- env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 \
        chroot /proc/1/root "$@"
}
# The server may answer a client before systemd has read that it is ready.
wait_until_active() {
    tries=0
    until inside systemctl is-active "$1" >/dev/null 2>&1; do
        tries=$((tries + 1))
        if [ "$tries" -gt 100 ]; then
            inside systemctl status --no-pager "$1" >&2
            exit 1
        fi
        sleep 0.1
    done
}
read_a_file() {
    nsenter --target "$init" --net smbclient -N -c 'get hello.txt -' //127.0.0.1/public >/dev/null 2>&1
}
tries=0
until init=$(pgrep -P "$outer") && inside systemctl is-active multi-user.target >/dev/null 2>&1; do
    tries=$((tries + 1))
    [ "$tries" -lt 300 ]
    sleep 0.1
done
inside systemctl is-enabled frevo.service
# In some containers, systemd cannot give a service devices of its own: it ends with EXIT_NAMESPACE.
if [ "$(inside systemctl show --property=ExecMainStatus --value frevo.service)" = 226 ]; then
    inside mkdir -p /run/systemd/system/frevo.service.d
    inside sh -c 'printf "[Service]\nPrivateDevices=no\n" >/run/systemd/system/frevo.service.d/devices.conf'
    inside systemctl daemon-reload
    inside systemctl reset-failed frevo.service
    inside systemctl restart frevo.service
fi
wait_until_active frevo.service
inside systemctl stop frevo.service
begin=$(date +%s%3N)
inside systemctl start frevo.service
read_a_file
echo "milliseconds $(($(date +%s%3N) - begin))"
process=$(inside systemctl show --property=MainPID --value frevo.service)
inside systemctl reload frevo.service
echo "status $(inside systemctl show --property=StatusText --value frevo.service)"
[ "$process" = "$(inside systemctl show --property=MainPID --value frevo.service)" ]
read_a_file
inside systemctl stop frevo.service
# systemd listens, and starts the service for the first client.
inside systemctl start frevo.socket
read_a_file
wait_until_active frevo.service
