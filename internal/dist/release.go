package dist

import (
	"bytes"
	"debug/buildinfo"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"
)

const (
	mainPackage = "github.com/weir-mcp/weir/cmd/weir"
	repository  = "https://github.com/weir-mcp/weir"
	packageName = "weir-mcp"                // on npm and PyPI, where "weir" is another program
	serverName  = "io.github.weir-mcp/weir" // in the MCP Registry
	summary     = "A gateway for AI agents: every MCP server at one address, at the price of three tools"
)

// Release is one version of weir with its binaries.
type Release struct {
	Version  string    // a semantic version without "v"
	Time     time.Time // of every entry of every package: the time of the commit
	License  []byte
	Binaries []Binary // by name, each platform once
}

// Binary is the program for one platform.
type Binary struct {
	OS, Arch string // as Go names them
	Data     []byte
	info     *buildinfo.BuildInfo
}

// File is a finished package. Its name has slashes and is relative to the folder of all packages.
type File struct {
	Name string
	Data []byte
}

// version matches versions that every kind of package has: npm takes semantic versions, PyPI its
// own form.
var version = regexp.MustCompile(`^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(?:-(alpha|beta|rc)\.(0|[1-9]\d*))?$`)

// Check returns the fault that makes a release impossible: its version, its time, or no binaries.
func (r *Release) Check() error {
	switch {
	case !version.MatchString(r.Version):
		return fmt.Errorf("version %q cannot be published everywhere: it must be MAJOR.MINOR.PATCH or MAJOR.MINOR.PATCH-rc.N (also alpha, beta), without v", r.Version)
	case r.Time.Before(time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)):
		return fmt.Errorf("time %s is before 1980, which zip files cannot say", r.Time.UTC().Format(time.RFC3339))
	case len(r.Binaries) == 0:
		return errors.New("a release needs at least one binary")
	}
	slices.SortFunc(r.Binaries, func(a, b Binary) int { return strings.Compare(a.name(), b.name()) })
	for i, b := range r.Binaries[1:] {
		if b.name() == r.Binaries[i].name() {
			return fmt.Errorf("there are two binaries for %s", b.name())
		}
	}
	return nil
}

// Open reads a binary and checks that it is weir, built for that platform.
func Open(goos, goarch, path string) (Binary, error) {
	b := Binary{OS: goos, Arch: goarch}
	if _, known := platforms[b.name()]; !known {
		return b, fmt.Errorf("%s: no package is made for %s", path, b.name())
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return b, err
	}
	if b.info, err = buildinfo.Read(bytes.NewReader(data)); err != nil {
		return b, fmt.Errorf("%s is no program that Go built: %w", path, err)
	}
	if b.info.Path != mainPackage {
		return b, fmt.Errorf("%s is %s, not %s", path, b.info.Path, mainPackage)
	}
	if built := b.setting("GOOS") + "/" + b.setting("GOARCH"); built != b.name() {
		return b, fmt.Errorf("%s was built for %s, not for %s", path, built, b.name())
	}
	b.Data = data
	return b, nil
}

func (b Binary) name() string { return b.OS + "/" + b.Arch }

// file returns the name of the program within packages.
func (b Binary) file() string {
	if b.OS == "windows" {
		return "weir.exe"
	}
	return "weir"
}

func (b Binary) setting(key string) string {
	for _, s := range b.info.Settings {
		if s.Key == key {
			return s.Value
		}
	}
	return ""
}

// platform has the names that package managers give to an operating system and a processor.
type platform struct {
	npmOS, npmCPU string
	wheel         string // PEP 425, compressed
}

// platforms are the platforms of releases. Programs without cgo run on glibc and on musl. Go 1.26
// needs macOS 12.
var platforms = map[string]platform{
	"linux/amd64":   {"linux", "x64", "manylinux_2_17_x86_64.manylinux2014_x86_64.musllinux_1_1_x86_64"},
	"linux/arm64":   {"linux", "arm64", "manylinux_2_17_aarch64.manylinux2014_aarch64.musllinux_1_1_aarch64"},
	"darwin/amd64":  {"darwin", "x64", "macosx_12_0_x86_64"},
	"darwin/arm64":  {"darwin", "arm64", "macosx_12_0_arm64"},
	"windows/amd64": {"win32", "x64", "win_amd64"},
	"windows/arm64": {"win32", "arm64", "win_arm64"},
}

// Missing returns the platforms without a binary.
func (r *Release) Missing() []string {
	var missing []string
	for name := range platforms {
		if !slices.ContainsFunc(r.Binaries, func(b Binary) bool { return b.name() == name }) {
			missing = append(missing, name)
		}
	}
	slices.Sort(missing)
	return missing
}

// All returns every package of the release, and a CycloneDX document for each binary.
func (r *Release) All() ([]File, error) {
	if err := r.Check(); err != nil {
		return nil, err
	}
	npm, err := r.npm()
	if err != nil {
		return nil, err
	}
	wheels, err := r.wheels()
	if err != nil {
		return nil, err
	}
	bundle, err := r.bundle()
	if err != nil {
		return nil, err
	}
	registry, err := r.registry(bundle)
	if err != nil {
		return nil, err
	}
	files := slices.Concat(npm, wheels, []File{bundle, registry})
	for _, b := range r.Binaries {
		bom, err := r.BOM(b)
		if err != nil {
			return nil, err
		}
		files = append(files, File{fmt.Sprintf("sbom/weir_%s_%s_%s.cdx.json", r.Version, b.OS, b.Arch), bom})
	}
	return files, nil
}
