package main

import (
	"fmt"
	"sync"
	"time"
)

// spinnerDelay is how long work may take before a person is told about it.
const spinnerDelay = 300 * time.Millisecond

// spin shows on stderr that something is going on, where a person looks. The
// returned function ends it and leaves a clean line; it may be called twice.
func (a *app) spin(what string) (stop func()) {
	if !a.stderr.screen() {
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
				if n > 0 {
					fmt.Fprint(a.stderr, "\r\x1b[K")
				}
				return
			case <-timer.C:
			}
			text := fmt.Sprintf("%c %s", frames[n%len(frames)], what)
			if t := time.Since(began); t > 2*time.Second {
				text += " " + sinceText(t)
			}
			fmt.Fprintf(a.stderr, "\r%s\x1b[K", a.stderr.paint(dim, cut(text, a.stderr.width-1)))
			timer.Reset(100 * time.Millisecond)
		}
	})
	return sync.OnceFunc(func() {
		close(done)
		wg.Wait()
	})
}
