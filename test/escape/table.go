package escape

import (
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
)

// table is what is tried in every session.
var table = []attempt{
	// Files of the host.
	{
		name: "read",
		try:  "read secret=$SECRET home=$HOMESECRET shadow=/etc/shadow ssh=/root/.ssh resolv=/etc/resolv.conf var=/var/log run=/run",
		want: "ENOENT: secret home shadow ssh resolv var run",
	},
	{
		name: "read through /proc",
		try:  "read root=/proc/self/root$SECRET dots=/proc/self/cwd/../../../../../../../..$SECRET init=/proc/1/root$SECRET",
		want: "ENOENT: root dots; EACCES: init",
	},
	{
		name: "read the machine's state",
		try:  "read kcore=/proc/kcore kmsg=/proc/kmsg kallsyms=/proc/kallsyms keys=/proc/keys cmdline=/proc/cmdline modules=/proc/modules bus=/proc/bus/pci/devices timer_list=/proc/timer_list sched_debug=/proc/sched_debug interrupts=/proc/interrupts sys=/sys/kernel",
		want: "ENOENT: kcore modules bus sched_debug sys; EACCES: kmsg timer_list; EOF: kallsyms keys cmdline interrupts",
		but:  map[string]string{"root": "ENOENT: kcore modules bus sched_debug sys; EOF: kmsg kallsyms keys cmdline timer_list interrupts"},
	},
	{
		name: "write",
		try:  "write outside=$OUTSIDE/new secret=$SECRET root=/new usr=/usr/new etc=/etc/passwd bin=/bin/new exposed=$TOOL/new exposed-file=$TOOL/setuid",
		want: "ENOENT: outside secret; EROFS: root usr etc bin exposed exposed-file",
		but:  map[string]string{"owner": "ENOENT: outside secret; EROFS: root usr bin exposed exposed-file; EACCES: etc"},
	},
	{
		name: "write to the kernel",
		try:  "write core_pattern=/proc/sys/kernel/core_pattern hostname=/proc/sys/kernel/hostname forward=/proc/sys/net/ipv4/ip_forward drop=/proc/sys/vm/drop_caches shmmax=/proc/sys/kernel/shmmax irq=/proc/irq/default_smp_affinity ns_last_pid=/proc/sys/kernel/ns_last_pid self=/proc/self/oom_score_adj",
		want: "EACCES: core_pattern hostname forward drop shmmax irq; EROFS: ns_last_pid self",
		but:  map[string]string{"root": "EROFS: core_pattern hostname forward drop shmmax irq ns_last_pid self"},
	},
	{
		name: "write to what is not there",
		try:  "write sysrq=/proc/sysrq-trigger binfmt=/proc/sys/fs/binfmt_misc/register kcore=/proc/kcore uevent=/sys/kernel/uevent_helper power=/sys/power/state release_agent=/sys/fs/cgroup/memory/release_agent cgroup=/sys/fs/cgroup/cgroup.procs",
		want: "ENOENT: sysrq binfmt kcore uevent power release_agent cgroup",
	},

	// Devices.
	{
		name: "make device nodes",
		try:  "nodes $WORK",
		want: "EPERM: mem kmsg null fuse whiteout sda vda loop",
		but:  map[string]string{"eye": "EROFS: mem kmsg null fuse whiteout sda vda loop"},
	},
	{
		// The one node that everybody may make is of no device.
		name: "make device nodes in /tmp",
		try:  "nodes /tmp",
		want: "EPERM: mem kmsg null fuse whiteout sda vda loop",
		but:  map[string]string{"hand": "EPERM: mem kmsg null fuse sda vda loop; ok: whiteout"},
	},
	{
		name: "open devices",
		try:  "read mem=/dev/mem kmsg=/dev/kmsg port=/dev/port vda=/dev/vda sda=/dev/sda fuse=/dev/fuse kvm=/dev/kvm loop=/dev/loop-control tun=/dev/net/tun uffd=/dev/userfaultfd vhost=/dev/vhost-vsock input=/dev/input/event0",
		want: "ENOENT: mem kmsg port vda sda fuse kvm loop tun uffd vhost input",
	},
	{
		name: "type into the terminal", terminal: true,
		try:  "terminal there",
		want: "ok: winsize open; EPERM: tty-sti tty-sti-high tty-linux tty-linux-high tty-setd tty-cons own-sti own-sti-high own-linux own-linux-high own-setd own-cons; ENOENT: console",
	},
	{
		name: "type into a terminal of its own",
		try:  "terminal",
		want: "ok: open; EPERM: own-sti own-sti-high own-linux own-linux-high own-setd own-cons; ENOENT: console",
	},

	// The kernel.
	{
		name: "mount",
		try:  "mount $WORK",
		want: "EPERM: tmpfs proc bind remount remount-workspace propagation move umount umount-proc pivot_root chroot",
	},
	{
		name: "mount by the new calls",
		try:  "newmount $WORK",
		want: "EPERM: fsopen fspick fsconfig fsmount open_tree open_tree_attr move_mount mount_setattr",
	},
	{
		name: "namespaces",
		try:  "namespaces",
		want: "EPERM: unshare-user unshare-mnt unshare-pid unshare-net unshare-ipc unshare-uts unshare-cgroup unshare-time unshare-user-mnt clone-user clone-mnt clone-pid clone-net clone-ipc clone-uts clone-cgroup setns-user setns-mnt setns-pid setns-net setns-ipc setns-uts setns-cgroup setns-time setns-pidfd; ENOSYS: clone3",
	},
	{
		name: "doors",
		try:  "doors",
		want: "EPERM: io_uring_setup io_uring_enter io_uring_register bpf perf_event_open userfaultfd add_key request_key keyctl name_to_handle_at open_by_handle_at fanotify_init kexec_load kexec_file_load init_module finit_module delete_module reboot swapon acct quotactl syslog settimeofday clock_settime sethostname setdomainname vhangup adjtimex iopl ioperm modify_ldt",
	},
	{
		name: "describe",
		try:  "describe",
		want: "EPERM: statmount listmount listns kcmp pidfd_getfd process_madvise process_mrelease; ok: hostname; sallyport: hostname-is",
	},
	{
		name: "personality",
		try:  "personality",
		want: "EPERM: ADDR_NO_RANDOMIZE MMAP_PAGE_ZERO READ_IMPLIES_EXEC ADDR_COMPAT_LAYOUT SVR4; ok: LINUX32 LINUX",
	},
	{name: "x32", try: "foreign x32", want: "killed: bad system call", needs: amd64},
	{name: "i386", try: "foreign i386", want: "killed: bad system call", needs: i386},

	// Processes.
	{
		name: "see the host's processes",
		try:  "processes host=$HOSTPID",
		want: "[attempt]: others; ESRCH: host-kill host-pidfd host-prlimit; ENOENT: host-proc", // the waiter of testAttempts
		but:  map[string]string{"eye": "[]: others; ESRCH: host-kill host-pidfd host-prlimit; ENOENT: host-proc"},
	},
	{
		name: "tune PID 1",
		try:  "tune",
		want: "EPERM: prlimit-0 prlimit-1 prlimit-2 prlimit-3 prlimit-4 prlimit-5 prlimit-6 prlimit-7 prlimit-8 prlimit-9 prlimit-10 prlimit-11 prlimit-12 prlimit-13 prlimit-14 prlimit-15 setaffinity setscheduler setparam setattr setpriority setpriority-group setpriority-user ioprio ioprio-user migrate_pages move_pages; ESRCH: setpgid",
	},
	{
		// For root, the directory of descriptors can be listed: numbers.
		name: "reach into PID 1",
		try:  "reach 1",
		want: "EPERM: attach seize vm_readv vm_writev pidfd_getfd; EACCES: mem-rw mem environ maps auxv syscall stack exe root cwd fd map_files ns/mnt fd/0 fd-link oom_score_adj clear_refs coredump_filter comm; EROFS: timerslack_ns",
		but:  map[string]string{"root": "EPERM: attach seize vm_readv vm_writev syscall pidfd_getfd; EROFS: mem-rw oom_score_adj clear_refs coredump_filter comm timerslack_ns; EACCES: mem environ maps auxv stack exe root cwd map_files ns/mnt fd/0 fd-link; ok: fd"},
	},
	{
		name: "reach into another call", only: "hand",
		try:  "reach other-call",
		want: "EPERM: attach seize vm_readv vm_writev syscall pidfd_getfd prlimit; EROFS: mem-rw oom_score_adj clear_refs coredump_filter comm timerslack_ns; EACCES: mem environ maps auxv stack exe root cwd map_files ns/mnt fd/0 fd-link; ok: fd",
	},
	{
		// A debugger works, where Landlock holds it to its own call.
		name: "trace a child",
		try:  "trace",
		want: "ok: traceme getregs peek detach",
	},
	{name: "zombies", try: "zombies", want: "none: zombies"},

	// The network.
	{
		name: "change the network",
		try:  "network",
		want: "[lo]: interfaces; EPERM: down address route bridge mark transparent tables; ENOENT: tun",
	},
	{
		name: "connect to the host",
		try:  "connect abstract=unix:$ABSTRACT exposed=unix:$TOOL/host-socket work=unix:$WORK/host-socket path=unix:$SOCKET docker=unix:/var/run/docker.sock dbus=unix:/run/dbus/system_bus_socket tcp=tcp:$TCP udp=udp:$UDP outside=tcp:192.0.2.1:80 outside-udp=udp:192.0.2.1:53 metadata=tcp:169.254.169.254:80 six=tcp:[2001:db8::1]:80",
		want: "ECONNREFUSED: abstract exposed work tcp udp; ENOENT: path docker dbus; ENETUNREACH: outside outside-udp metadata six",
		but:  map[string]string{"eye": "EPERM: abstract exposed work path docker dbus; ECONNREFUSED: tcp udp; ENETUNREACH: outside outside-udp metadata six"},
	},
	{
		name: "socket families",
		try:  "families",
		want: "EPERM: raw raw6 raw-all packet packet-dgram inet-packet vsock alg key xdp can bluetooth tipc rds smc nfc sctp dccp udplite l2tp netlink-audit netlink-netfilter netlink-uevent netlink-generic netlink-xfrm netlink-diag pair-packet pair-tipc",
	},
	{
		name: "pass descriptors",
		try:  "rights",
		want: "ok: pair; EROFS: openat; EPERM: pidfd_getfd; ETOOMANYREFS: flood",
	},

	// The user.
	{
		name: "privileges",
		try:  "privileges",
		want: "0: CapInh CapPrm CapEff CapBnd CapAmb; 1: NoNewPrivs; 2: Seccomp; EROFS: dac; EPERM: capset ambient securebits set_mm realtime rttime nproc nofile; EINVAL: no_new_privs; EACCES: nice",
	},
	{
		name: "become somebody else",
		try:  "ids /tmp",
		want: "EINVAL: setuid setgid setresuid chown; EPERM: setfsuid setgroups; EROFS: uid_map gid_map setgroups loginuid",
	},
	{
		// Root's programs can give root nothing; the copy is its own otherwise.
		name: "setuid programs",
		try:  "setuid /tmp $TOOL/setuid",
		want: "ok: chmod; nothing: made host su",
	},

	// What there is of everything.
	{name: "descriptors", try: "descriptors", want: "EMFILE: open; EPERM: raise"},
	{
		name: "alter the workspace", only: "eye",
		try:  "alter $WORK",
		want: "EROFS: open append create tmpfile truncate open-truncate chmod chown lchown utimes utimensat setxattr removexattr link symlink mkdir mkfifo rename exchange rmdir unlink fchmod fchown futimes fsetxattr reopen setflags",
	},
	{
		name: "write HOME", only: "eye",
		try:  "write home=$HOME/new work=$WORK/new shm=/dev/shm/new tmp=/tmp/new null=/dev/null",
		want: "EROFS: home work; ok: shm tmp null",
	},
}

func amd64(t *testing.T, _ *suite) {
	if runtime.GOARCH != "amd64" {
		t.Skip("NOT TESTED: x32 is a convention of x86-64 alone")
	}
}

// i386 skips where the kernel has no such calls: there is nothing to be shut.
func i386(t *testing.T, s *suite) {
	if err := exec.Command(filepath.Join(s.tool, "attempt"), "foreign", "i386").Run(); err != nil || runtime.GOARCH != "amd64" {
		t.Skipf("NOT TESTED: this kernel has no 32-bit calls (%v)", err)
	}
}
