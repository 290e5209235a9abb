// Package helm renders the chart with Helm. Its tests are apart from those of package check, because Helm takes a minute
// to compile.
package helm
