package bash

import "strings"

// Programs that do much, of which a few commands only tell.

// goTool is go: its version, or that of programs; its settings; its help. A flag of
// it may be written with one dash or two, and ends at the first operand.
func goTool(_ *walker, words []Word, d dirs) verdict {
	if len(words) < 2 || !words[1].Known {
		return refuse(Executes, "go: its command is not known")
	}
	v := verdict{kind: Read}
	rest := words[2:]
	switch words[1].Value {
	case "help", "version", "env":
	default:
		return refuse(Executes, "go %s runs other programs, or changes files", printable(words[1].Value))
	}
	for _, word := range rest {
		switch flag := strings.TrimPrefix(word.Value, "-"); {
		case word.Known && words[1].Value == "version" && (flag == "-m" || word.Value == "-m" || word.Value == "-v"):
		case word.Known && words[1].Value == "env" && (flag == "json" || flag == "-json" || flag == "changed" || flag == "-changed"):
		case !word.operand(), words[1].Value == "env" && strings.Contains(word.Value, "="):
			return refuse(Executes, "go %s: %s is not known to be harmless", words[1].Value, printable(word.Value))
		case words[1].Value == "version":
			v.read(word, d, false)
		}
	}
	return v
}

// openssl shows a certificate, or the sum of a file. Its flags are words.
func openssl(_ *walker, words []Word, d dirs) verdict {
	if len(words) < 2 || !words[1].Known {
		return refuse(Unknown, "openssl: its command is not known")
	}
	valued, plain := "", ""
	switch words[1].Value {
	case "version":
		plain = " -a -v -d "
	case "x509", "req", "crl":
		valued = " -in -inform -nameopt -certopt "
		plain = " -noout -text -subject -issuer -dates -startdate -enddate -fingerprint -sha1 -sha256 -serial -hash -subject_hash -issuer_hash -email -purpose -pubkey -modulus -ocsp_uri -lastupdate -nextupdate "
	case "dgst":
		plain = " -md5 -sha1 -sha224 -sha256 -sha384 -sha512 -hex -r -c "
	default:
		return refuse(Unknown, "openssl %s may change files or use the network", printable(words[1].Value))
	}
	v := verdict{kind: Read}
	for i := 2; i < len(words); i++ {
		switch s := words[i].Value; {
		case words[i].operand() && words[1].Value == "dgst":
			v.read(words[i], d, false)
		case words[i].Known && strings.Contains(plain, " "+s+" "):
		case words[i].Known && strings.Contains(valued, " "+s+" ") && i+1 < len(words) && words[i+1].operand():
			if i++; s == "-in" && (!words[i].Known || strings.Contains(words[i].Value, ":")) {
				return refuse(Network, "openssl: what it reads may be an address of the network")
			} else if s == "-in" {
				v.read(words[i], d, false)
			}
		default:
			return refuse(Unknown, "openssl: %s is not known to be harmless", printable(s))
		}
	}
	return v
}

// tar lists an archive that is a file, or writes what is in it to its output.
func tar(_ *walker, words []Word, d dirs) verdict {
	v := verdict{kind: List}
	lists, outputs, extracts := false, false, false
	archives := 0
	file := func(word Word) string {
		archives++
		v.read(word, d, false)
		if strings.Contains(word.Value, ":") || !word.operand() {
			return "tar: an archive with a colon in its name is another machine's"
		}
		return ""
	}
	for i := 1; i < len(words); i++ {
		s := words[i].Value
		switch letters, dashed := strings.CutPrefix(s, "-"); {
		case !words[i].Known && words[i].operand() && i > 1: // the first may be flags without a dash
		case !words[i].Known:
			return refuse(Write, "tar: a word may become a flag")
		case s == "--list":
			lists = true
		case s == "--to-stdout":
			outputs = true
		case s == "--extract" || s == "--get":
			extracts = true
		case strings.Contains(" --verbose --gzip --gunzip --bzip2 --xz --zstd --wildcards --no-wildcards --full-time --numeric-owner --show-transformed-names --no-anchored --anchored --utc ", " "+s+" "):
		case strings.HasPrefix(s, "--file="):
			if why := file(lit(s[len("--file="):])); why != "" {
				return refuse(Network, "%s", why)
			}
		case i == 1 || dashed && letters != "" && letters[0] != '-':
			// Bundled: only the last of them may take the next word as its value.
			if strings.Trim(letters, "tvfzjJxO") != "" || strings.Count(letters, "f") > 1 || dashed && strings.Contains(letters, "f") && !strings.HasSuffix(letters, "f") {
				return refuse(Write, "tar changes files but with t")
			}
			lists, outputs, extracts = lists || strings.Contains(letters, "t"), outputs || strings.Contains(letters, "O"), extracts || strings.Contains(letters, "x")
			if strings.Contains(letters, "f") {
				if i++; i == len(words) || !words[i].Known {
					return refuse(Network, "tar: its archive is not known")
				}
				if why := file(words[i]); why != "" {
					return refuse(Network, "%s", why)
				}
			}
		case dashed:
			return refuse(Write, "tar: %s is not known to be harmless", printable(s))
		}
	}
	if archives != 1 || !(lists && !extracts || extracts && outputs && !lists) {
		return refuse(Write, "tar changes files but with t")
	}
	return v
}
