//go:build !linux

package child

// A thread is kept on Linux only, where the kernel ends children with it.
type thread struct{}

func (*thread) run(start func() error) error { return start() }

func (*thread) leave() {}
