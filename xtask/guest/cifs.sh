#!/bin/sh
# The cifs client of the guest's kernel: programs of Linux on a mounted share, with several mount options.
# shellcheck source=xtask/guest/library.sh
. "$(dirname "$0")/library.sh"

mount_point=/mnt/share

# mounted OPTIONS: mounts the share as alice.
mounted() {
    mkdir -p "$mount_point"
    mount -t cifs //127.0.0.1/share "$mount_point" \
        -o "username=alice,password=alicepw,uid=alice,gid=alice,$1"
}

# source_tree: a tree of small files with a history in git, which is a C project.
source_tree() {
    mkdir -p "$work/source" && cd "$work/source" || return 1
    for number in $(seq 60); do
        mkdir -p "part$((number % 6))"
        printf 'int part_%d(int x) { return x * %d; }\n' "$number" "$number" >"part$((number % 6))/part_$number.c"
    done
    {
        for number in $(seq 60); do echo "int part_$number(int);"; done
        echo 'int main(void) { int sum = 0;'
        for number in $(seq 60); do echo "sum += part_$number(1);"; done
        echo 'return sum == 1830 ? 0 : 1; }'
    } >main.c
    cat >Makefile <<'END'
OBJECTS := $(patsubst %.c,%.o,main.c $(wildcard part*/*.c))
program: $(OBJECTS)
	$(CC) -o $@ $^
clean:
	rm -f program $(OBJECTS)
END
    git init -q . && git add . && git -c user.name=a -c user.email=a@b commit -q -m 'a tree'
}

git_clone() {
    git config --global --add safe.directory '*'
    git clone -q "file://$work/source" "$mount_point/clone" &&
        cd "$mount_point/clone" && test -z "$(git status --porcelain)" &&
        echo more >>main.c && test "$(git status --porcelain)" = ' M main.c' &&
        git -c user.name=a -c user.email=a@b commit -qam 'a change' && git gc -q && git fsck && git checkout -q HEAD~1 &&
        test -z "$(git status --porcelain)"
}

build() {
    cp -r "$work/source" "$mount_point/build" && cd "$mount_point/build" && make -s -j2 && ./program && make -s &&
        make -s clean && ! test -e program
}

# sqlite MODE: a database with this journal mode, to which two processes write.
sqlite() {
    database="$mount_point/$1.db"
    sqlite3 "$database" "PRAGMA journal_mode=$1; CREATE TABLE t (n INTEGER PRIMARY KEY, text TEXT);" >"$work/mode" &&
        test "$(cat "$work/mode")" = "$1" || return 1
    for writer in 1 2; do
        for _ in $(seq 20); do
            echo ".timeout 60000"
            echo "INSERT INTO t (text) VALUES ('writer $writer');"
        done | sqlite3 -bail "$database" &
    done
    wait
    test "$(sqlite3 "$database" 'SELECT count(*) FROM t; PRAGMA integrity_check;' | tr '\n' ' ')" = '40 ok '
}

# rsync_tree: a tree with what `rsync -aHAX` copies.
rsync_tree() {
    mkdir -p "$work/tree/directory" && cd "$work/tree" || return 1
    echo content >file && chmod 640 file && ln file link && echo program >directory/program &&
        chmod 755 directory/program && ln -s directory/program symlink && ln -s missing dangling && mkfifo fifo &&
        setfattr -n user.comment -v text file && touch -d '2020-02-02 02:02:02.123456700' directory/program &&
        chmod 2775 directory && echo read >only && chmod 444 only && chown -hR alice: "$work/tree"
}

# as_alice COMMAND...: runs the command as the user of the mount.
as_alice() {
    setpriv --reuid=alice --regid=alice --init-groups "$@"
}

# rsync_back OPTIONS MOUNT_OPTIONS: copies the tree to the share and compares it after another mount. alice does it,
# because root would give the files to their owners, which the server permits to nobody.
rsync_back() {
    as_alice rsync "$1" "$work/tree/" "$mount_point/tree/" && umount "$mount_point" && mounted "$2" || return 1
    # Without the options for them, links and FIFOs are reported and not copied.
    as_alice rsync "$1" --dry-run --itemize-changes --checksum "$work/tree/" "$mount_point/tree/" |
        grep -v 'skipping non-regular file' >"$work/differences"
    cat "$work/differences"
    ! test -s "$work/differences"
}

# modes: what programs request is on the disk of the server.
modes() {
    cd "$mount_point" || return 1
    (umask 027 && : >new && mkdir directory) && : >changed && chmod 4751 changed && echo text >only &&
        chmod 444 only && rm -f only && ! test -e only || return 1
    stat -c '%a %n' new directory changed >"$work/seen"
    (cd "$work/data" && stat -c '%a %n' new directory changed) >"$work/stored"
    printf '640 new\n750 directory\n4751 changed\n' | tee "$work/wanted"
    cmp "$work/wanted" "$work/stored" && cmp "$work/wanted" "$work/seen"
}

# names: all names of Linux, which the server's disk has as they are.
names() {
    mkdir "$mount_point/names" && cd "$mount_point/names" || return 1
    for name in a A 'b:c' 'd*?' 'e<>|"' 'f.' 'g ' con; do
        echo "$name" >"$name" && test "$(cat "$work/data/names/$name")" = "$name" || return 1
    done
    test "$(ls | wc -l)" = 8 && mv a 'h:' && test "$(cat 'h:')" = a && test "$(cat A)" = A
}

# special: links and special files of the server. The client follows links on its own machine.
special() {
    mkdir "$work/data/special" && cd "$work/data/special" && mkdir directory && echo text >directory/file &&
        ln -s directory link && ln -s missing dangling && ln -s /etc/hostname absolute && ln -s 'to:a*' strange &&
        mkfifo fifo && chown -hR alice: . && cd "$mount_point/special" || return 1
    test "$(cat link/file)" = text && test "$(readlink link)" = directory && test "$(readlink dangling)" = missing &&
        ! test -e dangling && test "$(readlink absolute)" = /etc/hostname && test "$(readlink strange)" = 'to:a*' &&
        cmp absolute /etc/hostname && test "$(ls | wc -l)" = 6 && rm link fifo && test -e directory/file &&
        ! test -e fifo && ! test -e "$work/data/special/fifo"
}

# new_links, new_fifo: special files that the client creates.
new_links() {
    cd "$mount_point" && ln -s any/where new_link && test "$(readlink "$work/data/new_link")" = any/where
}
new_fifo() {
    cd "$mount_point" && mkfifo new_fifo && test -p "$work/data/new_fifo"
}

# many_files: as many names as a large source tree has.
many_files() {
    mkdir "$mount_point/many" && cd "$mount_point/many" || return 1
    seq -f 'file %06g' 20000 | xargs -d '\n' touch && test "$(ls -l | wc -l)" = 20001 && cd / &&
        rm -r "$mount_point/many" && ! test -e "$mount_point/many"
}

# locks: locks of fcntl and flock between two processes.
locks() {
    cd "$mount_point" && : >lock || return 1
    flock lock sleep 3 &
    sleep 1
    ! flock --nonblock lock true && wait && flock --nonblock lock true
}

# renames: a file that is open is replaced, as editors and package managers do it.
renames() {
    cd "$mount_point" && echo old >target && exec 3<target && echo new >replacement && mv replacement target &&
        test "$(cat target)" = new && test "$(cat <&3)" = old && exec 3<&- || return 1
    echo text >gone && exec 3<gone && rm gone && ! test -e gone && test "$(cat <&3)" = text
}

mkdir -p "$work/data"
cat >"$work/smb.conf" <<END
[global]
    map to guest = never
    smb3 unix extensions = yes
[share]
    path = $work/data
    read only = no
END
people && chown alice "$work/data" && serve || exit 1
source_tree && rsync_tree || exit 1
modprobe cifs

for options in default mfsymlinks posix; do
    # $ONLY is one of these words, or empty.
    case $options in "${ONLY:-$options}") ;; *) continue ;; esac
    case $options in
        default) mount_options=vers=3.1.1 rsync_options=-rtH ;;
        mfsymlinks) mount_options=vers=3.1.1,nobrl,mfsymlinks rsync_options=-rltH ;;
        posix) mount_options=vers=3.1.1,nobrl,posix,modefromsid rsync_options=-rptgoHAX ;;
    esac
    check "$options.mount" mounted "$mount_options"
    mountpoint -q "$mount_point" || continue
    check "$options.git" git_clone
    check "$options.build" build
    check "$options.sqlite_delete" sqlite delete
    check "$options.sqlite_wal" sqlite wal
    check "$options.rsync" rsync_back "$rsync_options" "$mount_options"
    check "$options.locks" locks
    check "$options.renames" renames
    if test "$options" = posix; then
        for case in modes names special new_links new_fifo; do check "posix.$case" "$case"; done
    fi
    check "$options.many_files" many_files
    umount "$mount_point"
    find "$work/data" -mindepth 1 -delete
done
stop
