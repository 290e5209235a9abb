package telemetry

import (
	"bytes"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// ticks is how many units of CPU time /proc counts in a second, on every architecture that Go runs on.
const ticks = 100

// readProcess reads /proc.
func readProcess() processFigures {
	p := unknownFigures()
	if stat, err := os.ReadFile("/proc/self/stat"); err == nil {
		// The second field is the program's name, which may have blanks and brackets.
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		field := func(n int) float64 { // as proc(5) numbers them
			if n -= 3; n < 0 || n >= len(fields) {
				return 0
			}
			f, _ := strconv.ParseFloat(fields[n], 64)
			return f
		}
		p.cpu = (field(14) + field(15)) / ticks
		p.virtual, p.resident = field(23), field(24)*float64(os.Getpagesize())
		if booted := lineOf("/proc/stat", "btime "); len(booted) > 0 {
			p.started = booted[0] + field(22)/ticks
		}
	}
	if dir, err := os.Open("/proc/self/fd"); err == nil {
		names, _ := dir.Readdirnames(-1)
		dir.Close()
		p.openFiles = float64(len(names))
	}
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) == nil {
		p.maxFiles = float64(limit.Cur)
	}
	if unix.Getrlimit(unix.RLIMIT_AS, &limit) == nil {
		p.maxVirtual = float64(limit.Cur)
	}
	const netstat = "/proc/self/net/netstat"
	if data, err := os.ReadFile(netstat); err == nil {
		// Two lines with the same first word: the names, and their values.
		var names []string
		for line := range strings.Lines(string(data)) {
			words, ok := strings.CutPrefix(line, "IpExt: ")
			switch {
			case !ok:
			case names == nil:
				names = strings.Fields(words)
			default:
				for i, word := range strings.Fields(words) {
					value, err := strconv.ParseFloat(word, 64)
					switch {
					case err != nil || i >= len(names):
					case names[i] == "InOctets":
						p.received = value
					case names[i] == "OutOctets":
						p.sent = value
					}
				}
			}
		}
	}
	return p
}

// lineOf returns the numbers behind the prefix of the line of a file that starts with it.
func lineOf(path, prefix string) (numbers []float64) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, prefix); ok {
			for _, word := range strings.Fields(rest) {
				if f, err := strconv.ParseFloat(word, 64); err == nil {
					numbers = append(numbers, f)
				}
			}
			return numbers
		}
	}
	return nil
}
