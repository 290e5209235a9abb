package child

import "time"

// Bounds of reading a program's unasked output: bytes at once, and bytes a second after them.
const (
	PaceBurst = 4 << 20
	PaceRate  = 1 << 20
)

// A Pace bounds the rate of reading a program's output, such as its stderr. Without it, a program
// that writes without end costs a processor for as long as it runs. The program waits when it writes
// more than is read. The zero Pace is ready for use, by one goroutine.
type Pace struct {
	used float64 // bytes of the burst
	last time.Time
}

// Took counts n bytes that were read, and waits some milliseconds if they were too many. It reports
// whether it waited.
func (p *Pace) Took(n int) bool {
	now := time.Now()
	if !p.last.IsZero() {
		p.used = max(0, p.used-now.Sub(p.last).Seconds()*PaceRate)
	}
	p.last = now
	p.used += float64(n)
	over := p.used - PaceBurst
	if over <= 0 {
		return false
	}
	time.Sleep(time.Duration(over / PaceRate * float64(time.Second)))
	return true
}
