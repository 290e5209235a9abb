package cli

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/weir-mcp/weir/internal/text"
)

// spinnerDelay is how long work may take before a person is told about it.
const spinnerDelay = 300 * time.Millisecond

// spin shows on stderr that something is going on, where a person looks. The
// returned function ends it and leaves a clean line; it may be called twice.
func (a *process) spin(what string) (stop func()) {
	line, ok := a.stderr.Writer.(*statusLine)
	if !ok {
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
			shown := fmt.Sprintf("%c %s", frames[n%len(frames)], what)
			if t := time.Since(began); t > 2*time.Second {
				shown += " " + text.Since(t)
			}
			line.show(a.stderr.paint(dim, cut(shown, a.stderr.width-1)))
			timer.Reset(100 * time.Millisecond)
		}
	})
	return sync.OnceFunc(func() {
		close(done)
		wg.Wait()
	})
}

// A statusLine is a screen whose last line may be one that is drawn again and again.
// What is written meanwhile, such as a line of the log, takes the place of that line,
// which is drawn anew below it. It is safe for concurrent use.
type statusLine struct {
	w io.Writer

	mu   sync.Mutex // guards below, and the order of what is written
	text string     // that is shown now; "" for none
	mid  bool       // what was written last did not end its line
}

// clearLine goes to the begin of the line and clears it.
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
		l.text = "" // what has been begun is not to be cleared away
	case l.text != "" && err == nil:
		_, err = io.WriteString(l.w, l.text)
	}
	return n, err
}

// show draws the line, or takes it away where text is empty. It draws nothing while
// something else has begun a line.
func (l *statusLine) show(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.mid:
		text = ""
	case l.text != "" || text != "":
		_, _ = io.WriteString(l.w, clearLine+text) // a screen that is gone shows nothing
	}
	l.text = text
}
