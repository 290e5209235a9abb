package secret

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/weir-mcp/weir/internal/host/place"
)

// maxFile bounds secrets.yaml, in bytes.
const maxFile = 8 << 20

// lockWait bounds the time that a writer waits for other writers.
const lockWait = 10 * time.Second

// record is the entry of one secret in secrets.yaml.
type record struct {
	value   string
	keyring bool
	changed time.Time
}

// read returns the entries of the file. A missing file has none.
func (s *Store) read() (map[string]record, error) {
	f, err := os.Open(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		return map[string]record{}, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is no regular file", s.path)
	case s.modes && info.Mode().Perm()&0o077 != 0:
		return nil, fmt.Errorf("other users may read %s: take that right away with: chmod 600 %s, and change the secrets if others had access", s.path, s.path)
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxFile {
		return nil, fmt.Errorf("%s is larger than %d MB", s.path, maxFile>>20)
	}
	all, err := parse(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.path, err)
	}
	return all, nil
}

// lineOf finds the line in a message of the YAML parser. The rest of the message may have values.
var lineOf = regexp.MustCompile(`line (\d+)`)

// parse reads secrets.yaml. A value may stand by itself (NAME: value), for users who write the file
// by hand. Messages never have a value.
func parse(data []byte) (map[string]record, error) {
	all := map[string]record{}
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		if at := lineOf.FindString(err.Error()); at != "" {
			return nil, fmt.Errorf("%s is not YAML", at)
		}
		return nil, errors.New("this is not YAML")
	}
	if len(doc.Content) == 0 || doc.Content[0].Tag == "!!null" {
		return all, nil
	}
	root := doc.Content[0]
	if root.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("line %d: a mapping of names to values is wanted", root.Line)
	}
	for i := 0; i+1 < len(root.Content); i += 2 {
		name, value := root.Content[i], root.Content[i+1]
		if err := CheckName(name.Value); err != nil {
			return nil, fmt.Errorf("line %d: this is no name of a secret", name.Line)
		}
		if _, twice := all[name.Value]; twice {
			return nil, fmt.Errorf("line %d: %s stands twice", name.Line, name.Value)
		}
		r, err := parseRecord(value)
		if err != nil {
			return nil, fmt.Errorf("line %d: %s: %w", value.Line, name.Value, err)
		}
		all[name.Value] = r
	}
	if len(all) > maxSecrets {
		return nil, fmt.Errorf("there are %d secrets; at most %d are kept", len(all), maxSecrets)
	}
	return all, nil
}

func parseRecord(n *yaml.Node) (r record, err error) {
	if n.Kind == yaml.ScalarNode {
		r.value = n.Value
		return r, checkRecord(r)
	}
	if n.Kind != yaml.MappingNode {
		return r, errors.New("a text is wanted")
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i].Value, n.Content[i+1]
		if value.Kind != yaml.ScalarNode {
			return r, errors.New("a text is wanted")
		}
		switch key {
		case "value":
			r.value = value.Value
		case "keyring":
			r.keyring = value.Value == "true"
		case "changed":
			if r.changed, err = time.Parse(time.RFC3339, value.Value); err != nil {
				return r, errors.New("changed is no time, such as 2026-01-31T12:00:00Z")
			}
		default:
			return r, errors.New("the keys are value, keyring and changed")
		}
	}
	return r, checkRecord(r)
}

func checkRecord(r record) error {
	if r.keyring && r.value == "" {
		return nil
	}
	if r.keyring {
		return errors.New("it has a value, and keyring: true: keep one of them")
	}
	return checkValue("the secret", r.value)
}

// format writes the form that parse reads.
func format(all map[string]record) ([]byte, error) {
	type written struct {
		Value   string     `yaml:"value,omitempty"`
		Keyring bool       `yaml:"keyring,omitempty"`
		Changed *time.Time `yaml:"changed,omitempty"`
	}
	out := make(map[string]written, len(all))
	for name, r := range all {
		w := written{Value: r.value, Keyring: r.keyring}
		if !r.changed.IsZero() {
			w.Changed = &r.changed
		}
		out[name] = w
	}
	var b bytes.Buffer
	b.WriteString("# Secrets for ${secret:NAME} in weir's configuration. Keep this file to yourself.\n# weir secret set, ls and rm read and rewrite it.\n")
	if len(out) == 0 {
		return b.Bytes(), nil
	}
	encoder := yaml.NewEncoder(&b)
	encoder.SetIndent(2)
	err := errors.Join(encoder.Encode(out), encoder.Close())
	if err == nil && b.Len() > maxFile {
		err = fmt.Errorf("the secrets would take more than %d MB: remove those that no server needs with: weir secret rm NAME", maxFile>>20)
	}
	return b.Bytes(), err
}

// change reads the file, lets edit change its records, and writes it. Other writers wait.
func (s *Store) change(edit func(map[string]record) error) error {
	dir := filepath.Dir(s.path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), lockWait)
	defer cancel()
	path := filepath.Join(dir, "secrets.lock")
	unlock, err := place.LockIn(ctx, path)
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("another weir holds %s; try again when it has ended", path)
	}
	if err != nil {
		return err
	}
	defer unlock()
	all, err := s.read()
	if err != nil {
		return err
	}
	if err := edit(all); err != nil {
		return err
	}
	data, err := format(all)
	if err != nil {
		return err
	}
	return replace(s.path, data)
}

// replace writes a file that only this user can read. It writes a temporary file next to it, syncs
// it, renames it and syncs the folder. A symbolic link stays, and its target is replaced.
func replace(path string, data []byte) error {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	temp, err := os.CreateTemp(filepath.Dir(path), ".secrets-*") // 0600
	if err != nil {
		return err
	}
	_, err = temp.Write(data)
	if err == nil {
		err = temp.Sync()
	}
	if err = errors.Join(err, temp.Close()); err == nil {
		err = rename(temp.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(temp.Name()))
	}
	place.SyncFolder(filepath.Dir(path))
	return nil
}

// rename tries again while a reader has the file open, where that forbids it.
func rename(from, to string) error {
	for try := 1; ; try++ {
		err := os.Rename(from, to)
		if err == nil || try == 6 || !place.Busy(err) {
			return err
		}
		time.Sleep(time.Duration(try) * 20 * time.Millisecond)
	}
}
