//go:build !unix

package stdio

import "os/exec"

func setGroup(*exec.Cmd) {}

// There are no process groups here; the child alone is ended.
func termGroup(c *exec.Cmd) { _ = c.Process.Kill() }
func killGroup(c *exec.Cmd) { _ = c.Process.Kill() }
