package worker

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"unsafe"

	"github.com/landlock-lsm/go-landlock/landlock"
	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
	"kernel.org/pub/linux/libs/security/libcap/psx"
)

// confine closes what the process does not need, for all its threads and for good. It returns the walls that
// stand; a kernel without one of them leaves the others.
func confine() []string {
	var walls []string
	add := func(wall string, err error) {
		if err == nil {
			walls = append(walls, wall)
		}
	}
	before = addressSpace() // afterwards it cannot be read
	add("no new privileges", ll.AllThreadsPrctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
	// Root could lift the limits again.
	add("no capabilities", dropCapabilities())
	// The sum of all rights of the kernel's version, and no rule that allows any.
	if abi, err := ll.LandlockGetABIVersion(); err == nil && abi > 0 {
		add(fmt.Sprintf("Landlock %d", abi), landlock.V11.BestEffort().Restrict())
	}
	add("no descriptors", setLimits(descriptors))
	// Other processes of the user cannot read the memory.
	add("not dumpable", unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0))
	add("system calls", filterCalls()) // the last one: it refuses the others
	return walls
}

// before is the address space of the process without a program, in bytes.
var before int64

func addressSpace() int64 {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 4 << 30
	}
	pages, err := strconv.ParseInt(strings.Fields(string(text) + " 0")[0], 10, 64)
	if err != nil {
		return 4 << 30
	}
	return pages * int64(os.Getpagesize())
}

func dropCapabilities() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	_, _, err := psx.Syscall3(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&none[0])), 0)
	if err != 0 {
		return err
	}
	return nil
}
