package clustertest_test

import (
	"os/exec"
	"sync"
	"testing"
	"time"
)

// blanks measures how busy the machine is: what a byte to another process and back takes, many times a second.
type blanks struct {
	mu    sync.Mutex // guards below
	worst []blank    // of each tenth of a second, the newest last
}

type blank struct {
	at   time.Time
	took time.Duration
}

// Bounds of blanks. On a machine that does nothing else an exchange takes less than a millisecond, and one in some
// minutes takes a few.
const (
	blankEvery = 100 * time.Millisecond
	blankQuiet = 20 * time.Millisecond // that much says nothing
	blankKept  = 10 * time.Second
	// blankSteps is how many such exchanges, one after the other, stand for what a promise has time for: the ends of
	// connections, dials, handshakes, an election, writes of three servers.
	blankSteps = 50
)

// machine is measured while tests run with -chaos.
var machine blanks

// measure measures until stop is called.
func (b *blanks) measure() (stop func(), err error) {
	cat := exec.Command("cat")
	in, err := cat.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cat.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cat.Start(); err != nil {
		return nil, err
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		one := []byte{1}
		for {
			began := time.Now()
			if _, err := in.Write(one); err != nil {
				return
			}
			if _, err := out.Read(one); err != nil {
				return
			}
			b.add(time.Now(), time.Since(began))
			time.Sleep(blankEvery)
		}
	}()
	return func() {
		_ = in.Close()
		_ = cat.Process.Kill()
		<-done
		_ = cat.Wait()
	}, nil
}

func (b *blanks) add(at time.Time, took time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.worst) > 0 && at.Sub(b.worst[0].at) > blankKept {
		b.worst = b.worst[1:]
	}
	b.worst = append(b.worst, blank{at, took})
}

// patience returns what the last seconds add to the time of a promise: nothing on a quiet machine.
func (b *blanks) patience() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	worst := time.Duration(0)
	for _, one := range b.worst {
		worst = max(worst, one.took)
	}
	if worst < blankQuiet {
		return 0
	}
	return blankSteps * worst
}

// TestPatience: a quiet machine adds nothing to the time of a promise, and a busy one what it takes itself.
func TestPatience(t *testing.T) {
	var b blanks
	if got := b.patience(); got != 0 {
		t.Errorf("before the first exchange: %v", got)
	}
	now := time.Now()
	for i := range 20 {
		b.add(now.Add(time.Duration(i)*blankEvery), 2*time.Millisecond)
	}
	if got := b.patience(); got != 0 {
		t.Errorf("on a quiet machine: %v", got)
	}
	b.add(now.Add(3*time.Second), 100*time.Millisecond)
	if got := b.patience(); got != 5*time.Second {
		t.Errorf("on a busy machine: %v", got)
	}
	b.add(now.Add(3*time.Second+2*blankKept), time.Millisecond)
	if got := b.patience(); got != 0 {
		t.Errorf("when it has become quiet: %v", got)
	}
}
