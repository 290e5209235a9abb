package cli

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// The formats of weir table.
const (
	formatCSV     = "csv"
	formatTSV     = "tsv"
	formatJSON    = "json"
	formatNDJSON  = "ndjson"
	formatArrow   = "arrow"
	formatParquet = "parquet"
)

var formats = []string{formatCSV, formatTSV, formatJSON, formatNDJSON, formatArrow, formatParquet}

// formatOfFile returns the format for a file name. Standard output and names without an extension
// mean CSV.
func formatOfFile(name string) (string, error) {
	switch ext := strings.ToLower(filepath.Ext(name)); ext {
	case "", ".csv":
		return formatCSV, nil
	case ".tsv", ".tab":
		return formatTSV, nil
	case ".json":
		return formatJSON, nil
	case ".ndjson", ".jsonl":
		return formatNDJSON, nil
	case ".arrow", ".arrows":
		return formatArrow, nil
	case ".parquet":
		return formatParquet, nil
	default:
		return "", failf(exitUsage, "-o %s: weir writes no %s; it writes %s (.csv, .tsv, .json, .ndjson, .arrow, .parquet). Name such a file, or say --format", name, ext, strings.Join(formats, ", "))
	}
}

// createFile opens the output file. finish gets the error of writing and returns the combined one.
// The file is replaced as a whole or not at all. A new file gets the permissions of the umask; an
// existing one is replaced only with force and keeps its permissions. Devices and pipes
// (/dev/stdout) are written directly. Other symbolic links are refused: otherwise the author of a
// link could choose the file to overwrite.
func createFile(stdout terminal, name string, force bool) (out io.Writer, finish func(error) error, err error) {
	if name == "" {
		return stdout.Writer, func(err error) error { return err }, nil
	}
	if strings.HasPrefix(filepath.Clean(name), "/dev/") {
		return openDevice(name)
	}
	mode, keep := fs.FileMode(0o666), func(*os.File) error { return nil }
	info, err := os.Lstat(name)
	switch {
	case err != nil: // a missing folder shows when the file is created
	case info.IsDir():
		return nil, nil, failf(exitUsage, "cannot write %s: it is a folder; name a file in it", name)
	case info.Mode()&fs.ModeSymlink != 0:
		return nil, nil, failf(exitUsage, "cannot write %s: it is a symbolic link, which is not followed; name the file itself", name)
	case !info.Mode().IsRegular():
		return openDevice(name)
	case !force:
		return nil, nil, failf(exitUsage, "cannot write %s: it is there already; --force writes over it", name)
	default:
		mode = info.Mode().Perm()
		keep = func(f *os.File) error { return f.Chmod(mode) }
	}
	f, err := os.OpenFile(filepath.Join(filepath.Dir(name), "."+filepath.Base(name)+"."+rand.Text()[:8]), os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return nil, nil, failf(exitUsage, "cannot write %s: the folder %s: %w", name, filepath.Dir(name), pathCause(err))
	}
	return f, func(err error) error {
		err = cmp.Or(err, keep(f), f.Close())
		if err == nil && !force {
			if _, there := os.Lstat(name); there == nil {
				err = failf(exitUsage, "cannot write %s: it has come meanwhile; --force writes over it", name)
			}
		}
		if err == nil {
			err = os.Rename(f.Name(), name) // replaces a link instead of writing through it
		}
		if err != nil {
			_ = os.Remove(f.Name()) // report the first error only
		}
		return err
	}, nil
}

// openDevice opens an existing device or pipe.
func openDevice(name string) (out io.Writer, finish func(error) error, err error) {
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return nil, nil, failf(exitUsage, "cannot write %s: %w", name, pathCause(err))
	}
	return f, func(err error) error { return cmp.Or(err, f.Close()) }, nil
}

// pathCause returns the reason in a file error, without operation and path. Messages name the file
// as the user gave it.
func pathCause(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

func copied(_ int64, err error) error {
	if err != nil {
		return fmt.Errorf("writing the rows: %w", pathCause(err))
	}
	return nil
}
