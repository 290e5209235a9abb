package cli

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/weir-mcp/weir/internal/text"
)

// spinnerDelay is the time before a person sees that work is in progress.
const spinnerDelay = 300 * time.Millisecond

// spin shows on stderr that work is in progress, if that is a terminal. The returned function
// removes the line; it may be called twice.
func (a *process) spin(what string) (stop func()) {
	return spinText(a.stderr, func() string { return what })
}

// spinText is spin with a text that may change.
func spinText(stderr terminal, what func() string) (stop func()) {
	line, ok := stderr.Writer.(*statusLine)
	if !ok || stderr.dumb {
		return func() {}
	}
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		began := time.Now()
		timer := time.NewTimer(spinnerDelay)
		defer timer.Stop()
		frames := []rune("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏")
		for n := 0; ; n++ {
			select {
			case <-done:
				line.show("")
				return
			case <-timer.C:
			}
			shown := fmt.Sprintf("%c %s", frames[n%len(frames)], oneLine(what()))
			if t := time.Since(began); t > 2*time.Second {
				shown += " " + text.Since(t)
			}
			line.show(stderr.paint(dim, cut(shown, stderr.width-1)))
			timer.Reset(100 * time.Millisecond)
		}
	})
	return sync.OnceFunc(func() {
		close(done)
		wg.Wait()
	})
}

// A statusLine is a screen with a last line that is redrawn in place. Other output, such as a log
// line, replaces that line and the line is drawn again below. It is safe for concurrent use.
type statusLine struct {
	w io.Writer

	mu   sync.Mutex // guards the fields below and the order of writes
	text string     // the line shown now; "" for none
	mid  bool       // the last write did not end its line
}

// clearLine moves to the start of the line and clears it.
const clearLine = "\r\x1b[K"

// Write implements io.Writer.
func (l *statusLine) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.text != "" {
		if _, err := io.WriteString(l.w, clearLine); err != nil {
			return 0, err
		}
	}
	n, err := l.w.Write(p)
	if len(p) > 0 {
		l.mid = p[len(p)-1] != '\n'
	}
	switch {
	case l.mid:
		l.text = "" // do not clear an unfinished line
	case l.text != "" && err == nil:
		_, err = io.WriteString(l.w, l.text)
	}
	return n, err
}

// show draws the line, or removes it if text is empty. It draws nothing while other output has an
// unfinished line.
func (l *statusLine) show(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.mid:
		text = ""
	case l.text != "" || text != "":
		_, _ = io.WriteString(l.w, clearLine+text) // a closed terminal shows nothing
	}
	l.text = text
}
