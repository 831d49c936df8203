package permission

import "testing"

func TestHostsAreComparedAsProgramsReadThem(t *testing.T) {
	for _, c := range []struct {
		rule, url string
		want      certainty
		allows    bool
	}{
		{"example.com", "https://example.com", certainly, true},
		{"example.com", "http://EXAMPLE.Com:8080/x?y#z", certainly, true},
		{"Example.COM.", "https://example.com./x", certainly, true},
		{"example.com", "https://user:pass@example.com/", certainly, true},
		{"example.com", "https://example.com@evil.test/", not, false},
		{"evil.test", "https://example.com@evil.test/", certainly, true},
		{"example.com", "https://evil.test\\@example.com/", maybe, false},
		{"example.com", "https://example.com\\.evil.test/", maybe, false},
		{"example.com", "https://evil.test#@example.com/", not, false},
		{"example.com", "https://evil.test?@example.com/", not, false},
		{"example.com", "https://example.com.evil.test/", not, false},
		{"example.com", "https://sub.example.com/", not, false},
		{"*.example.com", "https://sub.example.com/", certainly, true},
		{"*.example.com", "https://a.b.example.com/", certainly, true},
		{"*.example.com", "https://example.com/", not, false},
		{"*.example.com", "https://evilexample.com/", not, false},
		{"example.com", "https://ex%61mple.com/", maybe, false},
		{"example.com", "https://exam\tple.com/", maybe, false},
		{"example.com", "https://example.com /", maybe, false},
		{"example.com", "https://example..com/", maybe, false},
		{"example.com", "https://example.com../", maybe, false},
		{"example.com", "ftp://example.com/", maybe, false},
		{"example.com", "//example.com/", maybe, false},
		{"example.com", "https:example.com", maybe, false},
		{"example.com", "https:///example.com", maybe, false},
		{"example.com", "", maybe, false},
		{"example.com", "https://example.com:x/", maybe, false},
		{"example.com", "https://example.com/%41 b", maybe, false},
		{"example.com", "https://example.com/ä", certainly, true},
		// Names that are not ASCII, in both forms.
		{"exämple.com", "http://exämple.com/", certainly, true},
		{"exämple.com", "http://xn--exmple-cua.com/", certainly, true},
		{"xn--exmple-cua.com", "http://EXÄMPLE.com/", certainly, true},
		{"*.exämple.com", "http://a.xn--exmple-cua.com/", certainly, true},
		{"example.com", "http://exämple.com/", not, false},
		{"example.com", "http://ｅxample.com/", certainly, false}, // wide letters: some map them
		{"example.com", "http://example。com/", certainly, false},
		{"example.com", "http://exa\u00admple.com/", maybe, false},
		{"example.com", "http://xn--a.com/", maybe, false},
		{"strasse.de", "http://straße.de/", maybe, false},
		// Addresses in all their forms.
		{"127.0.0.1", "http://127.0.0.1:80/", certainly, true},
		{"127.0.0.1", "http://2130706433/", certainly, false},
		{"127.0.0.1", "http://0x7f000001/", certainly, false},
		{"127.0.0.1", "http://0x7f.1/", certainly, false},
		{"127.0.0.1", "http://127.1/", certainly, false},
		{"127.0.0.1", "http://127.0.1/", certainly, false},
		{"127.0.0.1", "http://0177.0.0.1/", maybe, false},
		{"127.0.0.1", "http://127.0.0.01/", maybe, false},
		{"127.0.0.1", "http://127.0.0.1./", certainly, true},
		{"127.0.0.1", "http://127.0.0.256/", maybe, false},
		{"127.0.0.1", "http://4294967296/", maybe, false},
		{"127.0.0.1", "http://1.2.3.4.5/", maybe, false},
		{"127.0.0.1", "http://[::ffff:127.0.0.1]/", certainly, true},
		{"127.0.0.1", "http://[::ffff:7f00:1]/", certainly, true},
		{"127.0.0.1", "http://１２７.0.0.1/", certainly, false},
		{"::1", "http://[::1]:80/", certainly, true},
		{"[::1]", "http://[0:0:0:0:0:0:0:1]/", certainly, true},
		{"::1", "http://[::1%25eth0]/", maybe, false},
		{"::1", "http://[::2]/", not, false},
		{"::1", "http://::1/", maybe, false},
		{"127.0.0.1", "http://[127.0.0.1]/", maybe, false},
		{"1.com", "http://1.com/", certainly, true},
		{"a_b.com", "http://a_b.com/", certainly, true},
	} {
		p, err := parseHost("domain:" + c.rule)
		if err != nil {
			t.Errorf("%s: %v", c.rule, err)
			continue
		}
		if got := p.hits(c.url); got != c.want {
			t.Errorf("the rule %s and %q: %v, want %v", c.rule, c.url, got, c.want)
		}
		if got := p.allows(c.url); got != c.allows {
			t.Errorf("the rule %s allows %q: %v, want %v", c.rule, c.url, got, c.allows)
		}
	}
}

func TestWhatIsNoDomain(t *testing.T) {
	for _, content := range []string{
		"", "domain:", "example.com", "domain:*", "domain:*.", "domain:.", "domain:.com", "domain:a..b", "domain:a/b", "domain:http://a", "domain:a:80", "domain:[::1]:80", "domain:[::1", "domain:::1%eth0", "domain:a b", "domain:a@b", "domain:*.*.x", "domain:x.*",
		"domain:0x7f.1", "domain:127.1", "domain:127.0.0.01", "domain:*.127.0.0.1", "domain:*.::1", "domain:straße.de", "domain:xn--a.com", "domain:a\\b", "domain:a%2e", "domain:\x00",
	} {
		if p, err := parseHost(content); err == nil {
			t.Errorf("%q is read as %+v", content, p)
		}
	}
}
