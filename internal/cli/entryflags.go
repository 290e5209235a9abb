package cli

import (
	"context"
	"net/url"

	"github.com/spf13/cobra"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/policy"
	"github.com/weir-mcp/weir/internal/setup/clients"
)

// entryFlags choose between the entries that a client may have for weir.
type entryFlags struct {
	attach       bool
	url, profile string
}

func (f *entryFlags) flags(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.attach, "attach", false, "the entry starts weir attach, also where the service runs")
	cmd.Flags().StringVar(&f.url, "url", "", "the entry is this URL of a gateway, for clients that speak HTTP")
	cmd.Flags().StringVar(&f.profile, "profile", "", "the client gets this profile of the catalog; \"\" for all of it (default: as it is)")
	cmd.MarkFlagsMutuallyExclusive("attach", "url")
}

// choose applies the flags to the way in which clients reach weir. path is the configuration.
func (f *entryFlags) choose(ctx context.Context, cmd *cobra.Command, h *clients.How, path string) error {
	if cmd.Flags().Changed("profile") {
		if err := f.checkProfile(ctx, path); err != nil {
			return err
		}
		h.Profile = &f.profile
	}
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

// checkProfile returns an error for a profile that the clients could not open. Those of a gateway at
// --url are not known here.
func (f *entryFlags) checkProfile(ctx context.Context, path string) error {
	if f.profile == "" {
		return nil
	}
	if !config.IsProfileName(f.profile) {
		return failf(exitUsage, "--profile %q: a name has 1 to 64 letters, digits, dots, dashes and underscores", f.profile)
	}
	if f.url != "" {
		return nil
	}
	c := quietConfig(path)
	if c == nil {
		return failf(exitUsage, "--profile %s: %s cannot be read, so it is not known whether it has this profile (weir config check)", f.profile, path)
	}
	if !policy.OpensProfile(c, f.profile, identity.From(ctx)) {
		return failf(exitUsage, "--profile: %w", policy.NoProfile(f.profile))
	}
	return nil
}
