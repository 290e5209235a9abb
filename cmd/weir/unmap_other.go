//go:build !linux

package main

// forgetCode is for Linux; elsewhere the system decides.
func forgetCode() {}
