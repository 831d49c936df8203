package native

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/sandbox"
	"github.com/sallyport/sallyport/sandbox/native/starter"
)

// A Probe is what the kernel did when it was asked for what a session needs.
type Probe = starter.Probe

// Probe tries what a session needs, in new namespaces, with layers in the state
// directory above a workspace. An error says that there are no namespaces.
func (d Driver) Probe(ctx context.Context, state, workspace string) (*Probe, error) {
	guest, err := d.FindGuest()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, guest, starter.ArgProbe, state, workspace)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWPID, Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() != 0 {
		enterUserNamespace(cmd.SysProcAttr)
	}
	out, err := cmd.Output()
	if err != nil {
		if msg := strings.TrimSpace(stderr.String()); msg != "" {
			return nil, errors.New(msg)
		}
		return nil, explainNamespaces(err)
	}
	p := &Probe{}
	if err := json.Unmarshal(out, p); err != nil {
		return nil, fmt.Errorf("the probe: %w", err)
	}
	return p, nil
}

// TryCgroup makes a cgroup as a session would, removes it, and says which limits
// it held, and of which kind it was.
func TryCgroup() (held []string, kind string, err error) {
	memory, pids := int64(1<<30), int64(1000)
	period, quota := uint64(100_000), int64(100_000)
	r := &specs.LinuxResources{
		Memory: &specs.LinuxMemory{Limit: &memory}, Pids: &specs.LinuxPids{Limit: &pids},
		CPU: &specs.LinuxCPU{Period: &period, Quota: &quota},
	}
	c, err := systemCgroups().newCgroup(fmt.Sprintf("doctor-%d", os.Getpid()), r, nil)
	if err != nil {
		return nil, "", err
	}
	if c.why != nil {
		return nil, "", c.why
	}
	for _, limit := range []sandbox.Limit{sandbox.LimitMemory, sandbox.LimitPids, sandbox.LimitCPUs} {
		if by := c.held[limit]; strings.HasPrefix(by, "cgroup") {
			held, kind = append(held, string(limit)), by
		}
	}
	return held, kind, c.remove()
}

// CgroupCure says what makes cgroups usable for this user.
func CgroupCure() string { return systemCgroups().cure() }
