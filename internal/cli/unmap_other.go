//go:build !linux

package cli

// forgetCode is for Linux; elsewhere the system decides.
func forgetCode() {}
