package cli

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/weir-mcp/weir/internal/gateway"
	"github.com/weir-mcp/weir/internal/host/place"
	"github.com/weir-mcp/weir/internal/store"
)

// lastLook is the value of --since that means the last weir ls --changes of this user.
const lastLook = "last"

// sinceTime returns the time that --since names, of a gateway.
func sinceTime(lookupEnv func(string) (string, bool), text, gateway string, now time.Time) (time.Time, error) {
	if text == lastLook {
		path, err := lookFile(lookupEnv, gateway)
		if err != nil {
			return time.Time{}, err
		}
		data, err := place.Read(path, 64)
		if err != nil {
			return time.Unix(1, 0), nil // the first look sees all that the gateway remembers
		}
		if at, err := time.Parse(time.RFC3339Nano, strings.TrimSpace(string(data))); err == nil {
			return at, nil
		}
		return time.Unix(1, 0), nil
	}
	if d, err := time.ParseDuration(text); err == nil && d > 0 {
		return now.Add(-d), nil
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02 15:04", time.DateOnly} {
		if at, err := time.ParseInLocation(layout, text, time.Local); err == nil {
			return at, nil
		}
	}
	return time.Time{}, failf(exitUsage, "--since %q: it must be a time such as 2026-07-28T10:00:00Z, a duration such as 24h, or last", text)
}

// looked remembers a look at the changes of a gateway. It is a convenience: a failure is not reported.
func looked(lookupEnv func(string) (string, bool), gateway string, at time.Time) {
	path, err := lookFile(lookupEnv, gateway)
	if err == nil && place.MakeFolder(filepath.Dir(path)) == nil {
		_ = place.Write(path, []byte(at.UTC().Format(time.RFC3339Nano)+"\n"))
	}
}

// lookFile returns the file with the time of the last look at a gateway.
func lookFile(lookupEnv func(string) (string, bool), gateway string) (string, error) {
	state, err := places(lookupEnv).State()
	return filepath.Join(state, "looks", store.Hash(gateway)), err
}

// printRecent prints the changes since a time.
func printRecent(stdout terminal, info *gateway.CatalogInfo, from time.Time) error {
	when := "since " + from.Local().Format("2006-01-02 15:04")
	if from.Unix() == 1 {
		when = "as far as the gateway remembers"
	}
	if len(info.Recent) == 0 {
		_, err := fmt.Fprintf(stdout, "Nothing has changed %s.\n", when)
		return err
	}
	for _, c := range info.Recent {
		if err := printChange(stdout, c.Time.Local().Format("2006-01-02 15:04  "), c.Change); err != nil {
			return err
		}
	}
	return nil
}
