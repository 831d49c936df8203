package audit

import (
	"encoding/json"
	"regexp"
	"strings"
	"sync"
)

// What looks like a secret in an argument or an assignment. The record is no
// place for one; that there was one is.
var secretLooks = sync.OnceValue(func() []*regexp.Regexp {
	return []*regexp.Regexp{
		// By its name: API_KEY=..., --token ..., "password": "..."
		regexp.MustCompile(`(?i)((?:api[_-]?key|access[_-]?key|secret|token|passw(?:or)?d|passphrase|credential|authorization)[a-z0-9_-]*["']?\s*[=: ]\s*["']?(?:bearer |basic )?)([^\s"'&;|]{6,})`),
		// By its own look: keys of known services, and private keys.
		regexp.MustCompile(`()\b((?:gh[pousr]_|github_pat_|glpat-|sk-|xox[abprs]-|AKIA|ASIA|AIza|npm_|pypi-|dop_v1_)[A-Za-z0-9_-]{12,})`),
		regexp.MustCompile(`()\b(ey[A-Za-z0-9_-]{10,}\.ey[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]*)`),
		regexp.MustCompile(`(-----BEGIN [A-Z ]*PRIVATE KEY-----)([^-]+)`),
		// In the user part of an address.
		regexp.MustCompile(`([a-z][a-z0-9+.-]*://[^/\s:@]*:)([^/\s@]+)@`),
	}
})

const redacted = "[secret]"

// redactString replaces what looks secret.
func redactString(s string) (string, int) {
	found := 0
	for _, look := range secretLooks() {
		if !look.MatchString(s) {
			continue
		}
		s = look.ReplaceAllStringFunc(s, func(m string) string {
			parts := look.FindStringSubmatch(m)
			if parts[2] == redacted {
				return m
			}
			found++
			return strings.Replace(m, parts[1]+parts[2], parts[1]+redacted, 1)
		})
	}
	return s, found
}

// maxInput is how much of an input a record holds, in bytes. Of a longer one it
// holds the hash.
const maxInput = 64 << 10

// SetInput records what a tool was called with.
func (r *Record) SetInput(input any) (err error) {
	r.Input, r.InputHash, err = r.recorded(input)
	return err
}

// SetSent records what a model sent, of a call whose input is another.
func (r *Record) SetSent(input any) (err error) {
	r.Sent, r.SentHash, err = r.recorded(input)
	return err
}

// recorded is an input as it is recorded, and the hash of all of it.
func (r *Record) recorded(input any) (data json.RawMessage, sum string, err error) {
	data, err = json.Marshal(input)
	if err != nil {
		return nil, "", err
	}
	sum = hash(data)
	if len(data) > maxInput {
		return nil, sum, nil
	}
	var v any
	if err := json.Unmarshal(data, &v); err != nil {
		return nil, "", err
	}
	found := 0
	if v = redact(v, &found); found > 0 {
		r.Secrets += found
		data, err = json.Marshal(v)
	}
	return data, sum, err
}

func redact(v any, found *int) any {
	switch v := v.(type) {
	case string:
		s, n := redactString(v)
		*found += n
		return s
	case []any:
		for i := range v {
			// An option and its value are often two words.
			if s, ok := v[i].(string); ok && i > 0 {
				if name, ok := v[i-1].(string); ok && secretOption().MatchString(name) {
					if s != redacted && s != "" {
						*found++
					}
					v[i] = redacted
					continue
				}
			}
			v[i] = redact(v[i], found)
		}
	case map[string]any:
		for k := range v {
			v[k] = redact(v[k], found)
		}
	}
	return v
}

var secretOption = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)^--?[a-z0-9-]*(api-?key|secret|token|passw(or)?d|passphrase)$`)
})
