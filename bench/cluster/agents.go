package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/weir-mcp/weir/internal/observe/telemetry"
)

// maxAgents bounds the agents that register, of which there are as many as calls.
const maxAgents = 1000

// beatEvery is how often agents that are there send a heartbeat while others register: thrice in a lease of a cluster.
const beatEvery = 20 * time.Second

// enlisted is the cost of agents that register, for the nodes of a cluster and the store in their process. An agent
// is the server behind all nodes under a name of its own, so the memory has both ends of each node's connection to
// it.
type enlisted struct {
	count          int
	register, cpu  time.Duration    // of one: median, and over all nodes until all of them list its tools
	halves         [2]time.Duration // cpu of the first half and of the second one, which tell how it grows
	heap           float64          // bytes of memory for an agent at each node
	stored, writes float64          // bytes an agent, and writes of a heartbeat
	beat           time.Duration    // CPU of a heartbeat
}

// enlist measures agents that register at the nodes in turn.
func (g *gateways) enlist(count int) (r enlisted, err error) {
	r.count = count
	size, held, nodes := heap(), g.stored(), len(g.nodes)
	had := make([]int, nodes)
	for i, n := range g.nodes {
		had[i] = n.gateway.Catalog.Snapshot().Catalog.Len()
	}
	var times []time.Duration
	register := func(i int) error {
		began := time.Now()
		err := g.nodes[i%nodes].register(fmt.Sprint("agent", i), g.up)
		times = append(times, time.Since(began))
		return err
	}
	beaten, beating := time.Now(), time.Duration(0)
	come := func(from, to int) (time.Duration, error) {
		used, beat := telemetry.CPU(), beating
		for i := from; i < to; i++ {
			if time.Since(beaten) > beatEvery {
				before := telemetry.CPU()
				for k := range i {
					if err := g.nodes[k%nodes].register(fmt.Sprint("agent", k), g.up); err != nil {
						return 0, err
					}
				}
				beaten, beating = time.Now(), beating+telemetry.CPU()-before
			}
			if err := register(i); err != nil {
				return 0, err
			}
		}
		for i, n := range g.nodes {
			for end := time.Now().Add(20 * time.Second); n.gateway.Catalog.Snapshot().Catalog.Len() < had[i]+to; time.Sleep(20 * time.Millisecond) {
				if time.Now().After(end) {
					return 0, fmt.Errorf("a node lists the tools of %d agents of %d", n.gateway.Catalog.Snapshot().Catalog.Len()-had[i], to)
				}
			}
		}
		return telemetry.CPU() - used - (beating - beat), nil
	}
	half := count / 2
	first, err := come(0, half)
	if err != nil {
		return r, err
	}
	second, err := come(half, count)
	if err != nil {
		return r, err
	}
	r.register, r.cpu = median(times), (first+second)/time.Duration(count)
	r.halves = [2]time.Duration{first / time.Duration(max(1, half)), second / time.Duration(count-half)}
	r.heap = (float64(heap()) - float64(size)) / float64(count*nodes)
	r.stored = float64(g.stored()-held) / float64(count)
	before, err := g.writes()
	if err != nil {
		return r, err
	}
	began := time.Now()
	used := telemetry.CPU()
	for i := range count {
		if err := register(i); err != nil {
			return r, err
		}
	}
	r.beat = (telemetry.CPU() - used) / time.Duration(count)
	after, err := g.writes()
	r.writes = max(0, float64(after-before)-float64(nodes)*(time.Since(began).Seconds()/3+1)) / float64(count)
	return r, err
}

// at returns the CPU that the registration of an agent would take at one node if n agents were there.
func (r enlisted) at(n, nodes int) time.Duration {
	grows := float64(r.halves[1]-r.halves[0]) / (float64(r.count) / 2)
	return time.Duration(max(0, float64(r.halves[1])+grows*(float64(n)-0.75*float64(r.count)))) / time.Duration(nodes)
}

// register registers an agent at a node, or sends its heartbeat.
func (n *node) register(name, url string) error {
	resp, err := http.Post(n.front.URL+"/agents", "application/json", bytes.NewReader(fmt.Appendf(nil, `{"name":%q,"instance":"1","url":%q}`, name, url)))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode/100 != 2 {
		err = fmt.Errorf("an agent registers: %s: %.300s", resp.Status, answer)
	}
	return err
}

// columns returns the columns of a table.
func (r enlisted) columns() string {
	return fmt.Sprintf(" %d | %v | %v | %.1f KB | %.0f B | %v | %.2f |",
		r.count, r.register.Round(10*time.Microsecond), r.cpu.Round(time.Microsecond), r.heap/1024, r.stored, r.beat.Round(time.Microsecond), r.writes)
}
