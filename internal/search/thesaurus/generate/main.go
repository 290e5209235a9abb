// Command generate makes the thesaurus' table of the pairs of words that words.py writes.
//
//	go run ./internal/search/thesaurus/generate pairs.tsv
//
// The table is of stems: two stems are as near as the nearest two of their words.
package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/weir-mcp/weir/internal/search"
	"github.com/weir-mcp/weir/internal/search/thesaurus"
)

const table = "internal/search/thesaurus/table.bin"

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("got %d arguments, want the file with the pairs", len(args))
	}
	file, err := os.Open(args[0])
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // only read
	near, err := read(file)
	if err != nil {
		return fmt.Errorf("%s: %w", args[0], err)
	}
	data, err := thesaurus.Encode(near)
	if err != nil {
		return err
	}
	return os.WriteFile(table, data, 0o644)
}

// read reads the pairs, a line each, and folds words to their stems.
func read(r io.Reader) (map[string][]thesaurus.Neighbour, error) {
	best := map[string]map[string]float64{}
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		fields := strings.Split(lines.Text(), "\t")
		if len(fields) != 3 {
			return nil, fmt.Errorf("line %d: %d fields, want word, word and similarity", n, len(fields))
		}
		similarity, err := strconv.ParseFloat(fields[2], 64)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		a, b := search.Stem(fields[0]), search.Stem(fields[1])
		if a == b {
			continue
		}
		if best[a] == nil {
			best[a] = map[string]float64{}
		}
		best[a][b] = max(best[a][b], similarity)
	}
	near := make(map[string][]thesaurus.Neighbour, len(best))
	for a, list := range best {
		for b, similarity := range list {
			near[a] = append(near[a], thesaurus.Neighbour{Stem: b, Similarity: similarity})
		}
	}
	return near, lines.Err()
}
