package permission

import "slices"

// Concerns reports whether a rule is about a call, or whether that cannot be
// told: whatever the rule's own behavior is, it is looked for as one that asks is.
// It is for what is to happen on such calls, not for deciding on them.
func (p *Policy) Concerns(rule Rule, r Request) bool {
	rule.Behavior = Ask
	only := *p
	only.Rules = []Rule{rule}
	r.Hook, r.Check = Check{}, Check{}
	if rule.path != nil && r.Links != nil && !r.follow() {
		return true
	}
	c := only.consider(&r)
	if slices.ContainsFunc(c.chain, func(s Step) bool { return s.Layer == "links" }) {
		return true
	}
	hit, _ := c.hit(&rule)
	return hit != not
}

// follow looks up where the paths of a call lead that nobody has looked up yet. It
// reports whether that is known.
func (r *Request) follow() bool {
	names := make([]string, len(r.Paths))
	known := true
	for i, path := range r.Paths {
		names[i] = path.Name
		known = known && path.Real != ""
	}
	if known {
		return true
	}
	real, err := r.Links(names)
	if err != nil || len(real) != len(names) {
		return false
	}
	r.Paths = slices.Clone(r.Paths)
	for i := range r.Paths {
		r.Paths[i].Real = real[i]
	}
	return true
}
