// Package helm renders the chart with Helm. Its tests do not run with package check, because Helm takes a minute
// to compile.
package helm
