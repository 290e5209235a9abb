package worker

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"modernc.org/quickjs"

	"github.com/weir-mcp/weir/internal/program/wire"
)

//go:embed scope.js
var scope string

// above is the number of empty lines before a program. The engine has one file name for everything, so
// lines up to here are of the scope, and lines after it of the program.
const above = 1000

// An engine runs one program. It has one goroutine.
type engine struct {
	vm          *quickjs.VM
	out         io.Writer
	settle, run quickjs.Value
	limits      wire.Begin
	deadline    time.Time

	flying int    // requests at the host
	value  []byte // the value of the program, if it has returned
	failed *wire.Failure
	broken error // of the pipe
	logged int64
	cut    int // lines of the log that were left out
}

// newEngine returns an engine with the scope of a program.
func newEngine(out io.Writer) (*engine, error) {
	vm, err := quickjs.NewVM()
	if err != nil {
		return nil, err
	}
	vm.SetCanBlock(false)
	e := &engine{vm: vm, out: out}
	return e, e.prepare()
}

func (e *engine) prepare() error {
	members, remove := "", ""
	for name, f := range map[string]quickjs.HostFunc{"send": e.send, "log": e.log, "end": e.end, "fail": e.fail, "stop": e.stop} {
		if err := e.vm.RegisterHostFunc("host_"+name, f); err != nil {
			return err
		}
		members += ", " + name + ": host_" + name
		remove += "delete globalThis.host_" + name + ";"
	}
	made, err := e.vm.EvalValue("(function (host) {"+scope+"\n})({__proto__: null"+members+"})", quickjs.EvalGlobal)
	if err != nil {
		return err
	}
	defer made.Free()
	for i, v := range []*quickjs.Value{&e.settle, &e.run} {
		atom, err := e.vm.NewAtom(strconv.Itoa(i))
		if err != nil {
			return err
		}
		if *v, err = made.GetPropertyValue(atom); err != nil {
			return err
		}
	}
	_, err = e.vm.Eval(remove, quickjs.EvalGlobal)
	return err
}

// serve runs a program and writes its requests and its end. next returns the answers of the host.
func (e *engine) serve(limits wire.Begin, source, input string, next func() (wire.Header, []byte, error)) error {
	e.limits = limits
	e.deadline = time.Now().Add(time.Duration(e.limits.Millis) * time.Millisecond)
	e.vm.SetMemoryLimit(uintptr(e.limits.Memory))
	e.start(source, input)
	for e.broken == nil && !e.over() {
		header, body, err := next()
		if err != nil {
			return err
		}
		if header.Kind != wire.Answer && header.Kind != wire.Refuse {
			return fmt.Errorf("%w: kind %d in a run", wire.ErrFrame, header.Kind)
		}
		if e.flying--; e.failed != nil {
			continue
		}
		e.enter(func() error {
			text, err := e.vm.NewString(unsafe.String(unsafe.SliceData(body), len(body)))
			if err != nil {
				return err
			}
			defer text.Free()
			_, err = e.settle.Call(quickjs.UndefinedValue, int(header.ID), header.Kind == wire.Answer, text, long(body))
			return err
		})
	}
	switch {
	case e.broken != nil:
		return e.broken
	case e.failed == nil:
		return wire.Write(e.out, wire.End, 0, nil, e.value)
	}
	head, err := json.Marshal(e.failed)
	if err != nil {
		return err
	}
	return wire.Write(e.out, wire.Fail, 0, head, nil)
}

// over reports whether the run has ended. A program that has returned or thrown ends when its requests are answered:
// the host would not know otherwise what became of them.
func (e *engine) over() bool {
	if e.failed != nil && e.failed.Code != thrown {
		return true
	}
	if e.flying > 0 {
		return false
	}
	if e.value == nil && e.failed == nil {
		e.failed = &wire.Failure{Code: stuck, Message: "the program waits for a promise that nothing settles"}
	}
	return true
}

// asFunction returns the source of a program as an expression.
func asFunction(source string) string {
	return strings.Repeat("\n", above-1) + "(async function () {\n" + source + "\n})"
}

// checkMemory bounds the memory of Check.
const checkMemory = 64 << 20

// Check compiles a program without running it. It returns what is wrong with its syntax, nil if nothing is.
func Check(source string) (*wire.Failure, error) {
	vm, err := quickjs.NewVM()
	if err != nil {
		return nil, err
	}
	defer vm.Close()
	vm.SetMemoryLimit(checkMemory)
	if _, err := vm.Compile(asFunction(source), quickjs.EvalGlobal); err != nil {
		return (&engine{vm: vm}).describe(err), nil
	}
	return nil, nil
}

// start compiles the program and runs it up to its first answer.
func (e *engine) start(source, input string) {
	e.enter(func() error {
		program, err := e.vm.EvalValue(asFunction(source), quickjs.EvalGlobal)
		if err != nil {
			return err
		}
		defer program.Free()
		if input == "" {
			input = "null"
		}
		_, err = e.run.Call(quickjs.UndefinedValue, program, input, long(input), e.limits.Calls, e.limits.Parallel)
		return err
	})
}

// enter calls into the engine, and runs everything that follows from it.
func (e *engine) enter(f func() error) {
	err := e.timed(f)
	for n := 1; err == nil && n > 0 && e.failed == nil; {
		err = e.timed(func() (err error) { n, err = e.drain(); return err })
	}
	late := !time.Now().Before(e.deadline)
	switch {
	case err == nil && !late || e.failed != nil && e.failed.Code != thrown:
		return
	case late && e.failed == nil:
		// The promise of the program has been rejected by the interrupt. Its handler knows the line.
		_ = e.vm.SetEvalTimeout(lastWords)
		_, _ = e.drain()
	}
	if e.failed == nil {
		e.failed = e.describe(err)
	}
	if late {
		e.failed.Code, e.failed.Message, e.failed.Tool = timeout, "the time of the program is over", nil
	}
}

// lastWords is the time in which an interrupted program says where it was.
const lastWords = 50 * time.Millisecond

// drain runs jobs. The engine does a number of them at a time.
func (e *engine) drain() (int, error) {
	n, err := e.vm.ExecutePendingJobs()
	if thrown := (*quickjs.Error)(nil); n > 1<<16 && !errors.As(err, &thrown) {
		err = nil // there are more
	}
	return n, err
}

// timed calls into the engine with the rest of the time.
func (e *engine) timed(f func() error) error {
	left := time.Until(e.deadline)
	if left <= 0 {
		return errLate
	}
	if err := e.vm.SetEvalTimeout(left); err != nil {
		return err
	}
	return f()
}

var errLate = errors.New("interrupted")

// long reports whether JSON may have an integer that a double rounds: more than 15 digits in a row that are in no string
// and no fraction.
func long[T string | []byte](text T) bool {
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			for i++; i < len(text) && text[i] != '"'; i++ {
				if text[i] == '\\' {
					i++
				}
			}
		case c == '.':
			for i+1 < len(text) && isDigit(text[i+1]) {
				i++
			}
		case isDigit(c):
			start := i
			for i+1 < len(text) && isDigit(text[i+1]) {
				i++
			}
			if i-start >= 15 {
				return true
			}
		}
	}
	return false
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }
