#!/bin/busybox sh
# The first process of the virtual machine: makes the root and hands over to what is on the disk.
# Where it fails the kernel panics, and with that the machine ends.
set -e
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
for module in /modules/*.ko; do
    insmod "$module"
done

# cache=loose: nobody changes what we read, or if somebody does we had rather not know.
mount -t 9p -o trans=virtio,version=9p2000.L,ro,cache=loose,msize=500000 root /root
mount -t ext4 /dev/vda /root/tmp
chmod 1777 /root/tmp
mount -t tmpfs -o mode=755 run /root/run
for place in proc sys dev; do
    mount --move /$place /root/$place
done
mkdir -p /root/dev/pts /root/dev/shm
mount -t devpts -o ptmxmode=666 devpts /root/dev/pts
mount -t tmpfs shm /root/dev/shm
# Alone, with the options that systemd gives it, and with ourselves where it puts a person's session:
# not in the root, to which other rules apply.
mount -t cgroup2 -o nsdelegate,memory_recursiveprot cgroup2 /root/sys/fs/cgroup
mkdir -p /root/sys/fs/cgroup/user.slice/session.scope
echo $$ >/root/sys/fs/cgroup/user.slice/session.scope/cgroup.procs
ip link set lo up
hostname vm

# The shell that stays the first process waits, and so reaps whatever is orphaned. Through a pipe:
# on a terminal there would be progress to watch.
exec switch_root /root /bin/sh -c '
    export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
    export HOME=/tmp NACRE_HOME=/tmp/home
    { sh /tmp/programs/inside.sh </dev/null; echo $? >/run/code; } 2>&1 | cat
    echo "vm: ended with $(cat /run/code)"
    echo o >/proc/sysrq-trigger
    sleep 60'
