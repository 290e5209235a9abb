package catalog

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/catalog/primitive"
)

// bigListings are 100 servers of 100 tools with descriptions and schemas of
// ordinary size, no two alike.
func bigListings() []primitive.Listing {
	rng := rand.New(rand.NewPCG(7, 7))
	words := strings.Fields("the a of and in searches returns creates lists repository issue file document given name optional date filter sorted by user page with results matching query. text. range, format")
	sentence := func(n int) string {
		var b strings.Builder
		for range n {
			b.WriteString(words[rng.IntN(len(words))])
			b.WriteByte(' ')
		}
		return strings.TrimSpace(b.String())
	}
	var listings []primitive.Listing
	for i := range 100 {
		l := primitive.Listing{Upstream: fmt.Sprintf("server%d", i), Namespace: fmt.Sprintf("server%d", i)}
		for _, name := range namesOf(100, rng) {
			l.Tools = append(l.Tools, json.RawMessage(fmt.Sprintf(
				`{"name":%q,"description":%q,"inputSchema":{"type":"object","properties":{"owner":{"type":"string","description":%q},"limit":{"type":"integer","minimum":1,"maximum":100},"filter":{"$ref":"#/$defs/f"},"sort":{"enum":["asc","desc"]}},"required":["owner"],"$defs":{"f":{"type":"object","properties":{"q":{"type":"string"}}}}},"annotations":{"readOnlyHint":true}}`,
				name, sentence(20+rng.IntN(80)), sentence(12))))
		}
		listings = append(listings, l)
	}
	return listings
}

func buildAll(listings []primitive.Listing) *Catalog {
	c := New(Limits{})
	for _, l := range listings {
		c, _ = c.With(l)
	}
	return c
}

// The baseline is reading the same bytes with encoding/json.
func BenchmarkBuild10000(b *testing.B) {
	listings := bigListings()
	start := time.Now()
	for _, l := range listings {
		for _, raw := range l.Tools {
			var v any
			if err := json.Unmarshal(raw, &v); err != nil {
				b.Fatal(err)
			}
		}
	}
	baseline := time.Since(start)
	b.ReportAllocs()
	for b.Loop() {
		if buildAll(listings).Len() != 10000 {
			b.Fatal("not all there")
		}
	}
	b.ReportMetric(float64(b.Elapsed())/float64(b.N)/float64(baseline), "x_baseline")
}

// The baseline is building all 10,000.
func BenchmarkWith100Among10000(b *testing.B) {
	listings := bigListings()
	start := time.Now()
	c := buildAll(listings)
	baseline := time.Since(start)
	b.ReportAllocs()
	for b.Loop() {
		c, _ = c.With(listings[50])
	}
	b.ReportMetric(float64(b.Elapsed())/float64(b.N)/float64(baseline), "x_baseline")
}

// The baseline is a plain map.
func BenchmarkLookup(b *testing.B) {
	c := buildAll(bigListings())
	entries := c.Entries()
	plain := map[string]*Entry{}
	for _, e := range entries {
		plain[e.ID] = e
	}
	const rounds = 1_000_000
	start := time.Now()
	for i := range rounds {
		if plain[entries[i*7919%len(entries)].ID] == nil {
			b.Fatal("lost")
		}
	}
	baseline := float64(time.Since(start)) / rounds
	i := 0
	for b.Loop() {
		if _, ok := c.Lookup(entries[i*7919%len(entries)].ID); !ok {
			b.Fatal("lost")
		}
		i++
	}
	b.ReportMetric(float64(b.Elapsed())/float64(b.N)/baseline, "x_baseline")
}

func BenchmarkNearest(b *testing.B) {
	c := buildAll(bigListings())
	for b.Loop() {
		c.Nearest("server50:create_isue_comment#00000000", 5)
	}
}

func BenchmarkValidate(b *testing.B) {
	e := entryWith(b, `{"type":"object","properties":{"owner":{"type":"string"},"limit":{"type":"integer","minimum":1}},"required":["owner"]}`)
	args := json.RawMessage(`{"owner":"somebody","limit":30}`)
	b.ReportAllocs()
	for b.Loop() {
		if err := e.Validate(args); err != nil {
			b.Fatal(err)
		}
	}
}
