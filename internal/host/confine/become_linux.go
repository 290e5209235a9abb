package confine

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"

	"github.com/landlock-lsm/go-landlock/landlock"
	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
)

// Landlock returns the version of the kernel's Landlock, 0 if there is none.
func Landlock() int {
	abi, err := ll.LandlockGetABIVersion()
	if err != nil {
		return 0
	}
	return abi
}

// Versions of Landlock.
const (
	withPorts  = 4 // TCP
	withScopes = 6 // signals and abstract sockets of others
)

// become builds the walls and becomes the program. It returns only if that fails, with the exit code.
func become(w Walls, command []string) int {
	runtime.LockOSThread() // a thread gives up its own rights, and not the rights of others
	if err := build(w); err != nil {
		return w.Refuse(err)
	}
	return w.Refuse(fmt.Errorf("its program %s cannot be executed in its sandbox: %w; add what it needs to sandbox.read", command[0], syscall.Exec(command[0], command, syscall.Environ())))
}

// build builds the walls around this process, for good.
func build(w Walls) error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no_new_privs: %w", err)
	}
	if err := dropCapabilities(); err != nil {
		return fmt.Errorf("its capabilities cannot be dropped: %w", err)
	}
	if err := limit(w); err != nil {
		return fmt.Errorf("its limits cannot be set: %w", err)
	}
	if err := restrict(w, Landlock()); err != nil {
		return fmt.Errorf("Landlock: %w", err)
	}
	return filter(w)
}

// dropCapabilities takes all capabilities from this thread, which becomes the program. They do not come back with exec,
// which gives them to a program of root otherwise.
func dropCapabilities() error {
	const noRoot = 1<<0 | 1<<1 // SECBIT_NOROOT and its lock
	_ = unix.Prctl(unix.PR_SET_SECUREBITS, noRoot, 0, 0, 0)
	for capability := uintptr(0); capability <= unix.CAP_LAST_CAP; capability++ {
		_ = unix.Prctl(unix.PR_CAPBSET_DROP, capability, 0, 0, 0) // a user without capabilities has none to drop
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	return unix.Capset(&header, &none[0])
}

func limit(w Walls) error {
	errs := []error{unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{})}
	if w.Memory > 0 {
		errs = append(errs, unix.Setrlimit(unix.RLIMIT_DATA, &unix.Rlimit{Cur: uint64(w.Memory), Max: uint64(w.Memory)}))
	}
	if w.Processes > 0 {
		var had unix.Rlimit
		_ = unix.Getrlimit(unix.RLIMIT_NPROC, &had)
		if most := uint64(w.Processes); had.Max == 0 || most < had.Max {
			errs = append(errs, unix.Setrlimit(unix.RLIMIT_NPROC, &unix.Rlimit{Cur: most, Max: most}))
		}
	}
	if w.CPUs > 0 {
		var may, use unix.CPUSet
		if err := unix.SchedGetaffinity(0, &may); err == nil {
			for cpu, left := 0, w.CPUs; cpu < len(may)*64 && left > 0; cpu++ {
				if may.IsSet(cpu) {
					use.Set(cpu)
					left--
				}
			}
			errs = append(errs, unix.SchedSetaffinity(0, &use))
		}
	}
	return errors.Join(errs...)
}

// restrict builds the walls of Landlock, as far as the kernel has them.
func restrict(w Walls, abi int) error {
	if w.Need && !w.Boxed {
		switch {
		case abi == 0:
			return errors.New("the kernel has none, and sandbox.require is set")
		case w.Offline && abi < withPorts:
			return fmt.Errorf("the kernel has version %d, which does not bound the network, and sandbox.require is set", abi)
		case abi < withScopes:
			return fmt.Errorf("the kernel has version %d, which does not keep signals from other processes, and sandbox.require is set", abi)
		}
	}
	if abi == 0 {
		return nil
	}
	var rules []landlock.Rule
	add := func(paths []string, dirs, files func(...string) landlock.FSRule) {
		for _, path := range paths {
			info, err := os.Stat(path)
			switch {
			case err != nil: // it is not there, or this user may not see it
			case info.IsDir():
				rules = append(rules, dirs(path))
			default:
				rules = append(rules, files(path))
			}
		}
	}
	add(w.Read, landlock.RODirs, landlock.ROFiles)
	add(w.Write, func(p ...string) landlock.FSRule { return landlock.RWDirs(p...).WithRefer() }, func(p ...string) landlock.FSRule { return landlock.RWFiles(p...).WithIoctlDev() })
	all := landlock.V11.BestEffort()
	if err := all.RestrictPaths(rules...); err != nil {
		return err
	}
	if err := all.RestrictScoped(); err != nil {
		return err
	}
	if !w.Offline || w.Boxed {
		return nil
	}
	var ports []landlock.Rule
	if w.Port > 0 {
		ports = append(ports, landlock.ConnectTCP(uint16(w.Port)))
	}
	return all.RestrictNet(ports...)
}
