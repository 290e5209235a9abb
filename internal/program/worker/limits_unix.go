//go:build linux || darwin

package worker

import (
	"errors"
	"runtime/debug"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weir-mcp/weir/internal/program/wire"
)

// descriptors are limits with which a process can open no file and no socket, and write no file.
var descriptors = map[int]uint64{unix.RLIMIT_NOFILE: 0, unix.RLIMIT_FSIZE: 0, unix.RLIMIT_CORE: 0}

// room is what a worker needs in addition to the values of its program and the two copies of a message.
const room = 256 << 20

// limit bounds the process for one program. The engine has the same bounds; these hold if it does not.
func limit(b wire.Begin) error {
	debug.SetMemoryLimit(2*b.Memory + room/4)
	seconds := uint64((time.Duration(b.Millis)*time.Millisecond + 2*time.Second) / time.Second)
	return setLimits(map[int]uint64{
		unix.RLIMIT_CPU:  seconds,
		unix.RLIMIT_AS:   uint64(before + 4*b.Memory + room + shadow),
		unix.RLIMIT_DATA: uint64(4*b.Memory + room + shadow),
	})
}

// setLimits sets limits that the process cannot raise again.
func setLimits(limits map[int]uint64) error {
	var errs []error
	for which, most := range limits {
		errs = append(errs, unix.Setrlimit(which, &unix.Rlimit{Cur: most, Max: most}))
	}
	return errors.Join(errs...)
}
