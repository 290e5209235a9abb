package lineage

import (
	"slices"
	"strings"
)

// inheritedNames are the environment variables that server programs inherit: what they need to find
// programs, files, proxies and certificates. All other variables, tokens above all, reach a server
// only if its configuration names them. A trailing * matches any suffix.
var inheritedNames = []string{
	"PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "LANG", "LC_*", "TZ", "TMPDIR", "TMP", "TEMP", "XDG_*",
	"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "no_proxy", "all_proxy",
	"SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS",
	"SystemRoot", "SYSTEMROOT", "SystemDrive", "COMSPEC", "PATHEXT", "APPDATA", "LOCALAPPDATA", "USERPROFILE", "ProgramFiles", "PROGRAMDATA",
}

// InheritedNames returns a copy of the list, for documents.
func InheritedNames() []string { return slices.Clone(inheritedNames) }

// Inherited returns the variables of environ that server programs inherit.
func Inherited(environ []string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(pair string) bool {
		name, _, _ := strings.Cut(pair, "=")
		return !slices.ContainsFunc(inheritedNames, func(known string) bool {
			prefix, many := strings.CutSuffix(known, "*")
			return name == known || many && strings.HasPrefix(name, prefix)
		})
	})
}
