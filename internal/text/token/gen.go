//go:build ignore

// Command gen writes cl100k_base.bin, the vocabulary of package token, from
// the tables of github.com/tiktoken-go/tokenizer. Run it by `go generate`.
//
// The layout is described in vocab.go, beside the code that reads it.
package main

import (
	"encoding/binary"
	"fmt"
	"log"
	"os"

	"github.com/tiktoken-go/tokenizer/codec"
)

// The constants are the constants of vocab.go: a build-ignored file cannot import them.
const (
	slotBits   = 17
	offsetBits = 20
	ranks      = 100256
)

func main() {
	enc := codec.NewCl100kBase()
	slots := make([]uint32, 1<<slotBits)
	var records []byte
	for rank := range uint(ranks) {
		token, err := enc.Decode([]uint{rank})
		if err != nil {
			log.Fatalf("rank %d: %v", rank, err)
		}
		if len(token) == 0 || len(token) > 255 {
			log.Fatalf("rank %d: token of %d bytes does not fit the format", rank, len(token))
		}
		// Offset 0 marks an empty slot, so records start at 1.
		offset := uint32(len(records)) + 1
		if offset >= 1<<offsetBits {
			log.Fatalf("rank %d: offset %d does not fit %d bits", rank, offset, offsetBits)
		}
		records = append(records, byte(len(token)), byte(rank), byte(rank>>8), byte(rank>>16))
		records = append(records, token...)
		h := hash(token)
		i := h & (1<<slotBits - 1)
		for slots[i] != 0 {
			i = (i + 1) & (1<<slotBits - 1)
		}
		slots[i] = offset | h&^(1<<offsetBits-1)
	}
	out := make([]byte, 0, len(slots)*4+len(records))
	for _, s := range slots {
		out = binary.LittleEndian.AppendUint32(out, s)
	}
	out = append(out, records...)
	if err := os.WriteFile("cl100k_base.bin", out, 0o644); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("cl100k_base.bin: %d bytes, %d of them records\n", len(out), len(records))
}

// hash is FNV-1a with a final mix, as in vocab.go.
func hash(s string) uint32 {
	h := uint32(2166136261)
	for i := 0; i < len(s); i++ {
		h = (h ^ uint32(s[i])) * 16777619
	}
	h ^= h >> 15
	h *= 0x85ebca6b
	h ^= h >> 13
	return h
}
