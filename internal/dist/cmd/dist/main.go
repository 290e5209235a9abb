// Dist writes weir's packages for npm, PyPI, MCP clients and the MCP Registry. It can also write
// the bill of materials of one binary. It reads binaries that are built; see internal/dist.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/weir-mcp/weir/internal/dist"
)

func main() {
	if err := run(os.Args[1:], os.Stdout, os.Stderr); err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, "dist:", err)
		}
		os.Exit(1)
	}
}

const usage = `dist writes packages of weir from binaries that are built.

  dist -version 1.2.3 -time 2026-11-22T11:00:00Z -artifacts dist/artifacts.json -out build/packages
  dist -version 1.2.3 -time 1795345200 -binary linux/amd64=bin/weir -partial -out build/packages
  dist -version 1.2.3 -time 1795345200 -binary linux/amd64=bin/weir -bom weir.cdx.json

`

// request is the order of a command line.
type request struct {
	release           dist.Release
	out, bom, license string
	partial           bool
	artifacts, at     string
	binaries          []string
}

func run(args []string, stdout, stderr io.Writer) error {
	var r request
	flags := flag.NewFlagSet("dist", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() { fmt.Fprint(stderr, usage); flags.PrintDefaults() }
	flags.StringVar(&r.release.Version, "version", "", "version of the packages; a leading v is taken off")
	flags.StringVar(&r.at, "time", "", "time of every entry: RFC 3339, or seconds since 1970 (that of the commit)")
	flags.StringVar(&r.artifacts, "artifacts", "", "artifacts.json of GoReleaser, for its binaries")
	flags.Func("binary", "a binary, OS/ARCH=FILE; may be repeated", func(v string) error { r.binaries = append(r.binaries, v); return nil })
	flags.BoolVar(&r.partial, "partial", false, "make packages although platforms are missing")
	flags.StringVar(&r.license, "license", "LICENSE", "file with the licence")
	flags.StringVar(&r.out, "out", "", "folder for the packages, which must be empty or missing")
	flags.StringVar(&r.bom, "bom", "", "file for the bill of materials of the one -binary; no packages are written")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("%q is one argument too many", flags.Arg(0))
	}
	if err := r.load(); err != nil {
		return err
	}
	if r.bom != "" {
		return r.writeBOM()
	}
	return r.writeAll(stdout)
}

// load reads the files that the flags name.
func (r *request) load() (err error) {
	r.release.Version = strings.TrimPrefix(r.release.Version, "v")
	if r.release.Time, err = parseTime(r.at); err != nil {
		return err
	}
	if r.release.License, err = os.ReadFile(r.license); err != nil {
		return err
	}
	if r.artifacts != "" {
		named, err := goreleaserBinaries(r.artifacts)
		if err != nil {
			return err
		}
		r.binaries = append(r.binaries, named...)
	}
	for _, named := range r.binaries {
		platform, path, ok := strings.Cut(named, "=")
		goos, goarch, ok2 := strings.Cut(platform, "/")
		if !ok || !ok2 {
			return fmt.Errorf("-binary %q is not OS/ARCH=FILE", named)
		}
		b, err := dist.Open(goos, goarch, path)
		if err != nil {
			return err
		}
		r.release.Binaries = append(r.release.Binaries, b)
	}
	return r.release.Check()
}

// parseTime reads a time in either form; git and GoReleaser write both.
func parseTime(text string) (time.Time, error) {
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t, nil
	}
	var seconds json.Number = json.Number(text)
	n, err := seconds.Int64()
	if err != nil {
		return time.Time{}, fmt.Errorf("-time %q is neither RFC 3339 nor seconds since 1970; git log -1 --format=%%ct prints the commit's", text)
	}
	return time.Unix(n, 0), nil
}

// goreleaserBinaries returns the binaries of GoReleaser, in the form of -binary. Their paths are
// relative to the folder in which GoReleaser ran. That folder is the parent of the file's.
func goreleaserBinaries(path string) ([]string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var artifacts []struct{ Path, GOOS, GOARCH, Type string }
	if err := json.Unmarshal(text, &artifacts); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	var named []string
	for _, a := range artifacts {
		if a.Type == "Binary" {
			file := filepath.Join(filepath.Dir(filepath.Dir(path)), filepath.FromSlash(a.Path))
			named = append(named, a.GOOS+"/"+a.GOARCH+"="+file)
		}
	}
	if len(named) == 0 {
		return nil, fmt.Errorf("%s names no binary", path)
	}
	return named, nil
}

func (r *request) writeBOM() error {
	if len(r.release.Binaries) != 1 || r.out != "" {
		return errors.New("-bom is for one -binary, and without -out")
	}
	text, err := r.release.BOM(r.release.Binaries[0])
	if err != nil {
		return err
	}
	return os.WriteFile(r.bom, text, 0o644)
}

func (r *request) writeAll(stdout io.Writer) error {
	if missing := r.release.Missing(); len(missing) > 0 && !r.partial {
		return fmt.Errorf("there is no binary for %s: a release has all platforms (-partial makes packages without them)", strings.Join(missing, ", "))
	}
	if r.out == "" {
		return errors.New("-out is missing: the folder for the packages")
	}
	if there, err := os.ReadDir(r.out); err == nil && len(there) > 0 {
		return fmt.Errorf("%s is not empty: packages of another version there would be published, too", r.out)
	}
	files, err := r.release.All()
	if err != nil {
		return err
	}
	for _, f := range files {
		path := filepath.Join(r.out, filepath.FromSlash(f.Name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, f.Data, 0o644); err != nil {
			return err
		}
		fmt.Fprintf(stdout, "%s %d\n", f.Name, len(f.Data))
	}
	return nil
}
