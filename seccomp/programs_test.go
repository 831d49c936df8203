package seccomp

import (
	"fmt"
	"os/exec"
	"testing"
)

// programs are what developers run, with what each needs of the kernel beyond
// reading and writing: threads, children, sockets, timers.
var programs = []struct {
	name string
	o    []Options
	args []string
	want string
}{
	{"bash", everyone, []string{"-c", `
		set -eu
		x=$(printf 'a\nb\n' | tr a-z A-Z | wc -l)
		(exit 0) & wait $!
		cat <(echo "$x") <<<ignored
		trap 'echo trapped' USR1; kill -USR1 $$
		ulimit -n 512; nice true; timeout 5 true; mktemp -u >/dev/null`}, "2\ntrapped\n"},
	{"git", everyone, []string{"-c", "user.name=a", "-c", "user.email=a@b", "-c", `alias.x=!set -e
		git init -q r && cd r && echo 1 >f && git add f && git commit -qm one
		git clone -q . ../c && git -C ../c gc -q && git status --short && git log --format=%s`, "x"}, "one\n"},
	{"python3", everyone, []string{"-c", `
import asyncio, concurrent.futures, mmap, multiprocessing, os, socket, sqlite3, ssl, subprocess, sys, tempfile, threading
assert subprocess.check_output([sys.executable, "-c", "print(1)"]) == b"1\n"
with concurrent.futures.ThreadPoolExecutor(4) as pool: assert sum(pool.map(abs, range(9))) == 36
with multiprocessing.get_context("fork").Pool(2) as pool: assert sum(pool.map(abs, range(9))) == 36
s = socket.create_server(("127.0.0.1", 0)); socket.create_connection(s.getsockname()).close()
async def main():
    p = await asyncio.create_subprocess_exec("true"); return await p.wait()
assert asyncio.run(main()) == 0
sqlite3.connect("db").execute("create table t (x)")
mmap.mmap(-1, 4096).close()
os.sched_setaffinity(0, os.sched_getaffinity(0))
socket.getaddrinfo("localhost", 80)
print("done")`}, "done\n"},
	{"node", everyone, []string{"-e", `
const {Worker} = require("worker_threads"), {execFileSync, spawn} = require("child_process"), http = require("http"), fs = require("fs");
execFileSync("true");
fs.writeFileSync("f", "x"); fs.watch("f").close();
new Worker("0", {eval: true}).on("exit", () => {
  const s = http.createServer((q, r) => r.end("done")).listen(0, "127.0.0.1", () =>
    http.get({port: s.address().port, host: "127.0.0.1"}, r => r.on("data", d => { console.log(String(d)); s.close(); spawn("true"); })));
});`}, "done\n"},
	{"go", everyone, []string{"list", "-f", "{{.Name}}", "fmt"}, "fmt\n"},
	{"gcc", everyone, []string{"-E", "-P", "-x", "c", "/dev/null"}, ""},
	{"make", everyone, []string{"-s", "-j2", "--eval=all: ; @echo done"}, "done\n"},
	{"strace", []Options{{Ptrace: true}}, []string{"-f", "-o", "trace", "sh", "-c", "true & wait; echo done"}, "done\n"},
}

var everyone = []Options{{}, {NoUnixSockets: true, Ptrace: true}}

// TestPrograms runs them under the filters.
func TestPrograms(t *testing.T) {
	for _, p := range programs {
		for _, o := range p.o {
			t.Run(fmt.Sprintf("%s %+v", p.name, o), func(t *testing.T) {
				path, err := exec.LookPath(p.name)
				if err != nil {
					t.Skipf("NOT TESTED: no %s on this machine", p.name)
				}
				cmd := role{Options: o, Exec: append([]string{path}, p.args...)}.command(t)
				cmd.Dir = t.TempDir()
				out, err := cmd.Output()
				if exit, ok := err.(*exec.ExitError); ok {
					t.Fatalf("%v\n%s%s", err, out, exit.Stderr)
				} else if err != nil {
					t.Fatal(err)
				}
				if string(out) != p.want {
					t.Errorf("printed %q, want %q", out, p.want)
				}
			})
		}
	}
}
