//go:build !unix

package hop

// canProbe says that net/http carries all requests: only its goroutines notice a closed connection.
const canProbe = false

func (c *conn) probeSocket(uintptr) bool { return true }
