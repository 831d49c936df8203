package bash

import (
	"path"
	"slices"
	"strings"
	"sync"
)

// writers are the commands whose writes are known: they change what they name.
var writers = sync.OnceValue(func() map[string]subject {
	table := make(map[string]subject)
	for _, r := range []struct {
		name  string
		flags string
		edits bool
		paths func(v *verdict, a *args, d dirs)
	}{
		{"rm", "-fiIrRdv --force --interactive? --one-file-system --preserve-root? --recursive --dir --verbose", true, eachTree},
		{"rmdir", "-pv --ignore-fail-on-non-empty --parents --verbose", true, each},
		{"mkdir", "-pvZ -m= --mode= --parents --verbose", true, each},
		{"touch", "-acmfh -d= -r< -t= --no-create --date= --no-dereference --reference< --time=", true, each},
		{"cp", "-abdfiHlLnPpRrsTuvx -S= -t= --archive --backup? --no-clobber --no-dereference --parents --preserve? --recursive --remove-destination --reflink? --sparse= --suffix= --target-directory= --no-target-directory --update? --verbose --force --interactive --link --symbolic-link --dereference", true, copies},
		{"mv", "-bfinTuv -S= -t= --backup? --force --interactive --no-clobber --strip-trailing-slashes --suffix= --target-directory= --no-target-directory --update? --verbose", true, copies},
		{"ln", "-bdfFiLnPrsTv -S= -t= --backup? --force --interactive --logical --no-dereference --physical --relative --symbolic --suffix= --target-directory= --no-target-directory --verbose", true, links},
		{"tee", "-aip --append --ignore-interrupts --output-error?", false, each},
		{"chmod", "-cfvR --changes --silent --quiet --verbose --recursive --reference<", false, after},
		{"chown", "-cfhvRHLP --changes --silent --quiet --verbose --recursive --reference< --from= --no-dereference", false, after},
		{"chgrp", "-cfhvRHLP --changes --silent --quiet --verbose --recursive --reference< --no-dereference", false, after},
		{"truncate", "-co -r< -s= --no-create --io-blocks --reference< --size=", false, each},
	} {
		f := flagSet(r.flags)
		table[r.name] = func(_ *walker, words []Word, d dirs) verdict {
			v := verdict{kind: Write, why: whyNot(Write, r.name)}
			a, err := f.read(words[1:], false)
			if err != nil {
				v.open = true
				a = &args{}
				for _, word := range words[1:] {
					if word.operand() {
						a.operands = append(a.operands, word)
					}
				}
			}
			v.open = v.open || a.unsure
			for _, f := range a.files {
				v.read(f, d, false)
			}
			if r.name == "tee" && err == nil && !slices.ContainsFunc(a.operands, func(op Word) bool { return !op.Known || op.Value != "/dev/null" }) {
				return verdict{kind: Neutral}
			}
			a.moves = r.name == "mv"
			r.paths(&v, a, d)
			v.edits = r.edits && !v.open && len(v.globs) == 0
			return v
		}
	}
	return table
})

func (v *verdict) write(word Word, d dirs, tree bool) { v.path(word, d, tree, true) }

func each(v *verdict, a *args, d dirs) {
	for _, op := range a.operands {
		v.write(op, d, false)
	}
}

// eachTree is for rm: what is below its operands goes only if it is told so.
func eachTree(v *verdict, a *args, d dirs) {
	for _, op := range a.operands {
		v.write(op, d, a.has("r", "R", "recursive"))
	}
}

// after leaves the first operand out: a mode, an owner.
func after(v *verdict, a *args, d dirs) {
	from := 1
	if a.has("reference") {
		from = 0
	}
	for _, op := range a.operands[min(from, len(a.operands)):] {
		v.write(op, d, a.has("R", "recursive"))
	}
}

// target splits operands into what is copied and where to.
func target(v *verdict, a *args) (sources []Word, to Word, ok bool) {
	if t, ok := a.last("t", "target-directory"); ok {
		return a.operands, t, true
	}
	if n := len(a.operands); n > 1 {
		return a.operands[:n-1], a.operands[n-1], true
	}
	v.open = true
	return a.operands, Word{}, false
}

func copies(v *verdict, a *args, d dirs) {
	sources, to, ok := target(v, a)
	moves := a.moves
	for _, s := range sources {
		if moves {
			v.write(s, d, true)
		} else {
			v.read(s, d, true)
		}
	}
	from := len(v.paths)
	if ok {
		v.into(sources, to, d)
	}
	trees := !moves && a.has("a", "archive", "r", "R", "recursive")
	if moves || trees || a.has("d", "P", "no-dereference", "preserve", "s", "symbolic-link", "l", "link") {
		v.linked(from)
	}
	// A tree is written through the links in one that is there; and the others
	// write by names that are not here.
	v.open = v.open || trees || a.has("parents", "b", "backup", "S", "suffix")
}

// into notes a path that is written, and what is written in it where it is a
// directory.
func (v *verdict) into(sources []Word, to Word, d dirs) {
	v.write(to, d, false)
	for _, s := range sources {
		if !to.Known {
			return
		}
		if !s.Known {
			v.open = true
			continue
		}
		name := path.Base(s.Value)
		if name == ".." {
			name = "" // what is in it goes to the directory itself
		}
		v.write(lit(path.Join(to.Value, name)), d, true)
	}
}

// linked notes that the paths from one on may be made links; all may be where
// they are not all known.
func (v *verdict) linked(from int) {
	for _, p := range v.paths[min(from, len(v.paths)):] {
		v.links = append(v.links, p.Name)
	}
	if v.open {
		v.links = append(v.links, "/")
	}
}

func links(v *verdict, a *args, d dirs) {
	if len(a.operands) == 1 && !a.has("t", "target-directory") {
		a.operands = append(a.operands, lit("."))
	}
	sources, to, ok := target(v, a)
	if !ok {
		return
	}
	v.into(sources, to, d)
	v.linked(0)
	for _, s := range sources {
		if !a.has("s", "symbolic") {
			v.write(s, d, true) // it has another name then
			continue
		}
		// A link leads from where it is: one that goes up may lead out.
		if !s.Known || strings.Contains(s.Value, "..") {
			v.open = true
			continue
		}
		if path.IsAbs(s.Value) {
			v.write(s, d, true)
		}
	}
}
