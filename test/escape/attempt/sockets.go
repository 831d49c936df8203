package main

import (
	"net"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// connect connects to each name=network:address, and sends its name. By UDP it
// does so twice: only the second learns that nobody is there.
func connect(r *report, args []string) {
	named(args, func(name, value string) {
		network, address, _ := strings.Cut(value, ":")
		c, err := net.Dial(network, address)
		times := 1
		if strings.HasPrefix(network, "udp") {
			times = 2
		}
		for range times {
			if err == nil {
				_, err = c.Write([]byte(name))
			}
		}
		r.step(name, err)
		if c != nil {
			c.Close()
		}
	})
}

// families opens sockets of the families and protocols that must stay shut.
func families(r *report, _ []string) {
	for _, s := range []struct {
		name                string
		family, kind, proto int
	}{
		{"raw", unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP}, {"raw6", unix.AF_INET6, unix.SOCK_RAW, unix.IPPROTO_ICMPV6},
		{"raw-all", unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_RAW}, {"packet", unix.AF_PACKET, unix.SOCK_RAW, 0x0300},
		{"packet-dgram", unix.AF_PACKET, unix.SOCK_DGRAM, 0x0300}, {"inet-packet", unix.AF_INET, unix.SOCK_PACKET, 0x0300},
		{"vsock", unix.AF_VSOCK, unix.SOCK_STREAM, 0}, {"alg", unix.AF_ALG, unix.SOCK_SEQPACKET, 0},
		{"key", unix.AF_KEY, unix.SOCK_RAW, 2}, {"xdp", unix.AF_XDP, unix.SOCK_RAW, 0}, {"can", unix.AF_CAN, unix.SOCK_RAW, 1},
		{"bluetooth", unix.AF_BLUETOOTH, unix.SOCK_RAW, 1}, {"tipc", unix.AF_TIPC, unix.SOCK_STREAM, 0},
		{"rds", unix.AF_RDS, unix.SOCK_SEQPACKET, 0}, {"smc", unix.AF_SMC, unix.SOCK_STREAM, 0}, {"nfc", unix.AF_NFC, unix.SOCK_SEQPACKET, 0},
		{"sctp", unix.AF_INET, unix.SOCK_SEQPACKET, unix.IPPROTO_SCTP}, {"dccp", unix.AF_INET, unix.SOCK_DCCP, unix.IPPROTO_DCCP},
		{"udplite", unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_UDPLITE}, {"l2tp", unix.AF_INET, unix.SOCK_DGRAM, 115},
		{"netlink-audit", unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_AUDIT},
		{"netlink-netfilter", unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_NETFILTER},
		{"netlink-uevent", unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_KOBJECT_UEVENT},
		{"netlink-generic", unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_GENERIC},
		{"netlink-xfrm", unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_XFRM},
		{"netlink-diag", unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_SOCK_DIAG},
	} {
		fd, err := unix.Socket(s.family, s.kind, s.proto)
		r.step(s.name, err)
		unix.Close(fd)
	}
	r.step("pair-packet", second(unix.Socketpair(unix.AF_PACKET, unix.SOCK_RAW, 0)))
	r.step("pair-tipc", second(unix.Socketpair(unix.AF_TIPC, unix.SOCK_STREAM, 0)))
}

// network tries to change the network that it has, which is lo alone.
func network(r *report, _ []string) {
	ifs, err := net.Interfaces()
	die(err)
	var names []string
	for _, i := range ifs {
		names = append(names, i.Name)
	}
	r.say("interfaces", "["+strings.Join(names, " ")+"]")
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	die(err)
	flags, err := unix.NewIfreq("lo")
	die(err)
	flags.SetUint16(0)
	r.step("down", unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, flags))
	address, err := unix.NewIfreq("lo")
	die(err)
	die(address.SetInet4Addr([]byte{10, 1, 1, 1}))
	r.step("address", unix.IoctlIfreq(fd, unix.SIOCSIFADDR, address))
	r.step("route", call(unix.SYS_IOCTL, uintptr(fd), unix.SIOCADDRT, fixed(make([]byte, 256))))
	r.step("bridge", call(unix.SYS_IOCTL, uintptr(fd), 0x89a0 /* SIOCBRADDBR */, fixed([]byte("br0\x00"))))
	r.step("mark", unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_MARK, 1))
	r.step("transparent", unix.SetsockoptInt(fd, unix.SOL_IP, unix.IP_TRANSPARENT, 1))
	r.step("tables", unix.SetsockoptString(fd, unix.SOL_IP, 64 /* IPT_SO_SET_REPLACE */, "x"))
	r.step("tun", second(os.OpenFile("/dev/net/tun", os.O_RDWR, 0)))
}

// rights passes descriptors until the kernel has enough of it.
func rights(r *report, _ []string) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	r.step("pair", err)
	if err != nil {
		return
	}
	// Directories and this program pass; what passes is no more than it was.
	dir, err := unix.Open("/", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	die(err)
	die(unix.Sendmsg(pair[0], []byte("x"), unix.UnixRights(dir, pair[0], pair[1]), nil, 0))
	buf, oob := make([]byte, 1), make([]byte, unix.CmsgSpace(3*4))
	_, n, _, _, err := unix.Recvmsg(pair[1], buf, oob, 0)
	die(err)
	messages, err := unix.ParseSocketControlMessage(oob[:n])
	die(err)
	fds, err := unix.ParseUnixRights(&messages[0])
	die(err)
	fd, err := unix.Openat(fds[0], "attempt", unix.O_WRONLY|unix.O_CREAT, 0o644)
	r.step("openat", err)
	unix.Close(fd)
	// A file that only PID 1 has.
	r.step("pidfd_getfd", call(unix.SYS_PIDFD_GETFD, 1, 0, 0))
	// In flight, descriptors count against the user's limit of open files, which
	// is lowered to come to it soon. Each pair goes through the one before, which holds it.
	var limit unix.Rlimit
	die(unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	limit.Cur = 256
	die(unix.Setrlimit(unix.RLIMIT_NOFILE, &limit))
	var last error
	for range 1 << 16 {
		next, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
		die(err)
		if last = unix.Sendmsg(pair[0], []byte("x"), unix.UnixRights(next[1], next[1]), nil, 0); last != nil {
			break
		}
		unix.Close(pair[0])
		unix.Close(next[1])
		pair = next
	}
	r.step("flood", last)
}
