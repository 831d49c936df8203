package permission

import (
	"errors"
	"net/url"
	"strings"
)

// A hostPattern is a domain, or all below one.
type hostPattern struct {
	host  string
	below bool // of one or more labels below it, not of itself
}

// parseHost reads the content of a rule about hosts: domain:example.com.
func parseHost(content string) (*hostPattern, error) {
	host, ok := strings.CutPrefix(content, "domain:")
	if !ok {
		return nil, errors.New("write domain:example.com")
	}
	p := &hostPattern{}
	host, p.below = strings.CutPrefix(strings.ToLower(host), "*.")
	p.host = strings.TrimSuffix(host, ".")
	if p.host == "" || strings.Trim(p.host, "abcdefghijklmnopqrstuvwxyz0123456789.-_:[]") != "" || strings.Contains(p.host, "..") {
		return nil, errors.New("a domain is letters, digits, dots and dashes (in its ASCII form), or *. and such a one; no path, port or scheme")
	}
	p.host = strings.Trim(p.host, "[]")
	return p, nil
}

// hits says whether the pattern is about the host of a URL. Of a URL that not
// all programs read in one way it may be.
func (p *hostPattern) hits(text string) certainty {
	host, ok := hostOf(text)
	switch {
	case !ok:
		return maybe
	case p.below && strings.HasSuffix(host, "."+p.host), !p.below && host == p.host:
		return certainly
	}
	return not
}

// hostOf returns the host of a URL of the web.
func hostOf(text string) (string, bool) {
	if len(text) > 1<<14 || strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r == '\\' || r >= 0x7f }) {
		return "", false
	}
	u, err := url.Parse(text)
	if err != nil || u.Opaque != "" || u.Scheme != "http" && u.Scheme != "https" {
		return "", false
	}
	host := strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
	if host == "" || strings.ContainsAny(host, "%/@") || strings.Contains(host, "..") {
		return "", false
	}
	return host, true
}
