package cli

import (
	"net/url"

	"github.com/spf13/cobra"

	"github.com/weir-mcp/weir/internal/clients"
)

// entryFlags choose between the two entries that a client may have for weir.
type entryFlags struct {
	attach bool
	url    string
}

func (f *entryFlags) flags(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.attach, "attach", false, "the entry starts weir attach, also where the service runs")
	cmd.Flags().StringVar(&f.url, "url", "", "the entry is this URL of a gateway, for clients that speak HTTP")
	cmd.MarkFlagsMutuallyExclusive("attach", "url")
}

// choose applies the flags to the way in which clients reach weir.
func (f *entryFlags) choose(h *clients.How) error {
	switch {
	case f.attach:
		h.Known, h.URL = append(h.Known, h.URL), ""
	case f.url != "":
		u, err := url.Parse(f.url)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return failf(exitUsage, "--url %q: it must be an http or https URL, such as %s", f.url, defaultURL)
		}
		if u.User != nil {
			return failf(exitUsage, "--url: a password would stand in the clients' files; leave it out of the URL")
		}
		h.Known, h.URL = append(h.Known, h.URL), f.url
	}
	return nil
}
