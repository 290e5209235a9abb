package cli

import (
	"bufio"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// forgetCode takes the pages of the program's own file out of the process: what
// starting, reading of configurations and rare work needed. Which of them are
// needed next comes back from the system's cache by itself, some microseconds
// each. Only mappings that nobody has written to are touched: in those of a
// position-independent program, or under a debugger, are pages that the file does
// not have.
func forgetCode() {
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return
	}
	f, err := os.Open("/proc/self/smaps")
	if err != nil {
		return // without /proc, they stay
	}
	defer f.Close()
	for _, m := range cleanMappings(f, program) {
		// What fails has no effect.
		_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, m.start, m.length, syscall.MADV_DONTNEED)
	}
}

// mapping is a range of addresses.
type mapping struct{ start, length uintptr }

// cleanMappings reads, in the form of /proc/PID/smaps, the mappings of a file that
// cannot be written to and have no page but the file's.
func cleanMappings(smaps io.Reader, file string) []mapping {
	var clean []mapping
	var last mapping
	ours := false
	lines := bufio.NewScanner(smaps)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		switch {
		case len(fields) == 0:
		case !strings.HasSuffix(fields[0], ":"): // START-END PERMISSIONS OFFSET DEVICE INODE PATH
			ours = len(fields) == 6 && fields[5] == file && len(fields[1]) == 4 && fields[1][1] == '-' && fields[1][3] == 'p'
			from, to, _ := strings.Cut(fields[0], "-")
			start, err1 := strconv.ParseUint(from, 16, strconv.IntSize)
			end, err2 := strconv.ParseUint(to, 16, strconv.IntSize)
			ours = ours && err1 == nil && err2 == nil && start < end
			last = mapping{uintptr(start), uintptr(end - start)}
		case ours && fields[0] == "Anonymous:" && len(fields) > 1 && fields[1] == "0":
			clean = append(clean, last)
		}
	}
	if lines.Err() != nil {
		return nil
	}
	return clean
}
