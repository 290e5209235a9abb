package secret

import (
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Bounds of a store.
const (
	// MaxValue bounds a value, in bytes.
	MaxValue = 64 << 10

	maxSecrets = 1000
	maxName    = 128
)

// ErrMissing is the error of [Store.Remove] for a name that has no value.
var ErrMissing = errors.New("no such secret")

// Place is the place of a value.
type Place string

// The places. Auto is the keyring if it works, else the file.
const (
	Auto    Place = "auto"
	Keyring Place = "keyring"
	File    Place = "file"
)

// Entry describes a secret without its value.
type Entry struct {
	Name    string    `json:"name"`
	Place   Place     `json:"place"`
	Changed time.Time `json:"changed,omitzero"` // zero if the file was written by hand
}

// System returns the store of a folder, with the keyring of the system if there is one. It reads
// nothing yet; the first Set makes the folder. lookupEnv reads a variable of the environment, as
// os.LookupEnv does.
func System(dir string, lookupEnv func(string) (string, bool)) *Store {
	return open(options{dir: dir, ring: systemRing(lookupEnv), platform: runtime.GOOS})
}

type options struct {
	dir      string
	ring     ring             // nil: there is none
	platform string           // as runtime.GOOS names it
	wait     time.Duration    // for one request to the keyring; 0: 3 s
	now      func() time.Time // nil: time.Now
}

// Store keeps secrets. Its methods may be called at the same time, also by other processes.
type Store struct {
	path    string
	service string // the keyring's name for the values of this folder
	ring    *guarded
	modes   bool // files have mode bits
	limit   int  // of a value in the keyring
	now     func() time.Time
}

func open(o options) *Store {
	if o.wait <= 0 {
		o.wait = 3 * time.Second
	}
	if o.now == nil {
		o.now = time.Now
	}
	s := &Store{
		path: filepath.Join(o.dir, "secrets.yaml"), service: "weir (" + o.dir + ")",
		modes: o.platform != "windows", limit: MaxValue, now: o.now,
	}
	switch o.platform {
	case "windows":
		s.limit = 2560
	case "darwin":
		s.limit = 2500 // value, name and service together have about 3,000
	}
	if o.ring != nil {
		s.ring = &guarded{ring: o.ring, wait: o.wait}
	}
	return s
}

// Path returns the file that changes whenever a secret does.
func (s *Store) Path() string { return s.path }

// CheckName returns the fault in the name of a secret, or nil.
func CheckName(name string) error {
	for i, r := range name {
		letter := r == '_' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		if !letter && (i == 0 || r < '0' || r > '9') {
			return fmt.Errorf("%.40q is no name of a secret: use letters, digits and _, with no digit first", name)
		}
	}
	if name == "" || len(name) > maxName {
		return fmt.Errorf("the name of a secret has 1 to %d characters", maxName)
	}
	return nil
}

// checkValue returns the fault in a value. The message omits the value.
func checkValue(name, value string) error {
	switch {
	case value == "":
		return fmt.Errorf("the value of %s is empty; weir secret rm %s removes a secret", name, name)
	case len(value) > MaxValue:
		return fmt.Errorf("the value of %s has %d bytes; at most %d are kept", name, len(value), MaxValue)
	case !utf8.ValidString(value) || strings.ContainsRune(value, 0):
		return fmt.Errorf("the value of %s is no text: encode it, for example with base64", name)
	}
	return nil
}

// Lookup returns the value of a secret. ok is false if the name has none.
func (s *Store) Lookup(name string) (value string, ok bool, err error) {
	if err := CheckName(name); err != nil {
		return "", false, err
	}
	all, err := s.read()
	if err != nil {
		return "", false, err
	}
	record, ok := all[name]
	if !ok || !record.keyring {
		return record.value, ok, nil
	}
	switch value, err = s.fromRing(name); {
	case errors.Is(err, ErrMissing):
		return "", false, nil // The keyring has lost it.
	case err != nil:
		return "", false, err
	}
	return value, true, nil
}

func (s *Store) fromRing(name string) (value string, err error) {
	if s.ring == nil {
		return "", fmt.Errorf("%s is in the keyring, and there is no keyring here: store it with: weir secret set %s --store file", name, name)
	}
	value, err = s.ring.get(s.service, name)
	if err != nil && !errors.Is(err, ErrMissing) {
		return "", fmt.Errorf("%s is in the keyring: %w; unlock the keyring, or store the value with: weir secret set %s --store file", name, err, name)
	}
	return value, err
}

// List returns all secrets without their values, by name.
func (s *Store) List() ([]Entry, error) {
	all, err := s.read()
	if err != nil {
		return nil, err
	}
	entries := make([]Entry, 0, len(all))
	for name, r := range all {
		entry := Entry{Name: name, Place: File, Changed: r.changed}
		if r.keyring {
			entry.Place = Keyring
		}
		entries = append(entries, entry)
	}
	slices.SortFunc(entries, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
	return entries, nil
}

// Set stores a value and returns where. A value that the name had before is gone, in both places.
func (s *Store) Set(name, value string, where Place) (Place, error) {
	if err := errors.Join(CheckName(name), checkValue(name, value)); err != nil {
		return "", err
	}
	if where == Keyring {
		if err := s.usable(name, value); err != nil {
			return "", err
		}
	}
	var before record
	var placed Place
	err := s.change(func(all map[string]record) (err error) {
		known := false
		if before, known = all[name]; !known && len(all) >= maxSecrets {
			return fmt.Errorf("%s has %d secrets already: remove those that no server needs with: weir secret rm NAME", s.path, len(all))
		}
		if placed, err = s.place(name, value, where); err != nil {
			return err
		}
		next := record{changed: s.now().UTC().Truncate(time.Second), keyring: placed == Keyring}
		if !next.changed.After(before.changed) {
			next.changed = before.changed.Add(time.Second) // the file differs after every Set
		}
		if placed == File {
			next.value = value
		}
		all[name] = next
		return nil
	})
	// The index does not lead to the value in the keyring. The value is new and could not be
	// entered, or it is old.
	if s.ring != nil && (err != nil && placed == Keyring && !before.keyring || err == nil && placed == File && before.keyring) {
		_ = s.ring.remove(s.service, name) // A value that stays is found by no Lookup.
	}
	if err != nil {
		return "", err
	}
	return placed, nil
}

// usable returns why the keyring cannot take a value.
func (s *Store) usable(name, value string) error {
	switch {
	case s.ring == nil:
		return fmt.Errorf("there is no keyring here; leave --store out, and %s keeps the secret for this user alone", s.path)
	case len(value) > s.limit:
		return fmt.Errorf("the value of %s has %d bytes, and the keyring of this system takes %d; leave --store out, and %s keeps it", name, len(value), s.limit, s.path)
	}
	return nil
}

// place stores the value in the keyring if it belongs there, and returns its place.
func (s *Store) place(name, value string, where Place) (Place, error) {
	if where == File || where == Auto && (s.usable(name, value) != nil || s.ring.probe(s.service) != nil) {
		return File, nil
	}
	err := s.ring.set(s.service, name, value)
	switch {
	case err == nil:
		return Keyring, nil
	case where == Auto:
		return File, nil
	}
	return "", fmt.Errorf("the keyring does not take %s: %w", name, err)
}

// Remove removes a secret. The error wraps [ErrMissing] if there is none.
func (s *Store) Remove(name string) error {
	if err := CheckName(name); err != nil {
		return err
	}
	var left error
	err := s.change(func(all map[string]record) error {
		r, ok := all[name]
		if !ok {
			return fmt.Errorf("%w: %s", ErrMissing, name)
		}
		delete(all, name)
		if r.keyring && s.ring != nil {
			left = s.ring.remove(s.service, name)
		} else if r.keyring {
			left = errors.New("there is no keyring here")
		}
		return nil
	})
	if err == nil && left != nil && !errors.Is(left, ErrMissing) {
		return fmt.Errorf("weir has forgotten %s, and the keyring still has it as %q of %q: %w", name, name, s.service, left)
	}
	return err
}
