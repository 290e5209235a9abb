package confined

import (
	"net"
	"slices"
	"sync"
	"time"

	"github.com/weir-mcp/weir/internal/limit/bounded"
)

// A Host is a host that a server with named hosts has asked its proxy for.
type Host struct {
	Host    string    `json:"host"` // with its port
	Refused bool      `json:"refused"`
	At      time.Time `json:"at"` // the last time

	told time.Time // to the log and the audit log
}

// The hosts that are remembered, and how often each is told to the log and the audit log.
const (
	maxHosts       = 10_000 // of all servers
	maxServerHosts = 1_000  // of one
	toldTime       = 10 * time.Minute
)

// hosts are the hosts that servers asked for lately. It is safe for concurrent use.
type hosts struct {
	mu sync.Mutex                   // held from Get to Put
	of *bounded.Map[string, []Host] // by server; the last one that was asked for at the end
}

func newHosts() hosts {
	return hosts{of: bounded.New(bounded.Options[string, []Host]{MaxBytes: maxHosts, KeepUsed: true})}
}

// add records a host, and reports whether it is to be told.
func (h *hosts) add(server, host string, refused bool, now time.Time) (tell bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	had, _ := h.of.Get(server)
	one := Host{Host: host, Refused: refused, At: now, told: now}
	tell = true
	all := make([]Host, 0, len(had)+1)
	for _, each := range had {
		if each.Host == host && each.Refused == refused {
			if now.Sub(each.told) < toldTime {
				one.told, tell = each.told, false
			}
			continue
		}
		all = append(all, each)
	}
	all = append(all, one)
	all = all[max(0, len(all)-maxServerHosts):]
	h.of.Put(server, all, int64(len(all)))
	return tell
}

// last returns the last hosts of a server, the latest first.
func (h *hosts) last(server string, most int) []Host {
	h.mu.Lock()
	defer h.mu.Unlock()
	had, _ := h.of.Get(server)
	all := append([]Host{}, had[max(0, len(had)-most):]...)
	slices.Reverse(all)
	return all
}

// reached records a host, and tells it unless it was told lately.
func (p *Programs) reached(server, host, port string, refused error) {
	if !p.hosts.add(server, net.JoinHostPort(host, port), refused != nil, time.Now()) {
		return
	}
	if refused != nil {
		p.o.Logger.Warn("the sandbox of a server has refused a host", "upstream", server, "host", host, "port", port, "reason", refused)
	} else {
		p.o.Logger.Info("a server in a sandbox reaches a host", "upstream", server, "host", host, "port", port)
	}
	if p.o.Reached != nil {
		p.o.Reached(server, host+":"+port, refused)
	}
}
