package strict

import (
	"net/url"
	"strconv"
	"strings"
)

// CheckURL returns the parsed form of an http or https URL and reports any other value. The report
// omits the value, because it may hold a password.
func (d *Decoder) CheckURL(text, key string) *url.URL {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Hostname() == "":
		d.Fail(d.At(key), key, "%s must be a whole URL such as https://mcp.example.com/mcp", key)
	case u.Scheme != "http" && u.Scheme != "https":
		d.Fail(d.At(key), key, "%s must begin with http:// or https://, not %q", key, Clip(u.Scheme+"://"))
	default:
		if port := u.Port(); port != "" {
			if _, err := strconv.ParseUint(port, 10, 16); err != nil {
				d.Fail(d.At(key), key, "%s: the port must be a number up to 65535, not %q", key, Clip(port))
				return nil
			}
		}
		return u
	}
	return nil
}

// CheckHeaders checks the headers of the object at path. written returns the part of a value that the
// file has.
func (d *Decoder) CheckHeaders(headers map[string]Secret, path string, written func(Secret) string) {
	for name, value := range headers {
		key := Join(Join(path, "headers"), name)
		switch {
		case !HeaderName(name):
			d.Fail(d.At(key), key, "%s.headers: %q cannot be a header's name", path, Clip(name))
		case strings.ContainsFunc(written(value), func(r rune) bool { return control(r) && r != '\t' }):
			d.Fail(d.At(key), key, "%s.headers.%s holds a line break or another control character", path, name)
		}
	}
}

func HeaderName(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		return r <= ' ' || r >= 0x7f || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
	})
}

func control(r rune) bool { return r < ' ' || r == 0x7f }
