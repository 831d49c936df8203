package permission

import (
	"strings"
)

// foreignName says why the name of a path, absolute and clean, means another file
// on another system than it does here: "" when it does not. A file that leaves the
// session may be read there, by whoever checks the repository out or by a file
// system that is shared; and a rule that was asked about one of its names does not
// know the other.
func foreignName(path string) string {
	if strings.HasPrefix(path, `/\\`) || strings.Contains(path, `/\\`) {
		return `is a network path (\\server\share) on Windows`
	}
	for name := range strings.SplitSeq(path, "/") {
		if why := foreignPart(name); why != "" {
			return why
		}
	}
	return ""
}

func foreignPart(name string) string {
	if name == "" {
		return ""
	}
	if i := strings.IndexByte(name, ':'); i >= 0 {
		switch {
		case i == 1 && isLetter(name[0]):
			return "begins with a drive's letter on Windows"
		case i > 0:
			return "names an alternate stream of a file on Windows"
		}
	}
	if strings.Contains(name, `\`) {
		return "has a backslash, which separates directories on Windows"
	}
	if last := name[len(name)-1]; last == '.' || last == ' ' {
		return "ends with a dot or a blank, which Windows leaves out"
	}
	if isShortName(name) {
		return "has the form of a short name on Windows, which stands for another"
	}
	if isDevice(name) {
		return "is the name of a device on Windows"
	}
	return ""
}

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

// isShortName reports whether a name has the form of an 8.3 one: up to six
// characters, a tilde, a number, up to three of an extension.
func isShortName(name string) bool {
	base, ext, _ := strings.Cut(name, ".")
	i := strings.LastIndexByte(base, '~')
	if i < 1 || i > 6 || len(base) > 8 || len(ext) > 3 || i == len(base)-1 {
		return false
	}
	return strings.Trim(base[i+1:], "0123456789") == ""
}

// isDevice reports whether a name is that of a device of DOS, with any extension.
func isDevice(name string) bool {
	base, _, _ := strings.Cut(name, ".")
	base = strings.ToUpper(strings.TrimRight(base, " "))
	switch base {
	case "CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$", "CLOCK$":
		return true
	}
	port, ok := strings.CutPrefix(base, "COM")
	if !ok {
		port, ok = strings.CutPrefix(base, "LPT")
	}
	return ok && (len(port) == 1 && port >= "0" && port <= "9" || port == "¹" || port == "²" || port == "³")
}
