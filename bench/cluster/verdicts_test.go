package main

import (
	"strings"
	"testing"
	"time"
)

// A figure is met if it is within its target at all sizes; one node has no hops.
func TestVerdicts(t *testing.T) {
	good := measured{nodes: 2, ratios: [4]float64{1.8, 1.9, 1.5, 1.4}, hop: 60 * time.Microsecond, session: 3000, computers: growth{rate: 1500, cpu: 251 * time.Microsecond}}
	alone := measured{nodes: 1, ratios: [4]float64{9, 9, 9, 9}, computers: growth{rate: 1499}}
	for text, all := range map[string][]measured{
		"| tool_execute at another node, time of that at the same one | at most 1.50 | 1.50 (2) | met |":           {alone, good},
		"| a ping in a session at another node, time of that at the same one | at most 1.80 | 1.90 (2) | missed |": {good},
		"| CPU of the hop of tool_execute | at most 60 µs | 60 µs (2) | met |":                                     {good},
		"| CPU of a join, over all nodes and the store | at most 250 µs | 251 µs (2) | missed |":                   {good},
		"| joins in a second | at least 1500 | 1499 (1), 1500 (2) | missed |":                                      {alone, good},
		"| adoption, time of an initialize | at most 2.00 |  | not measured |":                                     {alone},
	} {
		if got := verdicts(all); !strings.Contains(got, text) {
			t.Errorf("%s\nis not in\n%s", text, got)
		}
	}
}

// What a registration would take is carried on from the two halves: the mean of the first one is with a quarter of the
// agents, that of the second one with three quarters.
func TestRegistrationGrows(t *testing.T) {
	r := enlisted{count: 100, halves: [2]time.Duration{10 * time.Millisecond, 20 * time.Millisecond}}
	for n, want := range map[int]time.Duration{25: 10 * time.Millisecond, 75: 20 * time.Millisecond, 1000: 205 * time.Millisecond} {
		if got := r.at(n, 1); got != want {
			t.Errorf("%d agents: %v, not %v", n, got, want)
		}
	}
	if got := r.at(75, 2); got != 10*time.Millisecond {
		t.Errorf("at each of two nodes: %v", got)
	}
}
