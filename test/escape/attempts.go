package escape

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sallyport/sallyport/sandbox"
)

func exitText(code int) string { return strconv.Itoa(code) }

// An attempt is something to try in a session.
type attempt struct {
	name string
	// try are the arguments of the program attempt, in which $WORK, $HOME and
	// what host.variables knows stand for what they name.
	try string
	// want is what the program prints. A kind, a box, or a kind in a box may
	// have another: "eye", "root", "user/eye".
	want string
	but  map[string]string
	// terminal runs it on a terminal.
	terminal bool
	// needs skips the attempt where it has no meaning.
	needs func(*testing.T, *suite)
	// only is the one box that it is tried in, else both.
	only string
}

// wanted is the outcome for a kind in a box.
func (a *attempt) wanted(kind string, b sandbox.Box) string {
	for _, key := range []string{kind + "/" + b.String(), kind, b.String()} {
		if want, ok := a.but[key]; ok {
			return want
		}
	}
	return a.want
}

// testAttempts tries everything in the table, in one session.
func testAttempts(t *testing.T, s *suite) {
	h := newHost(t)
	workspace := s.workspaceIn(t, varTemp(t))
	for _, dir := range []string{workspace, s.tool} { // what the session sees
		path, err := h.listen(t, "unix", filepath.Join(dir, "host-socket"))
		if err == nil {
			err = os.Chmod(path, 0o777)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	live := s.session(t, workspace, sandbox.Limits{})
	before := h.look(t)
	variables := h.variables()
	variables["WORK"], variables["TOOL"] = live.Workspace, s.tool
	variables["HOME"] = try(t.Context(), live, sandbox.Hand, "sh", "-c", "echo $HOME")
	// A call that goes on beside all others.
	waiter := background(t, live, "wait", "other-call", "announced")
	for _, a := range table {
		for _, b := range []sandbox.Box{sandbox.Hand, sandbox.Eye} {
			if a.only != "" && a.only != b.String() {
				continue
			}
			t.Run(a.name+"/"+b.String(), func(t *testing.T) {
				if a.needs != nil {
					a.needs(t, s)
				}
				args := []string{"attempt"}
				for _, arg := range strings.Fields(a.try) {
					args = append(args, os.Expand(arg, func(name string) string { return variables[name] }))
				}
				cmd := sandbox.Command{Args: args, Envelope: sandbox.Envelope{Box: b}}
				if a.terminal {
					cmd.Terminal = &sandbox.Terminal{Rows: 24, Columns: 80}
				}
				if got, want := tryOn(t.Context(), live, cmd), a.wanted(s.kind.name, b); got != want {
					t.Errorf("got  %s\nwant %s", got, want)
				}
				answers(t, live, a.name)
			})
		}
	}
	waiter.stop()
	if after := h.look(t); after != before {
		t.Errorf("the host was\n%sand is\n%s", before, after)
	}
	if n := h.reached.Load(); n > 0 {
		t.Errorf("the host's listeners were reached %d times", n)
	}
}

// A host has what attempts are after.
type host struct {
	dir     string // outside of every session
	home    string // below the user's home
	socket  string
	secret  string
	reached atomic.Int32
	tcp     string
	udp     string
	name    string // of the abstract socket
}

// newHost makes secrets and listeners.
func newHost(t *testing.T) *host {
	t.Helper()
	h := &host{dir: t.TempDir()}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	home, err := os.UserHomeDir()
	must(err)
	h.home, err = os.MkdirTemp(home, ".sallyport-escape-")
	must(err)
	t.Cleanup(func() { os.RemoveAll(h.home) })
	h.secret = filepath.Join(h.dir, "secret")
	for _, path := range []string{h.secret, filepath.Join(h.home, "secret")} {
		must(os.WriteFile(path, []byte("a secret"), 0o666))
	}
	must(os.Chmod(h.dir, 0o777))
	h.name = "@sallyport-escape-" + filepath.Base(h.home)
	h.socket = filepath.Join(h.home, "s")
	for _, l := range []struct {
		network, address string
		at               *string
	}{
		{"unix", h.name, nil}, {"unix", h.socket, nil}, {"tcp", "127.0.0.1:0", &h.tcp}, {"udp", "127.0.0.1:0", &h.udp},
	} {
		address, err := h.listen(t, l.network, l.address)
		must(err)
		if l.at != nil {
			*l.at = address
		}
	}
	return h
}

// listen counts who comes.
func (h *host) listen(t *testing.T, network, address string) (string, error) {
	if network == "udp" {
		c, err := net.ListenPacket(network, address)
		if err != nil {
			return "", err
		}
		t.Cleanup(func() { c.Close() })
		go func() {
			for {
				if _, _, err := c.ReadFrom(make([]byte, 64)); err != nil {
					return
				}
				h.reached.Add(1)
			}
		}()
		return c.LocalAddr().String(), nil
	}
	l, err := net.Listen(network, address)
	if err != nil {
		return "", err
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			h.reached.Add(1)
			c.Close()
		}
	}()
	return l.Addr().String(), nil
}

// variables are what attempts can name.
func (h *host) variables() map[string]string {
	return map[string]string{
		"SECRET": h.secret, "HOMESECRET": filepath.Join(h.home, "secret"), "OUTSIDE": h.dir, "HOSTHOME": h.home,
		"ABSTRACT": h.name, "SOCKET": h.socket, "TCP": h.tcp, "UDP": h.udp, "HOSTPID": strconv.Itoa(os.Getpid()),
	}
}

// look describes what must not change: what lies around, and the kernel's
// settings.
func (h *host) look(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	for _, dir := range []string{h.dir, h.home} {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			info, err := e.Info()
			if err != nil {
				t.Fatal(err)
			}
			data, _ := os.ReadFile(filepath.Join(dir, e.Name()))
			fmt.Fprintf(&b, "%s: %v %q\n", filepath.Join(dir, e.Name()), info.Mode(), data)
		}
	}
	for _, path := range []string{
		"/proc/sys/kernel/core_pattern", "/proc/sys/kernel/hostname", "/proc/sys/kernel/domainname", "/proc/sys/kernel/modprobe",
		"/proc/sys/kernel/sysrq", "/proc/sys/vm/overcommit_memory", "/proc/sys/fs/suid_dumpable", "/proc/sys/net/ipv4/ip_forward",
		"/sys/fs/cgroup/memory/release_agent", "/sys/kernel/uevent_helper", "/proc/self/uid_map", "/proc/swaps",
	} {
		data, _ := os.ReadFile(path)
		fmt.Fprintf(&b, "%s: %q\n", path, data)
	}
	ifs, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range ifs {
		if i.Flags&net.FlagLoopback != 0 {
			fmt.Fprintf(&b, "%s: %v\n", i.Name, i.Flags)
		}
	}
	return b.String()
}
