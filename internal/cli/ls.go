package cli

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/gateway"
)

func lsCommand(a *process) *cobra.Command {
	var (
		t                            target
		tools, hash, changes, asJSON bool
		since                        string
	)
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "List the upstreams, or all their tools",
		Long: `List the upstreams of a gateway with their state, or with --tools every tool of every upstream.

With --hash it prints the hash of the catalog, for pin.expected_hash of the
configuration: any other definition of any server gives another hash. With
--changes it prints what the servers say differently than when they were listed
first, and what it was before.

With --since it prints instead what came, went or changed since then: since a
time (2026-07-28T10:00:00Z), for a duration (24h), or since you looked last
(last). A gateway with store: file:DIR remembers that over restarts.`,
		Example: `  weir ls --changes
  weir ls --changes --since last
  weir ls --changes --since 24h --json`,
		Args: positional(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := openTarget(a, cmd.Context(), t)
			if err != nil {
				return err
			}
			defer c.close()
			if hash || changes || since != "" {
				var from time.Time
				if since != "" {
					if from, err = sinceTime(a.lookupEnv, since, c.where, time.Now()); err != nil {
						return err
					}
				}
				asked := time.Now()
				info, err := c.catalog(cmd.Context(), from)
				if err == nil && !hash {
					looked(a.lookupEnv, c.where, asked)
				}
				switch {
				case err != nil:
					return err
				case asJSON:
					return printJSON(a.stdout, info)
				case since != "":
					return printRecent(a.stdout, info, from)
				case changes:
					return printChanges(a.stdout, info)
				}
				switch {
				case len(info.Partial) > 0:
					a.note("not all that these servers list is served, weir ls --hash --json says why: %s", strings.Join(info.Partial, ", "))
				case !info.Complete:
					a.note("some servers have not been listed yet: the hash is of a part")
				}
				_, err = fmt.Fprintln(a.stdout, info.Hash)
				return err
			}
			if tools {
				all, err := c.allCards(cmd.Context())
				if err != nil {
					return err
				}
				defer noteMissed(a, all)
				if asJSON {
					return printJSON(a.stdout, orEmpty(all.cards))
				}
				return printCards(a.stdout, all.cards)
			}
			h, err := c.health(cmd.Context())
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(a.stdout, h.List())
			}
			return printUpstreams(a.stdout, h)
		},
	}
	t.flags(cmd)
	t.nodeFlag(a, cmd)
	cmd.Flags().BoolVar(&tools, "tools", false, "list all tools")
	cmd.Flags().BoolVar(&hash, "hash", false, "print the hash of the catalog")
	cmd.Flags().BoolVar(&changes, "changes", false, "print what the servers say differently than first")
	cmd.Flags().StringVar(&since, "since", "", "print what changed since a time, for a duration, or since the last look (last)")
	cmd.MarkFlagsMutuallyExclusive("tools", "node")
	cmd.MarkFlagsMutuallyExclusive("tools", "hash", "changes")
	cmd.MarkFlagsMutuallyExclusive("tools", "hash", "since")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

func printUpstreams(stdout terminal, h *gateway.Health) error {
	list := h.List()
	if len(list) == 0 {
		_, err := fmt.Fprintln(stdout, "No upstreams are configured. Add one to mcpServers.")
		return err
	}
	rows := make([][]cell, len(list))
	notes := make([]string, len(list))
	for i, u := range list {
		server := strings.TrimSpace(u.Server + " " + u.Version)
		if note := cmp.Or(u.Error, u.Note); note != "" {
			if notes[i] = note; !stdout.screen() {
				server = note // one line per server, for grep
			}
		}
		tools := strconv.Itoa(u.Tools)
		rows[i] = []cell{{cyan, u.Name}, {stateStyle(u.State), u.State}, {"", u.Transport}, {"", tools}, {"", u.Protocol}, {"", server}}
	}
	return printNotedTable(stdout, []column{{"NAME", between}, {"STATE", whole}, {"TRANSPORT", spare}, {"TOOLS", whole}, {"PROTOCOL", spare}, {"SERVER", ending}}, rows, notes)
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

// printChanges prints how definitions changed since servers were first listed.
func printChanges(stdout terminal, info *gateway.CatalogInfo) error {
	if len(info.Changes) == 0 {
		_, err := fmt.Fprintln(stdout, "Nothing has changed since the servers were listed first.")
		return err
	}
	for _, c := range info.Changes {
		if err := printChange(stdout, "", c); err != nil {
			return err
		}
	}
	return nil
}

// printChange prints one change after a text.
func printChange(stdout terminal, before string, c catalog.Change) error {
	if _, err := fmt.Fprintln(stdout, before+c.String()); err != nil {
		return err
	}
	for _, field := range c.Fields {
		for _, side := range []struct{ sign, value string }{{"-", field.Before}, {"+", field.After}} {
			if side.value == "" {
				continue
			}
			if _, err := fmt.Fprintf(stdout, "  %s %s: %s\n", side.sign, field.Field, side.value); err != nil {
				return err
			}
		}
	}
	return nil
}
