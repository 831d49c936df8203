package bash

import (
	"slices"
	"strings"
)

// What looks at sockets may ask the network for the address of a host that it is
// given: a name is as good as a message.

const asksHosts = "it may ask the network for the name of a host"

// ssWords are the words of the filters of ss. All else in one is a host, or, after a
// colon, a port.
var ssWords = strings.Fields("state exclude all connected synchronized bucket big established syn-sent syn-recv fin-wait-1 fin-wait-2 time-wait closed close-wait last-ack listening listen closing bound-inactive " +
	"dst src sport dport autobound eq ne neq gt lt ge le geq leq and or not")

func ssHosts(a *args) string {
	for _, op := range a.operands {
		for field := range strings.FieldsFuncSeq(op.Value, func(r rune) bool { return strings.ContainsRune(" \t\n()!=<>&|,", r) }) {
			if !op.Known || !slices.Contains(ssWords, field) && !noHost(field) {
				return asksHosts
			}
		}
	}
	return ""
}

// noHost reports whether host:port names no host, but an address, or all.
func noHost(s string) bool {
	host, _, port := strings.Cut(s, ":")
	switch {
	case strings.Trim(host, "0123456789./*") == "" && (port || host != ""):
		return true
	case strings.Count(s, ":") < 2 && !strings.HasPrefix(s, "["):
		return false
	}
	return strings.Trim(s, "0123456789abcdefABCDEF:[]/*") == "" // an address of IPv6
}

// lsofHosts looks at what -i may be given, which may be a word of its own:
// [46][protocol][@host][:port].
func lsofHosts(a *args) string {
	for _, word := range append(a.all("i"), a.operands...) {
		_, host, at := strings.Cut(word.Value, "@")
		if !word.Known || at && !noHost(host) {
			return asksHosts
		}
	}
	return ""
}

// fuserHosts looks at its operands: port,host,port/protocol.
func fuserHosts(a *args) string {
	for _, op := range a.operands {
		if !op.Known || strings.Contains(op.Value, ",") {
			return asksHosts
		}
	}
	return ""
}
