package config

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/weir-mcp/weir/internal/json/strict"
	"github.com/weir-mcp/weir/internal/text/redact"
)

// Secrets that other programs keep: ${exec:COMMAND ARGS} is what a program prints, ${file:PATH} what a
// file has. A program runs once; its answer is kept from reading to reading, until a server that uses
// it fails ([Options].Failed).

// MaxOutside bounds the value of ${exec:…} and ${file:…}, in bytes.
const MaxOutside = 64 << 10

// An answer of a program may be fetched again once at any time, and then after renewPause. Each time
// that it is unchanged doubles the pause, up to maxRenewPause.
const (
	renewPause    = 30 * time.Second
	maxRenewPause = time.Hour
)

// answer is the answer to an input.
type answer struct {
	value string
	at    time.Time     // at which it was fetched
	pause time.Duration // after which it may be fetched again
}

// next returns the answer after it was fetched again.
func (a answer) next(value string) answer {
	pause := renewPause
	if value == a.value {
		pause = min(max(2*a.pause, renewPause), maxRenewPause)
	}
	return answer{value: value, at: time.Now(), pause: pause}
}

// due reports whether a program is to be asked again for a server that has failed.
func (r resolved) due(server, key string) bool {
	a, known := r.answers[key]
	return known && slices.Contains(r.programs[server], key) && time.Since(a.at) >= a.pause
}

// anyDue reports whether a program is to be asked again for a server that has failed.
func (r resolved) anyDue(server string) bool {
	return slices.ContainsFunc(r.programs[server], func(key string) bool { return r.due(server, key) })
}

// outside is what a reading of a file looked at outside of that file.
type outside struct {
	files  watchedFiles
	failed bool // a program failed, or a file could not be read
}

// answer returns the answer to an input: of this reading, of the one before it, or of Options.Inputs.
func (e *expander) answer(key string, in Input) (value string, ok bool, err error) {
	program := in.Type == InputCommand
	if program && e.inside && !slices.Contains(e.new.programs[e.server], key) {
		e.new.programs[e.server] = append(e.new.programs[e.server], key)
	}
	if a, known := e.new.answers[key]; known {
		return a.value, true, nil
	}
	if err := e.failures[key]; err != nil {
		return "", false, err
	}
	old, known := e.old.answers[key]
	if known && !e.old.due(e.opts.again.renew, key) {
		e.new.answers[key] = old
		return old.value, true, nil
	}
	if e.opts.Inputs == nil {
		return "", false, nil
	}
	value, ok, err = e.opts.Inputs(in)
	switch {
	case errors.Is(err, context.Canceled):
	case err != nil && program:
		err = errors.New(redact.New(e.hidden.sorted(false)).Replace(err.Error())) // it may repeat another secret
		e.failures[key], e.opts.again.seen.failed = err, true
	case ok && known:
		e.new.answers[key] = old.next(value)
	case ok:
		e.new.answers[key] = answer{value: value, at: time.Now()}
	}
	return value, ok, err
}

// exec returns what a program prints, without the line break at its end.
func (e *expander) exec(line string) (string, error) {
	argv, err := words(line)
	if err != nil {
		return "", err
	}
	for i, word := range argv {
		if argv[i], err = e.plain(word); err != nil {
			return "", err
		}
	}
	for _, secret := range redact.InArgs(argv) {
		e.hidden.add(secret, true)
	}
	if filepath.Base(argv[0]) != argv[0] && !filepath.IsAbs(argv[0]) && e.dir != "" {
		argv[0] = filepath.Join(e.dir, argv[0])
	}
	in := Input{ID: "exec:" + line, Type: InputCommand, Password: true, Command: argv[0], Args: argv[1:]}
	value, ok, err := e.answer("exec:"+strings.Join(argv, "\x00"), in)
	switch {
	case err != nil:
		return "", err
	case !ok:
		return "", errors.New("programs are not run here")
	}
	return value, e.fetched(value)
}

