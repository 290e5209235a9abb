package memory

import (
	"bufio"
	"bytes"
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// groupLimit returns the smallest memory limit of the control groups that the
// process is in, 0 where there is none. root is the root of the file system, such
// as os.DirFS("/"). It reads version 2 and version 1:
//
//	/proc/self/cgroup             0::/user.slice/weir     │ 5:memory:/docker/3f…
//	/sys/fs/cgroup/PATH/memory.max                         │ /sys/fs/cgroup/memory/PATH/memory.limit_in_bytes
//
// and in both the groups above, up to the root, which is where a container sees
// its own.
func groupLimit(root fs.FS) int64 {
	groups, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return 0
	}
	var least int64
	lines := bufio.NewScanner(bytes.NewReader(groups))
	for lines.Scan() {
		fields := strings.SplitN(lines.Text(), ":", 3)
		if len(fields) != 3 {
			continue
		}
		var base, file string
		switch {
		case fields[1] == "":
			base, file = "sys/fs/cgroup", "memory.max"
		case hasWord(fields[1], "memory"):
			base, file = "sys/fs/cgroup/memory", "memory.limit_in_bytes"
		default:
			continue
		}
		for dir := path.Clean("/" + fields[2]); ; dir = path.Dir(dir) {
			if n := readLimit(root, path.Join(base, dir, file)); n > 0 && (least == 0 || n < least) {
				least = n
			}
			if dir == "/" {
				break
			}
		}
	}
	return least
}

func hasWord(list, word string) bool {
	for w := range strings.SplitSeq(list, ",") {
		if w == word {
			return true
		}
	}
	return false
}

// unlimited is the limit, or less, that version 1 gives where there is no limit.
const unlimited = 1 << 60

func readLimit(root fs.FS, name string) int64 {
	data, err := fs.ReadFile(root, name)
	if err != nil {
		return 0
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64) // "max" is no number
	if err != nil || n >= unlimited {
		return 0
	}
	return n
}
