# Starts the command $2 in the root $1, and prints the time until smbclient has read a file of a share.
set -eu
root=$1
ip link set lo up
mount -t proc proc "$root/proc"
mkdir -p "$root/var/log/samba"
begin=$(date +%s%3N)
# The words of the command are separate arguments.
chroot "$root" $2 2>"$root/tmp/log" &
while ! smbclient -N -c 'get hello.txt -' //127.0.0.1/public >"$root/tmp/answer" 2>&1; do
    if [ $(($(date +%s%3N) - begin)) -gt 30000 ]; then
        cat "$root/tmp/log" "$root/tmp/answer"
        exit 1
    fi
done
echo "milliseconds $(($(date +%s%3N) - begin))"
