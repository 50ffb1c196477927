# Runs the image in the archive $1 as a user without capabilities and with a read-only root. Prints the size of the
# image, and the time until smbclient has read a file. $2 is an empty directory for podman.
set -eu
archive=$1
work=$2
ip link set lo up
# In this network, any user may bind port 445.
echo 0 >/proc/sys/net/ipv4/ip_unprivileged_port_start
# crun accepts only the unified hierarchy.
umount -R /sys/fs/cgroup
mount -t cgroup2 none /sys/fs/cgroup
mkdir "$work/share"
echo hello >"$work/share/hello.txt"
echo 'A.Long.Password.7' >"$work/password"
chmod 755 "$work" "$work/share"
chmod 644 "$work/password" "$work/share/hello.txt"
in_podman() {
    podman --root "$work/storage" --runroot "$work/run" --storage-driver vfs --cgroup-manager cgroupfs "$@"
}
in_podman load --quiet --input "$archive"
image=$(in_podman images --quiet)
echo "bytes $(in_podman image inspect --format '{{.Size}}' "$image")"
begin=$(date +%s%3N)
in_podman run --detach --name frevo --cgroups disabled --ulimit nofile=1024:4096 --ulimit nproc=1000:1000 \
    --network host --read-only --user 12345 --cap-drop all \
    --volume "$work/share:/share" --volume "$work/password:/run/password:ro" \
    --env FREVO_SHARE=/share --env FREVO_USER=alice --env FREVO_PASSWORD_FILE=/run/password "$image"
while ! smbclient -U 'alice%A.Long.Password.7' -c 'get hello.txt -' //127.0.0.1/share >"$work/answer" 2>&1; do
    if [ $(($(date +%s%3N) - begin)) -gt 30000 ]; then
        in_podman logs frevo
        cat "$work/answer"
        exit 1
    fi
done
echo "milliseconds $(($(date +%s%3N) - begin))"
# The test of health, with the program in the image.
in_podman exec frevo /usr/bin/frevo status >/dev/null
process=$(in_podman inspect --format '{{.State.Pid}}' frevo)
grep '^Uid:.12345.12345.12345.12345$' "/proc/$process/status"
grep '^CapBnd:.0000000000000000$' "/proc/$process/status"
in_podman stop --time 10 frevo
