package secret

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zalando/go-keyring"
)

// ring is a keyring: values by service and name. The methods may block, for example while a
// person is asked to unlock it. Get and Delete return an error that wraps [ErrMissing] for a name
// without a value.
type ring interface {
	Get(service, name string) (string, error)
	Set(service, name, value string) error
	Delete(service, name string) error
}

// systemRing returns the keyring of the system, or nil.
func systemRing(lookupEnv func(string) (string, bool)) ring {
	switch runtime.GOOS {
	case "darwin", "windows":
		return system{}
	case "linux", "freebsd", "netbsd", "openbsd", "dragonfly":
		if hasBus(lookupEnv) {
			return system{}
		}
	}
	return nil
}

// hasBus reports whether a session bus runs. Without one the library would start a bus of its own.
func hasBus(lookupEnv func(string) (string, bool)) bool {
	if address, _ := lookupEnv("DBUS_SESSION_BUS_ADDRESS"); address != "" {
		return address != "autolaunch:" && address != "disabled:"
	}
	dir, _ := lookupEnv("XDG_RUNTIME_DIR")
	if dir == "" {
		dir = "/run/user/" + strconv.Itoa(os.Getuid())
	}
	_, err := os.Stat(filepath.Join(dir, "bus"))
	return err == nil
}

// system is the keyring of the operating system.
type system struct{}

var _ ring = system{}

func (system) Get(service, name string) (string, error) {
	value, err := keyring.Get(service, name)
	return value, missing(err)
}

func (system) Set(service, name, value string) error { return keyring.Set(service, name, value) }

func (system) Delete(service, name string) error { return missing(keyring.Delete(service, name)) }

func missing(err error) error {
	if errors.Is(err, keyring.ErrNotFound) {
		return ErrMissing
	}
	return err
}

// errBusy is the error of a keyring that has not yet answered an earlier request.
var errBusy = errors.New("it has not answered an earlier request yet")

// guarded bounds the time of requests to a keyring, and sends one at a time. It abandons a request
// that takes too long. Until that request ends, all further ones fail. So there is one abandoned
// goroutine at most.
type guarded struct {
	ring ring
	wait time.Duration
	late atomic.Bool // a request takes too long

	mu sync.Mutex // held by the request in progress
}

// within calls ask and returns its error, or that it did not end in time.
func (g *guarded) within(ask func() error) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.late.Load() {
		return errBusy
	}
	done := make(chan error, 1)
	state := new(atomic.Int32) // 1: ended in time, 2: too late
	go func() {
		done <- ask()
		if !state.CompareAndSwap(0, 1) {
			g.late.Store(false)
		}
	}()
	timer := time.NewTimer(g.wait)
	defer timer.Stop()
	select {
	case err := <-done:
		return err
	case <-timer.C:
		g.late.Store(true)
		if !state.CompareAndSwap(0, 2) {
			g.late.Store(false)
			return <-done
		}
		return fmt.Errorf("it did not answer within %s", g.wait)
	}
}

func (g *guarded) get(service, name string) (string, error) {
	value := make(chan string, 1) // not a variable: a late request must not write it
	err := g.within(func() error {
		v, err := g.ring.Get(service, name)
		value <- v
		return err
	})
	if err != nil {
		return "", err
	}
	return <-value, nil
}

func (g *guarded) set(service, name, value string) error {
	err := g.within(func() error { return g.ring.Set(service, name, value) })
	if err != nil && strings.Contains(err.Error(), value) {
		return errors.New("it failed, with a message that repeats the value")
	}
	return err
}

func (g *guarded) remove(service, name string) error {
	return g.within(func() error { return g.ring.Delete(service, name) })
}

// probe returns why the keyring cannot be used. It asks for a name that no secret has.
func (g *guarded) probe(service string) error {
	if _, err := g.get(service, "weir-probe"); err != nil && !errors.Is(err, ErrMissing) {
		return err
	}
	return nil
}
