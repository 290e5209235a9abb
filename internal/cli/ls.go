package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
)

func (a *app) lsCommand() *cobra.Command {
	var (
		t                            target
		tools, hash, changes, asJSON bool
	)
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "List the upstreams, or all their tools",
		Long: `List the upstreams of a gateway with their state, or with --tools every tool of every upstream.

With --hash it prints the hash of the catalog, for pin.expected_hash of the
configuration: any other definition of any server gives another hash. With
--changes it prints what the servers say differently than when they were listed
first, and what it was before.`,
		Args: positional(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.open(cmd.Context(), t)
			if err != nil {
				return err
			}
			defer c.close()
			if hash || changes {
				info, err := c.catalog(cmd.Context())
				switch {
				case err != nil:
					return err
				case asJSON:
					return printJSON(a.stdout, info)
				case changes:
					return a.printChanges(info)
				}
				switch {
				case len(info.Partial) > 0:
					a.note("not all that these servers list is served, weir ls --hash --json says why: %s", strings.Join(info.Partial, ", "))
				case !info.Complete:
					a.note("some servers have not been listed yet: the hash is that of a part")
				}
				_, err = fmt.Fprintln(a.stdout, info.Hash)
				return err
			}
			if tools {
				all, err := c.allCards(cmd.Context())
				if err != nil {
					return err
				}
				defer a.noteMissed(all)
				if asJSON {
					return printJSON(a.stdout, orEmpty(all.cards))
				}
				return a.printCards(all.cards)
			}
			h, err := c.health(cmd.Context())
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(a.stdout, h.list())
			}
			return a.printUpstreams(h)
		},
	}
	t.flags(cmd)
	cmd.Flags().BoolVar(&tools, "tools", false, "list all tools")
	cmd.Flags().BoolVar(&hash, "hash", false, "print the hash of the catalog")
	cmd.Flags().BoolVar(&changes, "changes", false, "print what the servers say differently than first")
	cmd.MarkFlagsMutuallyExclusive("tools", "hash", "changes")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// list is the upstreams by name.
func (h *health) list() []upstreamHealth {
	list := make([]upstreamHealth, 0, len(h.Upstreams))
	for name, u := range h.Upstreams {
		u.Name = name
		list = append(list, u)
	}
	slices.SortFunc(list, func(a, b upstreamHealth) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

func (a *app) printUpstreams(h *health) error {
	list := h.list()
	if len(list) == 0 {
		_, err := fmt.Fprintln(a.stdout, "No upstreams are configured. Add one to mcpServers.")
		return err
	}
	rows := make([][]cell, len(list))
	whys := make([]string, len(list))
	for i, u := range list {
		server := strings.TrimSpace(u.Server + " " + u.Version)
		if why := cmp.Or(u.Error, u.Note); why != "" {
			if whys[i] = why; !a.stdout.screen() {
				server = why // a line each, for grep
			}
		}
		tools := strconv.Itoa(u.Tools)
		rows[i] = []cell{{cyan, u.Name}, {stateStyle(u.State), u.State}, {"", u.Transport}, {"", tools}, {"", u.Protocol}, {"", server}}
	}
	if a.stdout.screen() {
		shortenNames(rows, a.stdout.width)
	}
	return printNotedTable(a.stdout, []string{"NAME", "STATE", "TRANSPORT", "TOOLS", "PROTOCOL", "SERVER"}, rows, whys)
}

// shortenNames cuts names of servers that are longer than a third of the screen in
// their middle: the ends tell more of them apart.
func shortenNames(rows [][]cell, width int) {
	most := max(width/3, 12)
	for _, row := range rows {
		if name := []rune(row[0].text); len(name) > most {
			row[0].text = string(name[:most/2]) + "…" + string(name[len(name)-(most-most/2-1):])
		}
	}
}

func stateStyle(state string) string {
	switch state {
	case "ready", "idle":
		return green
	case "starting", "restarting":
		return yellow
	case "disabled", "left_out":
		return dim
	}
	return red
}
