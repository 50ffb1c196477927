#!/bin/busybox sh
# The first process of the guest. Its root is this machine's, read-only through 9p, below a file system in memory.
b=/bin/busybox
$b mount -t proc proc /proc
$b mount -t devtmpfs dev /dev
for module in $($b cat /modules/order); do
    $b insmod "/modules/$module"
done
mkdir_mount() {
    $b mkdir -p "$1" && shift && $b mount "$@"
}
mkdir_mount /host -t 9p -o trans=virtio,version=9p2000.L,ro,msize=512000,cache=loose host /host
mkdir_mount /changes -t tmpfs -o size=50% changes /changes
$b mkdir -p /changes/upper /changes/work /root
$b mount -t overlay -o lowerdir=/host,upperdir=/changes/upper,workdir=/changes/work root /root
$b mount -t proc proc /root/proc
$b mount -t sysfs sys /root/sys
$b mount -t devtmpfs dev /root/dev
mkdir_mount /root/dev/pts -t devpts devpts /root/dev/pts
for directory in dev/shm tmp run; do
    mkdir_mount /root/$directory -t tmpfs -o mode=1777 tmpfs /root/$directory
done
# Files of the tests are on ext4, because overlayfs and tmpfs lack what they need (extended attributes of users).
mkdir_mount /root/var/tmp -t ext4 /dev/vda /root/var/tmp
$b chmod 1777 /root/var/tmp
mkdir_mount /root/run/guest -t 9p -o trans=virtio,version=9p2000.L,msize=512000,cache=none guest /root/run/guest
exec $b switch_root /root /bin/sh /run/guest/start
