// Package filewatch reports when one file may have changed, on every platform.
//
//	folder ─▶ events of the operating system ─▶ quiet for a moment ─▶ fn
package filewatch
