package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/weir-mcp/weir/internal/config"
)

// maxAnswer bounds a person's answer, in bytes.
const maxAnswer = 64 << 10

// askInputs returns an Options.Inputs that asks a person for inputs without a command; passwords
// are not echoed. It asks only if standard input and output are terminals.
func askInputs(a *process, ctx context.Context) func(config.Input) (string, bool, error) {
	q, ok := newQuestions(a)
	if !ok {
		return func(in config.Input) (string, bool, error) { return answerInput(ctx, in) }
	}
	return func(in config.Input) (string, bool, error) {
		if in.Type == config.InputCommand {
			return answerInput(ctx, in)
		}
		return q.ask(ctx, in)
	}
}

// questions asks a person one question at a time.
type questions struct {
	a        *process
	keyboard *os.File
	lines    *bufio.Reader
}

// newQuestions returns the questions of a process. ok is false if standard input or standard error is
// no terminal: then there is no person to ask.
func newQuestions(a *process) (q *questions, ok bool) {
	if a.keyboard != nil {
		return a.keyboard, true
	}
	keyboard, ok := a.stdin.(*os.File)
	if !ok || screenWidth(keyboard) == 0 || !a.stderr.screen() {
		return nil, false
	}
	a.keyboard = &questions{a: a, keyboard: keyboard, lines: bufio.NewReaderSize(keyboard, maxAnswer)}
	return a.keyboard, true
}

// ask asks for an input until the answer is valid. ok is false if there is no answer; the default
// applies then.
func (q *questions) ask(ctx context.Context, in config.Input) (answer string, ok bool, err error) {
	what := in.Description
	if what == "" {
		what = in.ID
	}
	if in.Default != nil && !in.Password {
		what += " [" + *in.Default + "]"
	}
	screen := q.a.stderr
	for {
		for i, option := range in.Options {
			fmt.Fprintf(screen, "  %d  %s\n", i+1, screen.clean(option))
		}
		answer, err = q.line(ctx, screen.paint(bold, screen.clean(what)+":"), in.Password)
		if errors.Is(err, io.EOF) {
			return "", false, nil
		}
		if err != nil || answer == "" {
			return "", false, err
		}
		if len(in.Options) == 0 || slices.Contains(in.Options, answer) {
			return answer, true, nil
		}
		if n, err := strconv.Atoi(answer); err == nil && n >= 1 && n <= len(in.Options) {
			return in.Options[n-1], true, nil
		}
		fmt.Fprintln(screen, "That is none of the options.")
	}
}

// line shows a prompt and reads one line. A secret is not echoed, including characters that were
// typed right after the prompt. It returns io.EOF at the end of input. If ctx ends, the reading
// goroutine stays until the process exits, because a blocked read of a terminal cannot be
// interrupted.
func (q *questions) line(ctx context.Context, prompt string, secret bool) (string, error) {
	if secret {
		restore, err := hideInput(q.keyboard)
		if err != nil {
			return "", fmt.Errorf("the terminal would show the answer: %w", err)
		}
		defer func() {
			restore()
			fmt.Fprintln(q.a.stderr) // the line break was not echoed
		}()
	}
	fmt.Fprintf(q.a.stderr, "%s ", prompt)
	type read struct {
		text []byte
		err  error
	}
	done := make(chan read, 1)
	go func() {
		text, err := q.lines.ReadSlice('\n')
		done <- read{text, err}
	}()
	select {
	case r := <-done:
		switch {
		case errors.Is(r.err, bufio.ErrBufferFull):
			return "", fmt.Errorf("the answer has more than %d bytes", maxAnswer)
		case r.err != nil && !errors.Is(r.err, io.EOF):
			return "", fmt.Errorf("reading the answer: %w", r.err)
		case r.err != nil && len(r.text) == 0:
			return "", io.EOF
		}
		return strings.TrimRight(string(r.text), "\r\n"), nil
	case <-ctx.Done():
		return "", ctx.Err()
	}
}