// file returns the contents of a file, without the line break at their end.
func (e *expander) file(ref string) (string, error) {
	path, err := e.plain(ref)
	switch {
	case err != nil:
		return "", err
	case path == "":
		return "", errors.New("it names no file")
	case e.opts.ReadFile == nil:
		return "", errors.New("files are not read here")
	case !filepath.IsAbs(path) && e.dir == "":
		return "", errors.New("the path is relative, and the configuration is in no folder")
	case !filepath.IsAbs(path):
		path = filepath.Join(e.dir, path)
	}
	data, err := e.opts.ReadFile(path)
	e.opts.again.seen.files.note(path, data, err)
	if err != nil {
		e.opts.again.seen.failed = true
		return "", errors.New(readMessage(err))
	}
	value := strings.TrimRight(string(data), "\r\n")
	return value, e.fetched(value)
}

// fetched checks and remembers a value from a program or a file.
func (e *expander) fetched(value string) error {
	switch {
	case value == "":
		return errors.New("it is empty")
	case len(value) > MaxOutside:
		return fmt.Errorf("it has more than %d KB", MaxOutside>>10)
	case !utf8.ValidString(value) || strings.ContainsRune(value, 0):
		return errors.New("it is not text in UTF-8")
	}
	e.hidden.certain(value)
	return nil
}

// plain expands a part of ${exec:…} or ${file:…}, in which no other such reference stands.
func (e *expander) plain(text string) (string, error) {
	for _, ref := range strict.References(text) {
		if strings.HasPrefix(ref, "${exec:") || strings.HasPrefix(ref, "${file:") {
			return "", fmt.Errorf("%s cannot stand in another reference", strict.Clip(ref))
		}
	}
	return e.text(text, false)
}

// words splits a command line at white space. Quotes of either kind keep it, and are left out. All
// other characters stand for themselves: there is no shell.
func words(line string) (argv []string, err error) {
	var word strings.Builder
	quote, begun := rune(0), false
	end := func() {
		if begun {
			argv = append(argv, word.String())
		}
		word.Reset()
		begun = false
	}
	for _, r := range line {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote == 0 && (r == '"' || r == '\''):
			quote, begun = r, true
		case quote == 0 && strings.ContainsRune(" \t\r\n", r):
			end()
		default:
			word.WriteRune(r)
			begun = true
		}
	}
	end()
	switch {
	case quote != 0:
		return nil, fmt.Errorf("the command has a %c without another one", quote)
	case len(argv) == 0 || argv[0] == "":
		return nil, errors.New("it names no command")
	}
	return argv, nil
}

// maxShown bounds the references that Options.Outside hears of in one text.
const maxShown = 100

// tellOutside tells Options.Outside of the references to programs and files in a text, wherever they
// stand: a default may be used later.
func (e *expander) tellOutside(text string) {
	for n := 0; e.opts.Outside != nil && n < maxShown; n++ {
		at := slices.MinFunc([]int{strings.Index(text, "${exec:"), strings.Index(text, "${file:")}, func(a, b int) int {
			return cmp.Compare(uint(a), uint(b)) // -1 is the largest
		})
		if at < 0 {
			return
		}
		text = text[at:]
		e.opts.Outside(strict.Reference(text[:min(len(text), 4<<10)]))
		text = text[2:]
	}
}

// watchedFiles are files outside of the configuration that it is made of, with the hashes of their
// contents.
type watchedFiles map[string][sha256.Size]byte

// note remembers a reading of a file.
func (f watchedFiles) note(path string, data []byte, err error) { f[path] = sumOf(data, err) }

// changed reports whether the contents of one of the files are others now.
func (f watchedFiles) changed(read func(path string) ([]byte, error)) bool {
	for path, sum := range f {
		if sumOf(read(path)) != sum {
			return true
		}
	}
	return false
}

// sumOf returns the hash of a reading of a file. A file that cannot be read has one of its own.
func sumOf(data []byte, err error) [sha256.Size]byte {
	if err != nil {
		return sha256.Sum256(fmt.Appendf(nil, "\x00%v", readMessage(err)))
	}
	return sha256.Sum256(data)
}
