package doctor

import (
	"context"
	"net"
	"regexp"
	"strings"
	"time"
)

// dialLimit bounds the look whether a program listens at an address.
const dialLimit = time.Second

// checkGateway reports who listens at the gateway's address.
func (d *doctor) checkGateway(ctx context.Context) []Finding {
	if d.Config == nil {
		return nil
	}
	report, err := d.probe()
	if err == nil && report.Running {
		if report.Store != "" {
			return []Finding{found("gateway-apart", report.URL, "%s", report.Store)}
		}
		if d.Version != "" && report.Version != "" && report.Version != d.Version {
			return []Finding{found("gateway-version", report.URL, "it is weir %s, and this program is %s", report.Version, d.Version)}
		}
		return []Finding{fine("gateway", report.URL, "weir %s answers", report.Version)}
	}
	if !d.listens(ctx, d.Listen) {
		return []Finding{fine("gateway", d.Listen, "no gateway runs; weir attach, weir serve and the service start one")}
	}
	_, port, _ := net.SplitHostPort(d.Listen) // it was dialed
	text := "another program has the port " + port
	if who := d.owner(ctx, port); who != "" {
		text = who + " has the port " + port
	}
	return []Finding{found("gateway-port", d.Listen, "%s, so weir cannot listen there", text)}
}

// checkSteps names the steps of a call.
func (d *doctor) checkSteps(context.Context) []Finding {
	if len(d.Steps) == 0 {
		return nil
	}
	return []Finding{fine("gateway", "calls of tools", "%s", strings.Join(d.Steps, " ▶ "))}
}

// listens reports whether a program takes connections at an address.
func (d *doctor) listens(ctx context.Context, address string) bool {
	if _, port, err := net.SplitHostPort(address); err != nil || port == "0" {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, dialLimit)
	defer cancel()
	conn, err := d.env.Dial(ctx, "tcp", address)
	if err != nil {
		return false
	}
	_ = conn.Close() // nothing was sent
	return true
}

// users is the last column of ss -ltnpH: users:(("node",pid=42,fd=3)).
var users = regexp.MustCompile(`\(\("([^"]+)",pid=(\d+)`)

// owner names the program that listens at a port, "" if the system does not tell.
func (d *doctor) owner(ctx context.Context, port string) string {
	ctx, cancel := context.WithTimeout(ctx, dialLimit)
	defer cancel()
	if d.env.windows() {
		out, err := d.env.Run(ctx, "netstat", "-ano", "-p", "TCP")
		if err != nil {
			return ""
		}
		for line := range strings.Lines(string(out)) {
			if f := strings.Fields(line); len(f) == 5 && f[3] == "LISTENING" && strings.HasSuffix(f[1], ":"+port) {
				return "process " + f[4]
			}
		}
		return ""
	}
	if out, err := d.env.Run(ctx, "lsof", "-nP", "-iTCP:"+port, "-sTCP:LISTEN"); err == nil {
		for line := range strings.Lines(string(out)) {
			if f := strings.Fields(line); len(f) > 1 && f[0] != "COMMAND" {
				return f[0] + " (process " + f[1] + ")"
			}
		}
	}
	if out, err := d.env.Run(ctx, "ss", "-ltnpH", "sport = :"+port); err == nil {
		if m := users.FindStringSubmatch(string(out)); m != nil {
			return m[1] + " (process " + m[2] + ")"
		}
	}
	return ""
}

// checkRecords reports records that gateways left behind.
func (d *doctor) checkRecords(ctx context.Context) []Finding {
	if d.Records == nil {
		return nil
	}
	var list []Finding
	for _, file := range d.Records(ctx) {
		f := found("gateway-stale", file, "the gateway that wrote it has ended")
		f.Repair = &Repair{Show: "remove " + file, Do: func(context.Context) (int, error) { return 0, d.env.Remove(file) }}
		list = append(list, f)
	}
	return list
}

// built is a time before every build of weir that has this check.
var built = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// checkClock reports a clock that cannot be right: certificates of today would not be valid yet, or
// not any more.
func (d *doctor) checkClock(context.Context) []Finding {
	now := d.env.Now()
	if now.Before(built) || now.After(built.AddDate(30, 0, 0)) {
		return []Finding{found("gateway-clock", "clock", "it says %s", now.UTC().Format(time.DateTime))}
	}
	return nil
}
