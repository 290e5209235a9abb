package address

import (
	"net"
	"net/url"
	"strings"

	"golang.org/x/net/idna"
)

// Origin returns the web origin of a URL as browsers write it (RFC 6454 §6.2): scheme and host in
// lower case, a host in its ASCII form, and no default port. It returns "" for a text without an
// origin. Two URLs have one origin if the results are equal.
func Origin(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || u.Scheme == "" || u.Host == "" {
		return ""
	}
	scheme := strings.ToLower(u.Scheme)
	return scheme + "://" + OriginHost(u.Host, scheme)
}

// OriginHost returns a host, with or without a port, as browsers write it in an address with a scheme:
// in lower case, in its ASCII form, and without the scheme's default port.
func OriginHost(hostport, scheme string) string {
	host, port := hostport, ""
	if h, p, err := net.SplitHostPort(hostport); err == nil {
		host, port = h, p
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	host = ASCIIHost(host)
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	if port == "" || scheme == "https" && port == "443" || scheme == "http" && port == "80" {
		return host
	}
	return host + ":" + port
}

// ASCIIHost returns the name of a host in lower case and in its ASCII form (RFC 5891): the form that
// browsers send. A name that has no such form is returned in lower case.
func ASCIIHost(name string) string {
	for i := range len(name) {
		if name[i] >= 0x80 {
			if ascii, err := idna.Lookup.ToASCII(name); err == nil {
				return ascii
			}
			break
		}
	}
	return strings.ToLower(name)
}
