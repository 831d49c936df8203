package permission

import (
	"errors"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

// A hostPattern is a domain, or all below one. It is about all ports.
type hostPattern struct {
	host  string // as of a host
	below bool   // of one or more labels below it, not of itself
}

// parseHost reads the content of a rule about hosts: domain:example.com.
func parseHost(content string) (*hostPattern, error) {
	text, ok := strings.CutPrefix(content, "domain:")
	if !ok {
		return nil, errors.New("write domain:example.com")
	}
	p := &hostPattern{}
	text, p.below = strings.CutPrefix(text, "*.")
	if strings.ContainsAny(text, "*/@?#% \\") {
		return nil, errNoDomain
	}
	if strings.HasPrefix(text, "[") && strings.HasSuffix(text, "]") {
		text = text[1 : len(text)-1]
	}
	h, ok := readHost(text)
	if !ok || !h.exact || h.address && p.below {
		return nil, errNoDomain
	}
	p.host = h.name
	return p, nil
}

var errNoDomain = errors.New("a domain is letters, digits, dots and dashes, or *. and such a one, or an address as 192.0.2.1 and ::1; no path, port or scheme")

// hits says whether the pattern is about the host of a URL. Of a URL that not
// all programs read in one way it may be.
func (p *hostPattern) hits(text string) certainty {
	h, ok := hostOf(text)
	switch {
	case !ok:
		return maybe
	case p.below && !h.address && strings.HasSuffix(h.name, "."+p.host), !p.below && h.name == p.host:
		return certainly
	}
	return not
}

// allows reports whether the pattern is about the host of a URL, which is written as
// it is: none of the other forms that an address may have, or letters.
func (p *hostPattern) allows(text string) bool {
	h, ok := hostOf(text)
	return ok && h.exact && p.hits(text) == certainly
}

// A host is that of a URL, in the form in which all ways to write it are one: in lower
// case and ASCII, without the root's dot; an address as [netip.Addr] prints it, of IPv4
// also where it is written as one of IPv6.
type host struct {
	name    string
	address bool
	exact   bool // it was written so, or as [netip] and IDNA take it
}

// mostURL is the longest URL that is read, in bytes.
const mostURL = 1 << 14

// hostOf returns the host of a URL of the web. What programs are known to read in
// different ways is none.
func hostOf(text string) (host, bool) {
	if len(text) > mostURL || !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool {
		return r == '\\' || unicode.IsSpace(r) || unicode.IsControl(r) || unicode.Is(unicode.Cf, r)
	}) {
		return host{}, false
	}
	u, err := url.Parse(text)
	if err != nil || u.Opaque != "" || u.Scheme != "http" && u.Scheme != "https" {
		return host{}, false
	}
	authority, _, _ := strings.Cut(text[strings.Index(text, "//")+2:], "/")
	if strings.Contains(authority[strings.LastIndexByte(authority, '@')+1:], "%") {
		return host{}, false // a zone, or letters that some decode
	}
	h, ok := readHost(u.Hostname())
	if !ok || strings.HasPrefix(u.Host, "[") != strings.Contains(u.Hostname(), ":") {
		return host{}, false
	}
	return h, true
}

// readHost reads a host, an address of IPv6 without its brackets.
func readHost(text string) (host, bool) {
	if strings.Contains(text, ":") {
		addr, err := netip.ParseAddr(text)
		if err != nil || addr.Zone() != "" {
			return host{}, false
		}
		return host{addr.Unmap().String(), true, true}, true
	}
	name, exact := strings.ToLower(text), true
	if !isASCII(text) || strings.Contains(name, "xn--") {
		// Of these letters the forms of IDNA make different names.
		if strings.ContainsAny(name, "ßς\u200c\u200d") {
			return host{}, false
		}
		ascii, err := idna.Lookup.ToASCII(text)
		if err != nil {
			return host{}, false
		}
		back, err := idna.Lookup.ToUnicode(ascii)
		exact = err == nil && (back == strings.TrimSuffix(name, ".") || ascii == name)
		name = ascii
	}
	name = strings.TrimSuffix(name, ".")
	if name == "" || len(name) > 253 || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789.-_") != "" || name[0] == '.' || name[len(name)-1] == '.' || strings.Contains(name, "..") {
		return host{}, false
	}
	if !endsInNumber(name) {
		return host{name, false, exact}, true
	}
	addr, ok := numeric(name)
	if !ok {
		return host{}, false
	}
	return host{addr, true, exact && addr == name}, true
}

func isASCII(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r >= utf8.RuneSelf }) < 0
}

// endsInNumber reports whether a host is an address of IPv4 in one of its forms, or
// none: the last label of a name is no number.
func endsInNumber(name string) bool {
	last := name[strings.LastIndexByte(name, '.')+1:]
	hex, ok := strings.CutPrefix(last, "0x")
	return strings.Trim(last, "0123456789") == "" || ok && strings.Trim(hex, "0123456789abcdef") == ""
}

// numeric reads an address of IPv4 as inet_aton does: of one to four numbers, the last
// of which fills what is left. A number with a leading zero is octal to some and
// decimal to others.
func numeric(name string) (string, bool) {
	parts := strings.Split(name, ".")
	if len(parts) > 4 {
		return "", false
	}
	var addr uint64
	for i, part := range parts {
		base := 10
		if hex, ok := strings.CutPrefix(part, "0x"); ok {
			part, base = hex, 16
		} else if len(part) > 1 && part[0] == '0' {
			return "", false
		}
		n, err := strconv.ParseUint(part, base, 32)
		width := 8
		if i == len(parts)-1 {
			width = 8 * (5 - len(parts))
		}
		if err != nil || n >= 1<<width {
			return "", false
		}
		addr = addr<<width | n
	}
	return netip.AddrFrom4([4]byte{byte(addr >> 24), byte(addr >> 16), byte(addr >> 8), byte(addr)}).String(), true
}
