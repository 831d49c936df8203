package main

import (
	"github.com/sallyport/sallyport/permission/bash"
	"github.com/sallyport/sallyport/permission/bash/bashtest"
)

// benchPermission measures what it takes to judge commands.
func benchPermission(*env) ([]Row, error) {
	env := bash.Env{Dir: "/workspace", Home: "/home/user"}
	scripts, size := bashtest.Scripts(4000), 0
	for _, src := range scripts {
		size += len(src)
	}
	judge := func(texts ...string) func() error {
		return func() error {
			for _, src := range texts {
				bash.Parse(src, env).ReadOnly()
			}
			return nil
		}
	}
	got, err := turns(500, judge(scripts...), judge("cd src && git log --oneline -5 2>/dev/null | grep -n \"$pattern\" | head"))
	if err != nil {
		return nil, err
	}
	// Of a speed more is better: the reach is the least that it may be.
	const least = 8
	speed := func(q float64) float64 { return float64(size) / 1e6 / got[0].quantile(q).Seconds() }
	rate := Row{Name: "commands parsed and classified", Unit: "MB/s", P50: speed(0.5), P95: speed(0.95), Reach: least}
	rate.OK = rate.P50 >= least
	return []Row{rate, row("one command of four parts, parsed and classified", "µs", got[1], nil, 30)}, nil
}
